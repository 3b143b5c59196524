"""Decryption of PDF files that open without a password, for the check only (ISO 32000-2 7.6)."""

from __future__ import annotations

import hashlib
import re

import attrs
from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from bulksigner.formats.model import CheckFailed
from bulksigner.formats.pdf_syntax import PdfDict, PdfString, PdfValue

__all__ = ["Decryption", "decode_string"]

# 7.6.4.3: what fills up a password of less than 32 bytes, here one of none.
_PADDING = bytes.fromhex("28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a")
_BLOCK_BYTES = 16
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|(\r\n|\r|\n)|(.))|\r\n?", re.DOTALL)
_NAMED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}
_HASHES = ("sha256", "sha384", "sha512")


def decode_string(text: PdfString) -> bytes:
    """Return the bytes that a string stands for (7.3.4)."""
    inside = text.written[1:-1]
    if text.written.startswith(b"<"):
        digits = bytes(inside).translate(None, b"\0\t\n\f\r ").decode("ascii")
        return bytes.fromhex(digits + "0" * (len(digits) % 2))
    return _ESCAPE.sub(_unescape, inside)


def _unescape(mark: re.Match[bytes]) -> bytes:
    if mark[1]:
        return bytes([int(mark[1], 8) & 0xFF])
    if mark[3]:
        return _NAMED.get(mark[3], mark[3])
    return b"" if mark[2] else b"\n"


@attrs.frozen
class Decryption:
    """The key of a file, and the method of its streams and of its strings: `V2`, `AESV2`, `AESV3` or `Identity`."""

    key: bytes = attrs.field(repr=False)
    streams: str
    strings: str

    @classmethod
    def open(cls, entries: PdfDict, identity: bytes) -> Decryption:
        """Derive the key of the empty user password; raises `CheckFailed` where the protection is of another kind."""
        version, revision = _integer(entries, "/V"), _integer(entries, "/R")
        if entries.get("/Filter") != "/Standard" or version not in (1, 2, 4, 5):
            raise CheckFailed("The PDF is encrypted in a way that the check cannot read.")
        streams = strings = "V2"
        if version >= 4:
            streams, strings = (_method(entries, key) for key in ("/StmF", "/StrF"))
        if version == 5:
            return cls(_open_aes_256(entries, revision), streams, strings)
        bits = {1: 40, 4: 128}.get(version) or _integer(entries, "/Length", 40)
        if not 40 <= bits <= 128 or bits % 8:
            raise CheckFailed("The PDF is encrypted with a key of an unknown length.")
        digest = hashlib.md5(_PADDING + _string(entries, "/O")[:32], usedforsecurity=False)
        digest.update((_integer(entries, "/P") & 0xFFFFFFFF).to_bytes(4, "little") + identity)
        if revision >= 4 and entries.get("/EncryptMetadata") is False:
            digest.update(b"\xff\xff\xff\xff")
        key = digest.digest()[: bits // 8]
        for _ in range(50 if revision >= 3 else 0):
            key = hashlib.md5(key, usedforsecurity=False).digest()[: bits // 8]
        return cls(key, streams, strings)

    def stream(self, data: bytes, number: int, generation: int) -> bytes:
        """Decrypt the content of a stream."""
        return self._decrypt(self.streams, data, number, generation)

    def string(self, data: bytes, number: int, generation: int) -> bytes:
        """Decrypt a string of the object of that number."""
        return self._decrypt(self.strings, data, number, generation)

    def _decrypt(self, method: str, data: bytes, number: int, generation: int) -> bytes:
        if method == "Identity":
            return data
        if method == "AESV3":
            return _decrypt_cbc(self.key, data)
        salt = number.to_bytes(4, "little")[:3] + generation.to_bytes(4, "little")[:2]
        if method == "AESV2":
            salt += b"sAlT"
        size = min(len(self.key) + 5, 16)
        key = hashlib.md5(self.key + salt, usedforsecurity=False).digest()[:size]
        return _decrypt_cbc(key, data) if method == "AESV2" else Cipher(ARC4(key), None).decryptor().update(data)


def _method(entries: PdfDict, key: str) -> str:
    name, filters = entries.get(key, "/Identity"), entries.get("/CF")
    if name == "/Identity":
        return "Identity"
    chosen = filters.get(name) if isinstance(filters, dict) and isinstance(name, str) else None
    method = chosen.get("/CFM") if isinstance(chosen, dict) else None
    if method not in ("/V2", "/AESV2", "/AESV3"):
        raise CheckFailed("The PDF is encrypted by a method that the check does not know.")
    return str(method)[1:]


def _open_aes_256(entries: PdfDict, revision: int) -> bytes:
    """Algorithm 2.A for the empty user password."""
    user, wrapped = _string(entries, "/U"), _string(entries, "/UE")
    if revision not in (5, 6) or len(user) < 48 or len(wrapped) != 32:
        raise CheckFailed("The PDF is encrypted with damaged entries (trailer, /Encrypt).")
    salt = user[40:48]
    key = hashlib.sha256(salt).digest() if revision == 5 else _hash_2b(salt)
    decryptor = Cipher(algorithms.AES(key), modes.CBC(bytes(_BLOCK_BYTES))).decryptor()
    return decryptor.update(wrapped) + decryptor.finalize()


def _hash_2b(salt: bytes) -> bytes:
    """Algorithm 2.B for the empty password."""
    value, done = hashlib.sha256(salt).digest(), 0
    while True:
        encryptor = Cipher(algorithms.AES(value[:16]), modes.CBC(value[16:32])).encryptor()
        mixed = encryptor.update(value * 64) + encryptor.finalize()
        value = hashlib.new(_HASHES[sum(mixed[:_BLOCK_BYTES]) % 3], mixed).digest()
        done += 1
        if done >= 64 and mixed[-1] <= done - 32:
            return value[:32]


def _decrypt_cbc(key: bytes, data: bytes) -> bytes:
    if len(data) < 2 * _BLOCK_BYTES or len(data) % _BLOCK_BYTES:
        raise CheckFailed("The PDF has encrypted data of a length that cannot be.")
    decryptor = Cipher(algorithms.AES(key), modes.CBC(data[:_BLOCK_BYTES])).decryptor()
    plain = decryptor.update(data[_BLOCK_BYTES:]) + decryptor.finalize()
    if not 1 <= plain[-1] <= _BLOCK_BYTES:
        raise CheckFailed("The PDF has encrypted data that the empty password does not open.")
    return plain[: -plain[-1]]


def _integer(entries: PdfDict, key: str, default: int | None = None) -> int:
    value: PdfValue = entries.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise CheckFailed(f"The PDF is encrypted without {key} (trailer, /Encrypt).")
    return value


def _string(entries: PdfDict, key: str) -> bytes:
    value = entries.get(key)
    if not isinstance(value, PdfString):
        raise CheckFailed(f"The PDF is encrypted without {key} (trailer, /Encrypt).")
    return decode_string(value)
