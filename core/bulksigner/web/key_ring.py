"""The keys that protect sessions: files of `keys/` below `Storage:Root`, one a year (SEC-21).

Whoever reads them can make himself an operator, so the folder is the account's alone and each file too.
"""

from __future__ import annotations

import datetime
import logging
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path

import attrs

from bulksigner.contract.errors import StartRefused
from bulksigner.files.durable import flush_folder, write_new

__all__ = ["KeyRing", "RingKey", "open_key_ring"]

log = logging.getLogger(__name__)

ROLLED_AFTER = datetime.timedelta(days=365)
_KEY_BYTES = 32
_EXIT_CANNOT_CREATE = 73
_NAME = re.compile(r"(\d{8}T\d{6})Z-([0-9a-f]{8})\.key")
_TIME = "%Y%m%dT%H%M%S"


@attrs.frozen
class RingKey:
    """One key; `id` stands in front of what it protects."""

    id: bytes
    made_at: datetime.datetime
    secret: bytes = attrs.field(repr=False)


class KeyRing:
    """Every key there is for reading, the newest for writing."""

    def __init__(self, folder: Path, keys: list[RingKey], clock: Callable[[], datetime.datetime]) -> None:
        self._folder = folder
        self._keys = {key.id: key for key in keys}
        self._clock = clock

    def find(self, key_id: bytes) -> RingKey | None:
        """Return the key of this id, or None."""
        return self._keys.get(key_id)

    @property
    def keys(self) -> tuple[RingKey, ...]:
        """Return every key that may still be read with."""
        return tuple(self._keys.values())

    def newest(self) -> RingKey:
        """Return the key to write with, made first where the newest is more than a year old."""
        now = self._clock()
        newest = max(self._keys.values(), key=lambda key: key.made_at, default=None)
        if newest is None or now - newest.made_at > ROLLED_AFTER:
            if newest is not None:
                log.info("A new key protects the sessions of browsers from now on; sessions under older keys go on")
            newest = _make(self._folder, now)
            self._keys[newest.id] = newest
        return newest


def open_key_ring(folder: Path, clock: Callable[[], datetime.datetime]) -> KeyRing:
    """Open the ring, made on first use; raises `StartRefused` (exit 73) where the folder cannot be had."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        keys = [key for path in sorted(folder.iterdir()) if (key := _read(path)) is not None]
        ring = KeyRing(folder, keys, clock)
        ring.newest()
    except OSError as error:
        raise StartRefused(
            f"The keys of browser sessions in {folder} cannot be read or made: {error.strerror}. Give the account that "
            "runs the service the folder, and nobody else any right to it.",
            exit_code=_EXIT_CANNOT_CREATE,
        ) from error
    return ring


def _read(path: Path) -> RingKey | None:
    match = _NAME.fullmatch(path.name)
    if match is None:
        return None
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
        log.warning("%s could be read by other accounts; it is the service's alone again", path)
    try:
        secret = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except ValueError:
        secret = b""
    if len(secret) != _KEY_BYTES:
        log.warning("%s holds no key; sessions it protected have ended", path)
        return None
    made_at = datetime.datetime.strptime(match[1], _TIME).replace(tzinfo=datetime.UTC)
    return RingKey(bytes.fromhex(match[2]), made_at, secret)


def _make(folder: Path, now: datetime.datetime) -> RingKey:
    key = RingKey(secrets.token_bytes(4), now, secrets.token_bytes(_KEY_BYTES))
    path = folder / f"{now.astimezone(datetime.UTC).strftime(_TIME)}Z-{key.id.hex()}.key"

    def write(out: object) -> None:
        # Before there is anything to read in it.
        os.chmod(path, 0o600)  # noqa: PTH101 - as the file is open, and on every platform
        out.write(key.secret.hex().encode() + b"\n")  # type: ignore[attr-defined]

    write_new(path, write)
    flush_folder(folder)
    return key
