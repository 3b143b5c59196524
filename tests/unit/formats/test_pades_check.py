"""The check of signed PDF files: what it lets through, and that every damage is found."""

from __future__ import annotations

import datetime
import hashlib
import io
import random
import re
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from bulksigner.contract.certificate import Digest
from bulksigner.contract.signing import Format
from bulksigner.formats.cms import SignedData
from bulksigner.formats.model import CheckFailed, Expectation, FormatRefused
from bulksigner.formats.pades import PadesSigner
from bulksigner.formats.pades_check import check_pdf
from bulksigner.formats.pdf_reader import PdfFile
from bulksigner.formats.pdf_syntax import PdfString, Reference, parse_value
from bulksigner.formats.spec import BASELINE_B

# A library may warn of a damaged certificate before it refuses it, as of a serial number that became negative.
pytestmark = pytest.mark.filterwarnings("ignore")

LAYOUTS = ("classic", "streams", "hybrid")


@attrs.frozen
class Case:
    original: bytes
    artifact: bytes
    expectation: Expectation


@pytest.fixture
def make_case(rsa_key: Any, pdf_sample: Any, sign: Any, measure: Any) -> Callable[..., Case]:
    def make(**options: Any) -> Case:
        original = pdf_sample(**options).build()
        artifact = sign(PadesSigner(rsa_key, BASELINE_B), original)
        return Case(original, artifact, Expectation(Format.PADES, rsa_key.certificate, measure(original)))

    return make


def failure(artifact: bytes, expectation: Expectation) -> str | None:
    try:
        check_pdf(io.BytesIO(artifact), expectation)
    except CheckFailed as error:
        return error.message
    return None


@pytest.mark.parametrize("digest", [Digest.SHA256, Digest.SHA512], ids=lambda digest: digest.value)
@pytest.mark.parametrize("form", ["none", "direct", "indirect"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_facts_are_those_of_the_signature(
    any_key: Any,
    layout: str,
    form: str,
    digest: Digest,
    pdf_sample: Any,
    sign: Any,
    measure: Any,
    signed_at: datetime.datetime,
) -> None:
    """BEY-01: measures, algorithms and time come from the artifact alone, for a first and a second signature."""
    signer = PadesSigner(any_key, attrs.evolve(BASELINE_B, digest=digest))
    original = pdf_sample(layout=layout, form=form, pages=3, extra_objects=250).build()
    for _ in range(2):
        artifact = sign(signer, original)
        checked = check_pdf(io.BytesIO(artifact), Expectation(Format.PADES, any_key.certificate, measure(original)))
        assert checked.measured == measure(artifact)
        assert (checked.algorithm, checked.digest) == (any_key.algorithm, digest.value)
        assert checked.signing_time == signed_at
        original = artifact


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_flipped_byte_is_found(make_case: Callable[..., Case], rsa_key: Any, layout: str) -> None:
    """BEY-01: one bit flipped in any byte fails the check, but where only the issuer's own signature could tell."""
    case = make_case(layout=layout, form="indirect")
    issuer = rsa_key.chain[0].hex().encode()
    start = case.artifact.index(issuer)
    damaged = bytearray(case.artifact)
    passed = set()
    inside, after, _ = read_byte_range(case.artifact)
    # Every byte of the CMS itself is tried in the check of CMS files.
    for position in (*range(inside + 1), *range(inside + 1, after, 9), *range(after - 1, len(damaged))):
        damaged[position] ^= 0x01
        if failure(bytes(damaged), case.expectation) is None:
            passed.add(position)
        damaged[position] ^= 0x01
    assert passed <= set(range(start, start + len(issuer)))


def test_appended_and_cut_off_files_fail(make_case: Callable[..., Case]) -> None:
    """ICP-31: the signature covers the file to its last byte."""
    case = make_case()
    for damaged in (b"\n", b"\0", b"%%EOF\n", b"1 0 obj\n<<>>\nendobj\n"):
        assert failure(case.artifact + damaged, case.expectation)
    for length in range(0, len(case.artifact), 11):
        assert failure(case.artifact[:length], case.expectation)


def test_update_on_top_of_the_signature_fails(make_case: Callable[..., Case], sign: Any, rsa_key: Any) -> None:
    """ICP-31: a later update, be it a signature, leaves the expected one not covering the file."""
    case = make_case()
    later = sign(PadesSigner(rsa_key, BASELINE_B), case.artifact)
    assert "2 new signatures" in (failure(later, case.expectation) or "")
    # The same update made to hide: its cross-reference leads to a form that has the first signature alone.
    assert "ByteRange" in (
        failure(
            later.replace(later[len(case.artifact) :], update_that_changes_nothing(case.artifact)), case.expectation
        )
        or ""
    )


def update_that_changes_nothing(artifact: bytes) -> bytes:
    """Append a text and a cross-reference that has no objects."""
    previous = int(re.findall(rb"startxref\n(\d+)\n", artifact)[-1])
    size = int(re.findall(rb"/Size (\d+)", artifact)[-1])
    text = b"% approved for ten times the amount\n"
    return text + b"xref\n0 0\ntrailer\n<</Size %d /Root 1 0 R /Prev %d>>\nstartxref\n%d\n%%%%EOF\n" % (
        size,
        previous,
        len(artifact) + len(text),
    )


def test_other_original_and_other_certificate_fail(
    make_case: Callable[..., Case], ecdsa_key: Any, measure: Any
) -> None:
    """ICP-34: a good signature of another document, or by another signer, is a failure."""
    case = make_case()
    other = case.original.replace(b"Page 1", b"Page 9")
    expectation = attrs.evolve(case.expectation, original=measure(other))
    assert "original is not inside" in (failure(case.artifact, expectation) or "")
    assert failure(case.artifact, attrs.evolve(case.expectation, certificate=ecdsa_key.certificate))
    assert "not more than" in (failure(case.original, case.expectation) or "")


def read_byte_range(data: bytes) -> tuple[int, int, int]:
    first, second, third = re.findall(rb"/ByteRange \[0 (\d+) (\d+) (\d+)", data)[-1]
    return int(first), int(second), int(third)


def forge(case: Case, key: Any, edit: Callable[[bytes], bytes], *, with_time: bool = False) -> bytes:
    """Edit the update, keeping all lengths, and sign the outcome anew: only what was edited is wrong."""
    update = edit(case.artifact[len(case.original) :])
    assert len(update) == len(case.artifact) - len(case.original)
    data = case.original + update
    gap_start, gap_end, _ = read_byte_range(data)
    digest = hashlib.sha256(data[:gap_start] + data[gap_end:]).digest()
    signed_data = SignedData(key, BASELINE_B, with_signing_time=with_time)
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    attributes = signed_data.attributes(digest, moment)
    cms = signed_data.detached(attributes, key.sign(attributes, Digest.SHA256))
    start, end, _ = read_byte_range(case.artifact)
    return data[: start + 1] + cms.hex().encode().ljust(end - start - 2, b"0") + data[end - 1 :]


EDITS: dict[str, tuple[Callable[[bytes], bytes], str | None]] = {
    "nothing": (lambda update: update, None),
    "subfilter": (lambda update: update.replace(b"ETSI.CAdES.detached", b"adbe.pkcs7.detached"), "SubFilter"),
    "filter": (lambda update: update.replace(b"Adobe.PPKLite", b"Other.PPKLite"), "Filter"),
    "no time": (lambda update: update.replace(b"/M (D:", b"/m (D:"), "no /M"),
    "bad time": (lambda update: update.replace(b"(D:20260304", b"(D:20261399"), "not a time"),
    "forbidden key": (lambda update: update.replace(b"/M (D:2026", b"/R (D:2026"), "/R"),
    "no signature field": (lambda update: update.replace(b"/FT /Sig", b"/FT /Btn"), "0 new signatures"),
    "no form": (lambda update: update.replace(b"/AcroForm", b"/AcroWorm"), "no form"),
    "not in the form": (lambda update: re.sub(rb"/Fields \[ ", b"/Other  [ ", update), "list of fields"),
}


@pytest.mark.parametrize("name", EDITS)
def test_wrong_structure_fails_though_signed(make_case: Callable[..., Case], rsa_key: Any, name: str) -> None:
    """ICP-31: the signature is reached as a viewer reaches it, and its dictionary is looked at."""
    edit, text = EDITS[name]
    case = make_case()
    found = failure(forge(case, rsa_key, edit), case.expectation)
    assert (found is None) if text is None else (found is not None and text in found), found


def test_gap_of_the_byte_range_must_be_the_contents(make_case: Callable[..., Case], rsa_key: Any) -> None:
    """ICP-31: a ByteRange that leaves out more than /Contents fails, though the digest fits."""
    case = make_case()
    start, end, rest = read_byte_range(case.artifact)
    wider = forge(
        case,
        rsa_key,
        lambda update: update.replace(
            b"[0 %d %d %d]" % (start, end, rest), b"[0 %d %d %d]" % (start, end + 1, rest - 1)
        ),
    )
    assert "ByteRange" in (failure(wider, case.expectation) or "")


def test_signing_time_in_the_cms_is_forbidden(
    rsa_key: Any, pdf_sample: Any, measure: Any, signed_at: datetime.datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ICP-31: signingTime among the signed attributes of a PDF fails."""
    signer = PadesSigner(rsa_key, BASELINE_B)
    monkeypatch.setattr(signer, "_signed_data", SignedData(rsa_key, BASELINE_B, with_signing_time=True))
    original, target = pdf_sample().build(), io.BytesIO()
    signer.sign(io.BytesIO(original), target, expected=measure(original), signed_at=signed_at)
    expectation = Expectation(Format.PADES, rsa_key.certificate, measure(original))
    assert "signingTime, which this format forbids" in (failure(target.getvalue(), expectation) or "")


def same_but(damaged: bytes, artifact: bytes, issuer: bytes) -> bool:
    """Tell whether both differ in the intermediate's certificate alone, which only the left out root could judge."""
    start = artifact.index(issuer.hex().encode())
    end = start + 2 * len(issuer)
    return damaged[:start] == artifact[:start] and damaged[end:] == artifact[end:]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rounds", [300, pytest.param(20000, marks=pytest.mark.soak)])
def test_malformed_artifacts_raise_nothing_else(
    make_case: Callable[..., Case], rsa_key: Any, layout: str, rounds: int, mutate: Any
) -> None:
    """ICP-34: whatever the bytes are, the check ends in its own words; with the original's digest adjusted too."""
    case = make_case(layout=layout, form="indirect", extra_objects=20)
    chance = random.Random(layout)
    for start in (0, len(case.original)):
        for _ in range(rounds // 2):
            damaged = mutate(case.artifact, chance, start)
            prefix = damaged[: len(case.original)]
            original = attrs.evolve(case.expectation.original, sha256=hashlib.sha256(prefix).digest())
            found = failure(damaged, attrs.evolve(case.expectation, original=original))
            assert found or same_but(damaged, case.artifact, rsa_key.chain[0])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rounds", [150, pytest.param(10000, marks=pytest.mark.soak)])
def test_malformed_originals_are_refused_or_signed(
    rsa_key: Any, layout: str, rounds: int, pdf_sample: Any, mutate: Any, measure: Any, signed_at: datetime.datetime
) -> None:
    """BEY-11: a damaged PDF raises `FormatRefused` alone; what is signed all the same hardly ever fails the check."""
    original = pdf_sample(layout=layout, form="indirect", extra_objects=5).build()
    signer = PadesSigner(rsa_key, BASELINE_B)
    chance = random.Random(layout)
    refused = suspected = 0
    for _ in range(rounds):
        damaged = mutate(original, chance)
        target = io.BytesIO()
        try:
            signer.sign(io.BytesIO(damaged), target, expected=measure(damaged), signed_at=signed_at)
        except FormatRefused:
            refused += 1
        else:
            found = failure(target.getvalue(), Expectation(Format.PADES, rsa_key.certificate, measure(damaged)))
            suspected += found is not None
    assert 0 < refused < rounds
    assert suspected < rounds // 10


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b" 12 ", 12),
        (b"-7", -7),
        (b"+.5", 0.5),
        (b"4.", 4.0),
        (b"% note\n true", True),
        (b"null", None),
        (b"/A#20B(", "/A B"),
        (b"/", "/"),
        (b"12 0 R", Reference(12, 0)),
        (b"[1 0 R 2 3 4]", [Reference(1, 0), 2, 3, 4]),
        (b"[/A/B<</C[null]>>]", ["/A", "/B", {"/C": [None]}]),
        (b"(a(b)\\)\\(c)d", PdfString(b"(a(b)\\)\\(c)", 0, 11)),
        (b"<48 65>", PdfString(b"<48 65>", 0, 7)),
    ],
)
def test_objects_are_parsed(text: bytes, value: Any) -> None:
    """PERF-04: every kind of direct object (ISO 32000-1 7.3)."""
    assert parse_value(text, 0)[0] == value


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"]",
        b">>",
        b"[1",
        b"<<1 2>>",
        b"<</A 1 /A 2>>",
        b"<</A>>",
        b"(",
        b"<4G>",
        b"<4<4>",
        b"<4<>",
        b"[" * 100,
        b"[1>>",
        b"stream",
    ],
)
def test_malformed_objects_fail(text: bytes) -> None:
    """ICP-34: what is no object is a failure."""
    with pytest.raises(CheckFailed):
        parse_value(text, 0)


def narrow_table(content: bytes, line_end: bytes) -> bytes:
    """End the entries of the table otherwise than with a blank and a line feed."""
    start = content.rindex(b"xref\n0 1\n")
    return content[:start] + content[start:].replace(b" \n", line_end)


@pytest.mark.parametrize(
    ("layout", "line_end"),
    [("classic", b""), ("streams", b""), ("hybrid", b""), ("classic", b"\n"), ("classic", b" \r\n")],
)
def test_objects_are_found_by_every_kind_of_cross_reference(layout: str, line_end: bytes, pdf_sample: Any) -> None:
    """PERF-04: table, stream and hybrid lead to the same objects, freed and unknown ones to null."""
    content = pdf_sample(layout=layout, extra_objects=250).build()
    if line_end:
        content = narrow_table(content, line_end)
    pdf = PdfFile(content)
    for number in (12, 100, 261):
        assert pdf.resolve(Reference(number, 0)).value == {
            "/Number": number - 12,
            "/Text": pdf.dictionary(Reference(number, 0), "object")["/Text"],
        }
    assert pdf.resolve(Reference(7, 0)).value is None
    assert pdf.resolve(Reference(99999, 0)).value is None
    assert pdf.resolve(Reference(12, 1)).value is None or layout != "classic"
