"""The certificate source `Pfx` and the key it opens."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA1, SHA256, SHA512, HashAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_private_key

from bulksigner.contract.certificate import Digest, KeyAlgorithm, OpenedKey
from bulksigner.contract.chain import order_chain, read_folder
from bulksigner.contract.errors import PermanentFailure
from bulksigner_local_pfx.envelope import Contents, open_envelope
from bulksigner_local_pfx.refusals import Damaged, EnvelopeRefused, NoCertificate, NoPrivateKey, NotPkcs12, Unreadable
from bulksigner_local_pfx.settings import PfxBlock

__all__ = ["HeldKey", "PfxSource", "open_pfx"]

_PrivateKey = RSAPrivateKey | EllipticCurvePrivateKey
_HASHES: dict[Digest, HashAlgorithm] = {
    Digest.SHA1: SHA1(),  # noqa: S303 - plain XML signatures ask for it where a profile allows it (BEY-13)
    Digest.SHA256: SHA256(),
    Digest.SHA512: SHA512(),
}
_PREHASHED = {digest: Prehashed(algorithm) for digest, algorithm in _HASHES.items()}
_LARGEST_BYTES = 16 * 1024 * 1024
_UNREADABLE = "the file is damaged: a certificate in it is not readable; copy it again."


class HeldKey:
    """A private key of a PKCS#12 file, held in memory; an `OpenedKey`."""

    def __init__(self, key: _PrivateKey, certificate: bytes, chain: tuple[bytes, ...]) -> None:
        self._key: _PrivateKey | None = key
        self._certificate = certificate
        self._chain = chain
        self._algorithm = KeyAlgorithm.RSA if isinstance(key, RSAPrivateKey) else KeyAlgorithm.ECDSA

    @property
    def certificate(self) -> bytes:
        """Return the signer's certificate, DER."""
        return self._certificate

    @property
    def chain(self) -> tuple[bytes, ...]:
        """Return the issuers' certificates, DER, nearest first."""
        return self._chain

    @property
    def algorithm(self) -> KeyAlgorithm:
        """Return the kind of the private key."""
        return self._algorithm

    def _sign(self, data: bytes, algorithm: HashAlgorithm | Prehashed) -> bytes:
        key = self._key
        if key is None:
            raise PermanentFailure("The key is closed; the service is stopping.")
        try:
            if isinstance(key, RSAPrivateKey):
                return key.sign(data, PKCS1v15(), algorithm)
            return key.sign(data, ECDSA(algorithm))
        except (ValueError, UnsupportedAlgorithm) as error:
            raise PermanentFailure(f"The key cannot sign: {error}") from error

    def sign(self, data: bytes, digest: Digest) -> bytes:
        """Hash and sign `data`."""
        return self._sign(data, _HASHES[digest])

    def sign_digest(self, value: bytes, digest: Digest) -> bytes:
        """Sign a digest value made elsewhere."""
        return self._sign(value, _PREHASHED[digest])

    def close(self) -> None:
        """Let go of the key."""
        self._key = None


class PfxSource:
    """Opens PKCS#12 files."""

    name = "Pfx"
    concurrent = True
    portable = True

    def locator(self, block: object) -> str:
        """Name the file."""
        return _block(block).path

    def open(self, block: object) -> OpenedKey:
        """Open the file that the block names; what is wrong with it becomes the reason of a degraded profile."""
        settings = _block(block)
        try:
            others = read_folder(Path(settings.chain_path), "Certificate:Pfx:ChainPath") if settings.chain_path else []
            return open_pfx(_read(Path(settings.path)), settings.password.reveal(), others)
        except EnvelopeRefused as error:
            raise PermanentFailure(f"PFX file {settings.path}: {error.message}") from error


def _block(block: object) -> PfxBlock:
    if not isinstance(block, PfxBlock):
        raise PermanentFailure(f"The source Pfx was given settings of another kind ({type(block).__name__}).")
    return block


def _read(path: Path) -> bytes:
    """Read a regular file of a credible size."""
    try:
        # O_NONBLOCK: opening a named pipe must not wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(descriptor, "rb") as file:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            data = file.read(_LARGEST_BYTES + 1) if regular else b""
    except FileNotFoundError as error:
        raise Unreadable("no such file on this host; check Certificate:Pfx:Path.") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the path is not usable"
        raise Unreadable(f"cannot be read ({reason}); give the account of the service read access.") from error
    if not regular:
        raise Unreadable("not a file; check Certificate:Pfx:Path.")
    if not data:
        raise Unreadable("the file is empty (0 bytes); copy it again.")
    if len(data) > _LARGEST_BYTES:
        raise NotPkcs12(f"not a PKCS#12 file: larger than {_LARGEST_BYTES} bytes.")
    return data


def _load_keys(contents: Contents) -> list[_PrivateKey]:
    if not contents.keys:
        raise NoPrivateKey("no private key in the file; export the certificate together with its private key.")
    keys: list[_PrivateKey] = []
    for encoded in contents.keys:
        try:
            key = load_der_private_key(encoded, None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise Damaged("the file is damaged: its private key is not usable; copy it again.") from error
        if isinstance(key, RSAPrivateKey | EllipticCurvePrivateKey):
            keys.append(key)
    if not keys:
        raise NoPrivateKey("no private key of a supported kind in the file; RSA and ECDSA sign.")
    return keys


def _load_certificates(contents: Contents) -> tuple[list[x509.Certificate], bool]:
    """Return the certificates that can be read, and whether there are others; an odd root does not stop a signer."""
    found: list[x509.Certificate] = []
    for encoded in contents.certificates:
        try:
            found.append(x509.load_der_x509_certificate(encoded))
        except (ValueError, x509.InvalidVersion):
            continue
    return found, len(found) < len(contents.certificates)


def _belongs(certificate: x509.Certificate, key: _PrivateKey) -> bool:
    wanted = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    try:
        found = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except (ValueError, UnsupportedAlgorithm):
        return False
    return found == wanted


def open_pfx(data: bytes, password: str, others: list[x509.Certificate]) -> HeldKey:
    """Open the key of a PKCS#12 file with its certificate; `others` may complete the chain.

    The certificate is found by its public key, since the identifiers in the bags are missing or wrong in many files.
    """
    contents = open_envelope(data, password)
    keys = _load_keys(contents)
    certificates, has_unreadable = _load_certificates(contents)
    pairs = [
        (key, certificate) for key in keys for certificate in dict.fromkeys(certificates) if _belongs(certificate, key)
    ]
    if not pairs and has_unreadable:
        raise Damaged(_UNREADABLE)
    if not pairs:
        raise NoCertificate("no certificate for the private key in the file; export both together.")
    if len(pairs) > 1:
        raise NoCertificate(
            f"{len(pairs)} certificates with their private key in the file; leave the one that is to sign."
        )
    key, certificate = pairs[0]
    try:
        chain = order_chain(certificate, [*certificates, *others])
    except ValueError as error:
        # Names and dates of a certificate are parsed only when they are asked for.
        raise Damaged(_UNREADABLE) from error
    return HeldKey(key, certificate.public_bytes(Encoding.DER), chain)
