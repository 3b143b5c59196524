"""File names at the door: which are ignored, what a client may call its file, what a landing copy is called."""

from __future__ import annotations

import re
import unicodedata
import uuid
from collections.abc import Sequence

import attrs

from bulksigner.contract.errors import Refusal

__all__ = ["IgnoreRules", "clean_client_name", "is_landing_name", "mint_landing_name"]

_NAME_LIMIT_BYTES = 255
_EXTENSION_LIMIT = 16
_FORBIDDEN = str.maketrans(dict.fromkeys('<>:"\\|?*', "_"))
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"{port}{number}" for port in ("com", "lpt") for number in "123456789\u00b9\u00b2\u00b3"]
)
# Version 8 GUIDs (RFC 9562 5.8) leave their content to the maker; ours open with these digits.
_LANDING_TAG = "b5160ad5"
_LANDING_NAME = re.compile(rf"{_LANDING_TAG}-[0-9a-f]{{4}}-8[0-9a-f]{{3}}-[89ab][0-9a-f]{{3}}-[0-9a-f]{{12}}(\..*)?")


def _lower(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(one.lower() for one in given)


@attrs.frozen
class IgnoreRules:
    """Names that are never candidates: global and per-folder lists together, without case (PIPE-42)."""

    extensions: tuple[str, ...] = attrs.field(default=(), converter=_lower)
    prefixes: tuple[str, ...] = attrs.field(default=(), converter=_lower)

    def match(self, name: str) -> bool:
        """Tell whether a file of this name is left alone."""
        folded = name.lower()
        return folded.endswith(self.extensions) or folded.startswith(self.prefixes)


def clean_client_name(given: str, rules: IgnoreRules) -> str:
    """Return a client's file name made safe (SEC-65); raises `Refusal` (`upload.invalid-name`) when none is left."""
    name = unicodedata.normalize("NFC", re.split(r"[/\\]", given)[-1])
    name = "".join(mark for mark in name if unicodedata.category(mark) != "Cc" and mark not in _BIDI)
    name = name.translate(_FORBIDDEN).strip().rstrip(". ")
    if not name:
        raise _invalid("no usable character is left of it")
    if name.partition(".")[0].rstrip().lower() in _DEVICES:
        raise _invalid("Windows keeps this name for a device")
    try:
        length_bytes = len(name.encode())
    except UnicodeEncodeError:
        raise _invalid("it is not Unicode text") from None
    if length_bytes > _NAME_LIMIT_BYTES:
        raise _invalid(f"it is longer than {_NAME_LIMIT_BYTES} bytes")
    if rules.match(name):
        raise _invalid("names with this beginning or extension are ignored on this host")
    return name


def mint_landing_name(file_name: str) -> str:
    """Return a new name `<guid><ext>` for an upload's landing copy (SEC-66).

    The GUID says by itself that the file is an upload's: no watcher takes it, before its job exists or after,
    in this life of the process or the next (PIPE-54).
    """
    drawn = uuid.uuid4().hex
    guid = uuid.UUID(f"{_LANDING_TAG}{drawn[8:12]}8{drawn[13:]}")
    _, dot, rest = file_name.rpartition(".")
    extension = dot + rest
    return f"{guid}{extension}" if dot and len(extension) <= _EXTENSION_LIMIT else str(guid)


def is_landing_name(name: str) -> bool:
    """Tell whether `mint_landing_name` made this name."""
    return name.startswith(_LANDING_TAG) and _LANDING_NAME.fullmatch(name) is not None


def _invalid(reason: str) -> Refusal:
    return Refusal(f"The file name is not acceptable: {reason}. Rename the file.", code="upload.invalid-name")
