"""Signed files of several jobs as one ZIP, written while it is sent (API-65)."""

from __future__ import annotations

import datetime
import io
import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import BinaryIO

import attrs

from bulksigner.contract.errors import PermanentFailure
from bulksigner.jobs.model import Job
from bulksigner.web.outputs import OpenedOutput

__all__ = ["Archive", "Entry", "Missing", "name_entries"]

_BLOCK_BYTES = 256 * 1024
_MISSING = "MISSING.txt"
_READABLE = 0o640 << 16


@attrs.frozen
class Entry:
    """One file of the archive: its name there, and the file, which is open."""

    name: str
    output: OpenedOutput


@attrs.frozen
class Missing:
    """A job whose signed file is gone, and the name it had."""

    job_id: str
    name: str


class Archive:
    """The bytes of the archive, block by block; `close` lets go of its files, whether or not it was read."""

    def __init__(self, entries: Sequence[Entry], missing: Sequence[Missing]) -> None:
        self._entries = entries
        self._missing = missing

    def __iter__(self) -> Iterator[bytes]:
        sink = _Sink()
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
            for entry in self._entries:
                yield from _write(archive, sink, entry)
            if self._missing:
                lines = "".join(f"{one.job_id} {one.name}\r\n" for one in self._missing)
                archive.writestr(_MISSING, lines.encode("utf-8", "replace"))
        yield sink.take()

    def close(self) -> None:
        """Close every file."""
        for entry in self._entries:
            entry.output.stream.close()


def name_entries(found: Sequence[tuple[Job, OpenedOutput]]) -> list[Entry]:
    """Name the files as they are called in the output folder; where names clash, the newer job's id is put in.

    Names are compared without case, so that no system unpacks one over the other.
    """
    taken: set[str] = {_MISSING.casefold()}
    names: dict[str, str] = {}
    for job, output in sorted(found, key=lambda pair: (pair[0].created_at, pair[0].id)):
        name = output.name
        if name.casefold() in taken:
            path = PurePath(name)
            name = f"{path.stem}-{job.id}{path.suffix}"
        taken.add(name.casefold())
        names[job.id] = name
    return [Entry(names[job.id], output) for job, output in found]


class _Sink(io.RawIOBase):
    """Takes what the archive writes until it is sent on; it cannot seek, so sizes follow each file."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, block: bytes) -> int:  # type: ignore[override]
        self._blocks.append(bytes(block))
        return len(block)

    def take(self) -> bytes:
        blocks, self._blocks = self._blocks, []
        return b"".join(blocks)


def _write(archive: zipfile.ZipFile, sink: _Sink, entry: Entry) -> Iterator[bytes]:
    # A name that is no Unicode has no place in an archive; its bytes are kept as far as they go.
    info = zipfile.ZipInfo(entry.name.encode("utf-8", "replace").decode(), _written_at(entry.output.stream))
    info.external_attr = _READABLE
    left = info.file_size = entry.output.length
    with archive.open(info, "w", force_zip64=left >= zipfile.ZIP64_LIMIT) as target:
        while left:
            block = entry.output.stream.read(min(left, _BLOCK_BYTES))
            if not block:
                # The server ends the connection: half an archive must not look whole.
                raise PermanentFailure(f"{entry.name} was cut short while it was sent.")
            left -= len(block)
            target.write(block)
            yield sink.take()


def _written_at(stream: BinaryIO) -> tuple[int, int, int, int, int, int]:
    """Return the local time of a file as an archive keeps it, which knows none before 1980."""
    at = datetime.datetime.fromtimestamp(os.fstat(stream.fileno()).st_mtime).astimezone()
    return max((at.year, at.month, at.day, at.hour, at.minute, at.second), (1980, 1, 1, 0, 0, 0))
