"""What a PDF says of itself in its metadata: conformance to a part of PDF/A (ISO 19005, BEY-11)."""

from __future__ import annotations

import re
from typing import Any

from pyhanko.pdf_utils.decode_limits import DecodePurpose
from pyhanko.pdf_utils.generic import StreamObject

from bulksigner.formats.pdf_locks import Entry

__all__ = ["archival_claim"]

_PART = re.compile(rb"pdfaid:part\s*(?:=\s*[\"']|>)\s*(\d)")
_LEVEL = re.compile(rb"pdfaid:conformance\s*(?:=\s*[\"']|>)\s*([A-Za-z])")


def archival_claim(root: Any, entry: Entry) -> str | None:
    """Return what the metadata claims, such as `PDF/A-2B`; None where nothing is claimed."""
    try:
        metadata = entry(root, "/Metadata", None)
        content = metadata.read_data(DecodePurpose.XMP_METADATA) if isinstance(metadata, StreamObject) else b""
    except Exception:  # noqa: BLE001 - metadata that pyHanko cannot read claim nothing, and are no obstacle
        return None
    part = _PART.search(content)
    if part is None:
        return None
    level = _LEVEL.search(content)
    return f"PDF/A-{part[1].decode()}{level[1].decode().upper() if level else ''}"
