"""XML signatures for signing: canonical forms, references, SignedInfo (XMLDSig 1.1, Canonical XML 1.0).

Canonical forms of what is added are composed, not serialised: the text is ours, only the start tag of the apex depends
on the document, through the namespaces and `xml:` attributes that inclusive canonicalization inherits from the root.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from types import MappingProxyType

import attrs
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from lxml import etree

from bulksigner.contract.certificate import Digest, KeyAlgorithm
from bulksigner.contract.errors import PermanentFailure
from bulksigner.formats.model import FormatRefused

__all__ = [
    "C14N",
    "DIGEST_METHODS",
    "DS",
    "ENVELOPED",
    "MAX_NAME_BYTES",
    "MAX_TEXT_BYTES",
    "SIGNATURE_METHODS",
    "Scope",
    "canonical_document",
    "canonical_element",
    "carriers_of_ids",
    "encode_base64",
    "escape_text",
    "parse_document",
    "raw_ecdsa",
    "reference",
    "refuse_conflicts",
    "signed_info",
]

DS = "http://www.w3.org/2000/09/xmldsig#"
C14N = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
ENVELOPED = f"{DS}enveloped-signature"

MAX_TEXT_BYTES = 10_000_000
"""Longest text, attribute value, comment or instruction; libxml2 ends there."""

MAX_NAME_BYTES = 50_000
"""Longest name of an element or attribute; libxml2 ends there."""

DIGEST_METHODS: Mapping[Digest, str] = MappingProxyType(
    {
        Digest.SHA1: f"{DS}sha1",
        Digest.SHA256: "http://www.w3.org/2001/04/xmlenc#sha256",
        Digest.SHA512: "http://www.w3.org/2001/04/xmlenc#sha512",
    }
)

SIGNATURE_METHODS: Mapping[tuple[KeyAlgorithm, Digest], str] = MappingProxyType(
    {
        (algorithm, digest): f"http://www.w3.org/2001/04/xmldsig-more#{algorithm.value}-{digest.value}"
        for algorithm in KeyAlgorithm
        for digest in (Digest.SHA256, Digest.SHA512)
    }
)

# Their texts advise to switch libxml2's protection off.
_LIMIT_ERRORS = frozenset(
    {
        etree.ErrorTypes.ERR_RESOURCE_LIMIT,
        etree.ErrorTypes.ERR_NAME_TOO_LONG,
        etree.ErrorTypes.ERR_COMMENT_NOT_FINISHED,
    }
)
_XML = "http://www.w3.org/XML/1998/namespace"
_XPATH_TRANSFORMS = frozenset(
    {"http://www.w3.org/TR/1999/REC-xpath-19991116", "http://www.w3.org/2002/06/xmldsig-filter2"}
)
_WHOLE_DOCUMENT = frozenset({"", "#xpointer(/)"})
_XPOINTER = re.compile(r"#xpointer\(id\((['\"])(?P<id>.*)\1\)\)")


def parse_document(data: bytes) -> etree._Element:
    """Parse a file that `find_place` let pass, without DTD, entities or network (SEC-70), and return its root.

    Raises `FormatRefused` with the line:column where libxml2 is stricter than expat.
    """
    parser = etree.XMLParser(
        resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False, collect_ids=False
    )
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        place = "{}:{}".format(*error.position)
        if error.code in _LIMIT_ERRORS:  # type: ignore[attr-defined] # lxml sets it, its stubs do not know
            raise FormatRefused(
                f"Refused at {place}: a text, attribute value, comment or instruction longer than "
                f"{MAX_TEXT_BYTES} bytes, or a name longer than {MAX_NAME_BYTES}.",
                place=place,
                remedy="Divide it, or have the file signed as CAdES.",
            ) from error
        raise FormatRefused(f"Not well-formed XML at {place}: {error.msg}.", place=place) from error


def canonical_document(root: etree._Element) -> bytes:
    """Return the inclusive canonical form, without comments, of the whole document: what the reference "" covers."""
    try:
        return etree.tostring(root.getroottree(), method="c14n", exclusive=False, with_comments=False)
    except etree.C14NError as error:
        raise FormatRefused(
            "The document has no canonical form: a namespace name in it is no absolute URI (Canonical XML 1.3)."
        ) from error


def canonical_element(element: etree._Element) -> bytes:
    """Return the inclusive canonical form, without comments, of one element in its document."""
    # lxml loses inherited xml: attributes and default namespaces of a part, so the part becomes a document first.
    apex = parse_document(etree.tostring(element, with_tail=False))
    for name, value in Scope.of(element).xml_attributes.items():
        apex.set(f"{{{_XML}}}{name}", value)
    return canonical_document(apex)


@attrs.frozen
class Scope:
    """What a child inherits in inclusive canonicalization; values as they stand in the document."""

    namespaces: Mapping[str | None, str]
    xml_attributes: Mapping[str, str]

    @classmethod
    def of(cls, parent: etree._Element) -> Scope:
        """Read what the children of an element inherit from it and from what is around it."""
        prefix = f"{{{_XML}}}"
        inherited: dict[str, str] = {}
        for element in (*reversed(list(parent.iterancestors())), parent):
            inherited.update(
                (str(name).removeprefix(prefix), str(value))
                for name, value in element.attrib.items()
                if str(name).startswith(prefix)
            )
        # An apex that is in no namespace says nothing of it (Canonical XML 1.0, 2.3).
        namespaces = {name: uri for name, uri in parent.nsmap.items() if name != "xml" and uri}
        return cls(namespaces=namespaces, xml_attributes=inherited)

    def start_tag(self, name: str, declared: Mapping[str, str], identifier: str = "") -> str:
        """Return the canonical start tag of an apex element.

        `declared` are the namespaces that elements between the root and this one add, `identifier` its `Id` if any.
        """
        namespaces = {**{prefix or "": uri for prefix, uri in self.namespaces.items()}, **declared}
        parts = [name]
        parts += [
            f'xmlns{":" if prefix else ""}{prefix}="{_escape_attribute(uri)}"'
            for prefix, uri in sorted(namespaces.items())
        ]
        if identifier:
            parts.append(f'Id="{identifier}"')
        parts += [f'xml:{local}="{_escape_attribute(value)}"' for local, value in sorted(self.xml_attributes.items())]
        return f"<{' '.join(parts)}>"


def refuse_conflicts(root: etree._Element, parent: etree._Element | None = None) -> None:
    """Refuse a document whose own signatures forbid another one in `parent`, which is the root where none is given.

    Signatures that the document holds stay. One that covers the place of the new one would stop verifying, unless it
    has an XPath transform, whose use is to leave other signatures out. A referenced `Id` that several elements carry
    (BEY-12) has no certain meaning.
    """
    if root.tag == f"{{{DS}}}Signature":
        raise FormatRefused("The document is itself an XML signature; a signature cannot be put into it.")
    references = root.findall(f".//{{{DS}}}SignedInfo/{{{DS}}}Reference")
    carriers = carriers_of_ids(root) if references else {}
    around = [root] if parent is None else [parent, *parent.iterancestors()]
    for found in references:
        uri, line = found.get("URI", ""), found.sourceline
        referenced = [root] if uri in _WHOLE_DOCUMENT else carriers.get(_referenced_id(uri), [])
        if len(referenced) > 1:
            raise FormatRefused(
                f"Refused at {line}:1: a signature refers to {uri[:100]!r}, which several elements carry.",
                place=f"{line}:1",
            )
        transforms = {transform.get("Algorithm") for transform in found.iter(f"{{{DS}}}Transform")}
        if any(one in around for one in referenced) and transforms.isdisjoint(_XPATH_TRANSFORMS):
            what = "its whole content" if root in referenced else "the element where the new one belongs"
            raise FormatRefused(
                f"Refused at {line}:1: the document holds a signature over {what}, which another "
                "signature would break; sign the file as it was before, or sign it detached as CAdES.",
                place=f"{line}:1",
            )


def carriers_of_ids(root: etree._Element) -> dict[str, list[etree._Element]]:
    """Return the elements that carry each value of an attribute that may be an identifier."""
    carriers: dict[str, list[etree._Element]] = {}
    for element in root.iter(etree.Element):
        for value in {element.get(name) for name in ("Id", "ID", "id", f"{{{_XML}}}id")} - {None}:
            carriers.setdefault(str(value), []).append(element)
    return carriers


def _referenced_id(uri: str) -> str:
    pointer = _XPOINTER.fullmatch(uri)
    return pointer["id"] if pointer else uri.removeprefix("#")


def reference(
    *,
    uri: str,
    transforms: tuple[str, ...],
    digest: Digest,
    value: bytes,
    identifier: str = "",
    type_uri: str = "",
    prefix: str = "ds:",
) -> str:
    """Return a `Reference` to what has the digest `value`, every transform named."""
    attributes = "".join(
        f' {name}="{text}"'
        for name, text in (("Id", identifier), ("Type", type_uri), ("URI", uri))
        if text or name == "URI"
    )
    named = "".join(f'<{prefix}Transform Algorithm="{transform}"></{prefix}Transform>' for transform in transforms)
    if named:
        named = f"<{prefix}Transforms>{named}</{prefix}Transforms>"
    return (
        f"<{prefix}Reference{attributes}>{named}"
        f'<{prefix}DigestMethod Algorithm="{DIGEST_METHODS[digest]}"></{prefix}DigestMethod>'
        f"<{prefix}DigestValue>{encode_base64(value)}</{prefix}DigestValue></{prefix}Reference>"
    )


def signed_info(method: str, *references: str, prefix: str = "ds:") -> str:
    """Return the content of `SignedInfo`, without its own tags."""
    return (
        f'<{prefix}CanonicalizationMethod Algorithm="{C14N}"></{prefix}CanonicalizationMethod>'
        f'<{prefix}SignatureMethod Algorithm="{method}"></{prefix}SignatureMethod>{"".join(references)}'
    )


def raw_ecdsa(der: bytes, size_bytes: int) -> bytes:
    """Turn an `Ecdsa-Sig-Value` into r and s side by side, each `size_bytes` long (RFC 4050 3.3)."""
    try:
        r, s = decode_dss_signature(der)
        return r.to_bytes(size_bytes, "big") + s.to_bytes(size_bytes, "big")
    except (ValueError, OverflowError) as error:
        raise PermanentFailure("The key returned something that is not an ECDSA signature of its curve.") from error


def encode_base64(value: bytes) -> str:
    """Encode in one line, as `X509Certificate` and all values are written here."""
    return base64.b64encode(value).decode("ascii")


def escape_text(text: str) -> str:
    """Escape character data as its canonical form has it (Canonical XML 2.3)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#xD;")


def _escape_attribute(text: str) -> str:
    for character, escaped in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        ('"', "&quot;"),
        ("\t", "&#x9;"),
        ("\n", "&#xA;"),
        ("\r", "&#xD;"),
    ):
        text = text.replace(character, escaped)
    return text
