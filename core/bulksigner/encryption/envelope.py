"""The envelope BSENC v1, byte by byte; written and read as streams, whatever the size (ENC-07 to ENC-12, ENC-28).

Magic (8), version (1), nonce (12), ciphertext (as long as the plaintext), tag (16); AES-256-GCM, no associated data.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable
from typing import Any, BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from bulksigner.contract.errors import BulkSignerError
from bulksigner.contract.signing import Measured
from bulksigner.encryption.key import EnvelopeKey

__all__ = [
    "LONGEST_PLAINTEXT",
    "MAGIC",
    "OVERHEAD",
    "SUFFIX",
    "VERSION",
    "DoesNotOpen",
    "NotAnEnvelope",
    "measure_content",
    "open_envelope",
    "refuse_too_long",
    "write_envelope",
]

MAGIC = b"BSENC\0\0\0"
VERSION = 1
SUFFIX = ".enc"
_NONCE_BYTES = 12
_TAG_BYTES = 16
_HEADER_BYTES = len(MAGIC) + 1 + _NONCE_BYTES
OVERHEAD = _HEADER_BYTES + _TAG_BYTES
LONGEST_PLAINTEXT = 1 << 31
"""Readers elsewhere hold an artifact whole, so nothing above 2 GiB is written (ENC-11)."""

_CHUNK_BYTES = 1 << 18
"""Small enough for a processor's cache, which doubles the speed."""
# What `update_into` asks for beyond the input.
_SPARE_BYTES = 15
_thread = threading.local()


class NotAnEnvelope(BulkSignerError):
    """Refuse what has not the form of an envelope of this version."""


class DoesNotOpen(BulkSignerError):
    """Say that the tag does not fit; what is wrong of key and bytes cannot be told (ENC-28)."""

    def __init__(self) -> None:
        super().__init__(
            "It does not open: password, salt or iterations are not those it was encrypted with, or the file was "
            "damaged or cut."
        )


def refuse_too_long(length: int) -> None:
    """Raise `BulkSignerError` for a file that is longer than what is encrypted (ENC-11)."""
    if length > LONGEST_PLAINTEXT:
        raise BulkSignerError(
            f"The file is longer than {LONGEST_PLAINTEXT} bytes (2 GiB), the most that is encrypted. "
            "Switch Encrypt off for its profile, or split the input."
        )


def write_envelope(plain: BinaryIO, out: BinaryIO, key: EnvelopeKey, *, nonce: bytes | None = None) -> Measured:
    """Encrypt a stream and measure the envelope in the same pass; a few hundred KiB of memory, whatever the length.

    Each call draws a fresh nonce (ENC-10); only test vectors give one. Raises `BulkSignerError` above 2 GiB (ENC-11).
    """
    nonce = secrets.token_bytes(_NONCE_BYTES) if nonce is None else nonce
    encryptor = Cipher(algorithms.AES(key.reveal()), modes.GCM(nonce)).encryptor()
    digest = hashlib.sha256()
    length = 0

    def put(piece: bytes | memoryview) -> None:
        nonlocal length
        out.write(piece)
        digest.update(piece)
        length += len(piece)

    put(MAGIC + bytes((VERSION,)) + nonce)
    source, target = _buffers()
    while count := _read_into(plain, source):
        refuse_too_long(length + count - _HEADER_BYTES)
        put(target[: encryptor.update_into(source[:count], target)])
    put(encryptor.finalize())
    put(encryptor.tag)
    return Measured(length, digest.digest())


def open_envelope(envelope: BinaryIO, length: int, key: EnvelopeKey, take: Callable[[memoryview], object]) -> int:
    """Decrypt an envelope of `length` bytes piece by piece, and return the length of its plaintext.

    `take` is given each piece, valid during the call only. What it was given is nothing until this returns: the tag
    comes last. Raises `NotAnEnvelope`, then `DoesNotOpen`, in the order of ENC-28.
    """
    if length < OVERHEAD:
        raise NotAnEnvelope(f"It is too short for an envelope: {length} bytes, and {OVERHEAD} is the least.")
    header = _read_exactly(envelope, _HEADER_BYTES)
    if header[: len(MAGIC)] != MAGIC:
        raise NotAnEnvelope("It is no envelope: unknown magic at its start.")
    version = header[len(MAGIC)]
    if version != VERSION:
        raise NotAnEnvelope(f"It is an envelope of the unsupported version {version}; this reads version {VERSION}.")
    decryptor = Cipher(algorithms.AES(key.reveal()), modes.GCM(header[len(MAGIC) + 1 :])).decryptor()
    source, target = _buffers()
    left = plain_length = length - OVERHEAD
    while left:
        count = _read_into(envelope, source[: min(left, len(source))])
        if not count:
            raise _shortened()
        take(target[: decryptor.update_into(source[:count], target)])
        left -= count
    try:
        decryptor.finalize_with_tag(_read_exactly(envelope, _TAG_BYTES))
    except InvalidTag:
        raise DoesNotOpen from None
    return plain_length


def measure_content(envelope: BinaryIO, length: int, key: EnvelopeKey) -> Measured:
    """Measure the plaintext of an envelope without keeping it; raises what `open_envelope` raises."""
    digest = hashlib.sha256()
    plain_length = open_envelope(envelope, length, key, digest.update)
    return Measured(plain_length, digest.digest())


def _read_into(stream: Any, view: memoryview) -> int:
    count: int = stream.readinto(view)
    return count


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = stream.read(count - len(found))
        if not piece:
            raise _shortened()
        found += piece
    return found


def _shortened() -> NotAnEnvelope:
    return NotAnEnvelope("It became shorter while it was read.")


def _buffers() -> tuple[memoryview, memoryview]:
    # Kept per thread, as fresh ones cost more than encrypting a small file.
    views = getattr(_thread, "views", None)
    if views is None:
        views = _thread.views = (
            memoryview(bytearray(_CHUNK_BYTES)),
            memoryview(bytearray(_CHUNK_BYTES + _SPARE_BYTES)),
        )
    source, target = views
    return source, target
