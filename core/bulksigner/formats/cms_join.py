"""Further signatures on a CMS file that arrives signed: beside those that are there, or over them (RFC 5652 5.3, 11.4).

Everything that arrived is kept byte for byte but for the lengths around it, so earlier signatures stay valid.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Sequence
from typing import BinaryIO

import attrs

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.policy import Joining, SignatureSpec
from bulksigner.contract.signing import Measured
from bulksigner.formats import der
from bulksigner.formats.cms import COUNTERSIGNATURE, DATA, SIGNED_DATA, SignedData
from bulksigner.formats.measuring import MeasuringWriter, require_same
from bulksigner.formats.model import FormatRefused

__all__ = ["MAX_FILE_BYTES", "JoiningSigner", "look_at_cms"]

MAX_FILE_BYTES = 512 * 1024 * 1024
"""Largest file that is signed further; it is held in memory once."""

_DIGESTS, _ENCAPSULATED, _CERTIFICATES, _LISTS, _SIGNERS = 0x31, 0x30, 0xA0, 0xA1, 0x31
_OCTETS, _SIGNED, _UNSIGNED = 0x04, 0xA0, 0xA1
_NOT_DER = (
    "The file is not a CMS SignedData in DER ({}). One with indefinite lengths can be turned into DER: "
    "openssl cms -cmsout -inform DER -in FILE -outform DER -out FILE"
)


@attrs.frozen
class _Arrived:
    """The parts of a SignedData, as views into the file."""

    version: memoryview
    digests: list[memoryview]
    encapsulated: memoryview
    content: memoryview
    certificates: list[memoryview]
    lists: memoryview
    signers: list[memoryview]


@attrs.frozen
class _Countered:
    """The parts of a SignerInfo: what stays, the octets of its signature, and what is unsigned."""

    kept: list[bytes]
    signature: bytes
    others: list[bytes]
    counters: list[bytes]

    def add(self, counter: bytes) -> bytes:
        """Return the SignerInfo with one more countersignature in the attribute that holds them."""
        attribute = der.sequence(COUNTERSIGNATURE, der.set_of([counter, *self.counters]))
        return der.sequence(*self.kept, der.set_of([*self.others, attribute], tag=_UNSIGNED))


class JoiningSigner:
    """Adds signatures of one opened key to files that are CMS with their content inside."""

    def __init__(self, key: OpenedKey, spec: SignatureSpec) -> None:
        self._key = key
        self._spec = spec
        self._signed_data = SignedData(key, spec, with_signing_time=spec.cades_signing_time)

    def sign(self, source: BinaryIO, target: BinaryIO, *, expected: Measured, signed_at: datetime.datetime) -> Measured:
        """Write the file with its further signature to `target`; see `FileSigner.sign`."""
        data = _read_file(source, expected)
        try:
            arrived = _read(memoryview(data))
            signers = self._join(arrived, signed_at)
        except (ValueError, IndexError) as error:
            raise FormatRefused(_NOT_DER.format(error)) from error
        measuring = MeasuringWriter(target)
        for part in self._assemble(arrived, signers):
            measuring.write(part)
        return measuring.measured

    def _join(self, arrived: _Arrived, signed_at: datetime.datetime) -> list[bytes]:
        """Return all SignerInfos of the new file."""
        layout, digest = self._signed_data, self._spec.digest
        signers = [bytes(signer) for signer in arrived.signers]
        if self._spec.joining is Joining.PARALLEL:
            if layout.issuer_and_serial in [_named_by(signer) for signer in signers]:
                raise FormatRefused("The file has a signature of this certificate already.")
            attributes = layout.attributes(hashlib.new(digest.value, arrived.content).digest(), signed_at)
            return [*signers, layout.signer(attributes, self._key.sign(attributes, digest))]
        joined = []
        # All are taken apart before the key is used for the first.
        for countered in [_split_signer(signer) for signer in signers]:
            attributes = layout.counter_attributes(hashlib.new(digest.value, countered.signature).digest(), signed_at)
            joined.append(countered.add(layout.signer(attributes, self._key.sign(attributes, digest))))
        return joined

    def _assemble(self, arrived: _Arrived, signers: Sequence[bytes]) -> list[bytes | memoryview]:
        digests = {bytes(one) for one in arrived.digests} | {self._signed_data.digest_algorithm}
        certificates = {bytes(one) for one in arrived.certificates} | set(self._signed_data.certificates)
        inner: list[bytes | memoryview] = [
            arrived.version,
            der.set_of(digests, tag=_DIGESTS),
            arrived.encapsulated,
            der.set_of(certificates, tag=_CERTIFICATES),
            arrived.lists,
            der.set_of(signers, tag=_SIGNERS),
        ]
        length = sum(len(part) for part in inner)
        opening = der.prefix(0x30, length)
        wrapper = der.prefix(0xA0, len(opening) + length)
        whole = der.prefix(0x30, len(SIGNED_DATA) + len(wrapper) + len(opening) + length)
        return [whole + SIGNED_DATA + wrapper + opening, *inner]


def look_at_cms(source: BinaryIO, expected: Measured, joining: Joining) -> None:
    """Raise `FormatRefused` where `JoiningSigner.sign` would refuse the file for itself, without a key (BEY-10)."""
    data = _read_file(source, expected)
    try:
        arrived = _read(memoryview(data))
        for signer in arrived.signers:
            (_split_signer if joining is Joining.COUNTER else _named_by)(bytes(signer))
    except (ValueError, IndexError) as error:
        raise FormatRefused(_NOT_DER.format(error)) from error


def _named_by(signer: bytes) -> bytes:
    """Return by what a signer's certificate is named, encoded."""
    return der.members(signer)[1]


def _read_file(source: BinaryIO, expected: Measured) -> bytes:
    if expected.length > MAX_FILE_BYTES:
        raise FormatRefused(
            f"The file has {expected.length} bytes; signed files are signed further up to {MAX_FILE_BYTES} bytes."
        )
    source.seek(0)
    data = source.read(expected.length + 1)
    require_same(Measured(len(data), hashlib.sha256(data).digest()), expected)
    return data


def _read(data: memoryview) -> _Arrived:
    """Split a file into its parts; raises `ValueError` or `IndexError` where it is not DER."""
    kind, wrapper = der.members(data)
    if bytes(kind) != SIGNED_DATA or wrapper[0] != 0xA0:
        raise FormatRefused("The file is not a CMS SignedData; only a signed file is signed further.")
    (body,) = der.members(wrapper)
    version, digests, encapsulated, *rest = der.members(body)
    certificates = rest.pop(0) if rest and rest[0][0] == _CERTIFICATES else None
    lists = rest.pop(0) if rest and rest[0][0] == _LISTS else memoryview(b"")
    (signers,) = rest
    if (digests[0], encapsulated[0], signers[0]) != (_DIGESTS, _ENCAPSULATED, _SIGNERS):
        raise ValueError("its parts are in another order")
    content_type, *inside = der.members(encapsulated)
    if bytes(content_type) != DATA:
        raise FormatRefused("The CMS contains another type of content than data; it is not signed further.")
    if not inside:
        raise FormatRefused(
            "The signature that arrived is detached; it is signed further only with its content inside."
        )
    (octets,) = der.members(inside[0])
    found = der.members(signers)
    if octets[0] != _OCTETS:
        raise ValueError("its content is in pieces")
    if not found:
        raise FormatRefused("The CMS has no signature that could be signed further.")
    known = der.members(certificates) if certificates is not None else []
    return _Arrived(version, der.members(digests), encapsulated, der.content(octets), known, lists, found)


def _split_signer(signer: bytes) -> _Countered:
    members = der.members(signer)
    unsigned = der.members(members.pop()) if members[-1][0] == _UNSIGNED else []
    if members[-1][0] != _OCTETS:
        raise ValueError("a signature in it has no value")
    others, counters = [], []
    for attribute in unsigned:
        kind, value = der.members(attribute)
        if kind == COUNTERSIGNATURE:
            counters += der.members(value)
        else:
            others.append(attribute)
    return _Countered(members, der.content(members[-1]), others, counters)
