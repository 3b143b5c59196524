"""Durable steps: copy, measure, promote, move and remove, each on disk when it returns.

Every public function is one step a kill may fall before or after. None follows a symbolic link in the last part of
a path (SEC-67), and none leaves a partial file under a final name (BEY-22).
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import hashlib
import os
import shutil
import stat
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from bulksigner.contract.signing import Measured
from bulksigner.files.exclusive import rename_exclusive
from bulksigner.files.sharing import SharedFlushes

__all__ = [
    "FILE_MODE",
    "FOLDER_MODE",
    "Identity",
    "NotRegular",
    "copy_measured",
    "flush_file",
    "flush_folder",
    "identify",
    "identify_open",
    "is_disk_full",
    "measure",
    "measure_identified",
    "move_folder",
    "open_regular",
    "promote",
    "remove_file",
    "remove_folder",
    "write_beside",
    "write_new",
]

T = TypeVar("T")
Identity = tuple[int, int, int, int]
"""Device, inode, length and modification time: the same file, not written since."""

FILE_MODE = 0o640
FOLDER_MODE = 0o750
_CHUNK_BYTES = 1 << 20
# O_NONBLOCK keeps a FIFO that lies under the name from stopping the thread that opens it.
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_BINARY = getattr(os, "O_BINARY", 0)
# What a system or a file system answers that cannot rename without replacing; NFS says EINVAL.
_NO_EXCLUSIVE_RENAME = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
# The last one is SQLite's.
_NO_SPACE_TEXTS = (*map(os.strerror, _NO_SPACE), "database or disk is full")

_thread = threading.local()
_flushes = SharedFlushes()


class NotRegular(OSError):
    """Refuse a name that is a symbolic link, a folder or anything else but a regular file."""


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for unbuffered reading; raises `NotRegular` for anything else, links included (SEC-67)."""
    try:
        descriptor = os.open(path, _READ | _BINARY)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotRegular(errno.ELOOP, "is a symbolic link", str(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegular(errno.EINVAL, "is not a regular file", str(path))
    return open(descriptor, "rb", buffering=0)


def copy_measured(source: BinaryIO, target: Path, *, flush: bool) -> Measured:
    """Copy a stream to a new file, mode 0640, and measure it in the same read (PERF-05).

    Raises `FileExistsError` when the name is taken. Whatever else goes wrong, the partial file is removed.
    """
    descriptor = os.open(target, _CREATE | _BINARY, FILE_MODE)
    try:
        try:
            measured = _pump(source, descriptor)
            if flush:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            target.unlink()
        raise
    return measured


def measure(path: Path) -> Measured:
    """Measure a regular file by reading it once; raises `NotRegular` for anything else."""
    with open_regular(path) as source:
        return _pump(source, None)


def measure_identified(path: Path) -> tuple[Measured, Identity]:
    """Measure a regular file and say which file that was, as it stood before the first byte was read."""
    with open_regular(path) as source:
        identity = identify_open(source)
        return _pump(source, None), identity


def identify(path: Path) -> Identity:
    """Say which file has a name now, without following a link."""
    return _identity(path.lstat())


def identify_open(file: BinaryIO) -> Identity:
    """Say which file is open, as it stands now."""
    return _identity(os.fstat(file.fileno()))


def flush_file(path: Path) -> None:
    """Have the content of a file on disk."""
    # Windows flushes only a handle that may write.
    descriptor = os.open(path, (os.O_RDWR if sys.platform == "win32" else _READ) | _BINARY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_folder(path: Path) -> None:
    """Have the names of a folder on disk; Windows keeps them in its journal without being asked."""
    if sys.platform != "win32":
        _flushes.share(os.fspath(path), lambda: _flush_now(path))


def promote(source: Path, target: Path) -> None:
    """Give a flushed file its final name, never over another (PIPE-82).

    Raises `FileExistsError` when the name is taken; the source then stays as it is.
    """
    if sys.platform == "win32":
        os.rename(source, target)  # noqa: PTH104 - on Windows it refuses a taken name
        return
    try:
        # One step of the kernel, and half the work of a link and an unlink.
        rename_exclusive(source, target)
    except OSError as error:
        if error.errno not in _NO_EXCLUSIVE_RENAME:
            raise
        os.link(source, target, follow_symlinks=False)
        source.unlink()
    flush_folder(target.parent)


def remove_file(path: Path) -> bool:
    """Remove a file; False when it was not there."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    flush_folder(path.parent)
    return True


def move_folder(source: Path, target: Path) -> Path:
    """Move a folder within its file system and return where it is now: a taken name gets a timestamp (PIPE-86)."""
    place = target
    while True:
        try:
            if os.path.lexists(place):
                raise FileExistsError(errno.EEXIST, "is taken", str(place))
            source.rename(place)
            break
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            now = datetime.datetime.now(datetime.UTC)
            place = target.with_name(f"{target.name}-{now:%Y%m%dT%H%M%S.%fZ}")
    flush_folder(place.parent)
    flush_folder(source.parent)
    return place


def remove_folder(path: Path) -> None:
    """Remove a folder and what is in it; nothing happens when it is gone.

    Not flushed: a folder that a power loss brings back has lost its job's interest and is found by the sweep.
    """
    try:
        with os.scandir(path) as found:
            names = [entry.path for entry in found]
        for name in names:
            os.unlink(name)  # noqa: PTH108 - once a file and job, and twice as fast as through Path
        path.rmdir()
    except FileNotFoundError:
        return
    except OSError:
        shutil.rmtree(path)


def write_beside(target: Path, write: Callable[[BinaryIO], T]) -> T:
    """Write a file anew under a name beside it, flush it and put it in place; readers see the old or the new one."""
    beside = target.with_name(f".{target.name[:200]}.{uuid.uuid4().hex}.tmp")
    descriptor = os.open(beside, _CREATE | _BINARY, FILE_MODE)
    try:
        with open(descriptor, "wb") as out:
            value = write(out)
            out.flush()
            os.fsync(out.fileno())
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    flush_folder(target.parent)
    return value


def write_new(target: Path, write: Callable[[BinaryIO], T]) -> T:
    """Write a new file, mode 0640, and flush it; `write` may read back and seek.

    Raises `FileExistsError` when the name is taken. Whatever else goes wrong, the partial file is removed.
    """
    with open(target, "x+b", opener=_open_owned) as out:
        try:
            value = write(out)
            out.flush()
            os.fsync(out.fileno())
        except BaseException:
            out.close()
            target.unlink(missing_ok=True)
            raise
    return value


def is_disk_full(error: BaseException) -> bool:
    """Tell whether an error is, or comes from, a volume or a quota without space (BEY-22)."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _NO_SPACE:
            return True
        cause = cause.__cause__
    # From a worker process and from plugins the words alone arrive.
    return any(text in str(error) for text in _NO_SPACE_TEXTS)


def _open_owned(path: str, flags: int) -> int:
    return os.open(path, flags, FILE_MODE)


def _flush_now(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _pump(source: Any, descriptor: int | None) -> Measured:
    view = _buffer()
    digest = hashlib.sha256()
    length = 0
    while count := source.readinto(view):
        chunk = view[:count]
        digest.update(chunk)
        length += count
        if descriptor is not None:
            _write_all(descriptor, chunk)
    return Measured(length, digest.digest())


def _identity(seen: os.stat_result) -> Identity:
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns


def _write_all(descriptor: int, chunk: memoryview) -> None:
    while chunk:
        chunk = chunk[os.write(descriptor, chunk) :]


def _buffer() -> memoryview:
    # Kept per thread: a fresh megabyte costs more page faults than copying a small file takes.
    view = getattr(_thread, "view", None)
    if view is None:
        view = _thread.view = memoryview(bytearray(_CHUNK_BYTES))
    assert isinstance(view, memoryview)
    return view
