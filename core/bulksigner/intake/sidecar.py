"""The file beside an input that carries its metadata: read with it, and gone with it (PIPE-117, PIPE-118)."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import attrs

from bulksigner.contract.errors import PermanentFailure, ProviderError
from bulksigner.contract.storage import Entry, Fingerprint, Folder, RemovalOutcome
from bulksigner.files.names import NAME_LIMIT_BYTES
from bulksigner.jobs.metadata import MetadataInvalid, parse_metadata
from bulksigner.jobs.model import Job
from bulksigner.plugin_system.guard import ANYTHING, describe

__all__ = [
    "LIMIT_BYTES",
    "NO_SIDECAR",
    "SUFFIX",
    "Sidecar",
    "consume",
    "consume_interrupted",
    "is_sidecar_name",
    "pair",
    "read_sidecar",
    "sidecar_name",
]

SUFFIX = ".meta.json"
LIMIT_BYTES = 16 * 1024

log = logging.getLogger(__name__)


@attrs.frozen
class Sidecar:
    """The metadata of a file, and the SHA-256 (hex) of the sidecar it came from; None where there was none."""

    metadata: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    sha256: str | None = None


NO_SIDECAR = Sidecar()


def sidecar_name(file_name: str) -> str | None:
    """Return the name that a file's sidecar has; None when it would be longer than names may be."""
    name = f"{file_name}{SUFFIX}"
    return name if len(os.fsencode(name)) <= NAME_LIMIT_BYTES else None


def is_sidecar_name(name: str) -> bool:
    """Tell whether a file of this name is a sidecar, in any case of letters, and so never a candidate."""
    return name.lower().endswith(SUFFIX)


def pair(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Return the sidecars of a listing by the names of their files."""
    return {entry.name[: -len(SUFFIX)]: entry for entry in entries if entry.name.endswith(SUFFIX)}


def read_sidecar(folder: Folder, file_name: str, scratch: Path) -> Sidecar:
    """Read the sidecar of a file by way of a copy in the folder `scratch`.

    Raises `MetadataInvalid` for one that breaks a rule, `ProviderError` for one that cannot be read now.
    """
    name = sidecar_name(file_name)
    if name is None:
        return NO_SIDECAR
    seen = folder.look(name)
    if seen is not None and seen.length > LIMIT_BYTES:
        raise _too_long()
    # Asked also when a look shows nothing: a link is no entry, but it is there.
    copy = scratch / f"sidecar-{uuid.uuid4().hex}"
    try:
        folder.copy_to(name, copy)
        text = copy.read_bytes()
    except FileNotFoundError:
        return NO_SIDECAR
    except PermanentFailure:
        raise MetadataInvalid("The sidecar is a link, or no regular file.") from None
    finally:
        with contextlib.suppress(OSError):
            copy.unlink(missing_ok=True)
    if len(text) > LIMIT_BYTES:
        raise _too_long()
    return Sidecar(parse_metadata(text), hashlib.sha256(text).hexdigest())


def consume(folder: Folder, file_name: str, sha256: str | None) -> None:
    """Remove the sidecar of a file that was removed, while it still is the one that was read; else warn and leave it.

    Never raises: the file it belonged to is signed and gone.
    """
    name = None if sha256 is None else sidecar_name(file_name)
    if sha256 is None or name is None:
        return
    path = folder.path_of(name)
    try:
        seen = folder.look(name)
        if seen is None:
            return
        removal = folder.remove_if(name, Fingerprint(seen.length, bytes.fromhex(sha256)))
    except ANYTHING as error:  # whatever a storage provider raises: the job is delivered, and has nothing to do with it
        log.warning("The sidecar %s was left: %s", path, describe(error))
        return
    if removal.outcome is RemovalOutcome.DIVERGED:
        log.warning("The sidecar %s was left: it changed since it was read with its file", path)
    elif removal.outcome is RemovalOutcome.KEPT:
        log.warning("The sidecar %s was left: %s", path, removal.reason)


def consume_interrupted(jobs: Iterable[Job], locate: Callable[[str], tuple[Folder, str]]) -> None:
    """Finish what a killed process had begun: the input of a delivered job was removed, its sidecar was not yet."""
    for job in jobs:
        if job.sidecar_sha256 is None or job.output_path is None:
            continue
        try:
            folder, name = locate(job.original_path)
            is_gone = folder.look(name) is None
        except ProviderError as error:
            log.warning("The sidecar of %s was left: %s", job.original_path, error.message)
            continue
        if is_gone:
            consume(folder, name, job.sidecar_sha256)


def _too_long() -> MetadataInvalid:
    return MetadataInvalid(f"The sidecar is longer than {LIMIT_BYTES} bytes.")
