"""What the engine does for a job: one value a task, which may travel to a worker process, and how it is carried out.

A task is given paths and a key reference; key material itself never travels.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import hashlib
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.errors import BulkSignerError, StepFailed
from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.signing import Format, Measured, PdfChoice, Signed, SigningRequest
from bulksigner.contract.storage import Fingerprint, Folder, NearFolder, Removal
from bulksigner.contract.validation import Finding
from bulksigner.encryption.envelope import measure_content, write_envelope
from bulksigner.encryption.key import EnvelopeKey
from bulksigner.files import durable
from bulksigner.files.work import open_place
from bulksigner.formats import dispatch
from bulksigner.formats.model import Checked, Expectation, PdfRules
from bulksigner.formats.preflight import find_defects
from bulksigner.plugin_system.guard import ANYTHING
from bulksigner.plugin_system.registry import Registry

if TYPE_CHECKING:
    # It comes with readers of ASN.1, which levels without a time stamp do without.
    from bulksigner.trust.stamping import Stamping

__all__ = [
    "KEYED",
    "CheckTask",
    "Companion",
    "DeliverTask",
    "Delivered",
    "DiscardTask",
    "EncryptTask",
    "LookTask",
    "NearInput",
    "SealTask",
    "SignTask",
    "StageTask",
    "Task",
    "carry_out",
    "look_here",
    "sign_here",
    "stage_here",
]

T = TypeVar("T")


class Task(Generic[T]):
    """One thing to do, and the type of its answer."""

    __slots__ = ()


@attrs.frozen
class StageTask(Task[Fingerprint]):
    """Copy one input into its job's folder, which is made, and measure it in the same read (PERF-05)."""

    folder: Folder
    name: str
    original_path: str
    target: Path


@attrs.frozen
class SignTask(Task[Measured]):
    """One staged file to sign: where it is, what it must be, where the signed file goes, and whose key signs."""

    job_id: str
    method: str
    profile: str
    file_name: str
    format: Format
    staged: Path
    measured: Measured
    target: Path
    signed_at: datetime.datetime
    options: Mapping[str, str]
    spec: SignatureSpec | None = None
    metadata: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    pdf: PdfChoice | None = None


@attrs.frozen
class SealTask(Task[bytes]):
    """One receipt to sign with the key of a profile; the answer is a detached CMS, DER (BEY-03)."""

    profile: str
    content: bytes
    signed_at: datetime.datetime


KEYED = (SignTask, SealTask)
"""What needs an open key, named by `profile`."""


@attrs.frozen
class LookTask(Task[tuple[Finding, ...]]):
    """One file to look at as signing would, without a key and outside of any job (BEY-10)."""

    staged: Path
    format: Format
    measured: Measured
    options: Mapping[str, str] = attrs.field(factory=dict)
    spec: SignatureSpec | None = None
    pdf: PdfChoice | None = None


@attrs.frozen
class CheckTask(Task[Checked]):
    """One signed file to check as it lies on disk (BEY-01)."""

    artifact: Path
    expectation: Expectation
    pem: bool
    staged: Path | None = None
    """The staged copy, where the check needs more of it than its measure."""
    detached: bool = False


@attrs.frozen
class EncryptTask(Task[Measured]):
    """One signed file to put into an envelope (ENC-12); `measured` is the file as it was checked."""

    signed: Path
    measured: Measured
    envelope: Path


@attrs.frozen
class NearInput:
    """An input that the engine may remove, as it was staged."""

    folder: NearFolder
    name: str
    fingerprint: Fingerprint


@attrs.frozen
class Delivered:
    """When the output was written, and what became of the input; None where it was not the engine's to remove."""

    modified_at: datetime.datetime
    removal: Removal | None


@attrs.frozen
class Companion:
    """The content of a detached signature: the staged copy, where it goes, and what it must be."""

    staged: Path
    target: Path
    measured: Measured


@attrs.frozen
class DeliverTask(Task[Delivered]):
    """One signed file to move to its final place (PIPE-82), and then its input to take away, in one try (PIPE-92)."""

    signed: Path
    output: Path
    input: NearInput | None
    companion: Companion | None = None
    """Delivered before the signature, so that no signature stands alone."""


@attrs.frozen
class DiscardTask(Task[None]):
    """Folders of completed jobs to take away (PIPE-84)."""

    folders: tuple[Path, ...]


def carry_out(
    task: Task[T],
    registry: Registry,
    keys: Mapping[str, OpenedKey],
    envelope_key: EnvelopeKey | None = None,
    stamping: Stamping | None = None,
) -> T:
    """Do what a task asks, in this process; raises `StepFailed`, or what a library raises."""
    answer: Any
    if isinstance(task, SignTask):
        answer = sign_here(task, registry, keys[task.profile], stamping)
    elif isinstance(task, CheckTask):
        answer = check_here(task, stamping)
    elif isinstance(task, StageTask):
        answer = stage_here(task)
    elif isinstance(task, DeliverTask):
        answer = deliver_here(task)
    elif isinstance(task, EncryptTask):
        answer = encrypt_here(task, envelope_key)
    elif isinstance(task, DiscardTask):
        discard_here(task)
        answer = None
    elif isinstance(task, LookTask):
        answer = look_here(task)
    elif isinstance(task, SealTask):
        answer = seal_here(task, keys[task.profile])
    else:
        raise StepFailed(f"The engine was asked for something it does not know: {type(task).__name__}.")
    return answer  # type: ignore[no-any-return]


def stage_here(task: StageTask) -> Fingerprint:
    """Copy and measure an input, in place of what a lost worker may have copied of it."""
    place = open_place(task.target)
    try:
        return task.folder.copy_to(task.name, place)
    except FileNotFoundError as error:
        raise StepFailed(f"The input no longer exists: {task.original_path}") from error


def sign_here(task: SignTask, registry: Registry, key: OpenedKey, stamping: Stamping | None = None) -> Measured:
    """Sign in this process; what a method raises against its contract becomes `PermanentFailure` naming its plugin."""
    request = SigningRequest(
        job_id=task.job_id,
        file_name=task.file_name,
        format=task.format,
        staged=task.staged,
        staged_measured=task.measured,
        target=task.target,
        key=key,
        signed_at=task.signed_at,
        options=task.options,
        spec=task.spec,
        metadata=task.metadata,
        stamps=None if stamping is None else stamping.stamps,
        pdf=task.pdf,
        proofs=None if stamping is None else stamping.proofs,
    )
    method = registry.signing_method(task.method)
    with registry.guard(method):
        outcome = method.sign(request)
    if not isinstance(outcome, Signed):
        raise StepFailed(f"Method {task.method} did not sign here but answered {type(outcome).__name__}.")
    return outcome.measured


def seal_here(task: SealTask, key: OpenedKey) -> bytes:
    """Sign a receipt in this process, and check what came of it as a signed file is checked."""
    measured = Measured(len(task.content), hashlib.sha256(task.content).digest())
    signature = io.BytesIO()
    signer = dispatch.signer_for(Format.CADES, key, detached=True)
    signer.sign(io.BytesIO(task.content), signature, expected=measured, signed_at=task.signed_at)
    dispatch.check(signature, Expectation(Format.CADES, key.certificate, measured), detached=True)
    return signature.getvalue()


def look_here(task: LookTask) -> tuple[Finding, ...]:
    """Look at a file in this process."""
    with durable.open_regular(task.staged) as source:
        return find_defects(source, task.format, task.measured, PdfRules.read(task.options, task.pdf), task.spec)


def check_here(task: CheckTask, stamping: Stamping | None = None) -> Checked:
    """Check in this process, on the bytes as they are read back from storage."""
    expectation = task.expectation
    if stamping is not None and expectation.spec is not None and expectation.spec.is_stamped:
        expectation = attrs.evolve(expectation, judge_stamp=stamping.judge, proof_judge=stamping.proof_judge)
    try:
        with contextlib.ExitStack() as opened:
            artifact = opened.enter_context(durable.open_regular(task.artifact))
            original = None if task.staged is None else opened.enter_context(durable.open_regular(task.staged))
            return dispatch.check(artifact, expectation, detached=task.detached, pem=task.pem, original=original)
    except OSError as error:
        raise StepFailed(f"The signed file cannot be read back: {error.strerror}.") from error


def encrypt_here(task: EncryptTask, key: EnvelopeKey | None) -> Measured:
    """Write the envelope of a signed file, in place of what a lost worker may have written, and read it back.

    It is flushed first; what it opens to must be what was checked, or it is no use to anyone (ENC-12).
    """
    if key is None:
        raise StepFailed("The key of encrypted outputs is not here. Enable Encryption and restart the service.")
    task.envelope.unlink(missing_ok=True)
    try:
        with durable.open_regular(task.signed) as plain:
            envelope = durable.write_new(task.envelope, lambda out: write_envelope(plain, out, key))
        with durable.open_regular(task.envelope) as written:
            content = measure_content(written, envelope.length, key)
    except BulkSignerError as error:
        raise StepFailed(error.message) from error
    except OSError as error:
        where = error.filename or task.envelope
        raise StepFailed(f"The envelope cannot be written ({where}): {error.strerror or error}.") from error
    if content != task.measured:
        raise StepFailed("The envelope on disk does not open to the signed file that was checked.")
    return envelope


def deliver_here(task: DeliverTask) -> Delivered:
    """Put a signed file where its job's row says it will be, without overwriting; then remove the input."""
    try:
        # Taken before the move: whoever waits for the output may collect it at once.
        modified_at = datetime.datetime.fromtimestamp(task.signed.stat().st_mtime, datetime.UTC)
        if task.companion is None:
            durable.promote(task.signed, task.output)
        else:
            _promote_pair(task, task.companion)
    except FileExistsError as error:
        taken = error.filename2 or error.filename if task.companion else task.output
        raise StepFailed(
            f"Output already exists at {taken}; resolve manually before re-queueing.",
            code="promote.output-exists",
        ) from error
    except OSError as error:
        raise StepFailed(f"The output could not be moved to {task.output}: {error.strerror or error}.") from error
    return Delivered(modified_at, None if task.input is None else _remove(task.input))


def discard_here(task: DiscardTask) -> None:
    """Remove the folders; raises `StepFailed` for the first that stays, after a try of all."""
    failed: OSError | None = None
    for folder in task.folders:
        try:
            durable.remove_folder(folder)
        except OSError as error:
            failed = failed or error
    if failed is not None:
        raise StepFailed(f"{failed.filename}: {failed.strerror or failed}") from failed


def _promote_pair(task: DeliverTask, companion: Companion) -> None:
    """Deliver the content, then its signature; the content goes back where the signature cannot follow.

    Raises `FileExistsError` naming the taken place.
    """
    if os.path.lexists(task.output):
        raise FileExistsError(errno.EEXIST, "is taken", str(task.output))
    _promote_content(companion)
    try:
        durable.promote(task.signed, task.output)
    except OSError as error:
        if task.signed.exists():
            with contextlib.suppress(OSError):  # it is told as delivered then
                durable.promote(companion.target, companion.staged)
        if isinstance(error, FileExistsError):
            raise FileExistsError(errno.EEXIST, "is taken", str(task.output)) from error
        raise


def _promote_content(companion: Companion) -> None:
    # A worker that was lost may have moved it: a file has one name.
    is_moved = not companion.staged.exists()
    if durable.measure(companion.target if is_moved else companion.staged) != companion.measured:
        raise StepFailed("The staged copy is not the content that was signed.")
    if is_moved:
        durable.flush_folder(companion.target.parent)
        return
    # Staging leaves this to the input, which is about to go.
    durable.flush_file(companion.staged)
    try:
        durable.promote(companion.staged, companion.target)
    except FileExistsError as error:
        raise FileExistsError(errno.EEXIST, "is taken", str(companion.target)) from error


def _remove(given: NearInput) -> Removal | None:
    try:
        return given.folder.remove_now(given.name, given.fingerprint)
    except ANYTHING:  # the output is delivered; whoever has patience tries again and tells
        return None
