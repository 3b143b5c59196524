"""What the file check tells of a PDF that would be signed (BEY-11)."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from pyhanko.pdf_utils.reader import PdfFileReader

from bulksigner.contract.signing import Format
from bulksigner.contract.validation import Finding, Severity
from bulksigner.formats.model import FormatRefused, PdfRules
from bulksigner.formats.pades import PadesSigner, look_at_pdf
from bulksigner.formats.preflight import find_defects
from bulksigner.formats.spec import BASELINE_B
from bulksigner.testing.pdf_corpus import AWKWARD, RESTRICTING, protect

TOLD = {
    "table": [],
    "20 updates": [],
    "hybrid": [("pdf.hybrid", "cross-reference")],
    "XFA": [("pdf.xfa", "form, /XFA")],
    "PDF/A-1b": [("pdf.archival", "catalog, /Metadata")],
    "PDF/A-3b": [("pdf.archival", "catalog, /Metadata")],
}


@pytest.fixture
def look(measure: Any) -> Any:
    """Look at bytes as the file check does."""

    def act(content: bytes, **options: bool) -> tuple[Finding, ...]:
        return find_defects(io.BytesIO(content), Format.PADES, measure(content), PdfRules(**options))

    return act


@pytest.mark.parametrize("name", TOLD)
def test_warnings_say_what_and_where(name: str, look: Any) -> None:
    """BEY-11: hybrid, XFA and a claim of PDF/A are told; nothing is told of a plain file."""
    found = look(AWKWARD[name].make())
    assert [(finding.code, finding.place) for finding in found] == TOLD[name]
    assert all(finding.severity is Severity.WARNING for finding in found)
    if "PDF/A" in name:
        assert f"{name.upper()};" in found[0].text


def test_signatures_and_their_state_are_told(rsa_key: Any, sign: Any, look: Any) -> None:
    """BEY-11: each signature by the name of its field, intact or not; one that is no CMS does not stop the look."""
    content = AWKWARD["table"].make()
    for _ in range(2):
        content = sign(PadesSigner(rsa_key, BASELINE_B), content)
    names = [f"field {signature.field_name}" for signature in PdfFileReader(io.BytesIO(content)).embedded_signatures]
    found = look(content)
    assert [(finding.code, finding.place) for finding in found] == [("pdf.signed", name) for name in names]
    changed = content.replace(b"(Page 1)", b"(Page 7)")
    assert {finding.code for finding in look(changed)} == {"pdf.signature-broken"}
    start = content.index(b"/Contents <30") + len(b"/Contents <")
    no_cms = content[:start] + b"00" * 20 + content[start + 40 :]
    assert sorted(finding.code for finding in look(no_cms)) == ["pdf.signature-broken", "pdf.signature-broken"]


def test_protection_is_told(look: Any) -> None:
    """BEY-11: an encrypted file that would be signed is named as such; a restricted one is refused by default."""
    content = protect(AWKWARD["PDF/A-2b"].make(), "aes-256", permissions=RESTRICTING)
    [finding] = look(content)
    assert (finding.code, finding.severity) == ("sign.failed", Severity.ERROR)
    found = look(content, ignore_owner_restrictions=True)
    assert [finding.code for finding in found] == ["pdf.encrypted", "pdf.archival"]


@pytest.mark.parametrize("name", AWKWARD)
def test_looking_and_signing_agree(name: str, rsa_key: Any, sign: Any, measure: Any) -> None:
    """BEY-10: every file of the corpus is foretold as it ends, in the same words and with no use of the key."""
    content = AWKWARD[name].make()

    def refusal(act: Callable[[], object]) -> str | None:
        try:
            act()
        except FormatRefused as refused:
            return refused.message
        return None

    told = refusal(lambda: look_at_pdf(io.BytesIO(content), measure(content)))
    assert rsa_key.calls == 0
    assert refusal(lambda: sign(PadesSigner(rsa_key, BASELINE_B), content)) == told


@pytest.mark.parametrize("part", ["PDF/A-1b", "PDF/A-2b", "PDF/A-3b"])
def test_a_claim_of_conformance_is_kept(part: str, rsa_key: Any, sign: Any) -> None:
    """BEY-11: metadata stay as they are, the field is printed and has an appearance, the table stays a table."""
    content = AWKWARD[part].make()
    artifact = sign(PadesSigner(rsa_key, BASELINE_B), content)
    before, after = PdfFileReader(io.BytesIO(content)), PdfFileReader(io.BytesIO(artifact))
    assert after.root["/Metadata"].data == before.root["/Metadata"].data
    assert not after.has_xref_stream
    field = after.root["/AcroForm"]["/Fields"][0]
    assert field["/F"] & 0b100
    assert field["/AP"]["/N"]["/Subtype"] == "/Form"
    assert "/NeedAppearances" not in after.root["/AcroForm"]
