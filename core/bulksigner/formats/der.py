"""DER for the signing side and for policy files (X.690); the checks have a reader of their own (PERF-04)."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import TypeVar

__all__ = [
    "NULL",
    "content",
    "dotted",
    "element",
    "explicit",
    "integer",
    "members",
    "object_identifier",
    "octet_string",
    "prefix",
    "sequence",
    "set_of",
    "time",
]

NULL = b"\x05\x00"
Encoding = TypeVar("Encoding", bytes, memoryview)


def prefix(tag: int, length: int) -> bytes:
    """Encode the tag and the length octets of an element whose content is `length` bytes (X.690 8.1.3, 10.1)."""
    if length < 0x80:
        return bytes((tag, length))
    octets = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(octets))) + octets


def element(tag: int, content: bytes) -> bytes:
    """Encode one element."""
    return prefix(tag, len(content)) + content


def sequence(*parts: bytes) -> bytes:
    """Encode a SEQUENCE of encoded members."""
    return element(0x30, b"".join(parts))


def set_of(parts: Iterable[bytes], tag: int = 0x31) -> bytes:
    """Encode a SET OF, members in ascending order of their encodings (X.690 11.6)."""
    return element(tag, b"".join(sorted(parts)))


def explicit(number: int, content: bytes) -> bytes:
    """Wrap an encoded element in the constructed context tag `number`."""
    return element(0xA0 | number, content)


def octet_string(content: bytes) -> bytes:
    """Encode an OCTET STRING."""
    return element(0x04, content)


def integer(value: int) -> bytes:
    """Encode a non-negative INTEGER."""
    return element(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def object_identifier(dotted: str) -> bytes:
    """Encode an OBJECT IDENTIFIER given in dotted form (X.690 8.19)."""
    first, second, *rest = (int(arc) for arc in dotted.split("."))
    content = bytearray()
    for arc in (first * 40 + second, *rest):
        groups = [arc & 0x7F]
        while arc := arc >> 7:
            groups.append(0x80 | arc & 0x7F)
        content.extend(reversed(groups))
    return element(0x06, bytes(content))


def time(moment: datetime.datetime) -> bytes:
    """Encode an aware moment to the second: UTCTime from 1950 to 2049, else GeneralizedTime (RFC 5652 11.3)."""
    utc = moment.astimezone(datetime.UTC)
    if 1950 <= utc.year < 2050:
        return element(0x17, utc.strftime("%y%m%d%H%M%SZ").encode())
    return element(0x18, f"{utc.year:04}{utc:%m%d%H%M%SZ}".encode())


def members(encoded: Encoding) -> list[Encoding]:
    """Split a constructed element into the encodings of its members; raise `ValueError` where it is not DER."""
    position, end = _content(encoded, 0)
    found = []
    while position < end:
        following = _content(encoded, position)[1]
        found.append(encoded[position:following])
        position = following
    if position != end or end != len(encoded):
        raise ValueError("DER element does not end where its length says")
    return found


def content(encoded: Encoding) -> Encoding:
    """Return the content octets of one encoded element; raise `ValueError` where it is not DER."""
    start, end = _content(encoded, 0)
    if end != len(encoded):
        raise ValueError("DER element does not end where its length says")
    return encoded[start:]


def dotted(encoded: bytes) -> str:
    """Read an OBJECT IDENTIFIER; raise `ValueError` where it is none."""
    octets = content(encoded)
    if encoded[0] != 0x06 or not octets or octets[-1] & 0x80:
        raise ValueError("DER element is no object identifier")
    arcs, value = [], 0
    for octet in octets:
        value = value << 7 | octet & 0x7F
        if not octet & 0x80:
            arcs.append(value)
            value = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))


def _content(encoded: bytes | memoryview, position: int) -> tuple[int, int]:
    if position + 2 > len(encoded):
        raise ValueError("DER element is cut off")
    length = encoded[position + 1]
    start = position + 2
    if length >= 0x80:
        start += length & 0x7F
        length = int.from_bytes(encoded[position + 2 : start], "big")
    return start, start + length
