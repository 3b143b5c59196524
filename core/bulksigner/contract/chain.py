"""For certificate sources: order the certificates of a chain, the signer's issuer first, the root last (ICP-25)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding

from bulksigner.contract.errors import PermanentFailure

__all__ = ["order_chain", "read_folder"]

_SUFFIXES = frozenset({".pem", ".crt", ".cer", ".der"})
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_LARGEST_BYTES = 1024 * 1024


def _parse(data: bytes) -> list[x509.Certificate]:
    blocks = _PEM.findall(data)
    return [x509.load_pem_x509_certificate(block) for block in blocks] or [x509.load_der_x509_certificate(data)]


def read_folder(folder: Path, key: str) -> list[x509.Certificate]:
    """Read the certificates of a folder, PEM or DER, in the order of their file names; `key` is the setting it is from.

    Raises `PermanentFailure`, naming the file, when the folder or one of its certificates cannot be read: a chain that
    silently lacks an issuer would be found by the receiver of a signature.
    """
    found: list[x509.Certificate] = []
    at = folder
    try:
        for at in sorted(folder.iterdir()):
            if at.suffix.lower() in _SUFFIXES and at.is_file() and at.stat().st_size <= _LARGEST_BYTES:
                found += _parse(at.read_bytes())
    except OSError as error:
        raise PermanentFailure(f"chain folder: {at} cannot be read ({error.strerror}); check {key}.") from error
    except (ValueError, x509.InvalidVersion) as error:
        raise PermanentFailure(
            f"chain folder: {at} is no certificate, PEM or DER; take it out of the folder."
        ) from error
    return found


def _issued(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def order_chain(leaf: x509.Certificate, others: Iterable[x509.Certificate]) -> tuple[bytes, ...]:
    """Follow the issuers of `leaf` as far as `others` reach, by name and signature; DER, nearest first."""
    left = [other for other in dict.fromkeys(others) if other != leaf]
    chain: list[bytes] = []
    current = leaf
    while current.issuer != current.subject:
        issuers = [other for other in left if _issued(current, other)]
        if not issuers:
            break
        # Of two certificates of one issuer key, such as a renewed one, the one that lasts longer serves.
        current = max(issuers, key=lambda issuer: issuer.not_valid_after_utc)
        left.remove(current)
        chain.append(current.public_bytes(Encoding.DER))
    return tuple(chain)
