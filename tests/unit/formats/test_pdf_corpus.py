"""Awkward PDF files: signed so that others find no fault, or refused before the key is used (BEY-01, BEY-11)."""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyhanko.pdf_utils.crypt import AuthStatus
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.fields import FieldMDPAction, FieldMDPSpec, MDPPerm, SigFieldSpec

from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Format, PdfChoice
from bulksigner.formats import pdf_append
from bulksigner.formats.dispatch import check
from bulksigner.formats.model import Expectation, FormatRefused, PdfRules
from bulksigner.formats.pades import PadesSigner
from bulksigner.formats.spec import BASELINE_B
from bulksigner.testing.pdf_corpus import ALLOWING, AWKWARD, PROTECTIONS, RESTRICTING, protect
from bulksigner.testing.pdf_sample import PdfSample, stream_object

SIGNED = [name for name, awkward in AWKWARD.items() if awkward.refusal is None]
REFUSED = [name for name, awkward in AWKWARD.items() if awkward.refusal is not None]
USER, OWNER = "segrêdo", "senha do dono"
LOCK_ALL = FieldMDPSpec(FieldMDPAction.ALL)
LOCKS = {
    "one": FieldMDPSpec(FieldMDPAction.INCLUDE, fields=["amount"]),
    "none": FieldMDPSpec(FieldMDPAction.INCLUDE, fields=[]),
}
CLOSING = {
    "all": SigFieldSpec("Other", field_mdp_spec=LOCK_ALL),
    "all but one": SigFieldSpec("Other", field_mdp_spec=FieldMDPSpec(FieldMDPAction.EXCLUDE, fields=["amount"])),
    "document": SigFieldSpec("Other", field_mdp_spec=LOCKS["one"], doc_mdp_update_value=MDPPerm.NO_CHANGES),
    "deeper": SigFieldSpec("form.part.Other", field_mdp_spec=LOCK_ALL),
}


def knowing(*passwords: str) -> PdfRules:
    """Return the rules of a profile with these passwords of PDF files."""
    return PdfRules(choice=PdfChoice(tuple(map(Secret, passwords))))


def test_the_corpus_is_large_enough() -> None:
    """BEY-11: forty files at least, of both kinds."""
    assert len(AWKWARD) >= 40
    assert min(len(SIGNED), len(REFUSED)) >= 15


@pytest.mark.parametrize("name", SIGNED)
def test_what_can_be_signed_is(name: str, rsa_key: Any, sign: Any, accept: Callable[..., None]) -> None:
    """BEY-01, BEY-02, BEY-11: once and once more, the input a prefix, both signatures valid for three readers."""
    content = AWKWARD[name].make()
    signer = PadesSigner(rsa_key, BASELINE_B)
    once = sign(signer, content)
    accept(content, once)
    accept(once, sign(signer, once), signatures=2)


@pytest.mark.parametrize("name", ["table", "streams", "linearized", "signature field that waits"])
def test_what_is_ordinary_is_signed_by_pyhanko_too(
    name: str, rsa_key: Any, sign: Any, accept: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PERF-03: the own append path may leave any file to pyHanko."""
    monkeypatch.setattr(pdf_append, "append_ordinary", lambda *_: None)
    content = AWKWARD[name].make()
    accept(content, sign(PadesSigner(rsa_key, BASELINE_B), content))


METADATA = b"/Type /Metadata /Subtype /XML"
SIGNED_ONCE = {
    "field listed twice": PdfSample(
        catalog=b"/AcroForm <</Fields [8 0 R 8 0 R]>>", objects={8: b"<</FT /Tx /T (amount)>>"}
    ),
    "metadata that are not packed": PdfSample(
        catalog=b"/Metadata 8 0 R", objects={8: stream_object(b"pdfaid:part>1", METADATA + b" /Filter /FlateDecode")}
    ),
    "metadata of 40 MiB": PdfSample(
        catalog=b"/Metadata 8 0 R", objects={8: stream_object(bytes(40 << 20), METADATA, pack=True)}
    ),
    "metadata that are a number": PdfSample(catalog=b"/Metadata 8"),
}


@pytest.mark.parametrize("name", SIGNED_ONCE)
def test_what_others_cannot_compare_is_signed(name: str, rsa_key: Any, sign: Any, accept: Callable[..., None]) -> None:
    """BEY-11: files that pyHanko signs and validates, though it cannot compare two versions of them."""
    content = SIGNED_ONCE[name].build()
    accept(content, sign(PadesSigner(rsa_key, BASELINE_B), content))


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_signed_is_refused(name: str, rsa_key: Any, sign: Any) -> None:
    """BEY-11: with the documented code, the defect and its place, and the key is not used."""
    awkward = AWKWARD[name]
    with pytest.raises(FormatRefused, match=awkward.refusal) as refused:
        sign(PadesSigner(rsa_key, BASELINE_B), awkward.make())
    error = refused.value
    assert (error.code or error.default_code) == "sign.failed"
    assert error.place
    assert awkward.place in (None, error.place)
    assert rsa_key.calls == 0


@pytest.mark.parametrize(
    "name", ["table", "streams", "fields", "appearances to be made", "XFA", "PDF/A-2b", "20 updates"]
)
@pytest.mark.parametrize("times", [1, 2])
def test_signatures_of_others_stay_valid(
    name: str, times: int, rsa_key: Any, sign: Any, sign_by_other: Callable[..., bytes], accept: Callable[..., None]
) -> None:
    """BEY-11: signed once and twice by another product, before ours."""
    content = AWKWARD[name].make()
    for number in range(times):
        content = sign_by_other(content, name=f"Other{number}")
    accept(content, sign(PadesSigner(rsa_key, BASELINE_B), content), signatures=times + 1)


@pytest.mark.parametrize("level", [MDPPerm.FILL_FORMS, MDPPerm.ANNOTATE], ids=lambda level: level.name)
@pytest.mark.parametrize("name", ["table", "streams", "fields", "appearances to be made"])
def test_certified_files_stay_certified(
    name: str, level: MDPPerm, rsa_key: Any, sign: Any, sign_by_other: Callable[..., bytes], accept: Callable[..., None]
) -> None:
    """BEY-11: levels 2 and 3 of DocMDP allow signatures."""
    content = sign_by_other(AWKWARD[name].make(), certify=True, docmdp_permissions=level)
    accept(content, sign(PadesSigner(rsa_key, BASELINE_B), content), signatures=2)


@pytest.mark.parametrize("lock", LOCKS)
def test_locks_of_other_fields_are_no_obstacle(
    lock: str, rsa_key: Any, sign: Any, sign_by_other: Callable[..., bytes], accept: Callable[..., None]
) -> None:
    """BEY-11: a lock on named fields concerns their values; a new field of ours changes none."""
    content = sign_by_other(AWKWARD["fields"].make(), SigFieldSpec("Other", field_mdp_spec=LOCKS[lock]))
    accept(content, sign(PadesSigner(rsa_key, BASELINE_B), content), signatures=2)


@pytest.mark.parametrize("lock", CLOSING)
def test_locks_that_a_signature_would_break_refuse_it(
    lock: str, rsa_key: Any, sign: Any, sign_by_other: Callable[..., bytes]
) -> None:
    """BEY-11: a signature that locks the document or all fields is the last one, certified or not."""
    field = CLOSING[lock]
    content = sign_by_other(AWKWARD["fields"].make(), field, name=field.sig_field_name)
    with pytest.raises(FormatRefused, match="would break it") as refused:
        sign(PadesSigner(rsa_key, BASELINE_B), content)
    assert refused.value.place == f"field {field.sig_field_name}"
    assert rsa_key.calls == 0


def test_a_file_certified_by_others_against_changes_is_refused(
    rsa_key: Any, sign: Any, sign_by_other: Callable[..., bytes]
) -> None:
    """BEY-11: DocMDP 1."""
    content = sign_by_other(AWKWARD["table"].make(), certify=True, docmdp_permissions=MDPPerm.NO_CHANGES)
    with pytest.raises(FormatRefused, match="no changes allowed") as refused:
        sign(PadesSigner(rsa_key, BASELINE_B), content)
    assert refused.value.place == "catalog, /Perms /DocMDP"
    assert rsa_key.calls == 0


@pytest.mark.parametrize("layout", ["table", "streams", "fields", "fields in streams"])
@pytest.mark.parametrize("kind", PROTECTIONS)
def test_protection_is_kept(kind: str, layout: str, rsa_key: Any, sign: Any, accept: Callable[..., None]) -> None:
    """BEY-11: what anybody may open and change is signed, and stays as protected as it was."""
    content = protect(AWKWARD[layout].make(), kind, permissions=ALLOWING)
    signer = PadesSigner(rsa_key, BASELINE_B)
    once = sign(signer, content)
    accept(content, once)
    twice = sign(signer, once)
    accept(once, twice, signatures=2)
    reader = PdfFileReader(io.BytesIO(twice))
    assert reader.encrypted
    assert b"amount" not in twice
    reader.decrypt("")
    names = [field.get_object()["/T"] for field in reader.root["/AcroForm"]["/Fields"]]
    assert names[:1] == ["amount"] if "fields" in layout else len(names) == 2
    assert all(name == "amount" or name.startswith("Signature") for name in names)


@pytest.mark.parametrize("kind", PROTECTIONS)
def test_restrictions_are_kept_unless_they_are_ignored(
    kind: str, rsa_key: Any, sign: Any, accept: Callable[..., None]
) -> None:
    """BEY-11, CFG-201: refused by default; ignored by choice, and the restriction stays in the file."""
    content = protect(AWKWARD["table"].make(), kind, permissions=RESTRICTING)
    with pytest.raises(FormatRefused, match="restricted by its owner") as refused:
        sign(PadesSigner(rsa_key, BASELINE_B), content)
    assert refused.value.place == "trailer, /Encrypt /P"
    assert rsa_key.calls == 0
    artifact = sign(PadesSigner(rsa_key, BASELINE_B, rules=PdfRules(ignore_owner_restrictions=True)), content)
    accept(content, artifact)
    reader = PdfFileReader(io.BytesIO(artifact))
    allowed = reader.decrypt("").permission_flags
    assert allowed is not None
    assert ALLOWING not in allowed


@pytest.mark.parametrize("kind", PROTECTIONS)
def test_a_password_is_asked_for(kind: str, rsa_key: Any, sign: Any) -> None:
    """BEY-11: a file that needs a password is refused, whatever is ignored."""
    content = protect(AWKWARD["table"].make(), kind, user="secret")
    with pytest.raises(FormatRefused, match="needs a password") as refused:
        sign(PadesSigner(rsa_key, BASELINE_B, rules=PdfRules(ignore_owner_restrictions=True)), content)
    assert refused.value.place == "trailer, /Encrypt"
    assert rsa_key.calls == 0


@pytest.mark.parametrize("layout", ["table", "streams", "fields in streams"])
@pytest.mark.parametrize("kind", PROTECTIONS)
def test_a_password_of_the_profile_opens(kind: str, layout: str, rsa_key: Any, sign: Any, accept: Any) -> None:
    """BEY-11: the first that fits opens, as user or as owner; the result is as protected, and signed again."""
    content = protect(AWKWARD[layout].make(), kind, user=USER, owner=OWNER)
    for fitting in (USER, OWNER):
        signer = PadesSigner(rsa_key, BASELINE_B, rules=knowing("senha errada", fitting))
        once = sign(signer, content)
        accept(content, once, password=fitting)
        accept(once, sign(signer, once), signatures=2, password=fitting)
        reader = PdfFileReader(io.BytesIO(once))
        assert reader.decrypt("").status is AuthStatus.FAILED
        assert reader.decrypt(USER).status is AuthStatus.USER


@pytest.mark.parametrize("kind", PROTECTIONS)
def test_no_password_fits(kind: str, rsa_key: Any, sign: Any) -> None:
    """BEY-11: a wrong password is told apart from none, by number, before the key is used."""
    content = protect(AWKWARD["table"].make(), kind, user=USER, owner=OWNER)
    with pytest.raises(FormatRefused, match=r"none of the profile's \(2\)") as refused:
        sign(PadesSigner(rsa_key, BASELINE_B, rules=knowing("senha errada", "outra")), content)
    assert refused.value.place == "trailer, /Encrypt"
    assert "errada" not in refused.value.message
    assert rsa_key.calls == 0


@pytest.mark.parametrize("kind", PROTECTIONS)
def test_the_owners_password_lifts_restrictions(kind: str, rsa_key: Any, sign: Any, accept: Any) -> None:
    """BEY-11: refused with the user's password alone, signed with the owner's, wherever in the list it stands."""
    content = protect(AWKWARD["table"].make(), kind, user=USER, owner=OWNER, permissions=RESTRICTING)
    with pytest.raises(FormatRefused, match="restricted by its owner"):
        sign(PadesSigner(rsa_key, BASELINE_B, rules=knowing(USER)), content)
    assert rsa_key.calls == 0
    accept(content, sign(PadesSigner(rsa_key, BASELINE_B, rules=knowing(USER, OWNER)), content), password=USER)
    opens_by_itself = protect(AWKWARD["table"].make(), kind, owner=OWNER, permissions=RESTRICTING)
    accept(opens_by_itself, sign(PadesSigner(rsa_key, BASELINE_B, rules=knowing(OWNER)), opens_by_itself))


@pytest.mark.parametrize("ways", [["256"], ["128", "--use-aes=y"], ["128", "--use-aes=n"], ["40"]], ids=" ".join)
def test_files_of_another_program_open(ways: list[str], rsa_key: Any, sign: Any, tmp_path: Path, run: Any) -> None:
    """BEY-11: what qpdf encrypts is signed with either password, and qpdf finds the result sound."""
    plain, locked, signed = (tmp_path / name for name in ("plain.pdf", "locked.pdf", "signed.pdf"))
    plain.write_bytes(AWKWARD["table"].make())
    weak = [] if ways == ["256"] else ["--allow-weak-crypto"]
    run("qpdf", *weak, "--encrypt", "aberta1", "dona1", *ways, "--", plain, locked)
    for password in ("aberta1", "dona1"):
        signer = PadesSigner(rsa_key, BASELINE_B, rules=knowing(password))
        signed.write_bytes(sign(signer, locked.read_bytes()))
        assert "No syntax or stream encoding errors" in run("qpdf", "--check", "--password=aberta1", signed)
        opened = tmp_path / "opened.pdf"
        run("qpdf", "--password=dona1", "--decrypt", "--qdf", "--static-id", signed, opened)
        assert b"/Type /Sig\n" in opened.read_bytes()


@pytest.mark.parametrize("bits", ["128", "256"])
@pytest.mark.parametrize("password", ["senha\u20ac", "a\u2013b \u201cc\u201d", "ac\u0327a\u0303o"])
def test_letters_beyond_latin_1_are_written_as_pdf_writes_them(
    bits: str, password: str, rsa_key: Any, sign: Any, run: Any, measure: Any, tmp_path: Path
) -> None:
    """BEY-11: up to AES-128, passwords are in PDFDocEncoding, which has more signs than Latin-1; accents are joined."""
    plain, locked, signed = (tmp_path / name for name in ("plain.pdf", "locked.pdf", "signed.pdf"))
    plain.write_bytes(PdfSample().build())
    whole = unicodedata.normalize("NFC", password)
    cipher = ("--use-aes=y",) if bits == "128" else ()
    run("qpdf", "--allow-weak-crypto", "--encrypt", whole, "dona1", bits, *cipher, "--", plain, locked)
    content = locked.read_bytes()
    artifact = sign(PadesSigner(rsa_key, BASELINE_B, rules=knowing(password)), content)
    signed.write_bytes(artifact)
    assert "No syntax or stream encoding errors" in run("qpdf", "--check", f"--password={whole}", signed)
    known = (Secret(password),)
    check(io.BytesIO(artifact), Expectation(Format.PADES, rsa_key.certificate, measure(content), passwords=known))


def test_a_revision_that_is_no_standard_is_refused(rsa_key: Any, sign: Any, tmp_path: Path, run: Any) -> None:
    """BEY-11: revision 5, which was never in a standard, whatever passwords there are."""
    plain, locked = tmp_path / "plain.pdf", tmp_path / "locked.pdf"
    plain.write_bytes(AWKWARD["table"].make())
    run("qpdf", "--allow-weak-crypto", "--encrypt", "aberta1", "dona1", "256", "--force-R5", "--", plain, locked)
    with pytest.raises(FormatRefused, match="never made a standard") as refused:
        sign(PadesSigner(rsa_key, BASELINE_B, rules=knowing("dona1")), locked.read_bytes())
    assert refused.value.place == "trailer, /Encrypt /R"
    assert rsa_key.calls == 0


PUBLIC_KEY = (
    b"<</Filter /Adobe.PubSec /SubFilter /adbe.pkcs7.s5 /V 4 /StmF /DefaultCryptFilter /StrF /DefaultCryptFilter"
    b" /CF <</DefaultCryptFilter <</CFM /AESV2 /Length 128 /Recipients []>>>>>>"
)
OTHER_PROTECTION = {
    "authentication code": lambda: protect(AWKWARD["table"].make(), "aes-256", sealed=True),
    "password": PdfSample(trailer=b"/Encrypt 8 0 R", objects={8: PUBLIC_KEY}).build,
    "damaged": lambda: AWKWARD["table"].make().replace(b"/Root", b"/Encrypt 1 0 R /Root", 1),
}


@pytest.mark.parametrize("text", OTHER_PROTECTION)
def test_other_protection_is_refused(text: str, rsa_key: Any, sign: Any) -> None:
    """BEY-11: encryption for certificates, an authentication code, damaged entries."""
    with pytest.raises(FormatRefused, match=text) as refused:
        sign(PadesSigner(rsa_key, BASELINE_B, rules=PdfRules(ignore_owner_restrictions=True)), OTHER_PROTECTION[text]())
    assert refused.value.place.startswith("trailer, /Encrypt")
    assert rsa_key.calls == 0


@pytest.mark.parametrize("size", [8_388_608, 2_147_483_640, 4_294_967_290])
def test_numbers_that_no_reader_knows_are_not_given(size: int, rsa_key: Any, sign: Any) -> None:
    """BEY-01: a /Size far too large is refused, as poppler and others would not read what is appended after it."""
    content = re.sub(rb"/Size \d+", b"/Size %d" % size, PdfSample().build())
    with pytest.raises(FormatRefused, match=f"says that it has {size} objects") as refused:
        sign(PadesSigner(rsa_key, BASELINE_B), content)
    assert (refused.value.place, rsa_key.calls) == ("trailer, /Size", 0)
