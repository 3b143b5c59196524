"""The last questions before a file becomes a job: its metadata, then its name (PIPE-36)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from bulksigner.contract.errors import ProviderError
from bulksigner.intake.folders import OpenedFolder
from bulksigner.intake.offers import Outcome, OutcomeKind
from bulksigner.intake.sidecar import NO_SIDECAR, read_sidecar
from bulksigner.intake.taken_names import TakenNames
from bulksigner.intake.turned_away import ALREADY_PROCESSED, METADATA_INVALID, TurnedAway
from bulksigner.jobs.metadata import MetadataInvalid
from bulksigner.jobs.model import Birth, Job
from bulksigner.jobs.names import Holder
from bulksigner.records.events import Event

__all__ = ["Admission"]

log = logging.getLogger(__name__)


class Admission:
    """Admits files of input folders, or turns them away: moves them and bears their job Failed.

    `active_for` finds the job that has a path now; `scratch` is a folder on this host for copies that live for a
    moment.
    """

    def __init__(
        self, names: TakenNames, turned_away: TurnedAway, active_for: Callable[[str], Job | None], scratch: Path
    ) -> None:
        self.names = names
        self._active_for = active_for
        self._turned_away = turned_away
        self._scratch = scratch

    @contextmanager
    def settling(self, births: dict[int, tuple[OpenedFolder, Birth]]) -> Iterator[None]:
        """Run the block that inserts `births`; files that were moved for them are put back when it fails."""
        try:
            yield
        except BaseException:
            for opened, birth in _moved(births.values()):
                self._turned_away.take_back(opened.folder, birth)
            raise
        for _, birth in _moved(births.values()):
            self._turned_away.recorded(birth)

    def admit(self, opened: OpenedFolder, birth: Birth, latest: Job | None, taken: Collection[str]) -> Birth | Outcome:
        """Return the birth to insert: the one given with its metadata, or one that is born Failed.

        `latest` is the last job of the path; one that left its input does not stand in the way of it (PIPE-53). `taken`
        has the name of the file when somebody holds it.
        """
        sidecar = NO_SIDECAR
        if opened.has_sidecars:
            try:
                sidecar = read_sidecar(opened.folder, birth.file_name, self._scratch)
            except MetadataInvalid as invalid:
                return self._turn_away(opened, _without_metadata(birth, invalid.message))
            except (ProviderError, OSError) as error:
                return _stays(birth, f"its sidecar cannot be read: {_words(error)}")
            birth = attrs.evolve(birth, metadata=sidecar.metadata, sidecar_sha256=sidecar.sha256)
        if birth.file_name not in taken:
            return birth
        besides = latest.id if latest is not None and latest.input_diverged else None
        holder = self.names.holder_of(birth.file_name, besides=besides)
        return birth if holder is None else self._turn_away(opened, _named_as(birth, holder))

    def _turn_away(self, opened: OpenedFolder, birth: Birth) -> Birth | Outcome:
        # A retry comes past the names; the file is its input then, and must not be moved from under it.
        if self._active_for(birth.original_path) is not None:
            return Outcome(OutcomeKind.ALREADY_ACTIVE)
        try:
            self._turned_away.move(opened.folder, birth)
        except (ProviderError, OSError) as error:
            if isinstance(error, FileNotFoundError) and _is_gone(opened, birth.file_name):
                return Outcome(OutcomeKind.VANISHED)
            return _stays(birth, f"{birth.message} It cannot be moved to error/ either: {_words(error)}")
        log.warning("%s was moved to error/%s: %s", birth.original_path, birth.id, birth.message)
        return birth


def _named_as(birth: Birth, holder: Holder) -> Birth:
    job_id = str(uuid.uuid4())
    return attrs.evolve(
        birth,
        id=job_id,
        event=ALREADY_PROCESSED,
        error_code="file.already-processed",
        error_message="file.already-processed",
        path_released=True,
        message=f"Not signed: job {holder} has a file of this name.",
        operational_event=Event(
            "FileAlreadyProcessed",
            f"File '{birth.file_name}' of folder {birth.input_folder} was not signed: job {holder} has a file of "
            f"this name.",
            {
                "jobId": job_id,
                "fileName": birth.file_name,
                "holderJobId": holder.id,
                "holderStatus": holder.status.value,
                "folder": birth.input_folder,
            },
        ),
    )


def _without_metadata(birth: Birth, rule: str) -> Birth:
    return attrs.evolve(
        birth,
        id=str(uuid.uuid4()),
        event=METADATA_INVALID,
        error_code="job.metadata-invalid",
        error_message="job.metadata-invalid",
        path_released=True,
        message=f"Not signed: {rule}",
    )


def _moved(births: Iterable[tuple[OpenedFolder, Birth]]) -> Iterator[tuple[OpenedFolder, Birth]]:
    return (pair for pair in births if pair[1].event in (ALREADY_PROCESSED, METADATA_INVALID))


def _is_gone(opened: OpenedFolder, name: str) -> bool:
    try:
        return opened.folder.look(name) is None
    except ProviderError:
        return False


def _stays(birth: Birth, reason: str) -> Outcome:
    log.warning("%s stays where it is: %s", birth.original_path, reason)
    return Outcome(OutcomeKind.ERROR, reason, is_of_file=True)


def _words(error: BaseException) -> str:
    return error.message if isinstance(error, ProviderError) else str(error)
