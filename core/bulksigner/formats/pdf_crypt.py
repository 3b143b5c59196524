"""Decryption of PDF files by a password or without one, for the check only (ISO 32000-2 7.6)."""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Iterable, Sequence

import attrs
from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from bulksigner.contract.settings import Secret
from bulksigner.formats.model import CheckFailed
from bulksigner.formats.pdf_syntax import PdfDict, PdfString, PdfValue

__all__ = ["Decryption", "decode_string", "encode_passwords"]

# 7.6.4.3: what fills up a password of less than 32 bytes.
_PADDING = bytes.fromhex("28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a")
_BLOCK_BYTES = 16
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|(\r\n|\r|\n)|(.))|\r\n?", re.DOTALL)
_NAMED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}
_HASHES = ("sha256", "sha384", "sha512")
_AES_256 = 5
_LONGEST = 127
# Where PDFDocEncoding is not Latin-1, among the printable characters (ISO 32000-2 D.2): 0x18 to 0x1F, 0x80 to 0xA0.
_PDF_DOC = str.maketrans(
    dict(
        zip(
            "\u02d8\u02c7\u02c6\u02d9\u02dd\u02db\u02da\u02dc"
            "\u2022\u2020\u2021\u2026\u2014\u2013\u0192\u2044\u2039\u203a\u2212\u2030\u201e\u201c\u201d\u2018\u2019\u201a"
            "\u2122\ufb01\ufb02\u0141\u0152\u0160\u0178\u017d\u0131\u0142\u0153\u0161\u017e\u20ac",
            map(chr, (*range(0x18, 0x20), *range(0x80, 0x9F), 0xA0)),
            strict=True,
        )
    )
)


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
    def open(cls, entries: PdfDict, identity: bytes, passwords: Sequence[Secret] = ()) -> Decryption:
        """Derive the key from no password, or from the first that opens the file as user or as owner.

        Raises `CheckFailed` where none does, or where the protection is of another kind.
        """
        version, revision = _integer(entries, "/V"), _integer(entries, "/R")
        if entries.get("/Filter") != "/Standard" or version not in (1, 2, 4, 5):
            raise CheckFailed("The PDF is encrypted in a way that the check cannot read.")
        streams = strings = "V2"
        if version >= 4:
            streams, strings = (_method(entries, key) for key in ("/StmF", "/StrF"))
        for password in encode_passwords(passwords, revision):
            if version == 5:
                key = _open_aes_256(entries, revision, password)
            else:
                bits = {1: 40, 4: 128}.get(version) or _integer(entries, "/Length", 40)
                key = _Legacy(entries, identity, revision, bits).open(password)
            if key is not None:
                return cls(key, streams, strings)
        raise CheckFailed("The PDF is encrypted, and no password that is known opens it.")

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
        return _decrypt_cbc(key, data) if method == "AESV2" else _rc4(key, data)


def _method(entries: PdfDict, key: str) -> str:
    name, filters = entries.get(key, "/Identity"), entries.get("/CF")
    if name == "/Identity":
        return "Identity"
    chosen = filters.get(name) if isinstance(filters, dict) and isinstance(name, str) else None
    method = chosen.get("/CFM") if isinstance(chosen, dict) else None
    if method not in ("/V2", "/AESV2", "/AESV3"):
        raise CheckFailed("The PDF is encrypted by a method that the check does not know.")
    return str(method)[1:]


def encode_passwords(passwords: Iterable[Secret], revision: int) -> tuple[bytes, ...]:
    """Return as bytes what to try on a file of that `/R`, each once: no password, then the given in their order.

    Where files have one byte for a character, programs disagree on the letters beyond ASCII; both ways are tried.
    """
    found = {b"": None}
    for password in passwords:
        text = password.reveal()
        if revision >= _AES_256:
            found[unicodedata.normalize("NFKC", text).encode()[:_LONGEST]] = None
            continue
        # An accent may come apart from its letter, as some keyboards and terminals send it.
        text = unicodedata.normalize("NFC", text)
        for form, encoding in ((text.translate(_PDF_DOC), "latin-1"), (text, "utf-8")):
            try:
                found[form.encode(encoding)[: len(_PADDING)]] = None
            except UnicodeEncodeError:
                continue
    return tuple(found)


@attrs.frozen
class _Legacy:
    """Keys of the revisions 2 to 4, of 40 to 128 bits (algorithms 2 to 7)."""

    entries: PdfDict
    identity: bytes
    revision: int
    bits: int

    def open(self, password: bytes) -> bytes | None:
        """Return the key of the file, or None where the password is neither the user's nor the owner's."""
        if not 40 <= self.bits <= 128 or self.bits % 8:
            raise CheckFailed("The PDF is encrypted with a key of an unknown length.")
        padded = (password + _PADDING)[: len(_PADDING)]
        return self._open_as_user(padded) or self._open_as_user(self._read_user_password(padded))

    def _open_as_user(self, padded: bytes) -> bytes | None:
        digest = hashlib.md5(padded + _string(self.entries, "/O")[:32], usedforsecurity=False)
        digest.update((_integer(self.entries, "/P") & 0xFFFFFFFF).to_bytes(4, "little") + self.identity)
        if self.revision >= 4 and self.entries.get("/EncryptMetadata") is False:
            digest.update(b"\xff\xff\xff\xff")
        key = self._lengthen(digest.digest())
        if self.revision == 2:
            return key if _rc4(key, _PADDING) == _string(self.entries, "/U")[:32] else None
        proof = hashlib.md5(_PADDING + self.identity, usedforsecurity=False).digest()
        for count in range(20):
            proof = _rc4(bytes(byte ^ count for byte in key), proof)
        return key if proof == _string(self.entries, "/U")[:16] else None

    def _read_user_password(self, padded: bytes) -> bytes:
        """Read the user's password, filled up, out of `/O` by the owner's."""
        key = self._lengthen(hashlib.md5(padded, usedforsecurity=False).digest())
        found = _string(self.entries, "/O")[:32]
        for count in range(19 if self.revision >= 3 else 0, -1, -1):
            found = _rc4(bytes(byte ^ count for byte in key), found)
        return found

    def _lengthen(self, key: bytes) -> bytes:
        key = key[: self.bits // 8]
        for _ in range(50 if self.revision >= 3 else 0):
            key = hashlib.md5(key, usedforsecurity=False).digest()[: self.bits // 8]
        return key


def _rc4(key: bytes, data: bytes) -> bytes:
    return Cipher(ARC4(key), None).decryptor().update(data)


def _open_aes_256(entries: PdfDict, revision: int, password: bytes) -> bytes | None:
    """Return the key of the file (algorithm 2.A), or None where the password is neither the user's nor the owner's."""
    user, owner = _string(entries, "/U"), _string(entries, "/O")
    if revision not in (5, 6) or min(len(user), len(owner)) < 48:
        raise CheckFailed("The PDF is encrypted with damaged entries (trailer, /Encrypt).")
    for entry, wrapped, more in ((owner, "/OE", user[:48]), (user, "/UE", b"")):
        if not hmac.compare_digest(_hash(revision, password, entry[32:40], more), entry[:32]):
            continue
        sealed = _string(entries, wrapped)
        if len(sealed) != 32:
            raise CheckFailed("The PDF is encrypted with damaged entries (trailer, /Encrypt).")
        key = _hash(revision, password, entry[40:48], more)
        decryptor = Cipher(algorithms.AES(key), modes.CBC(bytes(_BLOCK_BYTES))).decryptor()
        return decryptor.update(sealed) + decryptor.finalize()
    return None


def _hash(revision: int, password: bytes, salt: bytes, more: bytes) -> bytes:
    """Algorithm 2.B, of which revision 5 has the first line only."""
    value, done = hashlib.sha256(password + salt + more).digest(), 0
    while revision > _AES_256:
        encryptor = Cipher(algorithms.AES(value[:16]), modes.CBC(value[16:32])).encryptor()
        mixed = encryptor.update((password + value + more) * 64) + encryptor.finalize()
        value = hashlib.new(_HASHES[sum(mixed[:_BLOCK_BYTES]) % 3], mixed).digest()
        done += 1
        if done >= 64 and mixed[-1] <= done - 32:
            break
    return value[:32]


def _decrypt_cbc(key: bytes, data: bytes) -> bytes:
    if len(data) < 2 * _BLOCK_BYTES or len(data) % _BLOCK_BYTES:
        raise CheckFailed("The PDF has encrypted data of a length that cannot be.")
    decryptor = Cipher(algorithms.AES(key), modes.CBC(data[:_BLOCK_BYTES])).decryptor()
    plain = decryptor.update(data[_BLOCK_BYTES:]) + decryptor.finalize()
    if not 1 <= plain[-1] <= _BLOCK_BYTES:
        raise CheckFailed("The PDF has encrypted data that its password does not open.")
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
