"""Plain XML signatures of the NF-e family: the signature stands right after the element it signs (BEY-13).

One reference to the `Id` of that element, two transforms, no prefix, the signer's certificate alone, all in one line.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import BinaryIO

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from lxml import etree

from bulksigner.contract.certificate import Digest, KeyAlgorithm, OpenedKey
from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.signing import Measured
from bulksigner.formats.xml_element import find_of_family
from bulksigner.formats.xml_splice import Place, find_end, find_place, read_staged, splice
from bulksigner.formats.xmldsig import (
    C14N,
    DS,
    ENVELOPED,
    SIGNATURE_METHODS,
    Scope,
    canonical_element,
    encode_base64,
    parse_document,
    raw_ecdsa,
    reference,
    refuse_conflicts,
    signed_info,
)

__all__ = ["PlainXmlSigner", "look_at_plain_xml"]

_METHODS: Mapping[tuple[KeyAlgorithm, Digest], str] = MappingProxyType(
    {**SIGNATURE_METHODS, (KeyAlgorithm.RSA, Digest.SHA1): f"{DS}rsa-sha1"}
)


class PlainXmlSigner:
    """Signs XML files with one opened key; safe in several threads where the key is."""

    def __init__(self, key: OpenedKey, spec: SignatureSpec) -> None:
        public_key = x509.load_der_x509_certificate(key.certificate).public_key()
        method = _METHODS.get((key.algorithm, spec.digest))
        if method is None:
            raise PermanentFailure(f"A {key.algorithm.name} key makes no XML signature with {spec.digest.value}.")
        self._key = key
        self._digest = spec.digest
        self._method = method
        self._curve_bytes = (public_key.key_size + 7) // 8 if isinstance(public_key, ec.EllipticCurvePublicKey) else 0
        certificate = f"<X509Certificate>{encode_base64(key.certificate)}</X509Certificate>"
        self._key_info = f"<KeyInfo><X509Data>{certificate}</X509Data></KeyInfo>"

    def sign(self, source: BinaryIO, target: BinaryIO, *, expected: Measured, signed_at: datetime.datetime) -> Measured:  # noqa: ARG002 - these signatures tell no time
        """Sign the one element that documents of this family have signed; see `FileSigner`."""
        data, element, end = _read_document(source, expected)
        return splice(target, data, end, self._signature(element))

    def _signature(self, element: etree._Element) -> str:
        parent = element.getparent()
        scope = Scope.of(parent if parent is not None else element)
        info = signed_info(
            self._method,
            reference(
                uri=f"#{element.get('Id')}",
                transforms=(ENVELOPED, C14N),
                digest=self._digest,
                value=hashlib.new(self._digest.value, canonical_element(element)).digest(),
                prefix="",
            ),
            prefix="",
        )
        value = self._key.sign(f"{scope.start_tag('SignedInfo', {'': DS})}{info}</SignedInfo>".encode(), self._digest)
        if self._key.algorithm is KeyAlgorithm.ECDSA:
            value = raw_ecdsa(value, self._curve_bytes)
        return (
            f'<Signature xmlns="{DS}"><SignedInfo>{info}</SignedInfo>'
            f"<SignatureValue>{encode_base64(value)}</SignatureValue>{self._key_info}</Signature>"
        )


def look_at_plain_xml(source: BinaryIO, expected: Measured) -> None:
    """Raise `FormatRefused` where `PlainXmlSigner.sign` would, without a key (BEY-12)."""
    _, element, _ = _read_document(source, expected)
    canonical_element(element)


def _read_document(source: BinaryIO, expected: Measured) -> tuple[bytes, etree._Element, Place]:
    """Read a file; return it, the element to sign, and where the signature goes."""
    data = read_staged(source, expected)
    codec = find_place(data).codec
    root = parse_document(data)
    element, ordinal = find_of_family(root)
    refuse_conflicts(root, element.getparent())
    return data, element, find_end(data, codec, ordinal)
