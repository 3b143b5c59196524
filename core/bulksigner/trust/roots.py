"""The trust set of the host: roots and intermediates out of folders; the operating system's store is never asked."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import attrs
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs7

from bulksigner.contract.errors import ConfigurationRefused, Failure
from bulksigner.settings.trust import TrustSettings

__all__ = ["TrustSet", "TrustedCertificate", "load_trust"]

_CERTIFICATES = frozenset({".pem", ".crt", ".cer", ".der"})
_BUNDLES = frozenset({".p7b", ".p7c", ".spc"})
_PEM = b"-----BEGIN "
_LONGEST_FILE_BYTES = 16 << 20
_ICP_BRASIL = "ICP-Brasil"


@attrs.frozen(slots=False)
class TrustedCertificate:
    """One certificate of the trust set, DER, and the file it lies in."""

    encoded: bytes
    parsed: x509.Certificate
    path: Path

    def __reduce__(self) -> tuple[object, ...]:
        """Travel to worker processes as bytes, since a parsed certificate cannot."""
        return _load_trusted, (self.encoded, self.path)

    @functools.cached_property
    def subject(self) -> bytes:
        """Return the encoded name of the holder."""
        return self.parsed.subject.public_bytes()


def _load_trusted(encoded: bytes, path: Path) -> TrustedCertificate:
    return TrustedCertificate(encoded, x509.load_der_x509_certificate(encoded), path)


@attrs.frozen
class TrustSet:
    """Roots that are trusted, and intermediates that help to reach them; empty where no folder is named (CFG-68)."""

    roots: tuple[TrustedCertificate, ...] = ()
    intermediates: tuple[TrustedCertificate, ...] = ()
    test_roots_count: int = 0

    def __bool__(self) -> bool:
        return bool(self.roots)

    def list_above(self, certificates: Iterable[bytes]) -> list[bytes]:
        """Return the intermediates that may be issuers of some certificates, or of one another above them."""
        wanted = {_issuer_of(one) for one in certificates}
        found: dict[bytes, TrustedCertificate] = {}
        while True:
            more = [one for one in self.intermediates if one.encoded not in found and one.subject in wanted]
            if not more:
                return list(found)
            found |= {one.encoded: one for one in more}
            wanted |= {one.parsed.issuer.public_bytes() for one in more}

    def describe(self) -> str:
        """Return the value of the banner row `trust set` (OPS-31)."""
        if not self.roots:
            return "empty (Signing:Trust:RootsPath names no root)"
        own = [root for root in self.roots if _organization(root.parsed.subject) == _ICP_BRASIL]
        count = f"{len(self.roots)} root{'s' if len(self.roots) > 1 else ''}"
        told = f"ICP-Brasil, {count}" if len(own) == len(self.roots) else count
        return f"{told} + TEST ROOT" if self.test_roots_count else told


def load_trust(settings: TrustSettings) -> TrustSet:
    """Read the folders that the settings name.

    Self-signed certificates of authorities are roots, the other ones intermediates. Raises `ConfigurationRefused` with
    every file that cannot be read or holds what is no authority's certificate.
    """
    failures: list[Failure] = []
    found = list(_read_folder("Signing:Trust:RootsPath", settings.roots_path, failures))
    tests: list[TrustedCertificate] = []
    if settings.allow_test_roots:
        tests = list(_read_folder("Signing:Trust:TestRootsPath", settings.test_roots_path, failures))
    if failures:
        raise ConfigurationRefused(failures)
    unique = {one.encoded: one for one in (*found, *tests)}
    roots = tuple(one for one in unique.values() if _is_root(one.parsed))
    intermediates = tuple(one for one in unique.values() if not _is_root(one.parsed))
    return TrustSet(roots, intermediates, sum(_is_root(one.parsed) for one in tests))


def _read_folder(key: str, folder: Path | None, failures: list[Failure]) -> Iterator[TrustedCertificate]:
    if folder is None:
        return
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix.casefold() in _CERTIFICATES | _BUNDLES)
    except OSError as error:
        failures.append(Failure(key, f"names {folder}, which cannot be read: {error.strerror}.", "Correct its rights."))
        return
    for path in paths:
        try:
            certificates = _read_file(path)
        except (OSError, ValueError, x509.InvalidVersion, UnsupportedAlgorithm) as error:
            told = error.strerror if isinstance(error, OSError) else "it holds no certificate as PEM, DER or PKCS #7"
            failures.append(Failure(key, f"holds {path.name}, which cannot be read: {told}.", "Replace or remove it."))
            continue
        for certificate in certificates:
            if _is_authority(certificate):
                encoded = certificate.public_bytes(serialization.Encoding.DER)
                yield TrustedCertificate(encoded, certificate, path)
            else:
                failures.append(
                    Failure(
                        key,
                        f"holds {path.name} with a certificate that is no authority's (serial "
                        f"{certificate.serial_number:X}).",
                        "Take it out: the folder is for roots and intermediates.",
                    )
                )


def _read_file(path: Path) -> Sequence[x509.Certificate]:
    content = path.read_bytes()
    if len(content) > _LONGEST_FILE_BYTES:
        raise ValueError
    is_pem = _PEM in content
    if path.suffix.casefold() in _BUNDLES:
        found = pkcs7.load_pem_pkcs7_certificates(content) if is_pem else pkcs7.load_der_pkcs7_certificates(content)
    elif is_pem:
        found = x509.load_pem_x509_certificates(content)
    else:
        found = [x509.load_der_x509_certificate(content)]
    if not found:
        raise ValueError
    return found


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return bool(certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except x509.ExtensionNotFound:
        # Roots of before RFC 5280 have no extensions at all.
        return certificate.version is x509.Version.v1 and _is_root(certificate)


def _is_root(certificate: x509.Certificate) -> bool:
    if certificate.subject != certificate.issuer:
        return False
    try:
        certificate.verify_directly_issued_by(certificate)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _issuer_of(certificate: bytes) -> bytes:
    try:
        return x509.load_der_x509_certificate(certificate).issuer.public_bytes()
    except (ValueError, x509.InvalidVersion):
        return b""


def _organization(name: x509.Name) -> str:
    return _first(name, x509.NameOID.ORGANIZATION_NAME)


def _first(name: x509.Name, kind: x509.ObjectIdentifier) -> str:
    values: Iterable[x509.NameAttribute[str | bytes]] = name.get_attributes_for_oid(kind)
    return next((str(value.value) for value in values), "")
