"""A file that does not open says why (OPS-112)."""

from __future__ import annotations

import contextlib
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.settings import Secret
from bulksigner_local_pfx.refusals import (
    CipherNotSupported,
    Damaged,
    EnvelopeRefused,
    NoCertificate,
    NoPrivateKey,
    NotPkcs12,
    WrongPassword,
)
from bulksigner_local_pfx.settings import PfxBlock
from bulksigner_local_pfx.source import PfxSource, open_pfx

PASSWORD = "correct horse"


@pytest.fixture
def aes_file(ec_identity: Any) -> bytes:
    """A whole file with AES and a MAC."""
    return serialize_key_and_certificates(
        None, ec_identity.key, ec_identity.certificate, None, BestAvailableEncryption(PASSWORD.encode())
    )


def _reason(path: Path, password: str = PASSWORD) -> str:
    with pytest.raises(PermanentFailure) as caught:
        PfxSource().open(PfxBlock(str(path), Secret(password)))
    return str(caught.value)


def test_each_cause_has_its_own_text(
    tmp_path: Path, aes_file: bytes, openssl_pfx: Callable[..., bytes], issue: Callable[..., Any]
) -> None:
    """OPS-112: the texts differ, name the file and never hold the password."""
    certificate_only = serialize_key_and_certificates(
        None, None, None, [issue("Alone", ec.generate_private_key(ec.SECP256R1()), None).certificate], NoEncryption()
    )
    identity = issue("Old", ec.generate_private_key(ec.SECP256R1()), None)
    old = openssl_pfx(identity, "-legacy", "-keypbe", "PBE-MD5-DES", "-certpbe", "PBE-MD5-DES", password=PASSWORD)
    contents = {
        "0 bytes": b"",
        "not a PKCS#12": b"%PDF-1.7 something else entirely",
        "damaged": aes_file[:-40],
        "wrong password": aes_file,
        "cipher not supported": old,
        "no private key": certificate_only,
    }
    reasons = []
    for text, data in contents.items():
        path = tmp_path / f"{text.replace(' ', '-')}.pfx"
        path.write_bytes(data)
        password = {"wrong password": "not this one", "no private key": ""}.get(text, PASSWORD)
        reason = _reason(path, password)
        assert text in reason
        assert str(path) in reason
        assert not password or password not in reason
        reasons.append(reason.replace(str(path), ""))
    assert len(set(reasons)) == len(contents)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """OPS-112: the path is in the text."""
    assert "no such file" in _reason(tmp_path / "absent.pfx")


def test_a_folder_and_a_pipe_are_not_files(tmp_path: Path) -> None:
    """CFG-70: opening a named pipe does not wait for a writer."""
    assert re.search("not a file|cannot be read", _reason(tmp_path))
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.pfx")
        assert "not a file" in _reason(tmp_path / "pipe.pfx")
    assert "cannot be read" in _reason(tmp_path / "nul\0l.pfx")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="this account reads every file")
def test_a_file_without_read_access_is_named(tmp_path: Path, aes_file: bytes) -> None:
    """OPS-112: an operator is told to grant access."""
    path = tmp_path / "locked.pfx"
    path.write_bytes(aes_file)
    path.chmod(0)
    assert "read access" in _reason(path)


def test_an_unknown_cipher_is_named_by_its_oid(openssl_pfx: Callable[..., bytes], ec_identity: Any) -> None:
    """OPS-112: the OID tells support which tool made the file."""
    data = openssl_pfx(ec_identity, "-legacy", "-keypbe", "PBE-SHA1-RC4-128", "-certpbe", "PBE-SHA1-RC4-128")
    with pytest.raises(CipherNotSupported, match=r"1\.2\.840\.113549\.1\.12\.1\.1;"):
        open_pfx(data, PASSWORD, [])


def test_a_changed_byte_is_damage_not_a_wrong_password(openssl_pfx: Callable[..., bytes], ec_identity: Any) -> None:
    """OPS-112: where a part still opens with the password, the password is right."""
    data = bytearray(openssl_pfx(ec_identity))
    certificate_part = data.find(ec_identity.certificate.public_bytes(Encoding.DER))
    assert certificate_part < 0
    shrouded = data.rfind(bytes.fromhex("060960864801650304012a"))
    data[shrouded + 60] ^= 1
    with pytest.raises(Damaged, match="password is right"):
        open_pfx(bytes(data), PASSWORD, [])


@pytest.mark.parametrize("cut", [1, 30, 300])
def test_a_cut_file_says_how_much_is_missing(aes_file: bytes, cut: int) -> None:
    """OPS-112: a truncated copy is no wrong password."""
    with pytest.raises(Damaged, match=f"should have {len(aes_file)} bytes and has {len(aes_file) - cut}"):
        open_pfx(aes_file[:-cut], PASSWORD, [])


def test_a_pem_text_is_recognised(ec_identity: Any) -> None:
    """OPS-112: the commonest wrong file gets a hint."""
    with pytest.raises(NotPkcs12, match="PEM"):
        open_pfx(ec_identity.certificate.public_bytes(Encoding.PEM), "", [])
    with pytest.raises(NotPkcs12):
        open_pfx(ec_identity.certificate.public_bytes(Encoding.DER), "", [])


def test_a_foreign_certificate_does_not_pass_for_the_keys_own(ec_identity: Any, issue: Callable[..., Any]) -> None:
    """OPS-112: a certificate of another key is as good as none."""
    other = issue("Other", ec.generate_private_key(ec.SECP256R1()), None)
    data = serialize_key_and_certificates(None, ec_identity.key, None, [other.certificate], NoEncryption())
    with pytest.raises(NoCertificate, match="no certificate for the private key"):
        open_pfx(data, "", [])


def test_an_unreadable_certificate_matters_only_when_it_is_the_signers(
    openssl_pfx: Callable[..., bytes], rsa_identity: Any
) -> None:
    """OPS-112: an odd certificate of the chain is left out; without the signer's the file is damaged."""
    plain = openssl_pfx(rsa_identity, "-nomac", "-keypbe", "NONE", "-certpbe", "NONE")

    def spoil(certificate: Any) -> bytes:
        der = certificate.public_bytes(Encoding.DER)
        # The version of the certificate becomes one that does not exist; no length changes.
        return plain.replace(der, der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x09", 1))

    nearest, root = rsa_identity.issuers
    assert open_pfx(spoil(root), "", []).chain == (nearest.public_bytes(Encoding.DER),)
    with pytest.raises(Damaged, match="certificate in it is not readable"):
        open_pfx(spoil(rsa_identity.certificate), "", [])


def test_a_key_that_no_format_can_use_is_refused(ec_identity: Any) -> None:
    """OPS-112: Ed25519 has no place in the signature policies."""
    key = ed25519.Ed25519PrivateKey.generate()
    data = serialize_key_and_certificates(None, key, None, [ec_identity.certificate], NoEncryption())
    with pytest.raises(NoPrivateKey, match="RSA and ECDSA"):
        open_pfx(data, "", [])


def test_two_certificates_of_one_key_are_refused(ec_identity: Any, issue: Callable[..., Any]) -> None:
    """CFG-70: nothing would say which of them signs."""
    renewed = issue("Renewed", ec_identity.key, None)
    data = serialize_key_and_certificates(
        None, ec_identity.key, ec_identity.certificate, [renewed.certificate], NoEncryption()
    )
    with pytest.raises(NoCertificate, match="2 certificates"):
        open_pfx(data, "", [])


def test_no_damage_escapes_as_another_error(aes_file: bytes) -> None:
    """OPS-112: whatever the bytes are, the answer is a refusal or an opened key."""
    chance = random.Random(7)
    plain = len(aes_file)
    for _ in range(150):
        data = bytearray(aes_file)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(min(plain, 120) if chance.random() < 0.7 else plain)] = chance.randrange(256)
        with contextlib.suppress(EnvelopeRefused):
            open_pfx(bytes(data), PASSWORD, [])
    for size in range(0, plain, 7):
        with pytest.raises(EnvelopeRefused):
            open_pfx(aes_file[:size], PASSWORD, [])


def test_a_wrong_password_without_a_mac_is_still_refused(openssl_pfx: Callable[..., bytes], ec_identity: Any) -> None:
    """OPS-112: the cipher's padding and the shape of the content stand in for the MAC."""
    with pytest.raises(WrongPassword, match="no MAC"):
        open_pfx(openssl_pfx(ec_identity, "-nomac"), "another password", [])
