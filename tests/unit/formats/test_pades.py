"""PAdES files, judged by poppler, qpdf and pyHanko, and what the signer refuses."""

from __future__ import annotations

import datetime
import io
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest
from asn1crypto import x509
from asn1crypto.cms import ContentInfo
from asn1crypto.keys import PrivateKeyInfo
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.pdf_utils.writer import copy_into_new_writer
from pyhanko.sign.fields import MDPPerm
from pyhanko.sign.signers import PdfSignatureMetadata, PdfSigner, SimpleSigner
from pyhanko.sign.validation import validate_pdf_signature
from pyhanko.sign.validation.settings import KeyUsageConstraints
from pyhanko_certvalidator import ValidationContext
from pyhanko_certvalidator.registry import SimpleCertificateStore

from bulksigner.contract.certificate import Digest
from bulksigner.contract.signing import Format, Measured
from bulksigner.formats.dispatch import check, signer_for
from bulksigner.formats.model import CheckFailed, ContentChanged, Expectation, FormatRefused
from bulksigner.formats.pades import MAX_DOCUMENT_BYTES, PadesSigner
from bulksigner.formats.spec import BASELINE_B

LAYOUTS = ("classic", "streams", "hybrid")
FORMS = ("none", "direct", "indirect")
CERTIFIED = (
    b"/Perms <</DocMDP <</Type /Sig /Reference [<</Type /SigRef /TransformMethod /DocMDP"
    b" /TransformParams <</Type /TransformParams /V /1.2 /P %d>>>>]>>>>"
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_poppler_and_qpdf_accept_the_signature(
    any_key: Any,
    layout: str,
    form: str,
    pdf_sample: Any,
    sign: Any,
    run: Any,
    pem_of: Callable[[bytes], bytes],
    tmp_path: Path,
) -> None:
    """BEY-02: with the root trusted, pdfsig finds one valid signature over the whole file, and qpdf no fault."""
    signed, root, store = tmp_path / "signed.pdf", tmp_path / "root.pem", tmp_path / "nss"
    content = pdf_sample(layout=layout, form=form, pages=2).build()
    signed.write_bytes(sign(PadesSigner(any_key, BASELINE_B), content))
    root.write_bytes(pem_of(any_key.chain[1]))
    store.mkdir()
    run("certutil", "-N", "-d", f"sql:{store}", "--empty-password")
    run("certutil", "-A", "-d", f"sql:{store}", "-n", "root", "-t", "CT,C,C", "-i", root)
    output = run("pdfsig", "-nssdir", f"sql:{store}", signed)
    for line in (
        "Signature Validation: Signature is Valid.",
        "Certificate Validation: Certificate is Trusted.",
        "Total document signed",
        "Signature Type: ETSI.CAdES.detached",
        "Signer Certificate Common Name: João Signer",
    ):
        assert output.count(line) == 1, output
    run("qpdf", "--check", signed)


@pytest.mark.parametrize("digest", [Digest.SHA256, Digest.SHA512], ids=lambda digest: digest.value)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_pyhanko_validates_a_signature_on_top_of_another(
    any_key: Any, layout: str, digest: Digest, pdf_sample: Any, sign: Any, signed_at: datetime.datetime
) -> None:
    """PERF-04: pyHanko's full validation trusts both signatures and finds no change but the second signature."""
    signer = PadesSigner(any_key, attrs.evolve(BASELINE_B, digest=digest))
    once = sign(signer, pdf_sample(layout=layout, form="indirect").build())
    twice = sign(signer, once)
    assert twice.startswith(once)
    # Strict, pyHanko validates no hybrid file, whatever is in it.
    reader = PdfFileReader(io.BytesIO(twice), strict=layout != "hybrid")
    first, second = reader.embedded_signatures
    assert first.field_name != second.field_name
    trust = ValidationContext(
        trust_roots=[x509.Certificate.load(any_key.chain[1])], allow_fetching=False, moment=signed_at
    )
    for signature in (first, second):
        status = validate_pdf_signature(
            signature,
            trust,
            key_usage_settings=KeyUsageConstraints(key_usage={"digital_signature"}),
        )
        assert status.bottom_line, status.pretty_print_details()
        assert signature.sig_object["/SubFilter"] == "/ETSI.CAdES.detached"
        assert signature.self_reported_timestamp == signed_at
    assert second.evaluate_signature_coverage().name == "ENTIRE_FILE"


@pytest.mark.parametrize("layout", ["classic", "streams"])
@pytest.mark.parametrize("level", [MDPPerm.FILL_FORMS, MDPPerm.ANNOTATE], ids=lambda level: level.name)
def test_certification_of_another_survives_the_signature(
    rsa_key: Any, layout: str, level: MDPPerm, pdf_sample: Any, sign: Any, signed_at: datetime.datetime
) -> None:
    """BEY-11: a document certified by pyHanko, signatures allowed, stays certified after our signature."""
    other = SimpleSigner(
        signing_cert=x509.Certificate.load(rsa_key.certificate),
        signing_key=load_private_key(rsa_key),
        cert_registry=SimpleCertificateStore.from_certs([x509.Certificate.load(rsa_key.chain[0])]),
    )
    writer = IncrementalPdfFileWriter(io.BytesIO(pdf_sample(layout=layout).build()))
    metadata = PdfSignatureMetadata(field_name="Author", certify=True, docmdp_permissions=level, md_algorithm="sha256")
    certified = PdfSigner(metadata, other).sign_pdf(writer).getvalue()
    reader = PdfFileReader(io.BytesIO(sign(PadesSigner(rsa_key, BASELINE_B), certified)))
    trust = ValidationContext(
        trust_roots=[x509.Certificate.load(rsa_key.chain[1])], allow_fetching=False, moment=signed_at
    )
    for signature in reader.embedded_signatures:
        status = validate_pdf_signature(signature, trust)
        assert status.bottom_line, status.pretty_print_details()
        assert status.docmdp_ok


def load_private_key(key: Any) -> PrivateKeyInfo:
    """Load the test's key the way pyHanko keeps keys."""
    return PrivateKeyInfo.load(key.private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()))


def test_dictionary_has_the_keys_of_the_policy(rsa_key: Any, pdf_sample: Any, sign: Any) -> None:
    """ICP-10, ICP-31: filter and subfilter follow the specification, the time is /M, nothing more is there."""
    spec = attrs.evolve(BASELINE_B, pades_filter="PBAD_PAdES", pades_sub_filter="PBAD.PAdES")
    (signature,) = PdfFileReader(io.BytesIO(sign(PadesSigner(rsa_key, spec), pdf_sample().build()))).embedded_signatures
    entries = signature.sig_object
    assert set(entries) == {"/Type", "/Filter", "/SubFilter", "/Contents", "/ByteRange", "/M"}
    assert entries["/Filter"] == "/PBAD_PAdES"
    assert entries["/SubFilter"] == "/PBAD.PAdES"
    # PERF-02: with an RSA key the room is exactly that of the CMS.
    assert ContentInfo.load(entries.raw_get("/Contents"), strict=True)["content_type"].native == "signed_data"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_document_stays_as_it_was(rsa_key: Any, layout: str, pdf_sample: Any, sign: Any) -> None:
    """BEY-11: metadata, fields and annotations are kept, form and page only gain the signature."""
    objects = {
        8: b"<</Producer (Payments) /ModDate (D:20200101000000Z)>>",
        10: b"<</Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 11 0 R /Annots [9 0 R] /Rotate 90>>",
        9: b"<</Type /Annot /Subtype /Text /Rect [0 0 9 9] /Contents (note)>>",
    }
    content = pdf_sample(layout=layout, form="indirect", trailer=b"/Info 8 0 R", objects=objects).build()
    reader = PdfFileReader(io.BytesIO(sign(PadesSigner(rsa_key, BASELINE_B), content)))
    assert dict(reader.trailer["/Info"]) == {"/Producer": "Payments", "/ModDate": "D:20200101000000Z"}
    form, page = reader.root["/AcroForm"], reader.root["/Pages"]["/Kids"][0].get_object()
    assert [field.get_object()["/T"] for field in form["/Fields"]][:1] == ["amount"]
    assert len(form["/Fields"]) == 2
    assert form["/SigFlags"] == 3
    assert "/NeedAppearances" not in form
    assert "/DR" in form
    assert [annotation.get_object()["/Subtype"] for annotation in page["/Annots"]] == ["/Text", "/Widget"]
    assert page["/Rotate"] == 90


@pytest.mark.parametrize("end", [b"%%EOF", b"%%EOF\r\n", b"%%EOF\r", b"%%EOF\n\n"], ids=repr)
def test_end_of_file_may_be_of_any_kind(rsa_key: Any, end: bytes, pdf_sample: Any, sign: Any, measure: Any) -> None:
    """BEY-11: the update begins on a line of its own."""
    content = pdf_sample(end=end).build()
    artifact = sign(PadesSigner(rsa_key, BASELINE_B), content)
    assert artifact[len(content) - 1 :].lstrip(b"%EOF\r\n")[:1].isdigit()
    assert artifact[len(content) - 1 : len(content) + 1].strip(b"\r\n") in (b"F", b"1", b"")
    check(io.BytesIO(artifact), Expectation(Format.PADES, rsa_key.certificate, measure(content)))


@pytest.mark.parametrize("version", ["1.4", "2.0"])
def test_other_versions_are_signed(rsa_key: Any, version: str, pdf_sample: Any, sign: Any) -> None:
    """BEY-11: an older document says that it is 1.7 now, PDF 2.0 needs no mark of an extension."""
    artifact = sign(PadesSigner(rsa_key, BASELINE_B), pdf_sample(version=version).build())
    root = PdfFileReader(io.BytesIO(artifact)).root
    assert root.get("/Version") == (None if version == "2.0" else "/1.7")
    assert ("/Extensions" in root) == (version != "2.0")


def encrypt(content: bytes) -> bytes:
    writer = copy_into_new_writer(PdfFileReader(io.BytesIO(content)))
    writer.encrypt(owner_pass="owner", user_pass="")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


REFUSED: dict[str, tuple[Callable[[Any], bytes], str]] = {
    "empty": (lambda sample: b"", "not a PDF"),
    "text": (lambda sample: b"CNAB240" * 50, "not a PDF"),
    "late header": (lambda sample: b"\n" * 2000 + sample().build(), "not a PDF"),
    "junk": (lambda sample: b"\xef\xbb\xbf" + sample().build(), r"junk before its header \(bytes 0 to 2\)"),
    "header alone": (lambda sample: b"%PDF-1.7\n", "cut off or damaged: its last 2048 bytes"),
    "cut off": (lambda sample: sample(filler_bytes=5000).build()[:-40], "no startxref, offset and %%EOF"),
    "no end": (lambda sample: sample(end=b"").build(), "cut off or damaged"),
    "negative offset": (lambda sample: b"%PDF-1.7\nstartxref\n-5\n%%EOF", "cut off or damaged"),
    "offset behind the end": (
        lambda sample: b"%PDF-1.7\nstartxref\n99\n%%EOF",
        "startxref names byte 99, and the file has 27 bytes",
    ),
    "offset of no dictionary": (
        lambda sample: b"%PDF-1.7\n1 0 obj\n[[[\nendobj\nstartxref\n9\n%%EOF",
        r"Dictionary read error at byte 0x1\d",
    ),
    "shifted": (lambda sample: sample().build().replace(b"%PDF-1.7\n", b"%PDF-1.7\n\n\n"), "damaged"),
    "no table": (lambda sample: sample().build().replace(b"xref\n0 1", b"xxxx\n0 1"), r"damaged \(cross-reference\)"),
    "no root": (lambda sample: sample().build().replace(b"/Root 1 0 R", b"/Root 7 0 R"), "damaged"),
    "root is no catalog": (lambda sample: sample(objects={1: b"[1 2 3]"}).build(), r"damaged \(document catalog\)"),
    "encrypted": (lambda sample: encrypt(sample().build()), r"encrypted \(trailer, /Encrypt\)"),
    "certified": (lambda sample: sample(catalog=CERTIFIED % 1).build(), "DocMDP, level 1"),
    "certified by references": (
        lambda sample: sample(
            catalog=b"/Perms 5 0 R",
            objects={
                5: b"<</DocMDP 6 0 R>>",
                6: b"<</Type /Sig /Reference 7 0 R>>",
                7: b"[8 0 R]",
                8: b"<</TransformMethod /DocMDP /TransformParams 9 0 R>>",
                9: b"<</P 1>>",
            },
        ).build(),
        "DocMDP, level 1",
    ),
    "no pages": (lambda sample: sample(pages=0).build(), "no pages"),
    "no page tree": (lambda sample: sample(objects={2: b"null"}).build(), r"damaged \(page tree\)"),
    "pages in a circle": (
        lambda sample: sample(objects={2: b"<</Type /Pages /Count 1 /Kids [2 0 R]>>"}).build(),
        r"damaged \(page tree\)",
    ),
    "form is no form": (lambda sample: sample(catalog=b"/AcroForm [1]").build(), r"damaged \(form\)"),
    "fields are no list": (lambda sample: sample(catalog=b"/AcroForm <</Fields 7>>").build(), r"damaged \(form\)"),
    "deep": (lambda sample: sample(catalog=b"/X " + b"[" * 5000 + b"]" * 5000).build(), "damaged"),
    "own past": (
        lambda sample: (
            sample().build().replace(b"startxref", b"% " * 3 + b"startxref").replace(b"/Size", b"/Prev 9 /Size")
        ),
        "damaged",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_signed_is_refused(
    rsa_key: Any, case: str, pdf_sample: Any, measure: Any, signed_at: datetime.datetime
) -> None:
    """BEY-11: the refusal names the defect and its place, and the key is not used."""
    make, text = REFUSED[case]
    content = make(pdf_sample)
    with pytest.raises(FormatRefused, match=text):
        PadesSigner(rsa_key, BASELINE_B).sign(
            io.BytesIO(content), io.BytesIO(), expected=measure(content), signed_at=signed_at
        )
    assert rsa_key.calls == 0


@pytest.mark.parametrize("level", [2, 3])
def test_certification_that_allows_signatures_is_no_obstacle(
    rsa_key: Any, level: int, pdf_sample: Any, sign: Any
) -> None:
    """BEY-11: only level 1 of DocMDP forbids a further signature."""
    sign(PadesSigner(rsa_key, BASELINE_B), pdf_sample(catalog=CERTIFIED % level).build())
    assert rsa_key.calls == 1


def test_changed_content_is_not_signed(
    rsa_key: Any, pdf_sample: Any, measure: Any, signed_at: datetime.datetime
) -> None:
    """PIPE-77: bytes other than the staged ones never meet the key."""
    content = pdf_sample().build()
    for found in (content.replace(b"Page 1", b"Page 2"), content + b"\n", content[:-1]):
        with pytest.raises(ContentChanged, match="not signed"):
            PadesSigner(rsa_key, BASELINE_B).sign(
                io.BytesIO(found), io.BytesIO(), expected=measure(content), signed_at=signed_at
            )
    assert rsa_key.calls == 0


def test_one_signer_serves_several_threads(rsa_key: Any, pdf_sample: Any, sign: Any, measure: Any) -> None:
    """PERF-01: signer and key are made once and shared; no state of one file reaches another."""
    signers = [signer_for(kind, rsa_key) for kind in (Format.PADES, Format.CADES)]
    contents = [pdf_sample(pages=pages).build() for pages in range(1, 9)]

    def sign_and_check(content: bytes) -> None:
        for kind, signer in zip((Format.PADES, Format.CADES), signers, strict=True):
            check(io.BytesIO(sign(signer, content)), Expectation(kind, rsa_key.certificate, measure(content)))

    with ThreadPoolExecutor(4) as threads:
        assert len(list(threads.map(sign_and_check, contents * 3))) == 24


def test_memory_stays_within_three_times_the_file(
    rsa_key: Any, pdf_sample: Any, measure: Any, signed_at: datetime.datetime, tmp_path: Path
) -> None:
    """PERF-11: a PDF of 5 MB costs at most 15 MB."""
    path = tmp_path / "in.pdf"
    path.write_bytes(pdf_sample(filler_bytes=5_000_000).build())
    expected = measure(path.read_bytes())
    signer = PadesSigner(rsa_key, BASELINE_B)
    tracemalloc.start()
    try:
        with path.open("rb") as source, (tmp_path / "out.pdf").open("w+b") as target:
            signer.sign(source, target, expected=expected, signed_at=signed_at)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 3 * expected.length


@pytest.mark.parametrize(
    "end", [b"", b"startxref\n9\n%%EOF\n", b"\nstartxref\n9 %%EOF"], ids=["none", "joined", "line"]
)
def test_junk_behind_a_header_is_refused_by_its_last_bytes(
    rsa_key: Any, end: bytes, measure: Any, signed_at: datetime.datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-70, PERF-11: pyHanko would look for a line in all of it, byte by byte and at ten times its memory."""
    content = b"%PDF-1.7\n" + bytes(5_000_000) + end
    signer = PadesSigner(rsa_key, BASELINE_B)
    monkeypatch.setattr(signer._pdf_update, "append_signature", lambda *_: pytest.fail("pyHanko was asked"))
    with pytest.raises(FormatRefused, match="last 2048 bytes"):
        signer.sign(io.BytesIO(content), io.BytesIO(), expected=measure(content), signed_at=signed_at)


def test_a_file_beyond_the_limit_is_not_read(rsa_key: Any, signed_at: datetime.datetime) -> None:
    """PERF-11: a PDF is held in memory, so its size has a limit, and the text names it."""
    with pytest.raises(FormatRefused, match="has 536870913 bytes; PDF files are signed up to 536870912 bytes"):
        PadesSigner(rsa_key, BASELINE_B).sign(
            None,  # type: ignore[arg-type] # nothing reads it
            io.BytesIO(),
            expected=Measured(MAX_DOCUMENT_BYTES + 1, b""),
            signed_at=signed_at,
        )


def test_pyhanko_is_imported_by_the_pdf_signer_alone(rsa_key: Any) -> None:
    """PERF-06: a process that signs no PDF does not pay for pyHanko, nor does any check."""
    code = (
        "import sys, bulksigner.formats.dispatch, bulksigner.formats.pades, bulksigner.formats.cades,"
        " bulksigner.formats.pades_check, bulksigner.formats.cms_check; print('pyhanko' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_each_format_has_its_signer_and_check(rsa_key: Any, pdf_sample: Any, sign: Any, measure: Any) -> None:
    """ICP-40: the format alone chooses who signs and who checks."""
    content = pdf_sample().build()
    for kind, other in ((Format.PADES, Format.CADES), (Format.CADES, Format.PADES)):
        artifact = sign(signer_for(kind, rsa_key), content)
        expectation = Expectation(kind, rsa_key.certificate, measure(content))
        assert check(io.BytesIO(artifact), expectation).measured == measure(artifact)
        with pytest.raises(CheckFailed):
            check(io.BytesIO(artifact), attrs.evolve(expectation, format=other))
