"""One job under way: what its steps have found so far, and the parts of the service they use."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import attrs

from bulksigner.contract.errors import StepFailed
from bulksigner.contract.signing import Format, Measured
from bulksigner.contract.storage import Fingerprint, Folder
from bulksigner.encryption.envelope import SUFFIX
from bulksigner.files.work import WorkRoots
from bulksigner.formats.model import Checked
from bulksigner.jobs.model import Changed, Job
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.store import Jobs
from bulksigner.lanes import Done
from bulksigner.observability.metrics import Metrics
from bulksigner.pipeline.conductor import Effect, Started, apart
from bulksigner.pipeline.cross_checking import CROSS_CHECK_LIMIT_SECONDS, Opinion
from bulksigner.pipeline.engine import Engine, WorkerLost, perform
from bulksigner.pipeline.tasks import Delivered, SignTask, Task
from bulksigner.pipeline.validators import VALIDATION_LIMIT_SECONDS
from bulksigner.plugin_system.registry import Registry
from bulksigner.profiles.holds import Holds
from bulksigner.profiles.model import KeyReference, OpenedProfile
from bulksigner.profiles.opened import OpenedProfiles
from bulksigner.records.engines import Act, Store
from bulksigner.statistics.timings import Spans
from bulksigner.trust.signer_chains import SignerChains
from bulksigner.trust.validation import CertificateValidation

if TYPE_CHECKING:
    from bulksigner.pipeline.receipts import ReceiptBook

__all__ = ["Inputs", "Parts", "Work"]

T = TypeVar("T")


class Inputs(Protocol):
    """The input folders as the pipeline sees them."""

    def locate(self, original_path: str) -> tuple[Folder, str]:
        """Return the folder and the name behind a stored path. Raises `ProviderError` for a folder unknown here."""
        ...

    def consume_sidecar(self, job: Job) -> None:
        """Remove the sidecar of an input that was removed; one that stays is reported, not raised (PIPE-118)."""
        ...

    def offer_again(self, job: Job) -> None:
        """Offer a rewritten input to its folder's watcher once more (PIPE-94)."""
        ...


@attrs.frozen
class Parts:
    """The parts of the service that the steps and the worker share."""

    store: Store
    jobs: Jobs
    queue: Queue
    profiles: OpenedProfiles
    inputs: Inputs
    roots: WorkRoots
    engine: Engine
    registry: Registry
    announce: Callable[[Changed], None]
    scrub: Callable[[str], str]
    now: Callable[[], datetime.datetime]
    options: Mapping[str, str] = attrs.field(factory=dict)
    """What every request to sign says to its method."""
    validation_limit_seconds: float = VALIDATION_LIMIT_SECONDS
    cross_check_limit_seconds: float = CROSS_CHECK_LIMIT_SECONDS
    record_timings: Callable[[Job, Spans], None] | None = None
    """Writes the timings of a job in the act that completes it; None where statistics are off (STA-12)."""
    count_envelope: Callable[[], None] | None = None
    """Counts an envelope in the act that records it; None where encryption is off (ENC-10)."""
    receipts: ReceiptBook | None = None
    """Gives each completed job a receipt; None where they are off (BEY-03)."""
    validation: CertificateValidation | None = None
    """Checks the certificates of profiles that ask for it; None where no host trusts any (CFG-92)."""
    chains: SignerChains | None = None
    """Holds finished signatures against the roots of this host, for the same profiles (BEY-01)."""
    holds: Holds | None = None
    """The profiles whose jobs wait; None where jobs fail instead (BEY-20)."""
    gather: Callable[[Act[Any], Done], None] | None = None
    """Takes what jobs ask of the store, to hand it over together; None where each act goes there by itself."""
    metrics: Metrics = attrs.field(factory=Metrics)
    is_heard_by_plugins: bool = False
    """Whether `announce` runs code of plugins, which may take its time."""

    def write(self, act: Act[T]) -> Effect[T]:
        """Return the effect of an act of the store."""
        return Effect(partial(self.gather or self.store.submit, act))

    async def tell(self, changed: Changed) -> None:
        """Announce a committed change; plugins hear of it in a thread of its own."""
        if self.is_heard_by_plugins:
            await apart(lambda: self.announce(changed))
        else:
            self.announce(changed)


@attrs.define
class Work:
    """What is known of one claimed job; steps fill it in from top to bottom."""

    parts: Parts
    job: Job
    profile: OpenedProfile | None = None
    staged: Path | None = None
    fingerprint: Fingerprint | None = None
    task: SignTask | None = None
    signed: Path | None = None
    signed_measured: Measured | None = None
    checking: Started[Checked] | None = None
    """The check of the signed file, under way while the database records that there is one."""
    checked: Checked | None = None
    """What our own check saw, None where the profile has none."""
    opinions: tuple[Opinion, ...] = ()
    envelope: Path | None = None
    output: Path | None = None
    delivered: Delivered | None = None
    divergence: str = ""
    is_input_kept: bool = False
    seconds: dict[str, float] = attrs.field(factory=dict)
    claimed_at: datetime.datetime = attrs.field(init=False)
    step_began: tuple[str, float] | None = None
    """The step under way and when it began, on the monotonic clock."""
    _folder: Path | None = attrs.field(init=False, default=None)

    @claimed_at.default
    def _read_claim(self) -> datetime.datetime:
        return self.job.updated_at

    @property
    def folder(self) -> Path:
        """Return the job's own folder."""
        if self._folder is None:
            self._folder = self.parts.roots.job_folder(self.job.id)
        return self._folder

    @property
    def opened(self) -> OpenedProfile:
        """Return the job's profile, which the first step resolved."""
        if self.profile is None:
            raise StepFailed("The job has no resolved profile.")
        return self.profile

    @property
    def key_reference(self) -> KeyReference:
        """Return the reference of the profile's open key."""
        reference = self.opened.key_reference
        if reference is None:
            raise StepFailed(f"Signing profile '{self.opened.name}' has no open key.", code="profile.degraded")
        return reference

    @property
    def staged_fingerprint(self) -> Fingerprint:
        """Return what the input was when it was staged."""
        if self.fingerprint is None:
            raise StepFailed("The job has no staged copy.")
        return self.fingerprint

    @property
    def staged_measured(self) -> Measured:
        """Return length and SHA-256 of the staged copy."""
        return Measured(self.staged_fingerprint.length, self.staged_fingerprint.sha256)

    @property
    def is_pem(self) -> bool:
        """Tell whether the output is written as PEM."""
        return self.job.format is Format.CADES and self.opened.stored.save_as_pem

    @property
    def is_detached(self) -> bool:
        """Tell whether the content leaves beside its signature (BEY-12)."""
        return self.opened.stored.is_detached(self.job.format)

    @property
    def is_encrypted(self) -> bool:
        """Tell whether the output leaves as an envelope (ENC-01)."""
        return self.opened.stored.encrypt

    @property
    def is_cross_checked(self) -> bool:
        """Tell whether second engines check the signed file too (BEY-02)."""
        return bool(self.opened.stored.cross_check)

    @property
    def output_name(self) -> str:
        """Return the name of the output (PIPE-89), by the profile's naming as it is now (PIPE-87)."""
        return self.opened.stored.name_output(self.job.file_name, self.job.format)

    @property
    def signed_name(self) -> str:
        """Return the name of the signed file in the job's own folder: that of the output, without its envelope."""
        name = self.output_name
        return name.removesuffix(SUFFIX) if self.is_encrypted else name

    @property
    def artifact(self) -> Path:
        """Return what is to be delivered: the envelope where there must be one, and never the clear file then."""
        return self.require(self.envelope if self.is_encrypted else self.signed)

    def foretell_output(self, name: str, measured: Measured) -> dict[str, Any]:
        """Settle where the output will be; return the columns that say so, and what it is, before it is there."""
        self.output = self.parts.roots.output_path(name)
        beside: dict[str, Any] = {}
        if self.is_detached:
            beside["companion_path"] = str(self.parts.roots.output_path(self.job.file_name))
        return {
            **beside,
            "output_path": str(self.output),
            "output_length": measured.length,
            "output_sha256": measured.sha256.hex(),
        }

    def perform(self, task: Task[T]) -> Effect[T]:
        """Return the effect of a task of the engine."""
        return perform(self.parts.engine, task)

    async def perform_again(self, task: Task[T]) -> T:
        """Perform a task that may be begun anew, once more when a worker is lost over it."""
        try:
            return await self.perform(task)
        except WorkerLost:
            return await self.perform(task)

    def require(self, path: Path | None) -> Path:
        """Return a path that an earlier step of the plan must have set."""
        if path is None:
            raise StepFailed("A step ran before the step it depends on.")
        return path

    def begin_step(self, step: str) -> None:
        """Note that a step begins."""
        self.step_began = (step, time.monotonic())

    def end_step(self) -> None:
        """Add the time the step took to the job's durations (monotonic, PIPE-05)."""
        if self.step_began is not None:
            step, began = self.step_began
            self.step_began = None
            # A step that went on beside others has noted its time itself.
            self.seconds.setdefault(step, time.monotonic() - began)
