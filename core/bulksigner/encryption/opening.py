"""Opens envelopes into files: nothing is written before the tag fits, and nothing is overwritten (ENC-32)."""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from bulksigner.encryption.envelope import open_envelope
from bulksigner.encryption.key import EnvelopeKey

__all__ = ["open_file", "say"]

_IN_MEMORY_BYTES = 64 << 20
_PIECE_BYTES = 1 << 20
_PROGRESS_SECONDS = 2.0
_PROGRESS_STEP_BYTES = 32 << 20
Take = Callable[[memoryview], object]


def open_file(source: Path | None, target: Path | None, key: EnvelopeKey, *, replaces: bool) -> int:
    """Open one envelope and return the length of its plaintext; None stands for standard input and output.

    The envelope is read twice: to see that its tag fits, and to write. Raises `NotAnEnvelope`, `DoesNotOpen`, and
    `OSError`, which is `FileExistsError` for a taken name unless it `replaces`.
    """
    if target is not None and not replaces and os.path.lexists(target):
        raise _taken(target)
    with _open_source(source) as (envelope, length):
        tell = _Progress("standard input" if source is None else source.name, 2 * length)
        open_envelope(envelope, length, key, tell.count)
        envelope.seek(0)
        if target is None:
            out = _stream_of(sys.stdout, "standard output")
            count = open_envelope(envelope, length, key, tell.passing(partial(_write_all, out)))
            out.flush()
            return count
        return _write_file(target, replaces, lambda out: open_envelope(envelope, length, key, tell.passing(out.write)))


def say(text: str) -> None:
    """Tell on standard error; without one nothing is told, as `print` would write into what was opened."""
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)


@contextmanager
def _open_source(source: Path | None) -> Iterator[tuple[BinaryIO, int]]:
    if source is None:
        with _spool(_stream_of(sys.stdin, "standard input")) as spooled:
            yield spooled
        return
    with open(source, "rb", buffering=0) as file:
        state = os.fstat(file.fileno())
        if stat.S_ISREG(state.st_mode):
            yield file, state.st_size
            return
        with _spool(file) as spooled:
            yield spooled


def _stream_of(standard: TextIO | None, name: str) -> BinaryIO:
    if standard is None:
        raise OSError(errno.EBADF, "is closed", name)
    return standard.buffer


def _write_all(out: BinaryIO, piece: memoryview) -> None:
    # Where Python runs unbuffered, as in many containers, a full disk takes a part and is no error until asked again.
    while piece:
        piece = piece[out.write(piece) :]


@contextmanager
def _spool(stream: Any) -> Iterator[tuple[BinaryIO, int]]:
    """Keep what can be read once only, as it is: encrypted. In memory up to 64 MiB."""
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as kept:
        length = 0
        while piece := stream.read(_PIECE_BYTES):
            kept.write(piece)
            length += len(piece)
        kept.seek(0)
        yield kept, length  # type: ignore[misc] # it reads and seeks as a file does


def _write_file(target: Path, replaces: bool, write: Callable[[BinaryIO], int]) -> int:
    """Write beside the target, flush, and give it its name last; mode 0600."""
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "cannot be written: its folder is not there", str(target))
    descriptor, beside = tempfile.mkstemp(prefix=".decrypt-", suffix=".tmp", dir=target.parent)
    try:
        with open(descriptor, "wb") as out:
            count = write(out)
            out.flush()
            os.fsync(out.fileno())
        if replaces:
            Path(beside).replace(target)
        else:
            _name_once(beside, target)
    except FileExistsError:
        raise _taken(target) from None
    finally:
        Path(beside).unlink(missing_ok=True)
    return count


def _name_once(beside: str, target: Path) -> None:
    """Give a whole file its name, which fails where another was first."""
    try:
        os.link(beside, target)
    except FileExistsError:
        raise
    except OSError:
        # Where there are no links the name is taken empty and filled by the rename.
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        Path(beside).replace(target)


def _taken(target: Path) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "exists already and was left as it is; --force replaces it", str(target))


class _Progress:
    """Tells on standard error how far a long work is."""

    def __init__(self, name: str, total: int) -> None:
        self._name = name
        self._total = total
        self._done = 0
        self._looked = 0
        self._told_at = time.monotonic()

    def count(self, piece: memoryview) -> None:
        self._done += len(piece)
        if self._done - self._looked < _PROGRESS_STEP_BYTES:
            return
        self._looked = self._done
        if time.monotonic() - self._told_at >= _PROGRESS_SECONDS:
            self._told_at = time.monotonic()
            say(f"{self._name}: {100 * self._done // self._total} %")

    def passing(self, take: Take) -> Take:
        def both(piece: memoryview) -> None:
            take(piece)
            self.count(piece)

        return both
