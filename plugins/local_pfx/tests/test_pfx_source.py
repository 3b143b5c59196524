"""The source `Pfx` and the keys it holds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256, SHA512
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

from bulksigner.contract.certificate import CertificateSource, Digest, KeyAlgorithm, OpenedKey
from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.settings import OPTION, Secret, key_name
from bulksigner_local_pfx import plugin
from bulksigner_local_pfx.settings import PfxBlock
from bulksigner_local_pfx.source import HeldKey, PfxSource, open_pfx

HASHES = {Digest.SHA256: SHA256(), Digest.SHA512: SHA512()}


def _opened(identity: Any, *more: Any) -> HeldKey:
    data = serialize_key_and_certificates(
        None, identity.key, identity.certificate, [one.certificate for one in more] or None, NoEncryption()
    )
    return open_pfx(data, "", list(identity.issuers))


@pytest.mark.parametrize("digest", [Digest.SHA256, Digest.SHA512])
def test_rsa_signatures_verify(rsa_identity: Any, digest: Digest) -> None:
    """ICP-43: PKCS#1 v1.5, of the data and of a digest made elsewhere."""
    opened = _opened(rsa_identity)
    public = rsa_identity.key.public_key()
    assert isinstance(public, rsa.RSAPublicKey)
    assert opened.algorithm is KeyAlgorithm.RSA
    for signature in (
        opened.sign(b"content", digest),
        opened.sign_digest(hashlib.new(digest.value, b"content").digest(), digest),
    ):
        public.verify(signature, b"content", PKCS1v15(), HASHES[digest])


@pytest.mark.parametrize("digest", [Digest.SHA256, Digest.SHA512])
def test_ecdsa_signatures_verify(ec_identity: Any, digest: Digest) -> None:
    """ICP-43: ECDSA signatures are DER."""
    opened = _opened(ec_identity)
    public = ec_identity.key.public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    assert opened.algorithm is KeyAlgorithm.ECDSA
    for signature in (
        opened.sign(b"content", digest),
        opened.sign_digest(hashlib.new(digest.value, b"content").digest(), digest),
    ):
        public.verify(signature, b"content", ec.ECDSA(HASHES[digest]))


def test_a_digest_of_the_wrong_length_is_refused(rsa_identity: Any) -> None:
    """A digest that is none of its kind does not reach the key."""
    with pytest.raises(PermanentFailure):
        _opened(rsa_identity).sign_digest(b"short", Digest.SHA256)


def test_a_closed_key_signs_no_more(ec_identity: Any) -> None:
    """Closing twice is harmless; signing afterwards is refused."""
    opened = _opened(ec_identity)
    opened.close()
    opened.close()
    with pytest.raises(PermanentFailure, match="closed"):
        opened.sign(b"content", Digest.SHA256)


def test_an_expired_certificate_opens(issue: Callable[..., Any]) -> None:
    """PIPE-77: validity is judged before each signature, not when the key is opened."""
    assert _opened(issue("Old", ec.generate_private_key(ec.SECP256R1()), None, days=-30)).certificate


def test_the_chain_is_ordered_and_completed_from_the_folder(
    tmp_path: Path, rsa_identity: Any, issue: Callable[..., Any]
) -> None:
    """ICP-25: nearest issuer first, from PEM bundles and DER files; strangers stay out."""
    middle, root = rsa_identity.issuers
    stranger = issue("Stranger", ec.generate_private_key(ec.SECP256R1()), None).certificate
    (tmp_path / "a.pem").write_bytes(root.public_bytes(Encoding.PEM) + stranger.public_bytes(Encoding.PEM))
    (tmp_path / "b.CER").write_bytes(middle.public_bytes(Encoding.DER))
    (tmp_path / "readme.txt").write_text("not a certificate")
    pfx = tmp_path / "key.pfx"
    pfx.write_bytes(
        serialize_key_and_certificates(None, rsa_identity.key, rsa_identity.certificate, None, NoEncryption())
    )
    opened = PfxSource().open(PfxBlock(str(pfx), Secret(""), str(tmp_path)))
    assert opened.chain == (middle.public_bytes(Encoding.DER), root.public_bytes(Encoding.DER))


def test_an_unreadable_chain_is_named(tmp_path: Path, ec_identity: Any) -> None:
    """ICP-25: a chain that silently lacks an issuer would be found by the receiver."""
    pfx = tmp_path / "key.pfx"
    pfx.write_bytes(
        serialize_key_and_certificates(None, ec_identity.key, ec_identity.certificate, None, NoEncryption())
    )
    (tmp_path / "broken.pem").write_text("nothing")
    with pytest.raises(PermanentFailure, match=r"broken\.pem"):
        PfxSource().open(PfxBlock(str(pfx), Secret(""), str(tmp_path)))
    with pytest.raises(PermanentFailure, match="ChainPath"):
        PfxSource().open(PfxBlock(str(pfx), Secret(""), str(tmp_path / "absent")))


def test_a_renewed_issuer_serves_and_a_loop_ends(issue: Callable[..., Any]) -> None:
    """ICP-25: of two certificates of one issuer key the longer one counts; a loop of issuers ends."""
    key = ec.generate_private_key(ec.SECP256R1())
    short, long = issue("Issuer", key, None, days=10), issue("Issuer", key, None, days=100)
    leaf = issue("Leaf", ec.generate_private_key(ec.SECP256R1()), short)
    opened = open_pfx(
        serialize_key_and_certificates(
            None, leaf.key, leaf.certificate, [short.certificate, long.certificate], NoEncryption()
        ),
        "",
        [],
    )
    assert opened.chain == (long.certificate.public_bytes(Encoding.DER),)
    other = issue("Other", ec.generate_private_key(ec.SECP256R1()), None)
    there, back = issue("Other", other.key, long), issue("Issuer", key, other)
    looped = open_pfx(
        serialize_key_and_certificates(
            None, leaf.key, leaf.certificate, [there.certificate, back.certificate], NoEncryption()
        ),
        "",
        [],
    )
    assert len(looped.chain) == 2


def test_a_block_of_another_source_is_refused() -> None:
    """CFG-69: only the block of the chosen source is read."""
    with pytest.raises(PermanentFailure, match="another kind"):
        PfxSource().open(object())


def test_a_certificate_that_only_claims_the_issuer_is_no_issuer(rsa_identity: Any, issue: Callable[..., Any]) -> None:
    """ICP-25: the name is not enough, the signature counts."""
    impostor = issue("Test Intermediate", ec.generate_private_key(ec.SECP256R1()), None)
    opened = _opened(rsa_identity, impostor)
    assert opened.chain[0] == rsa_identity.issuers[0].public_bytes(Encoding.DER)


def test_the_block_has_the_keys_of_the_specification() -> None:
    """CFG-70, CFG-71: `Path` and `Password`; a relative path is not accepted."""
    fields = {key_name(field): field.metadata[OPTION] for field in PfxBlock.__attrs_attrs__}  # type: ignore[attr-defined]
    assert list(fields) == ["Path", "Password", "ChainPath"]
    assert not fields["Path"].check.accepts("relative.pfx")
    assert fields["Path"].check.accepts(str(Path.cwd() / "key.pfx"))
    assert "secret" not in repr(PfxBlock("/key.pfx", Secret("secret")))


def test_the_plugin_hands_out_its_source() -> None:
    """CFG-16: what is handed out has the shape of the role."""
    (source,) = plugin.bulksigner_certificate_sources({})  # type: ignore[arg-type]
    assert isinstance(source, CertificateSource)
    assert (source.name, source.concurrent, source.portable) == ("Pfx", True, True)
    assert source.locator(PfxBlock("/etc/key.pfx", Secret("hidden"))) == "/etc/key.pfx"


def test_a_held_key_is_an_opened_key(ec_identity: Any) -> None:
    """PERF-01: the opened key has the shape of the contract."""
    assert isinstance(_opened(ec_identity), OpenedKey)
