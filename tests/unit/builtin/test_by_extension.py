"""The format of a file by its extension."""

from __future__ import annotations

import pytest

from bulksigner.builtin.by_extension import choose_by_extension
from bulksigner.contract.signing import Format


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.pdf", Format.PADES),
        ("A.PDF", Format.PADES),
        ("note.xml", Format.XADES),
        ("a.pdf.txt", Format.CADES),
        ("remessa.rem", Format.CADES),
        ("xml", Format.CADES),
        ("", Format.CADES),
    ],
)
def test_the_extension_decides(name: str, format: Format) -> None:
    """PIPE-38: `.pdf` Pades, `.xml` Xades, everything else Cades."""
    assert choose_by_extension(name) is format
