"""The check of a further signature on a CMS file: what arrived is still there, one signature is new (BEY-01)."""

from __future__ import annotations

import hashlib
from typing import BinaryIO

import attrs

from bulksigner.contract.policy import Joining
from bulksigner.contract.signing import Measured
from bulksigner.formats.der_reader import OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, SET, Element, Reader
from bulksigner.formats.model import Checked, CheckFailed, Expectation
from bulksigner.formats.signer_check import DATA, SIGNED_DATA, SignerFacts, check_signer

__all__ = ["check_joined"]

_COUNTERSIGNATURE = bytes.fromhex("06092a864886f70d010906")


@attrs.frozen
class _Parts:
    """A SignedData: what must stay, and what may grow."""

    version: bytes
    encapsulated: bytes
    content: bytes
    lists: bytes
    certificates: frozenset[bytes]
    signers: tuple[Element, ...]


def check_joined(artifact: BinaryIO, expectation: Expectation, original: BinaryIO) -> Checked:
    """Check a file that was signed further, beside the file as it arrived; raise `CheckFailed`."""
    spec = expectation.spec
    if spec is None or spec.joining is None:
        raise CheckFailed("Nothing says in which way the file was signed further.")
    artifact.seek(0)
    data = artifact.read()
    original.seek(0)
    arrived = original.read(expectation.original.length + 1)
    if Measured(len(arrived), hashlib.sha256(arrived).digest()) != expectation.original:
        raise CheckFailed("The file that arrived is not the one that was staged any more.")
    before, after = _read(arrived), _read(data)
    if (before.version, before.encapsulated, before.lists) != (after.version, after.encapsulated, after.lists):
        raise CheckFailed("The content of the file that arrived, or what stands beside it, was changed.")
    if not before.certificates <= after.certificates:
        raise CheckFailed("A certificate of the file that arrived is gone.")
    if expectation.certificate not in after.certificates:
        raise CheckFailed("The signature does not contain the signer's certificate.")
    if spec.joining is Joining.PARALLEL:
        facts = [_check_one(_find_added(before, after), expectation, before.content, is_counter=False)]
    else:
        facts = _check_counters(before, after, expectation)
    measured = Measured(len(data), hashlib.sha256(data).digest())
    return Checked(measured, facts[0].algorithm, spec.digest.value, facts[0].signing_time)


def _read(data: bytes) -> _Parts:
    what = "CMS"
    outer = Reader(data, what)
    info = outer.take(SEQUENCE).reader(what)
    outer.finish()
    if info.take(OBJECT_IDENTIFIER).encoded != SIGNED_DATA:
        raise CheckFailed("The file is not a CMS SignedData.")
    wrapper = info.take(0xA0).reader(what)
    info.finish()
    body = wrapper.take(SEQUENCE).reader(what)
    wrapper.finish()
    version = body.take().encoded
    body.take(SET)
    encapsulated = body.take(SEQUENCE)
    certificates = body.take().reader(what).take_all() if body.next_is(0xA0) else []
    lists = body.take().encoded if body.next_is(0xA1) else b""
    signers = body.take(SET).reader(what).take_all()
    body.finish()
    inside = encapsulated.reader(what)
    if inside.take(OBJECT_IDENTIFIER).encoded != DATA:
        raise CheckFailed("The CMS contains another type of content than data.")
    explicit = inside.take(0xA0).reader(what)
    inside.finish()
    content = explicit.take(OCTET_STRING).content
    explicit.finish()
    found = frozenset(one.encoded for one in certificates)
    return _Parts(version, encapsulated.encoded, content, lists, found, tuple(signers))


def _find_added(before: _Parts, after: _Parts) -> bytes:
    old = [signer.encoded for signer in before.signers]
    new = [signer.encoded for signer in after.signers]
    for signer in old:
        if signer not in new:
            raise CheckFailed("A signature of the file that arrived is gone or was changed.")
        new.remove(signer)
    if len(new) != 1:
        raise CheckFailed(f"The file has {len(new)} new signatures, where there should be one.")
    return new[0]


def _check_counters(before: _Parts, after: _Parts, expectation: Expectation) -> list[SignerFacts]:
    """Require one new countersignature on each signature that arrived, and nothing else that is new."""
    if len(before.signers) != len(after.signers):
        raise CheckFailed("The file has more or fewer signatures than the one that arrived.")
    left = [_split(signer) for signer in after.signers]
    facts = []
    for kept, value, attributes, counters in (_split(signer) for signer in before.signers):
        found = next((one for one in left if one[0] == kept), None)
        if found is None or found[2] != attributes:
            raise CheckFailed("A signature of the file that arrived is gone or was changed.")
        left.remove(found)
        added = list(found[3])
        for counter in counters:
            if counter not in added:
                raise CheckFailed("A countersignature of the file that arrived is gone or was changed.")
            added.remove(counter)
        if len(added) != 1:
            raise CheckFailed(f"A signature has {len(added)} new countersignatures, where there should be one.")
        facts.append(_check_one(added[0], expectation, value, is_counter=True))
    if not facts:
        raise CheckFailed("The file that arrived has no signature.")
    return facts


def _split(signer: Element) -> tuple[tuple[bytes, ...], bytes, tuple[bytes, ...], tuple[bytes, ...]]:
    """Split a SignerInfo: what must stay, its signature's octets, other unsigned attributes, its countersignatures."""
    members = signer.reader("CMS signer").take_all()
    unsigned = members.pop().reader("unsigned attributes").take_all() if members[-1].tag == 0xA1 else []
    if members[-1].tag != OCTET_STRING:
        raise CheckFailed("A CMS signer has no signature value.")
    others, counters = [], []
    for attribute in unsigned:
        reader = attribute.reader("unsigned attribute")
        if reader.take(OBJECT_IDENTIFIER).encoded == _COUNTERSIGNATURE:
            counters += [one.encoded for one in reader.take(SET).reader("countersignatures").take_all()]
        else:
            others.append(attribute.encoded)
    kept = tuple(member.encoded for member in members)
    return kept, members[-1].content, tuple(sorted(others)), tuple(counters)


def _check_one(signer: bytes, expectation: Expectation, signed: bytes, *, is_counter: bool) -> SignerFacts:
    spec = expectation.spec
    digest = "sha256" if spec is None else spec.digest.value
    return check_signer(
        _wrap(0xA0, expectation.certificate) + _wrap(SET, signer),
        digest=digest,
        message_digest=hashlib.new(digest, signed).digest(),
        certificate=expectation.certificate,
        spec=spec,
        is_counter=is_counter,
    )


def _wrap(tag: int, content: bytes) -> bytes:
    octets = len(content).to_bytes(4, "big").lstrip(b"\0")
    length = bytes([len(content)]) if len(content) < 0x80 else bytes([0x80 | len(octets)]) + octets
    return bytes([tag]) + length + content
