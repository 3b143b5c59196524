"""Keys on a token: how they are chosen, and what they sign."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS, PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA1, SHA256, SHA512
from cryptography.hazmat.primitives.serialization import Encoding

from bulksigner.contract.certificate import Digest, KeyAlgorithm, OpenedKey
from bulksigner.contract.errors import PermanentFailure
from bulksigner_pkcs11.settings import Pkcs11Block

HASHES = {Digest.SHA1: SHA1(), Digest.SHA256: SHA256(), Digest.SHA512: SHA512()}
DATA = b"what is signed"
HASHING = {Digest.SHA1: "6", Digest.SHA256: "40", Digest.SHA512: "42"}
RAW_RSA, RAW_PSS = "1", "d"


def thumbprint_of(issued: Any) -> str:
    return hashlib.sha1(issued.certificate_der).hexdigest()


@pytest.mark.parametrize("digest", list(Digest))
def test_the_thumbprint_alone_chooses_the_key(token: Any, source: Any, digest: Digest) -> None:
    """CFG-74, ICP-43: RSA and ECDSA keys on one token, each by its certificate; upper case is as good as lower."""
    rsa = source.open(token.block(thumbprint=thumbprint_of(token.rsa).upper()))
    ecdsa = source.open(token.block(thumbprint=thumbprint_of(token.ecdsa)))
    assert isinstance(rsa, OpenedKey)
    assert (rsa.algorithm, ecdsa.algorithm) == (KeyAlgorithm.RSA, KeyAlgorithm.ECDSA)
    assert rsa.certificate == token.rsa.certificate_der
    token.rsa.key.public_key().verify(rsa.sign(DATA, digest), DATA, PKCS1v15(), HASHES[digest])
    for signature in (
        ecdsa.sign(DATA, digest),
        ecdsa.sign_digest(hashlib.new(digest.value, DATA).digest(), digest),
    ):
        token.ecdsa.key.public_key().verify(signature, DATA, ECDSA(HASHES[digest]))


@pytest.mark.parametrize("digest", list(Digest))
def test_data_and_digest_give_the_same_bytes(token: Any, source: Any, digest: Digest) -> None:
    """ICP-43: hashed on the token or before it, PKCS#1 v1.5 is one signature."""
    key = source.open(token.block())
    assert key.sign(DATA, digest) == key.sign_digest(hashlib.new(digest.value, DATA).digest(), digest)


@pytest.mark.parametrize("digest", list(Digest))
@pytest.mark.parametrize("how", ["hide", "refuse"])
def test_a_token_that_does_not_hash_is_given_the_digest(
    token: Any, source: Any, around: Any, digest: Digest, how: str
) -> None:
    """ICP, PKCS#11: without the hashing mechanism, or where it is listed and does not work, the bytes are the same."""
    around.ask(how, HASHING[digest])
    signature = source.open(token.block(module_path=around.module)).sign(DATA, digest)
    token.rsa.key.public_key().verify(signature, DATA, PKCS1v15(), HASHES[digest])


def test_a_token_without_any_mechanism_says_which(token: Any, source: Any, around: Any) -> None:
    """OPS-114: what the token lacks is named; nothing is sent to it."""
    around.ask("hide", RAW_RSA)
    key = source.open(token.block(module_path=around.module))
    with pytest.raises(PermanentFailure, match="CKM_RSA_PKCS"):
        key.sign_digest(hashlib.sha256(DATA).digest(), Digest.SHA256)


@pytest.mark.parametrize("digest", list(Digest))
@pytest.mark.parametrize("hidden", [None, "43", "45"])
def test_pss_signatures_verify(token: Any, source: Any, around: Any, digest: Digest, hidden: str | None) -> None:
    """RFC 8017 8.1: the salt is as long as the digest; with and without the token's own hash."""
    if hidden is not None:
        around.ask("hide", hidden)
    signature = source.open(token.block(module_path=around.module)).sign_pss(DATA, digest)
    algorithm = HASHES[digest]
    token.rsa.key.public_key().verify(signature, DATA, PSS(MGF1(algorithm), algorithm.digest_size), algorithm)


def test_an_ecdsa_key_knows_no_pss(token: Any, source: Any) -> None:
    """RFC 8017: PSS is a way of RSA."""
    key = source.open(token.block(thumbprint=thumbprint_of(token.ecdsa)))
    with pytest.raises(PermanentFailure, match="PSS"):
        key.sign_pss(DATA, Digest.SHA256)


def test_a_digest_of_the_wrong_length_does_not_reach_the_token(token: Any, source: Any, around: Any) -> None:
    """A value that is no digest of its kind would be signed as it stands."""
    key = source.open(token.block(module_path=around.module))
    before = around.count("C_SignInit")
    with pytest.raises(PermanentFailure, match="digest"):
        key.sign_digest(b"short", Digest.SHA256)
    assert around.count("C_SignInit") == before


def test_the_chain_is_completed_from_the_folder(token: Any, source: Any, tmp_path: Any) -> None:
    """ICP-25: what the token holds of the chain, and the rest from `ChainPath`."""
    middle, root = token.rsa.issuers
    assert source.open(token.block()).chain == (middle.public_bytes(Encoding.DER),)
    (tmp_path / "root.pem").write_bytes(root.public_bytes(Encoding.PEM))
    opened = source.open(token.block(chain_path=str(tmp_path)))
    assert opened.chain == (middle.public_bytes(Encoding.DER), root.public_bytes(Encoding.DER))


def test_threads_and_profiles_share_one_login(token: Any, source: Any, around: Any) -> None:
    """BEY-30: one login for the token and the process, whatever signs; no logout until the process ends."""
    block = token.block(module_path=around.module)
    keys = [
        source.open(block),
        source.open(block),
        source.open(token.block(module_path=around.module, chain_path=None)),
    ]
    signatures: list[bytes] = []

    def sign(key: Any) -> None:
        signatures.extend(key.sign(DATA, Digest.SHA256) for _ in range(20))

    threads = [threading.Thread(target=sign, args=(key,)) for key in keys * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(signatures) == 120
    assert len(set(signatures)) == 1
    for key in keys:
        key.close()
    assert around.count("C_Login") == 1
    assert around.count("C_Logout") == 0
    assert around.count("C_Initialize") == 1
    assert len(around.processes()) == 1


def test_a_closed_key_signs_no_more_and_its_process_ends(token: Any, source: Any) -> None:
    """BEY-30: the last key takes the driver with it; closing twice is harmless."""
    first, second = source.open(token.block()), source.open(token.block())
    driver = first._driver
    process = driver._process
    first.close()
    with pytest.raises(PermanentFailure, match="closed"):
        first.sign(DATA, Digest.SHA256)
    assert second.sign(DATA, Digest.SHA256)
    assert process.is_alive()
    second.close()
    second.close()
    assert driver._process is None
    assert source._drivers == {}


def test_the_locator_names_library_and_thumbprint(token: Any, source: Any) -> None:
    """OPS-31: the banner's `cert source` shows the module; a token key never travels to workers (PERF-06)."""
    block = token.block(thumbprint="AB" * 20)
    assert source.locator(block) == f"module={token.module}, thumbprint={'ab' * 20}"
    assert (source.name, source.portable) == ("Pkcs11", False)


def test_a_key_that_is_not_that_of_the_certificate_is_refused(token: Any, source: Any, refusal: Any) -> None:
    """BEY-30: a certificate beside the wrong key does not open, whatever their ids say."""
    middle = token.rsa.issuers[0].public_bytes(Encoding.DER)
    token.write_key("03", token.rsa)
    assert "is not that of the certificate" in refusal(source, token.block(thumbprint=hashlib.sha1(middle).hexdigest()))


def test_a_key_that_wants_its_pin_each_time_is_refused(
    token: Any, source: Any, authority: Any, refusal: Any, around: Any
) -> None:
    """BEY-31: a PIN for each signature would be tried more than once after it was changed."""
    renewed = authority.issue()
    token.write_certificate("08", renewed.certificate_der)
    token.write_guarded_key("08", renewed)
    told = refusal(source, token.block(module_path=around.module, thumbprint=thumbprint_of(renewed)))
    assert "at every signature" in told
    assert around.count("C_Sign") == 0


def test_a_certificate_without_its_key_is_refused(token: Any, source: Any, refusal: Any) -> None:
    """OPS-113: the issuer's certificate is on the token, and its key is not."""
    middle = token.rsa.issuers[0].public_bytes(Encoding.DER)
    told = refusal(source, token.block(thumbprint=hashlib.sha1(middle).hexdigest()))
    assert "NoSuchKey" in told


def test_the_key_is_found_where_its_id_is_another_one(token: Any, source: Any, authority: Any) -> None:
    """ICP, PKCS#11: some tools give certificate and key ids of their own; an RSA key is known by its modulus."""
    renewed = authority.issue()
    token.write_certificate("07", renewed.certificate_der)
    key = source.open(token.block(thumbprint=thumbprint_of(renewed)))
    renewed.key.public_key().verify(key.sign(DATA, Digest.SHA256), DATA, PKCS1v15(), SHA256())


def test_settings_of_another_kind_are_refused(source: Any) -> None:
    """CFG-69: only the block of the chosen source is read."""
    with pytest.raises(PermanentFailure, match="another kind"):
        source.locator(object())
    assert Pkcs11Block("/lib/x.so", "0" * 40).pin_env_var == "BULK_SIGNER_PKCS11_PIN"
