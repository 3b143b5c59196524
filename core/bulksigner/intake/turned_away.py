"""Files refused at the door: their bytes go to `error/<id>/` first, then their job is born Failed (PIPE-07, PIPE-127).

A note in `refusals/` is on disk before anything is moved and goes after the commit of the row. So a kill in between
leaves no bytes without a name: the next start finds the note and ends what it says, one way or the other.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from bulksigner.contract.errors import ProviderError, TemporaryFailure
from bulksigner.contract.signing import Format
from bulksigner.contract.storage import Fingerprint, Folder, RemovalOutcome
from bulksigner.files.durable import FOLDER_MODE, flush_file, flush_folder, measure, promote, remove_folder, write_new
from bulksigner.files.names import child_of
from bulksigner.files.set_aside import PRIVATE_PREFIX, arriving_path
from bulksigner.files.work import WorkRoots
from bulksigner.intake.abilities import Measures
from bulksigner.intake.folders import OpenedFolders
from bulksigner.intake.sidecar import sidecar_name
from bulksigner.jobs.model import Birth, Job, JobSource
from bulksigner.plugin_system.guard import ANYTHING, describe
from bulksigner.records.events import Event

__all__ = ["ALREADY_PROCESSED", "METADATA_INVALID", "TurnedAway"]

ALREADY_PROCESSED, METADATA_INVALID = "already_processed", "metadata_invalid"
"""The births of refused files, as `jobs.states` names them."""

log = logging.getLogger(__name__)

SIDECAR_MOVED_BYTES = 1024 * 1024
"""A sidecar that breaks the limit of its size by far stays where it is."""


class TurnedAway:
    """Moves refused files to `error/`, and settles what a killed process left of that."""

    def __init__(self, roots: WorkRoots) -> None:
        self._roots = roots

    def move(self, folder: Folder, birth: Birth) -> None:
        """Move the file of a birth, and its sidecar after it, to `error/<id>/`.

        Raises `ProviderError`, `FileNotFoundError` or `OSError` when the file stays where it is; then nothing of it
        is left in `error/`. A sidecar that stays is a warning.
        """
        job_id, name = _id_of(birth), birth.file_name
        note = self._note(job_id)
        text = json.dumps(_dump(birth)).encode()
        write_new(note, lambda out: out.write(text))
        flush_folder(note.parent)
        place = self._roots.error_folder(job_id)
        try:
            place.mkdir(mode=FOLDER_MODE)
            flush_folder(place.parent)
            with _held(folder, name):
                _move(folder, name, child_of(place, name))
        except BaseException:
            # A removal that failed half way may have removed it; what is in doubt is the next start's to settle.
            if not child_of(place, name).exists() or _is_there(folder, name):
                self._forget(job_id)
            raise
        self._move_sidecar(folder, birth, place)

    def recorded(self, birth: Birth) -> None:
        """Note that the row of a birth is committed."""
        with contextlib.suppress(OSError):
            self._note(_id_of(birth)).unlink()

    def take_back(self, folder: Folder, birth: Birth) -> None:
        """Put a moved file back, as its row could not be written; what cannot be put back waits for the next start."""
        job_id, name = _id_of(birth), birth.file_name
        place = self._roots.error_folder(job_id)
        beside = sidecar_name(name)
        try:
            if beside is not None and child_of(place, beside).exists():
                folder.receive(beside, child_of(place, beside))
            folder.receive(name, child_of(place, name))
        except (ProviderError, OSError) as error:
            log.error(
                "%s could not be put back from %s after its refusal could not be recorded (%s); the next start records "
                "it",
                birth.original_path,
                place,
                error,
            )
            return
        self._forget(job_id)

    def settle(
        self,
        find_job: Callable[[str], Job | None],
        folders: OpenedFolders,
        insert: Callable[[Sequence[Birth]], object],
    ) -> None:
        """Record or undo each refusal that a killed process left half done. Call once, before anything looks."""
        for note in sorted(self._roots.refusals.glob("*.json")):
            job_id = note.stem
            if find_job(job_id) is not None:
                note.unlink(missing_ok=True)
                continue
            try:
                self._settle(_load(json.loads(note.read_bytes())), folders, insert)
            except (ValueError, KeyError, TypeError):
                # Killed while it was written, so before anything was copied.
                note.unlink(missing_ok=True)
            except (ProviderError, OSError) as error:
                log.warning("The refusal of job %s is settled at a later start: %s", job_id, error)

    def _settle(self, birth: Birth, folders: OpenedFolders, insert: Callable[[Sequence[Birth]], object]) -> None:
        place = self._roots.error_folder(_id_of(birth))
        kept = child_of(place, birth.file_name)
        beside = sidecar_name(birth.file_name)
        # The sidecar is copied once its file was removed, so what looks like that file is another one.
        is_moved = beside is not None and child_of(place, beside).exists()
        found = folders.resolve(birth.original_path)
        is_same = not is_moved and found is not None and _is_same(found[0].folder, birth.file_name, kept)
        if not kept.exists() or is_same:
            self._forget(_id_of(birth))
            log.warning("%s is offered anew: the service ended while it was being refused", birth.original_path)
            return
        for half in place.glob(f"{PRIVATE_PREFIX}*"):
            half.unlink()
        # Beside a new arrival lies its own sidecar, perhaps.
        if found is not None and found[0].folder.look(birth.file_name) is None:
            self._move_sidecar(found[0].folder, birth, place)
        insert([birth])
        self.recorded(birth)
        log.warning("%s was refused before the service ended; job %s says so now", birth.original_path, birth.id)

    def _move_sidecar(self, folder: Folder, birth: Birth, place: Path) -> None:
        name = sidecar_name(birth.file_name)
        if name is None or not _has_sidecar(birth):
            return
        copy = child_of(place, name)
        try:
            seen = folder.look(name)
            if seen is not None and seen.length > SIDECAR_MOVED_BYTES:
                # Copying it would hold up the folder, and could fill the disk, for something nobody reads.
                log.warning("The sidecar %s was left: it has %d bytes", folder.path_of(name), seen.length)
                return
            _move(folder, name, copy, sha256=birth.sidecar_sha256)
        except FileNotFoundError:
            return
        except (ProviderError, OSError) as error:
            log.warning("The sidecar %s was left: %s", folder.path_of(name), error)

    def _forget(self, job_id: str) -> None:
        remove_folder(self._roots.error_folder(job_id))
        self._note(job_id).unlink(missing_ok=True)

    def _note(self, job_id: str) -> Path:
        return child_of(self._roots.refusals, f"{job_id}.json")


def _id_of(birth: Birth) -> str:
    if birth.id is None:
        raise ValueError("a refused file needs the id of its job beforehand")
    return birth.id


def _has_sidecar(birth: Birth) -> bool:
    return birth.sidecar_sha256 is not None or birth.event == METADATA_INVALID


@contextlib.contextmanager
def _held(folder: Folder, name: str) -> Iterator[None]:
    hold = folder.hold(name)
    try:
        yield
    finally:
        try:
            hold.release()
        except ANYTHING as error:  # the file was moved or was not, and that stands
            log.warning("The hold on %s was not released: %s", folder.path_of(name), describe(error))


def _move(folder: Folder, name: str, place: Path, *, sha256: str | None = None) -> None:
    """Copy a file, unless that was done before, and remove it; with `sha256` only while it is that file."""
    if place.exists():
        known = measure(place)
        fingerprint = Fingerprint(known.length, known.sha256)
    else:
        fingerprint = _bring(folder, name, place)
    if sha256 not in (None, fingerprint.sha256.hex()):
        place.unlink()
        raise TemporaryFailure("it changed since it was read with its file")
    removal = folder.remove_if(name, fingerprint)
    # Absent, it may be ours that is gone: a removal that was tried again after its first answer was lost.
    if removal.outcome not in (RemovalOutcome.REMOVED, RemovalOutcome.ABSENT):
        raise TemporaryFailure(f"{folder.path_of(name)} cannot be moved: {removal.reason}.")


def _bring(folder: Folder, name: str, place: Path) -> Fingerprint:
    """Copy a file and have it on disk; under its own name it is complete."""
    arriving = arriving_path(place.parent)
    try:
        fingerprint = folder.copy_to(name, arriving)
        flush_file(arriving)
        promote(arriving, place)
    except BaseException:
        with contextlib.suppress(OSError):
            arriving.unlink(missing_ok=True)
        raise
    return fingerprint


def _is_there(folder: Folder, name: str) -> bool:
    try:
        return folder.look(name) is not None
    except ProviderError:
        return False


def _is_same(folder: Folder, name: str, kept: Path) -> bool:
    """Tell whether the file in the folder is the one that was copied, so that the copy may go."""
    seen = folder.look(name) if kept.exists() else None
    if seen is None or seen.length != kept.stat().st_size or not isinstance(folder, Measures):
        return False
    return folder.measure(name).sha256 == measure(kept).sha256


def _dump(birth: Birth) -> dict[str, Any]:
    event = birth.operational_event
    values = {field.name: getattr(birth, field.name) for field in attrs.fields(Birth)}
    return values | {
        "format": birth.format.value,
        "source": birth.source.value,
        "metadata": dict(birth.metadata),
        "operational_event": None if event is None else [event.event_type, event.message, dict(event.facts)],
    }


def _load(values: dict[str, Any]) -> Birth:
    event = values["operational_event"]
    return Birth(
        **values
        | {
            "format": Format(values["format"]),
            "source": JobSource(values["source"]),
            "operational_event": None if event is None else Event(*event),
        }
    )
