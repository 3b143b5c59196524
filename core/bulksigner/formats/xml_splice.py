"""Place of the signature in an XML file's own bytes, and the writing of both (BEY-12, SEC-70).

Expat reads the file first: it refuses what must not be parsed any further, and it knows the byte offset of the root's
end tag. What is written is the input, byte for byte, with the signature before that tag.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import BinaryIO
from xml.parsers import expat

import attrs

from bulksigner.contract.signing import Measured
from bulksigner.formats.model import ContentChanged, FormatRefused

__all__ = [
    "MAX_ATTRIBUTES",
    "MAX_DEPTH",
    "MAX_DOCUMENT_BYTES",
    "MAX_NAMESPACES",
    "MAX_NAMESPACE_SEARCHES",
    "MAX_NODES",
    "Place",
    "find_end",
    "find_place",
    "read_staged",
    "splice",
]

MAX_DOCUMENT_BYTES = 32 * 1024 * 1024
"""Largest file that is signed."""

MAX_NODES = 1_000_000
"""Most elements, attributes, namespace declarations, comments and instructions; each takes some 200 bytes of memory."""

MAX_DEPTH = 200
"""Deepest nesting of elements; libxml2 ends at 256."""

MAX_ATTRIBUTES = 256
"""Most attributes of one element: the canonical form sorts them by insertion, at quadratic cost."""

MAX_NAMESPACES = 128
"""Most namespace declarations in scope."""

MAX_NAMESPACE_SEARCHES = 400_000_000
"""Most steps of the canonical form's search: for each element the square of the declarations in scope; 2 s of CPU."""

_BYTE_ORDER_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))

# Declared name, and the byte order marks it agrees with; every name is known to expat or Python, libxml2 and xmlsec1.
_ENCODINGS: Mapping[str, Mapping[str | None, str]] = MappingProxyType(
    {
        "UTF-8": {None: "utf-8", "utf-8": "utf-8"},
        "UTF-16": {"utf-16-le": "utf-16-le", "utf-16-be": "utf-16-be"},
        "US-ASCII": {None: "ascii"},
        "ISO-8859-1": {None: "latin-1"},
        "WINDOWS-1252": {None: "cp1252"},
    }
)

# Names come from the file and end up in messages that are stored.
_SHOWN = 100

# So few make elements that are nested less deeply than `MAX_DEPTH`, each but the last with two of them.
_FEW_TAGS = 2 * MAX_DEPTH

_TOO_MANY_NODES = f"more than {MAX_NODES} elements, attributes and other nodes"

# libxml2 writes these raw into a canonical namespace declaration, other verifiers escape them: digests would differ.
_UNPORTABLE_IN_NAMESPACE = frozenset("&<>\"' \t\r\n")


@attrs.frozen
class Place:
    """Where the signature goes: the byte offset of the root's end tag, and the codec of the text around it."""

    offset: int
    codec: str


def read_staged(source: BinaryIO, expected: Measured) -> bytes:
    """Read the whole file from its start, in the one read that is hashed and signed (PIPE-77).

    Raises `FormatRefused` for a file beyond `MAX_DOCUMENT_BYTES`, `ContentChanged` for bytes that are not `expected`.
    """
    if expected.length > MAX_DOCUMENT_BYTES:
        raise FormatRefused(
            f"The file has {expected.length} bytes; XML files are signed up to {MAX_DOCUMENT_BYTES} bytes."
        )
    source.seek(0)
    data = source.read(expected.length + 1)
    if len(data) != expected.length or hashlib.sha256(data).digest() != expected.sha256:
        raise ContentChanged("The file is not the one that was staged: its length or SHA-256 differs.")
    return data


def find_place(data: bytes) -> Place:
    """Find where the signature goes, refusing everything that is not plain well-formed XML 1.0.

    Raises `FormatRefused`; the text names the first defect and its line:column, both from 1.
    """
    scan = _Scan(data)
    if not scan.skim(data):
        scan = _Scan(data)
        scan.run(data)
    if not data.startswith("</".encode(scan.codec), scan.offset):
        raise FormatRefused("The root element is empty (<name/>); a signature has no place in it without a change.")
    return Place(scan.offset, scan.codec)


def find_end(data: bytes, codec: str, ordinal: int) -> Place:
    """Find the place right after an element that is not empty, given by its number in document order, from 0.

    The file has passed `find_place`.
    """
    count, stack, found = 0, [], -1
    parser = expat.ParserCreate()

    def open_element(_name: str, _attributes: object) -> None:
        nonlocal count
        stack.append(count)
        count += 1

    def close_element(_name: str) -> None:
        nonlocal found
        if stack.pop() == ordinal:
            found = parser.CurrentByteIndex

    parser.StartElementHandler = open_element
    parser.EndElementHandler = close_element
    try:
        parser.Parse(data, True)
    finally:
        parser.StartElementHandler = parser.EndElementHandler = None
    closing = ">".encode(codec)
    return Place(data.index(closing, found) + len(closing), codec)


def splice(target: BinaryIO, data: bytes, place: Place, signature: str) -> Measured:
    """Write `data` with `signature` at `place`, and measure what was written.

    `signature` is XML text without line breaks; what the ASCII subset lacks is written as character references.
    """
    inserted = signature.encode("ascii", "xmlcharrefreplace").decode("ascii").encode(place.codec)
    measure, length = hashlib.sha256(), 0
    view = memoryview(data)
    for part in (view[: place.offset], inserted, view[place.offset :]):
        target.write(part)
        measure.update(part)
        length += len(part)
    return Measured(length, measure.digest())


class _Scan:
    """One pass of expat over the file."""

    def __init__(self, data: bytes) -> None:
        self.offset = 0
        self._mark = next((codec for mark, codec in _BYTE_ORDER_MARKS if data.startswith(mark)), None)
        self.codec = self._mark or "utf-8"
        self._depth = 0
        self._namespaces = 0
        self._nodes = 0
        self._searches = 0
        if b"\0" in data[:2]:
            raise FormatRefused("The file is UTF-16 without a byte order mark, or no text at all; write the mark.")
        parser = expat.ParserCreate(None, " ")
        parser.ordered_attributes = True
        parser.XmlDeclHandler = self._declare
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.StartNamespaceDeclHandler = self._open_namespace
        parser.EndNamespaceDeclHandler = self._close_namespace
        parser.CommentHandler = parser.ProcessingInstructionHandler = self._count
        parser.StartElementHandler = self._open
        self._parser = parser

    def skim(self, data: bytes) -> bool:
        """Read a file that cannot reach a limit without being called for each element, which is most of the time.

        False where it is longer than that, or where the last end tag it seems to have is none; nothing is found then.
        """
        few = data.count(b"<") <= _FEW_TAGS and data.count(b"=") <= MAX_NAMESPACES
        last_tag = data.rfind(b"</") if few and self._mark in (None, "utf-8") else -1
        if last_tag < 0:
            return False
        self._parser.StartElementHandler = None
        self._depth = 1
        self.run(data, last_tag)
        return self._depth == 0

    def run(self, data: bytes, last_tag: int = 0) -> None:
        """Read the file, and be told of the end tags from `last_tag` on."""
        view = memoryview(data)
        try:
            self._parser.Parse(view[:last_tag], False)
            self._parser.EndElementHandler = self._close
            self._parser.Parse(view[last_tag:], True)
        except expat.ExpatError as error:
            text = expat.errors.messages[error.code]
            place = f"{error.lineno}:{error.offset + 1}"
            raise FormatRefused(f"Not well-formed XML at {place}: {text}.", place=place) from error
        except ValueError as error:
            raise self._refusal(f"characters that are not valid in {self.codec}") from error
        finally:
            # The parser holds this object by its bound methods; a cycle per file would be left to the collector.
            del self._parser

    def _refusal(self, defect: str) -> FormatRefused:
        parser = self._parser
        place = f"{parser.CurrentLineNumber}:{parser.CurrentColumnNumber + 1}"
        return FormatRefused(f"Refused at {place}: {defect}.", place=place)

    def _declare(self, version: str, encoding: str | None, _standalone: int) -> None:
        if version != "1.0":
            raise self._refusal(f"XML version {version[:_SHOWN]!r}; only 1.0 has a canonical form")
        if encoding is None:
            return
        agreeing = _ENCODINGS.get(encoding.upper())
        if agreeing is None:
            raise self._refusal(f"encoding {encoding[:_SHOWN]!r}; supported are {', '.join(_ENCODINGS)}")
        if self._mark not in agreeing:
            raise self._refusal(f"the declared encoding {encoding[:_SHOWN]!r} contradicts the bytes of the file")
        self.codec = agreeing[self._mark]

    def _refuse_doctype(self, _name: str, _system: str | None, _public: str | None, _internal: bool) -> None:
        raise self._refusal("a DOCTYPE declaration; document types and entities are never read")

    def _count(self, *_content: str) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._refusal(_TOO_MANY_NODES)

    def _open_namespace(self, _prefix: str | None, uri: str | None) -> None:
        self._namespaces += 1
        self._nodes += 1
        if self._namespaces > MAX_NAMESPACES:
            raise self._refusal(f"more than {MAX_NAMESPACES} namespaces in scope")
        if uri and not _UNPORTABLE_IN_NAMESPACE.isdisjoint(uri):
            raise self._refusal(
                f"namespace name {uri[:_SHOWN]!r}; blanks, quotes, '&', '<' and '>' do not verify everywhere"
            )

    def _close_namespace(self, _prefix: str | None) -> None:
        self._namespaces -= 1

    def _open(self, _name: str, attributes: Sequence[str]) -> None:
        self._depth += 1
        self._nodes += 1 + len(attributes) // 2
        self._searches += self._namespaces * self._namespaces
        if self._depth > MAX_DEPTH:
            raise self._refusal(f"elements nested deeper than {MAX_DEPTH}")
        if len(attributes) > 2 * MAX_ATTRIBUTES:
            raise self._refusal(f"an element with more than {MAX_ATTRIBUTES} attributes")
        if self._nodes > MAX_NODES:
            raise self._refusal(_TOO_MANY_NODES)
        if self._searches > MAX_NAMESPACE_SEARCHES:
            raise self._refusal(f"too many elements with {self._namespaces} namespaces in scope")

    def _close(self, _name: str) -> None:
        self._depth -= 1
        if not self._depth:
            self.offset = self._parser.CurrentByteIndex
