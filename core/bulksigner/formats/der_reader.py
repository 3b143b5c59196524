"""Strict DER reading for the checks; nothing of it is used in signing (PERF-04)."""

from __future__ import annotations

from typing import NamedTuple

from bulksigner.formats.model import CheckFailed

__all__ = [
    "INTEGER",
    "OBJECT_IDENTIFIER",
    "OCTET_STRING",
    "SEQUENCE",
    "SET",
    "Element",
    "Reader",
    "decode_length",
    "dotted",
]

SEQUENCE = 0x30
SET = 0x31
INTEGER = 0x02
OCTET_STRING = 0x04
OBJECT_IDENTIFIER = 0x06


class Element(NamedTuple):
    """One element: its tag, its content, and its whole encoding."""

    tag: int
    content: bytes
    encoded: bytes

    def reader(self, what: str) -> Reader:
        """Read the members of a constructed element."""
        return Reader(self.content, what)


class Reader:
    """Takes the elements of `data` one after the other; `what` names the data in failures."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._what = what
        self._position = 0

    @property
    def at_end(self) -> bool:
        """Tell whether nothing is left."""
        return self._position == len(self._data)

    def next_is(self, tag: int) -> bool:
        """Tell whether the next element has this tag."""
        return not self.at_end and self._data[self._position] == tag

    def take(self, tag: int | None = None) -> Element:
        """Take the next element, which must have `tag`."""
        data, start = self._data, self._position
        head = data[start : start + 2]
        if tag is not None and (not head or head[0] != tag):
            raise CheckFailed(f"The {self._what} lacks the element with tag {tag:#04x} at its byte {start}.")
        if len(head) == 2 and head[1] < 0x80:
            content, length = start + 2, head[1]
        else:
            length, octets = decode_length(data[start + 1 : start + 10], self._what)
            content = start + 1 + octets
        end = content + length
        if end > len(data):
            raise CheckFailed(f"The {self._what} is cut off within the element at its byte {start}.")
        self._position = end
        return Element(head[0], data[content:end], data[start:end])

    def take_all(self) -> list[Element]:
        """Take all that is left."""
        elements = []
        while not self.at_end:
            elements.append(self.take())
        return elements

    def finish(self) -> None:
        """Require that nothing is left."""
        if not self.at_end:
            raise CheckFailed(f"The {self._what} goes on after its byte {self._position}, where it should end.")


def decode_length(octets: bytes, what: str) -> tuple[int, int]:
    """Decode definite, shortest length octets (X.690 10.1); return the length and how many octets it took."""
    if not octets:
        raise CheckFailed(f"The {what} is cut off.")
    first = octets[0]
    if first < 0x80:
        return first, 1
    count = first & 0x7F
    value = int.from_bytes(octets[1 : 1 + count], "big")
    if not 0 < count < len(octets):
        raise CheckFailed(f"The {what} has a length that is not DER.")
    if value < 0x80 or octets[1] == 0:
        raise CheckFailed(f"The {what} has a length that is not in its shortest form.")
    return value, 1 + count


def dotted(identifier: Element) -> str:
    """Write an object identifier with dots (X.690 8.19)."""
    content = identifier.content
    if identifier.tag != OBJECT_IDENTIFIER or not content or content[-1] >= 0x80:
        raise CheckFailed("An object identifier of the signature cannot be read.")
    arcs = [0]
    for octet in content:
        arcs[-1] = arcs[-1] * 128 + octet % 128
        if octet < 0x80:
            arcs.append(0)
    first = min(arcs[0] // 40, 2)
    return ".".join(str(arc) for arc in (first, arcs[0] - first * 40, *arcs[1:-1]))
