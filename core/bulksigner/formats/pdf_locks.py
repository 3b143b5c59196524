"""What signatures in a PDF forbid further ones: certification, locks of the document and of its fields (12.8.2).

Works on objects of pyHanko, of which it needs no more than that they are lists and dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bulksigner.formats.model import FormatRefused

__all__ = ["Entry", "require_uncertified", "require_unlocked", "signed_fields"]

Entry = Callable[[Any, str, Any], Any]
"""Looks up an entry of a dictionary, with a default, and follows its reference."""

_MOST_LEVELS = 64
_NO_CHANGES = 1
_DOC_MDP_DEFAULT = 2


def require_uncertified(root: Any, entry: Entry) -> None:
    """Raise `FormatRefused` where the document is certified with no changes allowed."""
    certification = entry(entry(root, "/Perms", {}), "/DocMDP", {})
    if _forbids_changes(certification, entry):
        raise FormatRefused(
            "The PDF is certified with no changes allowed (catalog, /Perms /DocMDP, level 1); "
            "a further signature would break that certification.",
            place="catalog, /Perms /DocMDP",
            remedy="Have the file signed before it is certified, or signed as CAdES.",
        )


def require_unlocked(root: Any, field_name: str, entry: Entry) -> None:
    """Raise `FormatRefused` where a new signature field of that name would break a signature that is there."""
    for name, field, value in signed_fields(root, entry):
        lock = entry(field, "/Lock", {})
        if _forbids_changes(value, entry) or entry(lock, "/P", None) == _NO_CHANGES:
            what = "the document with no changes allowed"
        elif _locks_field(value, field_name, entry):
            what = "all fields, new ones too"
        else:
            continue
        raise FormatRefused(
            f"The signature {name} in the PDF locks {what}; a further signature would break it.",
            place=f"field {name}",
            remedy="Have the file signed before it is locked, or signed as CAdES.",
        )


def signed_fields(root: Any, entry: Entry) -> Iterator[tuple[str, Any, Any]]:
    """Yield the full name, the field and the signature dictionary of every field that is signed.

    A field that is listed twice counts once; raises `FormatRefused` for fields in a circle, or nested beyond measure.
    """
    waiting: list[tuple[str, Any, tuple[Any, ...], Any]]
    waiting = [("", None, (), entry(entry(root, "/AcroForm", {}), "/Fields", ()))]
    seen = set()
    while waiting:
        prefix, kind, above, members = waiting.pop()
        for member in list(members):
            reference = getattr(member, "reference", None)
            field = member.get_object()
            if len(above) > _MOST_LEVELS or (reference is not None and reference in above):
                raise FormatRefused(
                    f"The PDF's form has fields in a circle, or of more than {_MOST_LEVELS} levels.",
                    place="form, /Fields",
                    remedy="Repair the file and submit it.",
                )
            if reference in seen or not isinstance(field, dict):
                continue
            if reference is not None:
                seen.add(reference)
            own = entry(field, "/T", "")
            name = f"{prefix}.{own}" if prefix and own else str(own or prefix)
            own_kind = entry(field, "/FT", kind)
            value = entry(field, "/V", None)
            if own_kind == "/Sig" and isinstance(value, dict):
                yield name, field, value
            waiting.append((name, own_kind, (*above, reference), entry(field, "/Kids", ())))


def _transforms(signature: Any, method: str, entry: Entry) -> Iterator[Any]:
    for member in entry(signature, "/Reference", ()):
        reference = member.get_object()
        if entry(reference, "/TransformMethod", None) == method:
            yield entry(reference, "/TransformParams", {})


def _forbids_changes(signature: Any, entry: Entry) -> bool:
    transforms = _transforms(signature, "/DocMDP", entry)
    return any(entry(parameters, "/P", _DOC_MDP_DEFAULT) == _NO_CHANGES for parameters in transforms)


def _locks_field(signature: Any, field_name: str, entry: Entry) -> bool:
    for parameters in _transforms(signature, "/FieldMDP", entry):
        action = entry(parameters, "/Action", None)
        listed = field_name in [str(name) for name in entry(parameters, "/Fields", ())]
        if action == "/All" or listed == (action == "/Include"):
            return True
    return False
