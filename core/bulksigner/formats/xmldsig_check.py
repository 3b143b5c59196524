"""Strict reading of the parts of an XML signature, for the check after signing; shares nothing with the signer."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from types import MappingProxyType
from xml.parsers import expat

from cryptography.hazmat.primitives.asymmetric import ec, utils
from lxml import etree

from bulksigner.formats.model import CheckFailed

__all__ = [
    "canonicalize",
    "canonicalize_part",
    "decode_base64",
    "demand_attributes",
    "demand_children",
    "encode_ecdsa",
    "find_last_child",
    "parse_artifact",
    "read_digest_method",
    "refuse_foreign_nodes",
]

_XML = "{http://www.w3.org/XML/1998/namespace}"

_WIDE: Mapping[bytes, str] = MappingProxyType({b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"})

_DIGESTS: Mapping[str, str] = MappingProxyType(
    {"http://www.w3.org/2001/04/xmlenc#sha256": "sha256", "http://www.w3.org/2001/04/xmlenc#sha512": "sha512"}
)


def find_last_child(data: bytes, length: int) -> tuple[int, int]:
    """Find the byte range of the root's last child element, which must touch the root's end tag.

    `length` is what it should have. Raises `CheckFailed`, also for a document type, before any other parser sees the
    file.
    """
    codec = _WIDE.get(data[:2], "ascii")
    # A child of another length than expected is looked for from the start.
    expected = max(0, data.rfind("</".encode(codec)) - length)
    found = _find_last_child(data, expected) or _find_last_child(data, 0)
    if found is not None:
        start, end_tag, root_end_tag = found
        closing = ">".encode(codec)
        end = data.find(closing, end_tag) + len(closing)
        if end == root_end_tag:
            return start, end
    raise CheckFailed("No element ends right before the root's end tag, where the signature must be.")


def _find_last_child(data: bytes, first: int) -> tuple[int, int, int] | None:
    """Return the offsets of the root's last child, of its end tag and of the root's; None if it begins before `first`.

    Elements before `first` are read by expat alone: to be called for each is most of the time that this takes.
    """
    depth, child_end_tag, root_end_tag = 0, 0, 0
    starts: dict[int, int] = {}
    parser = expat.ParserCreate(None, " ")

    def refuse(*_declaration: object) -> None:
        raise CheckFailed("The signed file has a DOCTYPE declaration.")

    def open_element(_name: str, _attributes: object) -> None:
        nonlocal depth
        depth += 1
        starts[depth] = parser.CurrentByteIndex

    def close_element(_name: str) -> None:
        nonlocal depth, child_end_tag, root_end_tag
        depth -= 1
        child_end_tag, root_end_tag = root_end_tag, parser.CurrentByteIndex

    parser.ordered_attributes = True
    parser.StartDoctypeDeclHandler = refuse
    view = memoryview(data)
    try:
        parser.Parse(view[:first], False)
        parser.StartElementHandler = open_element
        parser.EndElementHandler = close_element
        parser.Parse(view[first:], True)
    except expat.ExpatError as error:
        raise CheckFailed(f"The signed file is not well-formed XML: {error}.") from error
    except (ValueError, LookupError) as error:
        raise CheckFailed("The signed file has characters or an encoding that cannot be read.") from error
    finally:
        parser.StartElementHandler = parser.EndElementHandler = None
    # By now the depth is counted from where the root ended: its children were two deeper.
    start = starts.get(depth + 2)
    return None if start is None else (start, child_end_tag, root_end_tag)


def parse_artifact(data: bytes) -> etree._Element:
    """Parse without DTD, entities or network (SEC-70)."""
    parser = etree.XMLParser(
        resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False, collect_ids=False
    )
    try:
        return etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError, LookupError) as error:
        raise CheckFailed(f"The signed file is not well-formed XML: {error}.") from error


def canonicalize(apex: etree._Element | etree._ElementTree) -> bytes:
    """Return the inclusive canonical form, without comments, of a whole document or of its root."""
    try:
        return etree.tostring(apex, method="c14n", exclusive=False, with_comments=False)
    except etree.C14NError as error:
        raise CheckFailed("The signed file has no canonical form: a namespace name is no absolute URI.") from error


def canonicalize_part(element: etree._Element) -> bytes:
    """Return the inclusive canonical form of one element in its document context.

    lxml drops inherited `xml:` attributes and confuses inherited default namespaces when asked for a part of a tree,
    so the element becomes a document of its own first, with all that it inherits.
    """
    apex = parse_artifact(etree.tostring(element, with_tail=False))
    for ancestor in element.iterancestors():
        for name, value in ancestor.attrib.items():
            if str(name).startswith(_XML) and name not in apex.attrib:
                apex.set(name, value)
    return canonicalize(apex)


def refuse_foreign_nodes(signature: etree._Element) -> None:
    """Refuse comments, processing instructions and text between elements: nothing signs them, or nothing reads them."""
    for node in signature.iter():
        if not isinstance(node.tag, str):
            raise CheckFailed("The signature holds a comment or a processing instruction.")
        if (len(node) and node.text) or (node is not signature and node.tail):
            raise CheckFailed("The signature holds text between its elements.")


def demand_children(element: etree._Element, *names: str) -> list[etree._Element]:
    """Return the children, which must be exactly the named ones in this order."""
    children = list(element)
    if [child.tag for child in children] != list(names):
        raise CheckFailed(f"{etree.QName(element).localname} has other content than expected.")
    return children


def demand_attributes(element: etree._Element, *names: str) -> None:
    """Demand exactly the named attributes, given in alphabetical order."""
    if sorted(map(str, element.attrib)) != list(names):
        raise CheckFailed(f"{etree.QName(element).localname} has other attributes than expected.")


def read_digest_method(method: etree._Element) -> str:
    """Return the `hashlib` name of an allowed `ds:DigestMethod`."""
    algorithm = method.get("Algorithm", "")
    if algorithm not in _DIGESTS:
        raise CheckFailed(f"The digest algorithm {algorithm[:100]!r} is not allowed.")
    return _DIGESTS[algorithm]


def decode_base64(element: etree._Element) -> bytes:
    """Decode base64 without blanks, in the one spelling its bytes have; others could be exchanged unnoticed."""
    text = (element.text or "").encode("ascii", "replace")
    try:
        value = binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error as error:
        raise CheckFailed(f"{etree.QName(element).localname} is not base64.") from error
    if len(element) or base64.b64encode(value) != text:
        raise CheckFailed(f"{etree.QName(element).localname} is not base64 in one line.")
    return value


def encode_ecdsa(raw: bytes, public_key: ec.EllipticCurvePublicKey) -> bytes:
    """Turn r and s side by side into the DER that the library verifies."""
    size = (public_key.key_size + 7) // 8
    if len(raw) != 2 * size:
        raise CheckFailed("The signature value has not the length of an ECDSA signature of this curve.")
    return utils.encode_dss_signature(int.from_bytes(raw[:size], "big"), int.from_bytes(raw[size:], "big"))
