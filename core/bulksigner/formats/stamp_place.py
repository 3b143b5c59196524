"""Where a visible signature goes: an empty field that is there, or the first free place of a page as it is seen.

Places are counted on the page as readers show it, turned and cut to its crop box (ISO 32000-1 7.7.3.3).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import attrs

from bulksigner.contract.appearance import Corner, read_length
from bulksigner.formats.model import FormatRefused
from bulksigner.formats.pdf_locks import Entry
from bulksigner.formats.stamp import Stamp

__all__ = ["Spot", "find_spot"]

_Box = tuple[float, float, float, float]
_MOST_LEVELS = 64
# A page may say that it is as large as a country, and that one signature or thousands fill it.
_MOST_PLACES, _MOST_COMPARISONS = 4096, 1_000_000
_GAP = 4.0
_SLACK = 0.01
_LETTER = (0.0, 0.0, 612.0, 792.0)


@attrs.frozen
class Spot:
    """A place: the page, the rectangle in its own coordinates, its rotation; and the field that is there, if one is.

    `size` is width and height as they are seen, in points.
    """

    page: Any
    rectangle: _Box
    rotation: int
    size: tuple[float, float]
    field: Any = None
    widget: Any = None


@attrs.frozen
class _Sheet:
    """A page as it is seen: its box in its own coordinates, its rotation, and points of 1/72 inch for each unit."""

    box: _Box
    rotation: int
    unit: float

    @classmethod
    def of(cls, page: Any, entry: Entry) -> _Sheet:
        media = _read_box(_inherited(page, "/MediaBox", entry)) or _LETTER
        crop = _read_box(_inherited(page, "/CropBox", entry)) or media
        box = (max(crop[0], media[0]), max(crop[1], media[1]), min(crop[2], media[2]), min(crop[3], media[3]))
        if box[0] >= box[2] or box[1] >= box[3]:
            box = media
        rotation = int(_inherited(page, "/Rotate", entry) or 0) % 360
        unit = float(entry(page, "/UserUnit", 1))
        return cls(box, rotation if rotation % 90 == 0 else 0, unit if unit > 0 else 1.0)

    @property
    def size(self) -> tuple[float, float]:
        width, height = self.box[2] - self.box[0], self.box[3] - self.box[1]
        return (height, width) if self.rotation % 180 else (width, height)

    def to_page(self, seen: _Box) -> _Box:
        """Return in the page's coordinates a rectangle that is seen, counted from the lower left."""
        x0, y0, x1, y1 = self.box
        left, bottom, right, top = seen
        return {
            0: (x0 + left, y0 + bottom, x0 + right, y0 + top),
            90: (x1 - top, y0 + left, x1 - bottom, y0 + right),
            180: (x1 - right, y1 - top, x1 - left, y1 - bottom),
            270: (x0 + bottom, y1 - right, x0 + top, y1 - left),
        }[self.rotation]


def find_spot(writer: Any, stamp: Stamp, entry: Entry) -> Spot:
    """Find the place of a new visible signature; raises `FormatRefused` where there is none."""
    found = _find_field(writer, stamp, entry) if stamp.choice.field else None
    if found is not None:
        return found
    if entry(entry(writer.root, "/Perms", {}), "/DocMDP", None) is not None:
        raise FormatRefused(
            "The PDF is certified (catalog, /Perms /DocMDP), and a visible signature may be put into an empty field "
            "only, which the file has not.",
            place="catalog, /Perms /DocMDP",
            remedy="Have an empty signature field made before the file is certified and name it in Appearance:Field, "
            "or sign by a profile without Appearance.",
        )
    number = _choose_page(stamp.choice.page, int(entry(entry(writer.root, "/Pages", {}), "/Count", 0)))
    page = writer.find_page_for_modification(number)[0]
    sheet = _Sheet.of(page.get_object(), entry)
    taken = list(_list_taken(page.get_object(), entry))
    wide, high = (length / sheet.unit for length in stamp.size)
    most = min(_MOST_PLACES, _MOST_COMPARISONS // (len(taken) + 1) + 1)
    for seen in itertools.islice(_list_places(sheet, stamp, wide, high), most):
        rectangle = sheet.to_page(seen)
        if not any(_overlap(rectangle, other) for other in taken):
            return Spot(page, rectangle, sheet.rotation, stamp.size)
    raise FormatRefused(
        f"Page {number + 1} of the PDF has no room for a visible signature of {stamp.choice.width} by "
        f"{stamp.choice.height}: it is smaller, or other signatures fill it.",
        place=f"page {number + 1}",
        remedy="Make it smaller (Appearance:Width, Appearance:Height), or choose another page.",
    )


def _choose_page(wanted: str, count: int) -> int:
    if wanted.casefold() in ("first", "last"):
        return 0 if wanted.casefold() == "first" else count - 1
    if int(wanted) > count:
        raise FormatRefused(
            f"The PDF has {count} page(s), and its signature is to be shown on page {wanted}.",
            place="page tree, /Count",
            remedy="Choose First or Last as Appearance:Page.",
        )
    return int(wanted) - 1


def _list_places(sheet: _Sheet, stamp: Stamp, wide: float, high: float) -> Iterator[_Box]:
    """Yield the places that fit: from the corner along the edge, then the next row."""
    width, height = sheet.size
    corner, gap = stamp.choice.corner, _GAP / sheet.unit
    from_right = corner in (Corner.TOP_RIGHT, Corner.BOTTOM_RIGHT)
    from_top = corner in (Corner.TOP_LEFT, Corner.TOP_RIGHT)
    start_x, start_y = (read_length(text) / sheet.unit for text in (stamp.choice.offset_x, stamp.choice.offset_y))
    y = start_y
    while y + high <= height + _SLACK:
        x = start_x
        while x + wide <= width + _SLACK:
            left = width - x - wide if from_right else x
            bottom = height - y - high if from_top else y
            yield left, bottom, left + wide, bottom + high
            x += wide + gap
        y += high + gap


def _list_taken(page: Any, entry: Entry) -> Iterator[_Box]:
    for member in entry(page, "/Annots", ()):
        annotation = member.get_object()
        if not isinstance(annotation, dict) or entry(annotation, "/Subtype", None) != "/Widget":
            continue
        kind = entry(annotation, "/FT", None) or entry(entry(annotation, "/Parent", {}), "/FT", None)
        box = _read_box(entry(annotation, "/Rect", None))
        if kind == "/Sig" and box is not None:
            yield box


def _overlap(one: _Box, other: _Box) -> bool:
    return (
        one[0] < other[2] - _SLACK
        and other[0] < one[2] - _SLACK
        and one[1] < other[3] - _SLACK
        and other[1] < one[3] - _SLACK
    )


def _find_field(writer: Any, stamp: Stamp, entry: Entry) -> Spot | None:
    """Return the empty field of that name at the top of the form, with its only widget; None where there is none."""
    for member in entry(entry(writer.root, "/AcroForm", {}), "/Fields", ()):
        field = member.get_object()
        if entry(field, "/T", None) != stamp.choice.field or entry(field, "/FT", None) != "/Sig":
            continue
        if entry(field, "/V", None) is not None:
            return None
        for key, what in (("/Lock", "locks what it signs"), ("/SV", "asks for a certain kind of signature")):
            if entry(field, key, None) is not None:
                raise FormatRefused(
                    f"The signature field {stamp.choice.field} of the PDF {what} ({key}), which is not done here.",
                    place=f"field {stamp.choice.field}, {key}",
                    remedy="Have the field made without that, or name another in Appearance:Field.",
                )
        kids = list(entry(field, "/Kids", ()))
        if len(kids) > 1:
            return None
        widget = kids[0].get_object() if kids else field
        box = _read_box(entry(widget, "/Rect", None))
        page = entry(widget, "/P", None)
        sheet = None if page is None else _Sheet.of(page, entry)
        rotation, unit = (0, 1.0) if sheet is None else (sheet.rotation, sheet.unit)
        if box is None:
            return Spot(None, (0, 0, 0, 0), 0, (0, 0), field, widget)
        size = ((box[2] - box[0]) * unit, (box[3] - box[1]) * unit)
        return Spot(None, box, rotation, size[::-1] if rotation % 180 else size, field, widget)
    return None


def _inherited(page: Any, key: str, entry: Entry) -> Any:
    for _ in range(_MOST_LEVELS):
        value = entry(page, key, None)
        if value is not None:
            return value
        page = entry(page, "/Parent", None)
        if not isinstance(page, dict):
            break
    return None


def _read_box(value: Any) -> _Box | None:
    """Read a rectangle with its corners in order; None where it is none, or has no area."""
    if value is None or len(value) != 4:
        return None
    x0, y0, x1, y1 = (float(number.get_object() if hasattr(number, "get_object") else number) for number in value)
    box = (min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))
    return box if box[0] < box[2] and box[1] < box[3] else None
