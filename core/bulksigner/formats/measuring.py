"""Measuring what is read and written on the way past, so that no file is read again for it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import BinaryIO, Protocol

from bulksigner.contract.signing import Measured
from bulksigner.formats.model import ContentChanged

__all__ = ["BLOCK_BYTES", "MeasuringWriter", "Sink", "read_blocks", "require_same"]

BLOCK_BYTES = 256 * 1024


class Sink(Protocol):
    """Takes bytes in order."""

    def write(self, block: bytes, /) -> object:
        """Take the next bytes."""
        ...


class MeasuringWriter:
    """Passes bytes on to a file and measures them."""

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._hash = hashlib.sha256()
        self._length = 0

    def write(self, block: bytes | memoryview) -> None:
        """Write and measure the next bytes."""
        self._target.write(block)
        self._hash.update(block)
        self._length += len(block)

    @property
    def measured(self) -> Measured:
        """Return length and SHA-256 of all that was written so far."""
        return Measured(self._length, self._hash.digest())


def read_blocks(source: BinaryIO) -> Iterator[bytes]:
    """Yield the file from its start in blocks."""
    source.seek(0)
    while block := source.read(BLOCK_BYTES):
        yield block


def require_same(found: Measured, expected: Measured) -> None:
    """Raise `ContentChanged` unless the bytes read are the bytes that were staged (PIPE-77)."""
    if found.length != expected.length:
        raise ContentChanged(
            f"The staged file no longer has the {expected.length} bytes that were staged; it was not signed. "
            "Submit it again."
        )
    if found.sha256 != expected.sha256:
        raise ContentChanged(
            f"The staged file's SHA-256 is {found.sha256.hex()}, {expected.sha256.hex()} was staged; "
            "it was not signed. Submit it again."
        )
