"""Proves at start that the signature formats work on this host, and pays their first-use cost before any job."""

from __future__ import annotations

import datetime
import hashlib
import io
from collections.abc import Collection

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from bulksigner.contract.certificate import Digest, KeyAlgorithm
from bulksigner.contract.signing import Format, Measured
from bulksigner.formats import dispatch
from bulksigner.formats.model import Expectation

__all__ = ["find_fault"]

_HASHES: dict[Digest, hashes.HashAlgorithm] = {Digest.SHA256: hashes.SHA256(), Digest.SHA512: hashes.SHA512()}
_OBJECTS = (
    b"<</Type /Catalog /Pages 2 0 R>>",
    b"<</Type /Pages /Count 1 /Kids [3 0 R]>>",
    b"<</Type /Page /Parent 2 0 R /MediaBox [0 0 9 9]>>",
)


class _PassingKey:
    """A key of this one test, never written anywhere; elliptic, because an RSA key takes long to make."""

    algorithm = KeyAlgorithm.ECDSA
    chain: tuple[bytes, ...] = ()

    def __init__(self, now: datetime.datetime) -> None:
        self._private = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "self-test")])
        day = datetime.timedelta(days=1)
        builder = x509.CertificateBuilder(name, name, self._private.public_key(), 1, now - day, now + day)
        self.certificate = builder.sign(self._private, hashes.SHA256()).public_bytes(Encoding.DER)

    def sign(self, data: bytes, digest: Digest) -> bytes:
        return self._private.sign(data, ec.ECDSA(_HASHES[digest]))

    def sign_digest(self, value: bytes, digest: Digest) -> bytes:
        raise NotImplementedError

    def close(self) -> None:
        """Hold nothing."""


def find_fault(formats: Collection[Format]) -> str | None:
    """Sign and check one small file in each format; return the first thing that went wrong, or None (API-82)."""
    now = datetime.datetime.now(datetime.UTC)
    for tried in formats:
        try:
            _try(tried, _PassingKey(now), now)
        except Exception as error:  # noqa: BLE001 - a broken library fails in ways of its own, and each is the verdict
            return f"{tried.value}: {type(error).__name__}: {error}"
    return None


def _try(format: Format, key: _PassingKey, now: datetime.datetime) -> None:
    content = _SAMPLES[format]
    original = Measured(len(content), hashlib.sha256(content).digest())
    artifact = io.BytesIO()
    dispatch.signer_for(format, key).sign(io.BytesIO(content), artifact, expected=original, signed_at=now)
    artifact.seek(0)
    dispatch.check(artifact, Expectation(format, key.certificate, original))


def _blank_page() -> bytes:
    document, offsets = b"%PDF-1.4\n", [b"0000000000 65535 f \n"]
    for number, content in enumerate(_OBJECTS, start=1):
        offsets.append(b"%010d 00000 n \n" % len(document))
        document += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    trailer = b"trailer\n<</Size %d /Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(offsets), len(document))
    return document + b"xref\n0 %d\n" % len(offsets) + b"".join(offsets) + trailer


_SAMPLES = {Format.PADES: _blank_page(), Format.CADES: b"self-test", Format.XADES: b"<test>self-test</test>"}
