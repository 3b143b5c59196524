"""Log files: they roll by period and size and are kept by count; several processes may write them (STA-55 to STA-57).

Nothing is remembered between lines but the open file: which one to write is read off the names and sizes on disk. So a
restart goes on where the last life stopped, and the worker processes of a service agree without a word.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import attrs

from bulksigner.contract.errors import StartRefused
from bulksigner.files.durable import FILE_MODE, FOLDER_MODE, is_disk_full
from bulksigner.settings.log_files import RollingInterval

__all__ = ["LogFileHandler", "LogFiles", "prepare_log_files"]

EXIT_CANNOT_CREATE = 73
LAST_NUMBER = 999
TELL_SECONDS = 60.0
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_PERIODS = {
    RollingInterval.DAY: (86400, "%Y%m%d"),
    RollingInterval.HOUR: (3600, "%Y%m%d%H"),
    RollingInterval.MINUTE: (60, "%Y%m%d%H%M"),
}
_log = logging.getLogger("bulksigner.observability")


@attrs.frozen
class LogFiles:
    """Where the files are, when they turn, and how many stay; one process of a service `prunes`."""

    path: Path
    rolling: RollingInterval
    size_limit_bytes: int
    retained_count: int
    prunes: bool = True

    def period_at(self, now: float) -> str:
        """Return what stands before the extension at this time; empty for `Infinite`."""
        known = _PERIODS.get(self.rolling)
        return "" if known is None else time.strftime(known[1], time.gmtime(now))

    def period_number(self, now: float) -> int:
        """Return a number that changes when the period does."""
        known = _PERIODS.get(self.rolling)
        return 0 if known is None else int(now // known[0])

    def file_of(self, period: str, number: int) -> Path:
        """Return the path of one file; 0 is the first of its period."""
        overflow = f"_{number:03}" if number else ""
        return self.path.with_name(f"{self.path.stem}{period}{overflow}{self.path.suffix}")

    def present(self) -> list[tuple[str, int]]:
        """Return period and number of every file whose name has exactly this form, oldest first."""
        known = _PERIODS.get(self.rolling)
        digits = "" if known is None else rf"\d{{{len(time.strftime(known[1], time.gmtime(0)))}}}"
        form = re.compile(rf"{re.escape(self.path.stem)}({digits})(?:_(\d{{3}}))?{re.escape(self.path.suffix)}")
        found = []
        with os.scandir(self.path.parent) as entries:
            for entry in entries:
                match = form.fullmatch(entry.name)
                if match and _is_time(match[1], known) and entry.is_file(follow_symlinks=False):
                    found.append((match[1], int(match[2] or 0)))
        return sorted(found)


def _is_time(text: str, known: tuple[int, str] | None) -> bool:
    if known is None:
        return True
    try:
        datetime.datetime.strptime(text, known[1]).replace(tzinfo=datetime.UTC)
    except ValueError:
        return False
    return True


def prepare_log_files(files: LogFiles) -> None:
    """Make the folder and prove that lines can be written.

    Raises `StartRefused` (exit 73, OPS-59); a disk that is full is no reason, since it may have room again later.
    """
    try:
        files.path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        os.close(os.open(files.file_of(files.period_at(time.time()), 0), _APPEND, FILE_MODE))
    except OSError as error:
        if is_disk_full(error):
            return
        raise StartRefused(
            f"Log files cannot be written to {files.path.parent}: {error.strerror}: {error.filename}. Give the account "
            "that runs the service write access to it; under systemd name it in ReadWritePaths. Logging:File:Path "
            "names another place.",
            exit_code=EXIT_CANNOT_CREATE,
        ) from error


class LogFileHandler(logging.Handler):
    """Appends each line with one write, so that readers and other writers never see half of it.

    A line that cannot be written is dropped and counted; stderr says so once a minute, and the log when it works again.
    """

    def __init__(
        self,
        files: LogFiles,
        *,
        now: Callable[[], float] = time.time,
        write: Callable[[int, bytes], int] = os.write,
    ) -> None:
        super().__init__()
        self._files = files
        self._now = now
        self._write = write
        self._descriptor: int | None = None
        self._period = -1
        self._is_torn = False
        self._dropped_count = 0
        self._told_at: float | None = None
        self._is_prune_due = False
        self._prune_told_day: int | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line, or count it as lost."""
        try:
            text = self.format(record)
            if self._dropped_count:
                text = f"{self.format(self._recovery())}\n{text}"
            self._append(f"{text}\n".encode("utf-8", "backslashreplace"))
        except Exception as error:  # noqa: BLE001 - a log call never fails, and nothing is shown unredacted
            self._drop(error)
            return
        self._dropped_count = 0
        if self._is_prune_due:
            self._is_prune_due = False
            self._prune()

    def close(self) -> None:
        """Let go of the file."""
        with self.lock or contextlib.nullcontext():
            self._let_go()
        super().close()

    def _append(self, data: bytes) -> None:
        descriptor = self._current(len(data))
        if self._is_torn:
            # Half a line stands before this one.
            data = b"\n" + data
        while data:
            written = self._write(descriptor, data)
            data = data[written:]
            self._is_torn = bool(data)

    def _current(self, length: int) -> int:
        now = self._now()
        period = self._files.period_number(now)
        if self._descriptor is not None and period == self._period:
            found = os.fstat(self._descriptor)
            # A file without a name was deleted or moved away by somebody else.
            if found.st_nlink and not self._is_over(found.st_size, length):
                return self._descriptor
        self._let_go()
        self._descriptor = self._open(self._files.period_at(now), length)
        self._period = period
        self._is_prune_due = self._files.prunes
        return self._descriptor

    def _is_over(self, size: int, length: int) -> bool:
        return bool(size) and size + length > self._files.size_limit_bytes

    def _open(self, period: str, length: int) -> int:
        """Open the newest file of the period, or the one after it when that is full."""
        numbers = [number for known, number in self._files.present() if known == period]
        number = max(numbers, default=0)
        descriptor = os.open(self._files.file_of(period, number), _APPEND, FILE_MODE)
        if number < LAST_NUMBER and self._is_over(os.fstat(descriptor).st_size, length):
            os.close(descriptor)
            descriptor = os.open(self._files.file_of(period, number + 1), _APPEND, FILE_MODE)
        return descriptor

    def _let_go(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            self._is_torn = False

    def _prune(self) -> None:
        for period, number in self._files.present()[: -self._files.retained_count]:
            path = self._files.file_of(period, number)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                day = int(self._now() // 86400)
                if self._prune_told_day != day:
                    self._prune_told_day = day
                    _log.warning("Log file %s cannot be deleted: %s", path, error.strerror or error)

    def _recovery(self) -> logging.LogRecord:
        text = "Log files can be written again; %d lines were lost"
        return logging.LogRecord(_log.name, logging.WARNING, __file__, 0, text, (self._dropped_count,), None)

    def _drop(self, error: Exception) -> None:
        self._dropped_count += 1
        now = self._now()
        if self._told_at is not None and 0 <= now - self._told_at < TELL_SECONDS:
            return
        self._told_at = now
        reason = error.strerror if isinstance(error, OSError) else type(error).__name__
        with contextlib.suppress(OSError, ValueError, AttributeError):
            # Not a log call: this is where one has just failed.
            sys.stderr.write(
                f"Log lines cannot be written to {self._files.path.parent}: {reason}. "
                f"Lost so far: {self._dropped_count}. Look at free space and at the rights of the account.\n"
            )
            sys.stderr.flush()
