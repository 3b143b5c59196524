"""Repair of PDF files without a signature: by choice alone, told by the check, only of where objects are (BEY-11)."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from pyhanko.pdf_utils.reader import PdfFileReader

from bulksigner.contract.signing import Format
from bulksigner.formats.dispatch import check
from bulksigner.formats.model import CheckFailed, Expectation, FormatRefused, PdfRules
from bulksigner.formats.pades import PadesSigner, look_at_pdf
from bulksigner.formats.spec import BASELINE_B
from bulksigner.testing.pdf_corpus import AWKWARD, protect
from bulksigner.testing.pdf_sample import PdfSample, stream_object
from bulksigner.testing.verify import verify_pdf_with_pdfsig, verify_pdf_with_pyhanko

REPAIRING = PdfRules(repair_unsigned=True)
LAYOUTS = ("classic", "streams", "hybrid")
MARK = b"%\xe2\xe3\xcf\xd3\n"
DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "junk": (lambda content: b"Content-Type: application/pdf\r\n\r\n" + content, "33 bytes before its header"),
    "wrong pointer": (lambda content: re.sub(rb"startxref\n\d+", b"startxref\n17", content), "made anew"),
    "pointer beyond the end": (
        lambda content: re.sub(rb"startxref\n\d+", b"startxref\n99999999", content),
        "made anew",
    ),
    "shifted": (lambda content: content.replace(MARK, MARK + b"%%%\n"), "made anew"),
    "junk and shifted": (lambda content: b"junk\n" + content.replace(MARK, MARK + b"%%%\n"), "left out and its cross"),
}


@pytest.fixture
def repair(rsa_key: Any, sign: Any, measure: Any) -> Callable[[bytes], tuple[bytes, str | None]]:
    """Sign with repair allowed; return the artifact and what the check says of the repair."""

    def act(content: bytes) -> tuple[bytes, str | None]:
        artifact = sign(PadesSigner(rsa_key, BASELINE_B, rules=REPAIRING), content)
        expectation = Expectation(Format.PADES, rsa_key.certificate, measure(content), may_be_repaired=True)
        return artifact, check(io.BytesIO(artifact), expectation, original=io.BytesIO(content)).repair

    return act


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_broken_is_repaired(
    damage: str, layout: str, rsa_key: Any, repair: Any, sign: Any, measure: Any, tmp_path: Path
) -> None:
    """BEY-11, CFG-200: refused by default; by choice signed, valid for others, every object as it was."""
    spoil, told = DAMAGE[damage]
    sound = PdfSample(layout=layout, form="indirect", pages=3, extra_objects=150, trailer=b"/Info 3 0 R").build()
    content = spoil(sound)
    with pytest.raises(FormatRefused):
        sign(PadesSigner(rsa_key, BASELINE_B), content)
    assert rsa_key.calls == 0
    artifact, said = repair(content)
    assert said is not None
    assert told in said
    assert artifact.startswith(content[content.index(b"%PDF-") :])
    path = tmp_path / "signed.pdf"
    path.write_bytes(artifact)
    verdict = verify_pdf_with_pdfsig(path, [rsa_key.chain[1]])
    assert verdict, verdict.output
    verdict = verify_pdf_with_pyhanko(path, [rsa_key.chain[1]])
    assert verdict, verdict.output
    before, after = PdfFileReader(io.BytesIO(sound), strict=False), PdfFileReader(io.BytesIO(artifact), strict=False)
    assert after.root["/Pages"]["/Count"] == 3
    assert dict(after.trailer["/Info"]) == dict(before.trailer["/Info"])
    pages = [reader.root["/Pages"]["/Kids"] for reader in (before, after)]
    contents = [[page.get_object()["/Contents"].data for page in kids] for kids in pages]
    assert contents[0] == contents[1]
    assert after.root["/AcroForm"]["/Fields"][0].get_object()["/T"] == "amount"
    look = look_at_pdf(io.BytesIO(content), measure(content), REPAIRING)
    assert look[0].code == "pdf.repaired"


def test_a_sound_file_is_not_touched(repair: Any) -> None:
    """CFG-200: with repair allowed, what needs none is signed as ever, and nothing is told."""
    for name in ("table", "streams", "hybrid", "20 updates", "linearized"):
        content = AWKWARD[name].make()
        artifact, said = repair(content)
        assert said is None
        assert artifact.startswith(content)


def test_the_newest_version_of_an_object_counts(repair: Any) -> None:
    """BEY-11: updates that a file had are still updates after its repair."""
    content = b"junk\n" + AWKWARD["20 updates"].make().replace(MARK, MARK + b"%\n")
    artifact, said = repair(content)
    assert said is not None
    assert PdfFileReader(io.BytesIO(artifact)).trailer["/Info"]["/Title"] == "version 19"


def test_what_stands_in_a_stream_is_no_object(repair: Any) -> None:
    """BEY-11: a whole PDF inside another, not compressed, leaves the outer one its objects."""
    inner = PdfSample(objects={1: b"<</Type /Catalog /Pages 2 0 R /Wrong true>>"}).build()
    content = PdfSample(catalog=b"/Inner 8 0 R", objects={8: stream_object(inner)}).build()
    artifact, _ = repair(content.replace(MARK, MARK + b"%\n", 1))
    root = PdfFileReader(io.BytesIO(artifact)).root
    assert "/Wrong" not in root
    assert root["/Inner"].data == inner


@pytest.mark.parametrize("length", [b"9" * 19, b"0", b"-1", b"99 0 R"])
def test_a_stream_ends_where_it_says_so(length: bytes, repair: Any) -> None:
    """BEY-11: a length that cannot be leads no further than the word that ends the stream."""
    content = AWKWARD["table"].make().replace(MARK, b"").replace(b"/Length 36", b"/Length " + length)
    assert length in content
    artifact, said = repair(content)
    assert said is not None
    assert artifact.startswith(content)


def packed_beyond(offset: bytes) -> bytes:
    """Break the pointer of a file with an object stream that places an object beyond its own end."""
    packed = b"9 " + offset + b" <<>>"
    entries = b"/Type /ObjStm /N 1 /First %d" % (len(packed) - 4)
    return PdfSample(objects={8: stream_object(packed, entries)}).build().replace(MARK, MARK + b"%\n", 1)


BEYOND: dict[str, Callable[[bytes], bytes]] = {
    "no PDF": lambda signed: b"text",
    "cut off": lambda signed: AWKWARD["table"].make()[:-40],
    "no end of a stream": lambda signed: AWKWARD["table"].make().replace(b"endstream", b"endstrxxx").replace(MARK, b""),
    "no catalog": lambda signed: (
        PdfSample(objects={1: b"<<>>"}).build().replace(b"/Root 1 0 R", b"").replace(MARK, b"")
    ),
    "signed": lambda signed: b"junk" + signed,
    "signed, shifted": lambda signed: signed.replace(MARK, MARK + b"%\n"),
    "encrypted": lambda signed: b"junk" + protect(AWKWARD["table"].make(), "aes-128"),
    "certified": lambda signed: b"junk" + AWKWARD["certified 1"].make(),
    "no pages": lambda signed: b"junk" + AWKWARD["no pages"].make(),
    "object beyond all": lambda signed: packed_beyond(b"9" * 30),
    "damaged number": lambda signed: AWKWARD["table"].make().replace(MARK, b"0 0 obj\n<<>>\nendobj\n"),
}


@pytest.mark.parametrize("case", BEYOND)
def test_what_repair_does_not_mend_is_refused_as_before(case: str, rsa_key: Any, sign: Any) -> None:
    """BEY-11: in the words that the file would have without repair, and the key is not used."""
    content = BEYOND[case](sign(PadesSigner(attrs.evolve(rsa_key), BASELINE_B), AWKWARD["table"].make()))
    texts = []
    for rules in (PdfRules(), REPAIRING):
        with pytest.raises(FormatRefused) as refused:
            sign(PadesSigner(rsa_key, BASELINE_B, rules=rules), content)
        texts.append(refused.value.message)
    assert texts[0] == texts[1]
    assert rsa_key.calls == 0


def test_the_check_allows_no_more_than_repair(rsa_key: Any, sign: Any, measure: Any) -> None:
    """BEY-01, BEY-11: a repaired file fails where none may be; with it allowed, another original fails all the same."""
    content = b"junk\n" + AWKWARD["table"].make()
    artifact = sign(PadesSigner(rsa_key, BASELINE_B, rules=REPAIRING), content)
    strict = Expectation(Format.PADES, rsa_key.certificate, measure(content))
    with pytest.raises(CheckFailed, match="original is not inside"):
        check(io.BytesIO(artifact), strict, original=io.BytesIO(content))
    other = content.replace(b"(Page 1)", b"(Page 2)")
    allowing = attrs.evolve(strict, original=measure(other), may_be_repaired=True)
    with pytest.raises(CheckFailed, match="original is not inside"):
        check(io.BytesIO(artifact), allowing, original=io.BytesIO(other))
    with pytest.raises(CheckFailed, match="no longer what was staged"):
        check(io.BytesIO(artifact), attrs.evolve(strict, may_be_repaired=True), original=io.BytesIO(other))
