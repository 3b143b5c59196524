"""The format of a file by its extension (PIPE-38)."""

from __future__ import annotations

from bulksigner.contract.signing import Format

__all__ = ["choose_by_extension"]

_FORMATS = {".pdf": Format.PADES, ".xml": Format.XADES}


def choose_by_extension(name: str) -> Format:
    """Return the format for a file name; whatever is neither PDF nor XML is signed as CAdES."""
    return next((chosen for ending, chosen in _FORMATS.items() if name.casefold().endswith(ending)), Format.CADES)
