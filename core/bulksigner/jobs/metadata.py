"""What a producer says of its file: a map of text to text, given once (PIPE-115, PIPE-116)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from bulksigner.contract.errors import BulkSignerError

__all__ = ["MetadataInvalid", "parse_metadata", "read_metadata", "write_metadata"]

_MOST_KEYS = 32
_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LONGEST_VALUE = 512
_MOST_BYTES = 8 * 1024
_NONE = "{}"


class MetadataInvalid(BulkSignerError):
    """Name the first rule that was broken, never a key or a value (PIPE-119)."""


def parse_metadata(text: bytes | str) -> dict[str, str]:
    """Read the text of one JSON object under the limits of PIPE-115; raises `MetadataInvalid`."""
    try:
        # Producers on Windows write a byte order mark, which RFC 8259 lets a reader ignore.
        found = json.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text, object_pairs_hook=_object)
    except UnicodeDecodeError:
        raise MetadataInvalid("The metadata is not UTF-8.") from None
    except (ValueError, RecursionError):
        # The words of the parser would show a piece of the text.
        raise MetadataInvalid("The metadata is not JSON.") from None
    if not isinstance(found, dict):
        raise MetadataInvalid("The metadata is not one JSON object.")
    if len(found) > _MOST_KEYS:
        raise MetadataInvalid(f"The metadata has more than {_MOST_KEYS} keys.")
    return _checked(found)


def read_metadata(stored: str) -> Mapping[str, str]:
    """Return the map of a stored text."""
    if stored == _NONE:
        return {}
    found: dict[str, str] = json.loads(stored)
    return found


def write_metadata(metadata: Mapping[str, str]) -> str:
    """Return the text that is stored for a map."""
    return json.dumps(dict(metadata), ensure_ascii=False, sort_keys=True) if metadata else _NONE


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MetadataInvalid("The metadata has a key twice.")
    return found


def _checked(found: Mapping[str, object]) -> dict[str, str]:
    checked: dict[str, str] = {}
    total_bytes = 0
    for key, value in found.items():
        if _KEY.fullmatch(key) is None:
            raise MetadataInvalid("A key of the metadata is not 1 to 64 letters, digits, dots, dashes and underscores.")
        if not isinstance(value, str):
            raise MetadataInvalid("A value of the metadata is not text.")
        if len(value) > _LONGEST_VALUE:
            raise MetadataInvalid(f"A value of the metadata is longer than {_LONGEST_VALUE} characters.")
        try:
            total_bytes += len(key) + len(value.encode())
        except UnicodeEncodeError:
            raise MetadataInvalid("A value of the metadata is not Unicode text.") from None
        checked[key] = value
    if total_bytes > _MOST_BYTES:
        raise MetadataInvalid(f"Keys and values of the metadata together are longer than {_MOST_BYTES} bytes.")
    return checked
