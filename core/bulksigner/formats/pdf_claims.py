"""What a PDF says of itself in its metadata: conformance to a part of PDF/A (ISO 19005, BEY-11)."""

from __future__ import annotations

import re
from typing import Any

from bulksigner.formats.pdf_locks import Entry

__all__ = ["archival_claim"]

_MOST_METADATA_BYTES = 4 * 1024 * 1024
_PART = re.compile(rb"pdfaid:part\s*(?:=\s*[\"']|>)\s*(\d)")
_LEVEL = re.compile(rb"pdfaid:conformance\s*(?:=\s*[\"']|>)\s*([A-Za-z])")


def archival_claim(root: Any, entry: Entry) -> str | None:
    """Return what the metadata claims, such as `PDF/A-2B`; None where nothing is claimed."""
    metadata = entry(root, "/Metadata", None)
    content = getattr(metadata, "data", b"")[:_MOST_METADATA_BYTES]
    part = _PART.search(content)
    if part is None:
        return None
    level = _LEVEL.search(content)
    return f"PDF/A-{part[1].decode()}{level[1].decode().upper() if level else ''}"
