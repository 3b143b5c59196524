"""Signatures on CMS files that arrive signed: parallel and counter (RFC 5652 5.3, 11.4; ICP-30, BEY-01)."""

from __future__ import annotations

import hashlib
import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from asn1crypto import cms as asn1_cms
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from bulksigner.contract.policy import Joining, SignatureSpec
from bulksigner.contract.signing import Format
from bulksigner.formats.dispatch import check, signer_for
from bulksigner.formats.model import Checked, CheckFailed, Expectation, FormatRefused
from bulksigner.formats.policies import read_key, shipped_policies
from bulksigner.formats.spec import BASELINE_B
from bulksigner.testing.verify import verify_cms_with_openssl

CONTENT = b"0001 payment of 10,00\r\n\x00\xff" * 50
COUNTERSIGNATURE = "1.2.840.113549.1.9.6"


@pytest.fixture(scope="module")
def other(issue: Callable[[Callable[[], Any]], Any]) -> Any:
    """A signer of another authority."""
    order = iter([ec.SECP256R1, ec.SECP256R1])
    return issue(lambda: ec.generate_private_key(kind()) if (kind := next(order, None)) else _rsa())


def _rsa() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def spec_of(key: Any, joining: Joining) -> SignatureSpec:
    row = shipped_policies().usable(Format.CADES, "AD-RB", None, read_key(key))[0]
    return attrs.evolve(row.spec(etsi_filter=False), joining=joining)


def check_beside(artifact: bytes, arrived: bytes, key: Any, spec: SignatureSpec, measure: Any) -> Checked:
    expectation = Expectation(Format.CADES, key.certificate, measure(arrived), spec)
    return check(io.BytesIO(artifact), expectation, original=io.BytesIO(arrived))


def signers_of(data: bytes) -> list[Any]:
    return list(asn1_cms.ContentInfo.load(data)["content"]["signer_infos"])


@pytest.fixture
def arrived(other: Any, sign: Any) -> bytes:
    """A file that somebody else has signed."""
    made: bytes = sign(signer_for(Format.CADES, other, BASELINE_B), CONTENT)
    return made


def test_a_parallel_signature_leaves_the_others_valid(
    arrived: bytes, other: Any, any_key: Any, sign: Any, measure: Any, tmp_path: Path
) -> None:
    """RFC 5652 5.1: OpenSSL accepts both signatures, the first is there byte for byte, the content is untouched."""
    spec = spec_of(any_key, Joining.PARALLEL)
    artifact = sign(signer_for(Format.CADES, any_key, spec), arrived)
    checked = check_beside(artifact, arrived, any_key, spec, measure)
    assert (checked.algorithm, checked.measured) == (any_key.algorithm, measure(artifact))
    file = tmp_path / "signed.p7m"
    file.write_bytes(artifact)
    verdict = verify_cms_with_openssl(file, [other.chain[1], any_key.chain[1]])
    assert verdict, verdict.output
    # Without trust in the one who was first, OpenSSL refuses: it does look at both.
    assert not verify_cms_with_openssl(file, [any_key.chain[1]])
    before, after = signers_of(arrived), signers_of(artifact)
    assert len(after) == 2
    assert before[0].dump() in [one.dump() for one in after]
    assert asn1_cms.ContentInfo.load(artifact)["content"]["encap_content_info"]["content"].native == CONTENT
    assert asn1_cms.ContentInfo.load(artifact).dump(force=True) == artifact


def test_a_counter_signature_is_over_each_signature(
    arrived: bytes, other: Any, any_key: Any, sign: Any, measure: Any, tmp_path: Path
) -> None:
    """RFC 5652 11.4, ICP section 2: no content type and no policy; the first signature stays valid."""
    spec = spec_of(any_key, Joining.COUNTER)
    artifact = sign(signer_for(Format.CADES, any_key, spec), arrived)
    check_beside(artifact, arrived, any_key, spec, measure)
    file = tmp_path / "signed.p7m"
    file.write_bytes(artifact)
    assert verify_cms_with_openssl(file, [other.chain[1]])
    (signer,) = signers_of(artifact)
    (attribute,) = signer["unsigned_attrs"]
    assert attribute["type"].dotted == COUNTERSIGNATURE
    (counter,) = attribute["values"]
    values = {one["type"].dotted: one["values"][0] for one in counter["signed_attrs"]}
    # messageDigest, signingTime, signingCertificateV2
    assert set(values) == {"1.2.840.113549.1.9.4", "1.2.840.113549.1.9.5", "1.2.840.113549.1.9.16.2.47"}
    assert values["1.2.840.113549.1.9.4"].native == hashlib.sha256(signer["signature"].native).digest()
    assert counter["sid"].chosen.dump() != signer["sid"].chosen.dump()
    _verify_counter(counter, any_key)


def _verify_counter(counter: Any, key: Any) -> None:
    """Verify the value of a countersignature with the library alone."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    signed = counter["signed_attrs"].untag().dump()
    public = key.private.public_key()
    if isinstance(public, rsa.RSAPublicKey):
        public.verify(counter["signature"].native, signed, padding.PKCS1v15(), hashes.SHA256())
    else:
        public.verify(counter["signature"].native, signed, ec.ECDSA(hashes.SHA256()))


def test_signatures_pile_up(arrived: bytes, other: Any, rsa_key: Any, ecdsa_key: Any, sign: Any, measure: Any) -> None:
    """A file may be signed further again and again: counter on counter, and over every signature in it."""
    parallel = spec_of(rsa_key, Joining.PARALLEL)
    second = sign(signer_for(Format.CADES, rsa_key, parallel), arrived)
    counter = spec_of(ecdsa_key, Joining.COUNTER)
    third = sign(signer_for(Format.CADES, ecdsa_key, counter), second)
    assert ecdsa_key.calls == 2
    check_beside(third, second, ecdsa_key, counter, measure)
    again = spec_of(other, Joining.COUNTER)
    fourth = sign(signer_for(Format.CADES, other, again), third)
    check_beside(fourth, third, other, again, measure)
    assert [len(one["unsigned_attrs"][0]["values"]) for one in signers_of(fourth)] == [2, 2]


@pytest.mark.parametrize("joining", Joining)
def test_any_change_of_what_arrived_is_found(
    joining: Joining, arrived: bytes, rsa_key: Any, sign: Any, measure: Any
) -> None:
    """BEY-01: no byte of content, earlier signature or new one can differ unnoticed."""
    spec = spec_of(rsa_key, joining)
    artifact = sign(signer_for(Format.CADES, rsa_key, spec), arrived)
    unprotected = 0
    for position in range(0, len(artifact), 11):
        changed = bytearray(artifact)
        changed[position] ^= 1
        try:
            check_beside(bytes(changed), arrived, rsa_key, spec, measure)
        except CheckFailed:
            continue
        unprotected += 1
    # Only the certificates of issuers that were added, and the list of digests, are signed by nobody.
    assert unprotected <= len(rsa_key.chain[0]) // 11 + 4


def test_the_check_wants_the_file_that_arrived(arrived: bytes, rsa_key: Any, sign: Any, measure: Any) -> None:
    """BEY-01: what was not signed further, or over another file, is refused."""
    spec = spec_of(rsa_key, Joining.PARALLEL)
    artifact = sign(signer_for(Format.CADES, rsa_key, spec), arrived)
    with pytest.raises(CheckFailed, match=r"0 new signatures|does not contain"):
        check_beside(arrived, arrived, rsa_key, spec, measure)
    expectation = Expectation(Format.CADES, rsa_key.certificate, measure(b"other"), spec)
    with pytest.raises(CheckFailed, match="staged any more"):
        check(io.BytesIO(artifact), expectation, original=io.BytesIO(arrived))
    counter = attrs.evolve(spec, joining=Joining.COUNTER)
    with pytest.raises(CheckFailed, match="more or fewer signatures"):
        check_beside(artifact, arrived, rsa_key, counter, measure)


def test_what_cannot_be_signed_further_is_refused(arrived: bytes, rsa_key: Any, other: Any, sign: Any) -> None:
    """PIPE-79: before the key is used: no CMS, detached, cut off, of the same signer, or no signature at all."""
    detached = sign(signer_for(Format.CADES, other, BASELINE_B, detached=True), CONTENT)
    key = attrs.evolve(rsa_key, calls=0)
    for content, text in (
        (b"no cms at all", "not a CMS SignedData in DER"),
        (b"", "not a CMS SignedData in DER"),
        (arrived[:-1], "not a CMS SignedData in DER"),
        (detached, "detached"),
        (b"\x30\x0b\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01", "not a CMS SignedData"),
    ):
        for joining in Joining:
            with pytest.raises(FormatRefused, match=text):
                sign(signer_for(Format.CADES, key, spec_of(key, joining)), content)
    own = sign(signer_for(Format.CADES, rsa_key, BASELINE_B), CONTENT)
    with pytest.raises(FormatRefused, match="this certificate already"):
        sign(signer_for(Format.CADES, key, spec_of(key, Joining.PARALLEL)), own)
    assert key.calls == 0


def test_a_file_of_openssl_is_signed_further(
    other: Any, rsa_key: Any, sign: Any, measure: Any, run: Any, pem_of: Any, tmp_path: Path
) -> None:
    """A signature by another program; one with indefinite lengths is refused with the command that mends it."""
    (tmp_path / "content").write_bytes(CONTENT)
    (tmp_path / "cert.pem").write_bytes(pem_of(other.certificate))
    (tmp_path / "issuer.pem").write_bytes(pem_of(other.chain[0]))
    (tmp_path / "key.pem").write_bytes(other.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    command = ["openssl", "cms", "-sign", "-binary", "-nodetach", "-outform", "DER", "-in", tmp_path / "content"]
    command += ["-signer", tmp_path / "cert.pem", "-inkey", tmp_path / "key.pem", "-certfile", tmp_path / "issuer.pem"]
    run(*command, "-out", tmp_path / "der.p7m")
    run(*command, "-stream", "-out", tmp_path / "ber.p7m")
    spec = spec_of(rsa_key, Joining.PARALLEL)
    with pytest.raises(FormatRefused, match="openssl cms -cmsout"):
        sign(signer_for(Format.CADES, rsa_key, spec), (tmp_path / "ber.p7m").read_bytes())
    mended = tmp_path / "mended.p7m"
    run("openssl", "cms", "-cmsout", "-inform", "DER", "-in", tmp_path / "ber.p7m", "-outform", "DER", "-out", mended)
    for name in ("der.p7m", "mended.p7m"):
        arrived = (tmp_path / name).read_bytes()
        artifact = sign(signer_for(Format.CADES, rsa_key, spec), arrived)
        check_beside(artifact, arrived, rsa_key, spec, measure)
        (tmp_path / "signed.p7m").write_bytes(artifact)
        roots = [other.chain[1], rsa_key.chain[1]]
        verdict = verify_cms_with_openssl(tmp_path / "signed.p7m", roots, cades=False)
        assert verdict, verdict.output


@pytest.mark.parametrize("joining", Joining)
def test_damaged_files_are_refused_or_stay_checked(
    joining: Joining, arrived: bytes, rsa_key: Any, sign: Any, mutate: Any, measure: Any
) -> None:
    """SEC-70: whatever arrives is refused in words, or what leaves holds for the check; nothing else comes of it."""
    chance, spec = random.Random(7), spec_of(rsa_key, joining)
    signer = signer_for(Format.CADES, rsa_key, spec)
    for _ in range(150):
        content = mutate(arrived, chance)
        try:
            artifact = sign(signer, content)
        except FormatRefused:
            continue
        try:
            check_beside(artifact, content, rsa_key, spec, measure)
        except CheckFailed:
            continue
