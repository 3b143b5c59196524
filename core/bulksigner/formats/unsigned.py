"""Adds what is not signed to a finished signature, such as its time stamp; every other byte stays (CAdES-T, XAdES-T).

PDF: the CMS is stamped before it goes into `/Contents`, whose room must have been reserved with `stamp_room`.
"""

from __future__ import annotations

import base64
import binascii

from lxml import etree

from bulksigner.contract.errors import PermanentFailure
from bulksigner.formats import der
from bulksigner.formats.xml_splice import find_place
from bulksigner.formats.xmldsig import C14N, DS
from bulksigner.formats.xmldsig_check import canonicalize_part, parse_artifact

__all__ = [
    "SIGNATURE_TIMESTAMP",
    "add_cms_timestamp",
    "add_cms_unsigned",
    "add_xml_timestamp",
    "encode_timestamp",
    "encode_xml_stamp",
    "encode_xml_timestamp",
    "list_cms_unsigned",
    "list_xml_timestamps",
    "open_cms",
    "read_timestamp",
    "stamp_room",
    "stamped_in_cms",
    "stamped_in_xml",
]

SIGNATURE_TIMESTAMP = "1.2.840.113549.1.9.16.2.14"
"""The unsigned attribute that holds the time stamp of a signature (RFC 5126 6.1.1)."""

_UNSIGNED_TAG = 0xA1
_OCTET_STRING = 0x04
_SIGNED_DATA = der.object_identifier("1.2.840.113549.1.7.2")
_XADES = "http://uri.etsi.org/01903/v1.3.2#"
_SPARE_BYTES = 1024
"""Tokens of one service differ by the length of serial number, time and signature; this is far beyond it."""
_END_OF_PROPERTIES = "</xades:QualifyingProperties>"
_END_OF_UNSIGNED = "</xades:UnsignedSignatureProperties></xades:UnsignedProperties>"


def stamp_room(token: bytes) -> int:
    """Return how many bytes a signature may grow by with a time stamp such as `token`, lengths of all around it too."""
    return len(_attribute(SIGNATURE_TIMESTAMP, token)) + _SPARE_BYTES


def stamped_in_cms(cms: bytes) -> bytes:
    """Return what the time stamp of a CMS with one signer covers: its signature value."""
    signer = open_cms(cms)[-1]
    value = next((member for member in signer[::-1] if member[0] == _OCTET_STRING), None)
    if value is None:
        raise PermanentFailure("The CMS has no signature value.")
    header = 2 if value[1] < 0x80 else 2 + (value[1] & 0x7F)
    return value[header:]


def encode_timestamp(token: bytes) -> bytes:
    """Encode the unsigned attributes of a signer that has a time stamp and no others (RFC 5652 5.3)."""
    return der.set_of((_attribute(SIGNATURE_TIMESTAMP, token),), _UNSIGNED_TAG)


def read_timestamp(unsigned: bytes) -> bytes:
    """Return the token out of what `encode_timestamp` wrote."""
    (attribute,) = _members(unsigned)
    return _members(_members(attribute)[1])[0]


def add_cms_timestamp(cms: bytes, token: bytes) -> bytes:
    """Return the CMS with the token as time stamp of its signature."""
    return add_cms_unsigned(cms, SIGNATURE_TIMESTAMP, token)


def add_cms_unsigned(cms: bytes, oid: str, value: bytes) -> bytes:
    """Return a DER CMS of one signer with one more unsigned attribute; raises `PermanentFailure` for anything else."""
    outer, signed, signer = open_cms(cms)
    attribute = _attribute(oid, value)
    if signer[-1][0] == _UNSIGNED_TAG:
        unsigned = der.set_of((*_members(signer[-1]), attribute), _UNSIGNED_TAG)
        signer = [*signer[:-1], unsigned]
    else:
        signer = [*signer, der.set_of((attribute,), _UNSIGNED_TAG)]
    return der.sequence(outer[0], der.explicit(0, der.sequence(*signed[:-1], der.set_of((der.sequence(*signer),)))))


def list_cms_unsigned(cms: bytes) -> list[tuple[bytes, bytes]]:
    """Return the encoded type and the encoded first value of each unsigned attribute."""
    last = open_cms(cms)[-1][-1]
    if last[0] != _UNSIGNED_TAG:
        return []
    found = []
    for attribute in _members(last):
        kind, values = _members(attribute)
        found.append((kind, _members(values)[0]))
    return found


def stamped_in_xml(document: bytes) -> bytes:
    """Return what the time stamp of the last signature of a document covers: its `SignatureValue`, canonical."""
    return canonicalize_part(_find_values(parse_artifact(document))[-1])


def add_xml_timestamp(document: bytes, token: bytes) -> bytes:
    """Return a document that `XadesSigner` signed with the token as time stamp of its last signature."""
    codec = find_place(document).codec
    end = document.rfind(_END_OF_PROPERTIES.encode(codec))
    if end < 0:
        raise PermanentFailure("The document has no XAdES signature of this product.")
    stamp = _xml_timestamp(token)
    closing = _END_OF_UNSIGNED.encode(codec)
    if document.endswith(closing, 0, end):
        place, added = end - len(closing), stamp
    else:
        place = end
        added = encode_xml_timestamp(token)
    return b"".join((document[:place], added.encode(codec), document[place:]))


def encode_xml_timestamp(token: bytes) -> str:
    """Return the `UnsignedProperties` of a XAdES signature that has a time stamp and nothing else unsigned."""
    opening = "<xades:UnsignedProperties><xades:UnsignedSignatureProperties>"
    return f"{opening}{_xml_timestamp(token)}{_END_OF_UNSIGNED}"


def _xml_timestamp(token: bytes) -> str:
    return f"<xades:SignatureTimeStamp>{encode_xml_stamp(token)}</xades:SignatureTimeStamp>"


def encode_xml_stamp(token: bytes) -> str:
    """Return the content of a XAdES time stamp of any kind (EN 319 132-1, 5.1.4.3)."""
    return (
        f'<ds:CanonicalizationMethod Algorithm="{C14N}"></ds:CanonicalizationMethod>'
        f"<xades:EncapsulatedTimeStamp>{base64.b64encode(token).decode()}</xades:EncapsulatedTimeStamp>"
    )


def list_xml_timestamps(document: bytes) -> list[bytes]:
    """Return the tokens in the last signature of a document; raises `PermanentFailure` for one that is no base64."""
    signature = _find_values(parse_artifact(document))[-1].getparent()
    found = [] if signature is None else signature.iter(f"{{{_XADES}}}EncapsulatedTimeStamp")
    try:
        return [base64.b64decode("".join((one.text or "").split()), validate=True) for one in found]
    except binascii.Error as error:
        raise PermanentFailure("A time stamp of the signature is no base64.") from error


def _find_values(root: etree._Element) -> list[etree._Element]:
    values = list(root.iter(f"{{{DS}}}SignatureValue"))
    if not values:
        raise PermanentFailure("The document has no signature.")
    return values


def _attribute(oid: str, value: bytes) -> bytes:
    return der.sequence(der.object_identifier(oid), der.set_of((value,)))


def open_cms(cms: bytes) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Split a DER CMS down to its one signer: the members of ContentInfo, SignedData and SignerInfo."""
    try:
        outer = der.members(cms)
        if len(outer) != 2 or outer[0] != _SIGNED_DATA:
            raise ValueError
        signed = der.members(der.members(outer[1])[0])
        signers = der.members(signed[-1])
        if len(signers) != 1:
            raise ValueError
        return outer, signed, der.members(signers[0])
    except (ValueError, IndexError) as error:
        raise PermanentFailure("The signature is no DER CMS with one signer, so nothing can be added to it.") from error


def _members(encoded: bytes) -> list[bytes]:
    try:
        return der.members(encoded)
    except (ValueError, IndexError) as error:
        raise PermanentFailure("The unsigned part of the signature is damaged.") from error
