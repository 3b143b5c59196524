from __future__ import annotations

import pytest

from bulksigner.contract.errors import StepFailed
from bulksigner.contract.signing import Format
from bulksigner.formats.naming import output_name

PADES, CADES, XADES = Format.PADES, Format.CADES, Format.XADES


@pytest.mark.parametrize(
    ("file_name", "format", "pem", "preserve", "expected"),
    [
        ("report.pdf", PADES, False, False, "report.signed.pdf"),
        ("report.PDF", PADES, True, True, "report.signed.pdf"),
        ("remessa.rem", CADES, False, False, "remessa.rem.p7m"),
        ("remessa.rem", CADES, True, False, "remessa.rem.pem"),
        ("remessa.rem", CADES, False, True, "remessa.signed.rem"),
        ("remessa.rem", CADES, True, True, "remessa.signed.rem"),
        ("nota.xml", XADES, False, False, "nota.signed.xml"),
        ("nota.nfe", XADES, False, False, "nota.signed.xml"),
        ("nota.nfe", XADES, False, True, "nota.signed.nfe"),
        ("abc", CADES, False, True, "abc.signed"),
        ("abc", CADES, False, False, "abc.p7m"),
        ("a.b.REM", CADES, False, True, "a.b.signed.REM"),
    ],
)
def test_output_names(file_name: str, format: Format, pem: bool, preserve: bool, expected: str) -> None:
    """PIPE-89, PIPE-90, PIPE-112: every row of the table, names without a dot, letter case kept."""
    assert output_name(file_name, format, pem=pem, preserve=preserve) == expected


def test_a_name_too_long_fails_naming_it() -> None:
    """PIPE-90: 255 bytes of UTF-8 pass, one more does not."""
    fits = "\u00e7" * 125 + "x"
    assert len(output_name(fits, CADES, pem=False, preserve=False).encode()) == 255
    with pytest.raises(StepFailed, match="longer than 255 bytes: \u00e7"):
        output_name(fits + "x", CADES, pem=False, preserve=False)


@pytest.mark.parametrize(("pem", "expected"), [(False, "report.txt.p7s"), (True, "report.txt.pem")])
def test_a_signature_beside_its_content_has_a_name_of_its_own(pem: bool, expected: str) -> None:
    """PIPE-89, BEY-12: the content keeps its name, so the signature has another."""
    assert output_name("report.txt", Format.CADES, pem=pem, preserve=False, detached=True) == expected
