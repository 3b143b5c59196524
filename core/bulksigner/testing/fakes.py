"""Providers in memory, for tests of plugins and of what uses them: a folder, a key, a clock.

They keep the contracts of `testing.contracts`, which their own tests run.
"""

from __future__ import annotations

import datetime
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

from bulksigner.contract.certificate import Digest, KeyAlgorithm, OpenedKey
from bulksigner.contract.errors import HeldElsewhere, PermanentFailure
from bulksigner.contract.storage import Entry, Fingerprint, Folder, Removal, RemovalOutcome
from bulksigner.testing.certificates import Issued

__all__ = ["Clock", "MemoryFolder", "MemoryKey", "MemorySource", "MemoryStorage"]

_PREHASHED = {Digest.SHA256: Prehashed(hashes.SHA256()), Digest.SHA512: Prehashed(hashes.SHA512())}


@attrs.define
class Clock:
    """A clock that stands still until it is moved; calling it tells the time."""

    now: datetime.datetime = datetime.datetime(2026, 3, 2, 12, tzinfo=datetime.UTC)

    def __call__(self) -> datetime.datetime:
        return self.now

    def advance(self, **duration: float) -> None:
        """Move the clock forward by the arguments of `datetime.timedelta`."""
        self.now += datetime.timedelta(**duration)


@attrs.define
class MemoryFolder:
    """A folder whose files are in `files`, each with its content; a `Folder` without events."""

    location: str = "memory"
    files: dict[str, bytes] = attrs.field(factory=dict)
    _versions: dict[str, int] = attrs.field(factory=dict)
    _held: dict[str, object] = attrs.field(factory=dict)

    def put(self, name: str, content: bytes) -> None:
        """Place a file, or replace it, as a producer would."""
        self.files[self._checked(name)] = content
        self._versions[name] = self._versions.get(name, 0) + 1

    def path_of(self, name: str) -> str:
        """Return the full path of a file."""
        return f"{self.location}/{self._checked(name)}"

    def entries(self) -> Iterator[Entry]:
        """List the files."""
        return iter([self._entry(name) for name in self.files])

    def look(self, name: str) -> Entry | None:
        """Look at one file."""
        return self._entry(name) if name in self.files else None

    def hold(self, name: str) -> MemoryHold:
        """Take a file for this caller alone."""
        if name in self._held:
            raise HeldElsewhere(f"{self.path_of(name)} is held by another job.")
        token = self._held[name] = object()
        return MemoryHold(self._held, name, token)

    def copy_to(self, name: str, target: Path) -> Fingerprint:
        """Copy a file to a new local one."""
        if name not in self.files:
            raise FileNotFoundError(self.path_of(name))
        content = self.files[name]
        with target.open("xb") as out:
            out.write(content)
        return _fingerprint(content)

    def remove_if(self, name: str, expected: Fingerprint) -> Removal:
        """Remove a file only while it still is what `expected` says."""
        content = self.files.get(self._checked(name))
        if content is None:
            return Removal(RemovalOutcome.ABSENT)
        if _fingerprint(content) != expected:
            return Removal(RemovalOutcome.DIVERGED, "rewritten")
        del self.files[name]
        return Removal(RemovalOutcome.REMOVED)

    def receive(self, name: str, source: Path) -> None:
        """Move a local file in, never over another."""
        if name in self.files:
            raise FileExistsError(self.path_of(name))
        self.put(name, source.read_bytes())
        source.unlink()

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens when it is gone."""
        self.files.pop(self._checked(name), None)

    def _entry(self, name: str) -> Entry:
        return Entry(name, len(self.files[name]), self._versions[name])

    def _checked(self, name: str) -> str:
        if name in ("", os.curdir, os.pardir) or "/" in name or "\0" in name:
            raise PermanentFailure(f"{name!r} is not the name of a file inside {self.location}.")
        return name


@attrs.frozen
class MemoryHold:
    """A hold on a file of a `MemoryFolder`."""

    _held: dict[str, object]
    _name: str
    _token: object

    def release(self) -> None:
        """End the hold."""
        if self._held.get(self._name) is self._token:
            del self._held[self._name]


@attrs.frozen
class MemoryStorage:
    """Opens memory folders, always the same one for a path; a `StorageProvider` named `Memory`."""

    name: str = "Memory"
    notifies: bool = False
    folders: dict[str, MemoryFolder] = attrs.field(factory=dict)

    def open(self, path: str, options: Mapping[str, str]) -> Folder:  # noqa: ARG002 - the contract's signature
        """Open the folder of a path."""
        return self.folders.setdefault(path, MemoryFolder(path))


@attrs.define
class MemoryKey:
    """The key of a throw-away certificate; `uses` counts its signatures."""

    issued: Issued
    uses: int = 0
    _is_closed: bool = False

    @property
    def certificate(self) -> bytes:
        """Return the leaf certificate, DER."""
        return self.issued.certificate_der

    @property
    def chain(self) -> tuple[bytes, ...]:
        """Return the issuers, DER, nearest first."""
        return self.issued.chain_der

    @property
    def algorithm(self) -> KeyAlgorithm:
        """Return the kind of the key."""
        is_elliptic = isinstance(self.issued.key, ec.EllipticCurvePrivateKey)
        return KeyAlgorithm.ECDSA if is_elliptic else KeyAlgorithm.RSA

    def sign(self, data: bytes, digest: Digest) -> bytes:
        """Hash and sign."""
        return self.sign_digest(hashlib.new(digest.value, data).digest(), digest)

    def sign_digest(self, value: bytes, digest: Digest) -> bytes:
        """Sign a digest value."""
        if self._is_closed:
            raise PermanentFailure("The key is closed.")
        self.uses += 1
        key = self.issued.key
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return key.sign(value, ec.ECDSA(_PREHASHED[digest]))
        return key.sign(value, padding.PKCS1v15(), _PREHASHED[digest])

    def close(self) -> None:
        """Let go of the key."""
        self._is_closed = True


@attrs.frozen
class MemorySource:
    """Opens `MemoryKey`s of blocks that are `Issued`; a `CertificateSource` named `Memory`."""

    name: str = "Memory"
    concurrent: bool = True
    portable: bool = False

    def locator(self, block: object) -> str:
        """Name the place of the key."""
        return f"memory ({type(block).__name__})"

    def open(self, block: object) -> OpenedKey:
        """Open the key of a block."""
        if not isinstance(block, Issued):
            raise PermanentFailure(f"The source Memory opens issued certificates, not {type(block).__name__}.")
        return MemoryKey(block)


def _fingerprint(content: bytes) -> Fingerprint:
    return Fingerprint(len(content), hashlib.sha256(content).digest())
