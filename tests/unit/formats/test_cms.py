"""The CMS assembly, held against asn1crypto's reading and encoding of it."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from asn1crypto import cms as asn1_cms
from asn1crypto import core, tsp, x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from pyhanko.sign.ades.cades_asn1 import SignaturePolicyIdentifier

from bulksigner.contract.certificate import Digest, KeyAlgorithm
from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.policy import PolicyIdentifier, SignatureSpec
from bulksigner.formats import der
from bulksigner.formats.cms import SignedData
from bulksigner.formats.spec import BASELINE_B

# asn1crypto knows the certificate attributes only once its time-stamp module is imported.
assert tsp.SigningCertificateV2 is not None
SHA512 = attrs.evolve(BASELINE_B, name="B-B SHA-512", digest=Digest.SHA512)
POLICY = PolicyIdentifier(
    oid="2.16.76.1.7.1.1.2.4",
    digest=Digest.SHA256,
    value=bytes.fromhex("1f3c904c44c392feef447e21faa7a04e85d9c0153346320f557b7042af5dcf13"),
    uri="http://politicas.icpbrasil.gov.br/PA_AD_RB_v2_4.der",
)


def assemble(
    key: Any, spec: SignatureSpec, moment: datetime.datetime, *, with_time: bool = True
) -> tuple[bytes, bytes]:
    signed_data = SignedData(key, spec, with_signing_time=with_time)
    attributes = signed_data.attributes(hashlib.new(spec.digest.value, b"content").digest(), moment)
    return signed_data.detached(attributes, key.sign(attributes, spec.digest)), attributes


def encode_again(value: core.Asn1Value) -> bytes:
    """Encode by asn1crypto from native leaves up, dropping every encoding it remembered."""
    return asn1_cms.ContentInfo.load(value.dump()).dump(force=True)


@pytest.mark.parametrize("spec", [BASELINE_B, SHA512], ids=lambda spec: spec.name)
def test_encoding_is_what_another_encoder_makes_of_it(
    any_key: Any, spec: SignatureSpec, signed_at: datetime.datetime
) -> None:
    """PERF-02: the assembled DER is bit for bit that of an independent encoder."""
    encoded, attributes = assemble(any_key, spec, signed_at)
    content = asn1_cms.ContentInfo.load(encoded, strict=True)
    assert encode_again(content) == encoded
    signer = content["content"]["signer_infos"][0]
    assert signer["signed_attrs"].untag().dump(force=True) == attributes
    assert signer["digest_algorithm"].native == {"algorithm": spec.digest.value, "parameters": None}
    assert content["content"]["version"].native == "v1"


def test_attributes_name_content_certificate_and_time(rsa_key: Any, signed_at: datetime.datetime) -> None:
    """ICP-30: contentType, messageDigest, signingCertificateV2 with issuer and serial, signingTime; nothing else."""
    encoded, _ = assemble(rsa_key, BASELINE_B, signed_at)
    signer = asn1_cms.ContentInfo.load(encoded)["content"]["signer_infos"][0]
    values = {attribute["type"].native: attribute["values"][0] for attribute in signer["signed_attrs"]}
    assert set(values) == {"content_type", "message_digest", "signing_certificate_v2", "signing_time"}
    assert values["content_type"].native == "data"
    assert values["message_digest"].native == hashlib.sha256(b"content").digest()
    assert values["signing_time"].native == signed_at
    (identifier,) = values["signing_certificate_v2"]["certs"]
    certificate = x509.Certificate.load(rsa_key.certificate)
    assert identifier["cert_hash"].native == hashlib.sha256(rsa_key.certificate).digest()
    assert identifier["issuer_serial"]["serial_number"].native == certificate.serial_number
    assert identifier["issuer_serial"]["issuer"][0].chosen.untag().dump() == certificate.issuer.dump()
    # The default hash algorithm is left out, so the identifier begins with the hash itself.
    assert identifier.contents[0] == 0x04


def test_signing_time_can_be_left_out(rsa_key: Any, signed_at: datetime.datetime) -> None:
    """ICP-31: the CMS of a PDF has no signingTime."""
    encoded, _ = assemble(rsa_key, BASELINE_B, signed_at, with_time=False)
    signer = asn1_cms.ContentInfo.load(encoded)["content"]["signer_infos"][0]
    assert "signing_time" not in {attribute["type"].native for attribute in signer["signed_attrs"]}


def test_other_hash_of_the_certificate_is_named(rsa_key: Any, signed_at: datetime.datetime) -> None:
    """ICP-30: with SHA-512 the certificate identifier says so."""
    encoded, _ = assemble(rsa_key, SHA512, signed_at)
    signer = asn1_cms.ContentInfo.load(encoded)["content"]["signer_infos"][0]
    values = {attribute["type"].native: attribute["values"][0] for attribute in signer["signed_attrs"]}
    (identifier,) = values["signing_certificate_v2"]["certs"]
    assert identifier["hash_algorithm"]["algorithm"].native == "sha512"
    assert identifier["cert_hash"].native == hashlib.sha512(rsa_key.certificate).digest()


def test_policy_is_encoded_with_its_address(rsa_key: Any, signed_at: datetime.datetime) -> None:
    """ICP-06: OID, hash without parameters, and SPURI as the one qualifier."""
    encoded, _ = assemble(rsa_key, attrs.evolve(BASELINE_B, policy=POLICY), signed_at)
    signer = asn1_cms.ContentInfo.load(encoded)["content"]["signer_infos"][0]
    (value,) = (
        attribute["values"][0]
        for attribute in signer["signed_attrs"]
        if attribute["type"].dotted == "1.2.840.113549.1.9.16.2.15"
    )
    policy = SignaturePolicyIdentifier.load(value.dump()).chosen
    assert policy["sig_policy_id"].dotted == POLICY.oid
    assert policy["sig_policy_hash"]["digest"].native == POLICY.value
    assert policy["sig_policy_hash"]["digest_algorithm"].dump() == bytes.fromhex("300b0609608648016503040201")
    (qualifier,) = policy["sig_policy_qualifiers"]
    assert qualifier["sig_policy_qualifier_id"].native == "sp_uri"
    assert qualifier["sig_qualifier"].native == POLICY.uri
    assert encode_again(asn1_cms.ContentInfo.load(encoded)) == encoded


def test_certificates_are_the_chain_without_its_root(rsa_key: Any, signed_at: datetime.datetime) -> None:
    """PERF-02: signer and intermediate go in, the self-signed root and strangers do not."""
    intermediate, root = rsa_key.chain
    for chain in ((intermediate, root), (root, intermediate), (intermediate, intermediate)):
        encoded, _ = assemble(attrs.evolve(rsa_key, chain=chain), BASELINE_B, signed_at)
        certificates = {member.dump() for member in asn1_cms.ContentInfo.load(encoded)["content"]["certificates"]}
        assert certificates == {rsa_key.certificate, intermediate}


def test_self_signed_signer_goes_in_alone(rsa_key: Any, signed_at: datetime.datetime) -> None:
    """ICP-30: the signer's certificate is inside even when it is self-signed."""
    root = attrs.evolve(rsa_key, certificate=rsa_key.chain[1], chain=(rsa_key.chain[1],))
    encoded, _ = assemble(root, BASELINE_B, signed_at)
    assert [member.dump() for member in asn1_cms.ContentInfo.load(encoded)["content"]["certificates"]] == [
        root.certificate
    ]


def test_size_is_known_beforehand(rsa_key: Any, ecdsa_key: Any, signed_at: datetime.datetime) -> None:
    """PERF-02: exact for RSA, an upper bound of a few bytes for ECDSA."""
    expected = SignedData(rsa_key, BASELINE_B, with_signing_time=False).detached_length(signed_at)
    assert len(assemble(rsa_key, BASELINE_B, signed_at, with_time=False)[0]) == expected
    most = SignedData(ecdsa_key, BASELINE_B, with_signing_time=False).detached_length(signed_at)
    sizes = [len(assemble(ecdsa_key, BASELINE_B, signed_at, with_time=False)[0]) for _ in range(40)]
    assert most - 10 < min(sizes)
    assert max(sizes) <= most


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()], ids=lambda curve: curve.name)
def test_longest_ecdsa_signature_has_room(ecdsa_key: Any, curve: ec.EllipticCurve) -> None:
    """PERF-02: the room for r and s is that of the curve's order with its sign octet."""
    order_bits = ec.generate_private_key(curve).key_size
    longest = len(encode_dss_signature((1 << order_bits) - 1, (1 << order_bits) - 1))
    part = der.element(0x02, bytes(order_bits // 8 + 1))
    assert len(der.sequence(part, part)) == longest
    if curve.key_size == 256:
        assert SignedData(ecdsa_key, BASELINE_B, with_signing_time=True).signature_length == longest


def test_wrong_kind_of_key_is_refused(rsa_key: Any) -> None:
    """ICP-11: a certificate that does not fit the opened key is said before a file is touched."""
    with pytest.raises(PermanentFailure, match="not the ECDSA key"):
        SignedData(attrs.evolve(rsa_key, algorithm=KeyAlgorithm.ECDSA), BASELINE_B, with_signing_time=True)


@pytest.mark.parametrize("certificate", [b"", b"\x30\x03abc", b"no certificate"])
def test_unreadable_certificate_is_refused(rsa_key: Any, certificate: bytes) -> None:
    """ICP-30: bytes that are no certificate are named as such."""
    with pytest.raises(PermanentFailure, match="certificate"):
        SignedData(attrs.evolve(rsa_key, certificate=certificate), BASELINE_B, with_signing_time=True)
    with pytest.raises(PermanentFailure, match="certificate"):
        SignedData(attrs.evolve(rsa_key, chain=(certificate,)), BASELINE_B, with_signing_time=True)


@pytest.mark.parametrize(
    ("encode", "value", "kind"),
    [
        (der.integer, 0, core.Integer),
        (der.integer, 127, core.Integer),
        (der.integer, 128, core.Integer),
        (der.integer, 1 << 159, core.Integer),
        (der.object_identifier, "2.16.76.1.7.1.1.2.4", core.ObjectIdentifier),
        (der.object_identifier, "1.2.840.113549.1.9.16.2.47", core.ObjectIdentifier),
        (der.octet_string, bytes(127), core.OctetString),
        (der.octet_string, bytes(128), core.OctetString),
        (der.octet_string, bytes(70000), core.OctetString),
    ],
)
def test_elements_are_encoded_as_others_do(encode: Callable[[Any], bytes], value: Any, kind: Any) -> None:
    """PERF-02: single elements, at the borders of their lengths."""
    assert encode(value) == kind(value).dump()


def test_time_changes_its_type_in_2050() -> None:
    """PERF-02: UTCTime to 2049, GeneralizedTime from then on, always in UTC (RFC 5652 11.3)."""
    zone = datetime.timezone(datetime.timedelta(hours=-3))
    assert der.time(datetime.datetime(2026, 12, 31, 22, 0, 1, 999, tzinfo=zone)) == b"\x17\x0d270101010001Z"
    assert der.time(datetime.datetime(2049, 12, 31, 23, 59, 59, tzinfo=datetime.UTC))[0] == 0x17
    assert der.time(datetime.datetime(2050, 1, 1, tzinfo=datetime.UTC)) == b"\x18\x0f20500101000000Z"


def test_long_rsa_signature_is_laid_out(signed_at: datetime.datetime, rsa_key: Any) -> None:
    """PERF-02: lengths before the content follow the key's size (here 1024 to 4096 bits would; 3072 is tried)."""
    private = rsa.generate_private_key(65537, 3072)
    layout = SignedData(rsa_key, BASELINE_B, with_signing_time=True)
    attributes = layout.attributes(bytes(32), signed_at)
    signature = bytes(private.key_size // 8)
    whole = layout.before_content(3, len(attributes), len(signature)) + b"abc" + layout.tail(attributes, signature)
    content = asn1_cms.ContentInfo.load(whole, strict=True)
    assert content["content"]["encap_content_info"]["content"].native == b"abc"
    assert content.dump(force=True) == whole
