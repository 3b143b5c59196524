"""Upload: one way in for every surface that takes a file over HTTP, itself free of HTTP (API-55, PIPE-54)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, BinaryIO

from bulksigner.contract.errors import NotAllowed, NotFound, ProviderError, RaceLost, Refusal
from bulksigner.contract.signing import Format
from bulksigner.files.durable import copy_measured, remove_file
from bulksigner.files.names import child_of
from bulksigner.files.work import WorkRoots
from bulksigner.intake.enqueue import EnqueueService
from bulksigner.intake.folders import OpenedFolders
from bulksigner.intake.names import clean_client_name, is_landing_name, mint_landing_name
from bulksigner.intake.offers import OutcomeKind
from bulksigner.intake.taken_names import TakenNames
from bulksigner.jobs.metadata import MetadataInvalid, parse_metadata
from bulksigner.jobs.model import PATH_LIMIT, Birth, JobSource

if TYPE_CHECKING:
    from bulksigner.jobs.model import Job
    from bulksigner.jobs.store import Jobs
    from bulksigner.profiles.model import OpenedProfile, StoredProfile
    from bulksigner.settings.model import UploadSettings

__all__ = ["DEFAULT_PROFILE", "UploadDoor", "read_format"]

DEFAULT_PROFILE = "default"

log = logging.getLogger(__name__)


class UploadDoor:
    """Takes uploads into the first input folder.

    The bytes are completed in the work root, out of every watcher's sight, then moved under a minted name that no
    watcher ever takes (`mint_landing_name`), and only then does the job exist. So a kill leaves either nothing that
    was acknowledged, or a job with its input: the two halves of an upload are never signed apart.
    """

    def __init__(
        self,
        settings: UploadSettings,
        folders: OpenedFolders,
        service: EnqueueService,
        profile: Callable[[str], OpenedProfile | None],
        roots: WorkRoots,
        names: TakenNames,
    ) -> None:
        self._settings = settings
        self._folders = folders
        self._service = service
        self._profile = profile
        self._roots = roots
        self._names = names

    def receive(
        self,
        stream: BinaryIO | None,
        *,
        file_name: str,
        profile: str | None = None,
        format: str | None = None,
        declared_length: int | None = None,
        metadata: str | None = None,
    ) -> Job:
        """Take one file and return its job, on disk and committed.

        `stream` is the file part (None: there is none), `declared_length` that of the request's body, in bytes, and
        `metadata` the text of the form field (API-97).
        Raises `Refusal` in the order of API-55; a refusal leaves nothing on disk.
        """
        stored = self._admit(profile, declared_length)
        chosen = read_format(format)
        # The first bytes are asked for here, as emptiness comes before the name.
        capped = None if stream is None else _Capped(stream, self._settings.max_bytes)
        if capped is None or not capped.fill():
            raise Refusal("The upload has no file, or the file is empty.", code="upload.empty")
        landing = self._folders.landing
        name = clean_client_name(file_name, landing.rules)
        given = _metadata(metadata)
        self._refuse_taken(name)
        landing_name = mint_landing_name(name)
        path = landing.folder.path_of(landing_name)
        if len(path) > PATH_LIMIT:
            raise _path_too_long(path)
        birth = Birth(
            file_name=name,
            original_path=path,
            input_folder=None,
            profile_name=stored.name,
            format=chosen or self._service.format_of(name, stored),
            source=JobSource.UPLOAD,
            message=f"Queued from upload, landed in folder {landing.name}",
            metadata=given,
        )
        arriving = child_of(self._roots.landing, landing_name)
        copy_measured(capped, arriving, flush=True)  # type: ignore[arg-type] # all it calls is readinto
        try:
            with self._names.turn([name]):
                # Again, as the name may have been taken while the bytes came.
                self._refuse_taken(name)
                landing.folder.receive(landing_name, arriving)
                return self._enqueue(birth)
        except BaseException:
            # What cannot be taken back now is found, and never signed, at the next start.
            with contextlib.suppress(ProviderError, OSError):
                remove_file(arriving)
                landing.folder.remove(landing_name)
            raise

    def settle_leftovers(self, jobs: Jobs) -> None:
        """Remove what was never acknowledged, and report landing copies without a job. Call once, at start."""
        for left in self._roots.landing.iterdir():
            remove_file(left)
        folder = self._folders.landing.folder
        try:
            names = [entry.name for entry in folder.entries() if is_landing_name(entry.name)]
        except ProviderError as error:
            log.warning("Landing copies of uploads could not be checked: %s", error.message)
            return
        paths = {folder.path_of(name): name for name in names}
        known = jobs.latest_for(list(paths)) if paths else {}
        orphans = sorted(set(paths) - set(known))
        # Kept, not removed: after a database was restored from a backup they are all that is left of their uploads.
        if orphans:
            log.warning(
                "%d landing copies of uploads have no job, because the service ended before the upload was "
                "acknowledged; they are never signed and may be removed: %s",
                len(orphans),
                _listed(orphans),
            )

    def _admit(self, profile: str | None, declared_length: int | None) -> StoredProfile:
        if not self._settings.enabled:
            raise NotAllowed("Uploads are switched off on this host (Upload:Enabled).", code="upload.disabled")
        if declared_length is not None and declared_length > self._settings.max_bytes:
            raise _too_large(self._settings.max_bytes)
        wanted = (profile or "").strip() or DEFAULT_PROFILE
        found = self._profile(wanted)
        if found is None:
            raise NotFound(f"There is no signing profile {wanted!r}.", code="profile.not-found")
        if not found.stored.enabled:
            raise NotAllowed(f"The signing profile {found.stored.name!r} is disabled.", code="profile.disabled")
        return found.stored

    def _refuse_taken(self, name: str) -> None:
        holder = self._names.holder_of(name)
        if holder is not None:
            way_out = (
                f"free it first: bulksigner names release '{name}'" if holder.is_removed else "delete that job first"
            )
            raise NotAllowed(
                f"Job {holder} has a file of this name. Send the file under another name, or {way_out}.",
                code="file.already-processed",
            )

    def _enqueue(self, birth: Birth) -> Job:
        result = self._service.insert([birth])[0]
        if result.outcome.value == OutcomeKind.ENQUEUED.value and result.job is not None:
            return result.job
        if result.outcome.value == OutcomeKind.PATH_TOO_LONG.value:
            raise _path_too_long(birth.original_path)
        raise RaceLost(f"An active job already has the path {birth.original_path}.", code="job.already-processing")


class _Capped:
    """Reads a stream up to a limit, counting what really comes (SEC-68)."""

    def __init__(self, stream: BinaryIO, limit_bytes: int) -> None:
        self._stream = stream
        self._limit_bytes = limit_bytes
        self._left_bytes = limit_bytes
        self._first = b""

    def fill(self) -> bool:
        """Read the first bytes; False when there are none."""
        self._first = self._stream.read(1 << 16)
        return bool(self._first)

    def readinto(self, view: memoryview) -> int:
        """Fill `view`; raises `Refusal` (`upload.too-large`) past the limit."""
        piece, self._first = self._first or self._stream.read(len(view)), b""
        self._left_bytes -= len(piece)
        if self._left_bytes < 0:
            raise _too_large(self._limit_bytes)
        view[: len(piece)] = piece
        return len(piece)


def _metadata(given: str | None) -> dict[str, str]:
    if not (given or "").strip():
        return {}
    try:
        return parse_metadata(given or "")
    except MetadataInvalid as invalid:
        raise Refusal(invalid.message, code="upload.metadata-invalid") from None


def read_format(given: str | None) -> Format | None:
    """Return the format that a client names in any case, None where it names none (API-54)."""
    wanted = (given or "").strip().lower()
    if not wanted:
        return None
    for known in Format:
        if known.value.lower() == wanted:
            return known
    raise Refusal(
        f"{given!r} is no signature format; there are: {', '.join(known.value for known in Format)}.",
        code="upload.format-unsupported",
    )


def _too_large(limit_bytes: int) -> Refusal:
    return Refusal(f"The upload is larger than {limit_bytes} bytes (Upload:MaxBytes).", code="upload.too-large")


def _path_too_long(path: str) -> Refusal:
    return Refusal(f"The path has {len(path)} characters, {PATH_LIMIT} are allowed.", code="job.path-too-long")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"
