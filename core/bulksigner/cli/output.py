"""Standard output that may go away: a pipe whose reader ended, a full disk, or none from the start."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO, cast

__all__ = ["forgiving_output"]

# Windows answers EINVAL for a pipe without a reader.
_READER_GONE = (errno.EPIPE, errno.EINVAL)


class _Output:
    """Passes text on; what cannot be written is dropped, since no command's work or verdict hangs on it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_told = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._attempt(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._attempt(self._stream.flush)

    def finish(self) -> None:
        """Flush, and leave nothing behind that the interpreter would try once more and complain about."""
        self.flush()
        try:
            self._stream.flush()
        except OSError:
            self._let_go()

    def _attempt(self, act: Callable[[], object]) -> None:
        try:
            act()
        except OSError as error:
            if error.errno in _READER_GONE:
                self._let_go()
            elif not self._is_told:
                # A disk may have room again later, so the stream stays.
                self._is_told = True
                with contextlib.suppress(OSError):
                    print(f"Standard output cannot be written: {error.strerror}.", file=sys.stderr)

    def _let_go(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def forgiving_output() -> Iterator[None]:
    """Let the commands inside print, whatever becomes of standard output."""
    _open_standard_streams()
    before = sys.stdout
    output = _Output(before or open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the life of the process
    sys.stdout = cast("TextIO", output)
    try:
        yield
    finally:
        output.finish()
        sys.stdout = before


def _open_standard_streams() -> None:
    """Keep the numbers of streams that were closed by the caller from going to a database or a socket."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
