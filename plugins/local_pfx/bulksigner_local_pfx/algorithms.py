"""Password-based algorithms of PKCS#12: key derivation, decryption and MAC, chosen by OID."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

from asn1crypto import core
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from bulksigner_local_pfx import rc2
from bulksigner_local_pfx.passwords import Reading
from bulksigner_local_pfx.refusals import CipherNotSupported, Damaged

__all__ = ["decrypt", "derive_key", "mac_of"]

_PBES2 = "1.2.840.113549.1.5.13"
_PBMAC1 = "1.2.840.113549.1.5.14"
_PBKDF2 = "1.2.840.113549.1.5.12"
_KEY, _VECTOR, _MAC = 1, 2, 3
_MOST_ITERATIONS = 10_000_000
_LONGEST_KEY_BYTES = 1024

_DIGESTS = {
    "1.3.14.3.2.26": "sha1",
    "2.16.840.1.101.3.4.2.4": "sha224",
    "2.16.840.1.101.3.4.2.1": "sha256",
    "2.16.840.1.101.3.4.2.2": "sha384",
    "2.16.840.1.101.3.4.2.3": "sha512",
}
_HMACS = {
    "1.2.840.113549.2.7": "sha1",
    "1.2.840.113549.2.8": "sha224",
    "1.2.840.113549.2.9": "sha256",
    "1.2.840.113549.2.10": "sha384",
    "1.2.840.113549.2.11": "sha512",
}
# RFC 7292 appendix C: cipher and length of its key in bytes
_PBES1 = {
    "1.2.840.113549.1.12.1.3": ("3des", 24),
    "1.2.840.113549.1.12.1.4": ("3des", 16),
    "1.2.840.113549.1.12.1.5": ("rc2", 16),
    "1.2.840.113549.1.12.1.6": ("rc2", 5),
}
_SCHEMES = {
    "1.2.840.113549.3.7": ("3des", 24),
    "2.16.840.1.101.3.4.1.2": ("aes", 16),
    "2.16.840.1.101.3.4.1.22": ("aes", 24),
    "2.16.840.1.101.3.4.1.42": ("aes", 32),
}


class _Algorithm(core.Sequence):  # type: ignore[misc]  # asn1crypto has no types
    _fields = [("algorithm", core.ObjectIdentifier), ("parameters", core.Any, {"optional": True})]  # noqa: RUF012


class _SaltAndCount(core.Sequence):  # type: ignore[misc]
    _fields = [("salt", core.OctetString), ("iterations", core.Integer)]  # noqa: RUF012


class _TwoAlgorithms(core.Sequence):  # type: ignore[misc]
    _fields = [("derivation", _Algorithm), ("scheme", _Algorithm)]  # noqa: RUF012


class _Pbkdf2(core.Sequence):  # type: ignore[misc]
    _fields = [  # noqa: RUF012
        ("salt", core.OctetString),
        ("iterations", core.Integer),
        ("key_length", core.Integer, {"optional": True}),
        ("prf", _Algorithm, {"optional": True}),
    ]


def _unsupported(oid: str) -> CipherNotSupported:
    return CipherNotSupported(
        f"cipher not supported: the file uses algorithm {oid}; export it again with AES-256 or 3DES."
    )


def _checked_count(value: int) -> int:
    if not 1 <= value <= _MOST_ITERATIONS:
        raise Damaged(f"the file is damaged: it asks for {value} rounds of key derivation; copy it again.")
    return value


def derive_key(digest: str, purpose: int, wide: bytes, salt: bytes, iterations: int, length: int) -> bytes:
    """Derive `length` bytes for a purpose: 1 key, 2 initial vector, 3 MAC (RFC 7292 appendix B.2)."""
    block_bytes = hashlib.new(digest, usedforsecurity=False).block_size

    def fill(text: bytes) -> bytes:
        size = -(-len(text) // block_bytes) * block_bytes
        return (text * (size // len(text) + 1))[:size] if text else b""

    diversifier = bytes([purpose]) * block_bytes
    seed = fill(salt) + fill(wide)
    derived = b""
    while len(derived) < length:
        value = diversifier + seed
        for _ in range(iterations):
            value = hashlib.new(digest, value, usedforsecurity=False).digest()
        derived += value
        addend = int.from_bytes((value * block_bytes)[:block_bytes], "big") + 1
        seed = b"".join(
            ((int.from_bytes(seed[at : at + block_bytes], "big") + addend) % (1 << 8 * block_bytes)).to_bytes(
                block_bytes, "big"
            )
            for at in range(0, len(seed), block_bytes)
        )
    return derived[:length]


def _decrypt_blocks(cipher: str, key: bytes, vector: bytes, ciphertext: bytes) -> bytes:
    """Decrypt in CBC mode and take the padding off; `ValueError` tells of a wrong key."""
    if cipher == "rc2":
        padded = rc2.decrypt_cbc(key, 8 * len(key), vector, ciphertext)
    else:
        algorithm = AES(key) if cipher == "aes" else TripleDES(key if len(key) == 24 else key + key[:8])
        decryptor = Cipher(algorithm, CBC(vector)).decryptor()
        padded = decryptor.update(ciphertext) + decryptor.finalize()
    padding = padded[-1] if padded else 0
    if not 1 <= padding <= len(vector) or padded[-padding:] != bytes([padding]) * padding:
        raise ValueError("the padding is wrong")
    return padded[:-padding]


def _stretch(derivation: Any, octets: bytes, length: int) -> bytes:
    """Run the PBKDF2 that an AlgorithmIdentifier describes (RFC 8018 appendix A.2)."""
    oid = derivation["algorithm"].dotted
    if oid != _PBKDF2:
        raise _unsupported(oid)
    terms = _Pbkdf2.load(derivation["parameters"].dump())
    prf = terms["prf"]["algorithm"].dotted if isinstance(terms["prf"], _Algorithm) else "1.2.840.113549.2.7"
    if prf not in _HMACS:
        raise _unsupported(prf)
    if isinstance(terms["key_length"], core.Integer):
        length = terms["key_length"].native
        if not 1 <= length <= _LONGEST_KEY_BYTES:
            raise Damaged(f"the file is damaged: it asks for a key of {length} bytes; copy it again.")
    count = _checked_count(terms["iterations"].native)
    return hashlib.pbkdf2_hmac(_HMACS[prf], octets, terms["salt"].native, count, length)


def decrypt(algorithm: bytes, ciphertext: bytes, reading: Reading) -> bytes:
    """Decrypt what a DER AlgorithmIdentifier describes.

    Raises `ValueError` when the password, in this reading, is wrong or the ciphertext is damaged, and
    `CipherNotSupported` when the algorithm is not known here.
    """
    identifier = _Algorithm.load(algorithm)
    oid = identifier["algorithm"].dotted
    if oid in _PBES1:
        cipher, key_bytes = _PBES1[oid]
        terms = _SaltAndCount.load(identifier["parameters"].dump())
        salt, count = terms["salt"].native, _checked_count(terms["iterations"].native)
        key = derive_key("sha1", _KEY, reading.wide, salt, count, key_bytes)
        vector = derive_key("sha1", _VECTOR, reading.wide, salt, count, 8)
        return _decrypt_blocks(cipher, key, vector, ciphertext)
    if oid != _PBES2:
        raise _unsupported(oid)
    parts = _TwoAlgorithms.load(identifier["parameters"].dump())
    scheme = parts["scheme"]["algorithm"].dotted
    if scheme not in _SCHEMES:
        raise _unsupported(scheme)
    cipher, key_bytes = _SCHEMES[scheme]
    vector = core.OctetString.load(parts["scheme"]["parameters"].dump()).native
    key = _stretch(parts["derivation"], reading.octets, key_bytes)
    return _decrypt_blocks(cipher, key, vector, ciphertext)


def mac_of(algorithm: bytes, salt: bytes, iterations: int, content: bytes, reading: Reading) -> bytes:
    """Compute the MAC of a file (RFC 7292 section 4, RFC 9579) under one reading of the password."""
    identifier = _Algorithm.load(algorithm)
    oid = identifier["algorithm"].dotted
    if oid in _DIGESTS:
        digest = _DIGESTS[oid]
        length = hashlib.new(digest, usedforsecurity=False).digest_size
        key = derive_key(digest, _MAC, reading.wide, salt, _checked_count(iterations), length)
        return hmac.digest(key, content, digest)
    if oid != _PBMAC1:
        raise _unsupported(oid)
    parts = _TwoAlgorithms.load(identifier["parameters"].dump())
    scheme = parts["scheme"]["algorithm"].dotted
    if scheme not in _HMACS:
        raise _unsupported(scheme)
    length = hashlib.new(_HMACS[scheme]).digest_size
    return hmac.digest(_stretch(parts["derivation"], reading.octets, length), content, _HMACS[scheme])
