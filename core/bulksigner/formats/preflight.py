"""What stands in the way of a signature, told before a key is used, by the code that signs (BEY-10 to BEY-12)."""

from __future__ import annotations

from typing import BinaryIO

from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.signing import Format, Measured
from bulksigner.contract.validation import Finding, Severity
from bulksigner.formats.model import FormatRefused, PdfRules

__all__ = ["find_defects", "finding_of"]


def find_defects(
    source: BinaryIO, format: Format, expected: Measured, rules: PdfRules, spec: SignatureSpec | None = None
) -> tuple[Finding, ...]:
    """Return what makes a file unfit for a format: nothing, or the first defect, as signing by `spec` would meet it.

    Of a PDF that is fit, what is to be known of it comes as warnings. Any file can be signed as CAdES, unless it is to
    be signed further, and beside a XAdES signature. Raises `ContentChanged` when the bytes read are not `expected`.
    """
    try:
        if format is Format.PADES:
            from bulksigner.formats.pades import look_at_pdf

            return look_at_pdf(source, expected, rules)
        if format is Format.CADES and spec is not None and spec.joining is not None:
            from bulksigner.formats.cms_join import look_at_cms

            look_at_cms(source, expected, spec.joining)
        elif format is Format.XADES and spec is not None and spec.is_plain_xml:
            from bulksigner.formats.xml_plain import look_at_plain_xml

            look_at_plain_xml(source, expected)
        elif format is Format.XADES and not (spec is not None and spec.xml_file):
            from bulksigner.formats.xades import look_at_xml

            look_at_xml(source, expected, spec.xml_element if spec is not None else "")
    except FormatRefused as refused:
        return (finding_of(refused),)
    return ()


def finding_of(refused: FormatRefused) -> Finding:
    """Return a refusal as a finding; its code is that of the job that would fail."""
    code = refused.code or FormatRefused.default_code
    return Finding(code, Severity.ERROR, refused.place, refused.problem, refused.remedy)
