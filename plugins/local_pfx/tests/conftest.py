"""Throw-away certificates and the PKCS#12 files made of them."""

from __future__ import annotations

import datetime
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
_NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@attrs.frozen
class Identity:
    """A key with its certificate and the issuers' certificates, nearest first."""

    key: Key
    certificate: x509.Certificate
    issuers: tuple[x509.Certificate, ...] = ()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def issue_certificate(subject: str, key: Key, by: Identity | None, *, days: int = 3650) -> Identity:
    """Issue a certificate; `by` None makes it self-signed, negative `days` make it expired."""
    issuer_name = by.certificate.subject if by else _name(subject)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_NOW - datetime.timedelta(days=4000))
        .not_valid_after(_NOW + datetime.timedelta(days=days))
        .sign(by.key if by else key, SHA256())
    )
    return Identity(key, certificate, (by.certificate, *by.issuers) if by else ())


@pytest.fixture(scope="session")
def issue() -> Callable[..., Identity]:
    """Hand out `issue_certificate`; test modules cannot import this one."""
    return issue_certificate


@pytest.fixture(scope="session")
def rsa_identity() -> Identity:
    """An RSA key under an intermediate and a root."""
    root = issue_certificate("Test Root", ec.generate_private_key(ec.SECP256R1()), None)
    middle = issue_certificate("Test Intermediate", ec.generate_private_key(ec.SECP256R1()), root)
    return issue_certificate("COMPANY:11222333000181", rsa.generate_private_key(65537, 2048), middle)


@pytest.fixture(scope="session")
def ec_identity() -> Identity:
    """A self-signed key on P-256."""
    return issue_certificate("Test EC", ec.generate_private_key(ec.SECP256R1()), None)


@pytest.fixture
def openssl_pfx(tmp_path: Path) -> Callable[..., bytes]:
    """Make a PKCS#12 file with the command line of OpenSSL."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("the openssl command line is not installed")

    def make(identity: Identity, *arguments: str, password: str = "correct horse", chain: bool = True) -> bytes:
        key, certificates, target = tmp_path / "key.pem", tmp_path / "certificates.pem", tmp_path / "made.pfx"
        key.write_bytes(
            identity.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        )
        issuers = identity.issuers if chain else ()
        certificates.write_bytes(b"".join(c.public_bytes(Encoding.PEM) for c in (identity.certificate, *issuers)))
        command = [program, "pkcs12", "-export", "-inkey", str(key), "-in", str(certificates), "-out", str(target)]
        run = subprocess.run(
            [*command, "-passout", f"pass:{password}", *arguments], capture_output=True, check=False, timeout=30
        )
        if run.returncode:
            pytest.skip(f"this OpenSSL cannot make the file: {run.stderr.decode(errors='replace')[:200]}")
        return target.read_bytes()

    return make
