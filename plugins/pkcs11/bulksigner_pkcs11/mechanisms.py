"""How a signature is asked of a token, and how its answer becomes what the formats write."""

from __future__ import annotations

import enum
import hashlib

import attrs
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS, PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA1, SHA256, SHA512, HashAlgorithm

from bulksigner.contract.certificate import Digest
from bulksigner.contract.errors import PermanentFailure

__all__ = ["Ask", "Padding", "PublicKey", "choose", "finish", "verifies"]

PublicKey = RSAPublicKey | EllipticCurvePublicKey
HASHES: dict[Digest, HashAlgorithm] = {
    Digest.SHA1: SHA1(),  # noqa: S303 - plain XML signatures ask for it where a profile allows it (BEY-13)
    Digest.SHA256: SHA256(),
    Digest.SHA512: SHA512(),
}
# RFC 8017 9.2, notes: the DER of a DigestInfo up to its digest.
_DIGEST_INFO = {
    Digest.SHA1: bytes.fromhex("3021300906052b0e03021a05000414"),
    Digest.SHA256: bytes.fromhex("3031300d060960864801650304020105000420"),
    Digest.SHA512: bytes.fromhex("3051300d060960864801650304020305000440"),
}


class Padding(enum.Enum):
    """The two ways an RSA key signs (RFC 8017 8)."""

    PKCS1 = "pkcs1"
    PSS = "pss"


@attrs.frozen
class Ask:
    """A mechanism by the name of PKCS #11 and what it is given."""

    mechanism: str
    data: bytes
    pss_digest: str | None = None


def choose(
    key: PublicKey, offered: frozenset[str], padding: Padding, data: bytes | None, value: bytes, digest: Digest
) -> Ask:
    """Choose among the mechanisms that a token offers; `data` is None where only the digest `value` is known.

    A token that hashes by itself is given the data, any other one the digest. Raises `PermanentFailure`.
    """
    if len(value) != hashlib.new(digest.value).digest_size:
        raise PermanentFailure(f"The key cannot sign: a digest of {len(value)} bytes is no {digest.name}.")
    if isinstance(key, EllipticCurvePublicKey):
        # FIPS 186-5 6.4: the leftmost bits of the digest count, as many as the order has.
        return _only(offered, Ask("ECDSA", value[: (key.key_size + 7) // 8]))
    suffix, pss_digest = ("_PSS", digest.value) if padding is Padding.PSS else ("", None)
    hashing = f"{digest.name}_RSA_PKCS{suffix}"
    if data is not None and hashing in offered:
        return Ask(hashing, data, pss_digest)
    prefix = b"" if padding is Padding.PSS else _DIGEST_INFO[digest]
    return _only(offered, Ask(f"RSA_PKCS{suffix}", prefix + value, pss_digest))


def _only(offered: frozenset[str], ask: Ask) -> Ask:
    if ask.mechanism not in offered:
        raise PermanentFailure(f"The token lacks the mechanism CKM_{ask.mechanism}, which this signature needs.")
    return ask


def finish(key: PublicKey, answer: bytes) -> bytes:
    """Return the signature as the formats write it: of ECDSA the DER of RFC 3279, where a token gives two numbers."""
    if isinstance(key, RSAPublicKey):
        return answer
    half = len(answer) // 2
    return encode_dss_signature(int.from_bytes(answer[:half]), int.from_bytes(answer[half:]))


def verifies(key: PublicKey, padding: Padding, signature: bytes, data: bytes, digest: Digest) -> bool:
    """Tell whether a signature over `data` is that of the key."""
    algorithm = HASHES[digest]
    try:
        if isinstance(key, EllipticCurvePublicKey):
            key.verify(signature, data, ECDSA(algorithm))
        elif padding is Padding.PSS:
            key.verify(signature, data, PSS(MGF1(algorithm), algorithm.digest_size), algorithm)
        else:
            key.verify(signature, data, PKCS1v15(), algorithm)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True
