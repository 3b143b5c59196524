"""The steps of a job: what ends it, what leaves the key alone, what becomes of input, output and folder."""

from __future__ import annotations

import datetime
import threading
import time
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.builtin.local_signing import LocalSigning
from bulksigner.contract.certificate import Digest, KeyAlgorithm
from bulksigner.contract.errors import HeldElsewhere, StepFailed
from bulksigner.contract.signing import Format
from bulksigner.contract.storage import Removal, RemovalOutcome
from bulksigner.contract.validation import CheckReport, Finding, Severity
from bulksigner.files import durable
from bulksigner.jobs.model import utc_now
from bulksigner.jobs.states import JobStatus
from bulksigner.pipeline.engine import InProcessEngine
from bulksigner.pipeline.steps import clean
from bulksigner.pipeline.tasks import CheckTask, DeliverTask, DiscardTask, SignTask, StageTask
from bulksigner.pipeline.work import Work
from bulksigner.plugin_system import roles
from bulksigner.plugin_system.registry import Provided, RegistryBuilder
from bulksigner.records.tables import EventRow


def events(rig: Any) -> list[str]:
    with rig.store.reading():
        return [row.event_type for row in EventRow.select(EventRow.event_type).bind(rig.store.database)]


@attrs.define
class CountingKey:
    """A real key that counts its uses."""

    issued: Any
    uses: int = 0
    algorithm = KeyAlgorithm.RSA

    @property
    def certificate(self) -> bytes:
        return bytes(self.issued.certificate_der)

    @property
    def chain(self) -> tuple[bytes, ...]:
        return tuple(self.issued.chain_der)

    def sign(self, data: bytes, digest: Digest) -> bytes:
        self.uses += 1
        raise AssertionError

    def close(self) -> None:
        """Hold nothing."""


def test_a_job_is_signed_delivered_and_its_input_taken_away(rig: Any) -> None:
    """PIPE-74, PIPE-78, PIPE-82 to PIPE-84: output in place and recorded, input and folder gone, one line a step."""
    job = rig.run()
    assert (job.status, job.error_code, job.output_path) == (
        JobStatus.COMPLETED,
        None,
        str(rig.roots.output / "folha.rem.p7m"),
    )
    assert Path(job.output_path).read_bytes() == b"signed content"
    assert (job.output_length, job.staged_length, job.certificate_source) == (14, 7, "Pfx")
    assert job.sign_call_started_at is not None
    assert job.output_modified_at is not None
    assert list(rig.folder_path.iterdir()) == []
    assert rig.roots.job_folder_names() == []
    assert rig.history(job)[1:] == ["Processing started", "Signed", "Completed: folha.rem.p7m"]
    assert [changed.change.event for changed in rig.told] == ["claim", "sign", "complete"]


@pytest.mark.parametrize(
    ("file_name", "format", "flags", "output"),
    [
        ("report.pdf", Format.PADES, {}, "report.signed.pdf"),
        ("remessa.rem", Format.CADES, {"save_as_pem": True}, "remessa.rem.pem"),
        ("remessa.rem", Format.CADES, {"preserve_file_extension": True}, "remessa.signed.rem"),
        ("nota.xml", Format.XADES, {"save_as_pem": True}, "nota.signed.xml"),
        ("nota.nfe", Format.XADES, {"preserve_file_extension": True}, "nota.signed.nfe"),
        ("abc", Format.CADES, {"preserve_file_extension": True}, "abc.signed"),
    ],
)
def test_the_profile_names_the_output(
    rig: Any, file_name: str, format: Format, flags: dict[str, bool], output: str
) -> None:
    """PIPE-87, PIPE-89, PIPE-90: by the profile as it is when the job runs."""
    job = rig.drop(file_name, format=format)
    rig.change_profile(**flags)
    rig.worker().step()
    assert rig.job(job).output_path == str(rig.roots.output / output)


def test_a_name_too_long_for_an_output_costs_no_signature(rig: Any) -> None:
    """PIPE-90: refused before the use of the key is recorded."""
    job = rig.run("n" * 250 + ".rem")
    assert job.status is JobStatus.FAILED
    assert "255 bytes" in str(job.error_message)
    assert (rig.engine.tasks, job.sign_call_started_at) == ([], None)


def test_the_use_of_the_key_is_on_disk_before_it_happens(rig: Any) -> None:
    """CLU-11, PIPE-78: the engine is called only when the database tells of it."""
    seen: list[Any] = []
    rig.engine.act = lambda task: seen.append(rig.jobs.get(task.job_id))
    rig.run()
    assert seen[0].sign_call_started_at is not None
    assert (seen[0].status, seen[0].staged_length) == (JobStatus.PROCESSING, 7)


def test_bytes_that_changed_after_staging_never_meet_the_key(rig: Any, leaf: Any) -> None:
    """PIPE-77: `approval.content-changed`, by the real method and signer, and the key was not asked."""
    builder = RegistryBuilder()
    builder.add([Provided("builtin", roles.SIGNING_METHOD, "Local", LocalSigning())])
    key = CountingKey(leaf)
    rig.engine = InProcessEngine(builder.build((), (), (), {}, None))
    rig.engine.open(rig.profile.key_reference, key)

    def rewrite(file: Any) -> None:
        file.path.write_bytes(b"CONTENT")

    rig.validator.act = rewrite
    job = rig.run()
    assert (job.status, job.error_code, key.uses) == (JobStatus.FAILED, "approval.content-changed", 0)
    assert (rig.folder_path / "folha.rem").exists()


def test_a_profile_that_cannot_sign_fails_its_jobs(rig: Any) -> None:
    """PIPE-71: degraded with its reason, and missing by its name."""
    rig.change_profile(degraded="the password is wrong.")
    job = rig.run()
    assert (job.error_code, job.sign_call_started_at) == ("profile.degraded", None)
    assert job.error_message == "profile.degraded"
    assert rig.history(job)[-1].endswith("cannot sign: the password is wrong.")
    rig.change_profile(degraded=None, name="other")
    job = rig.run("b.rem")
    assert job.error_code == "profile.not-found"
    assert "'default'" in rig.history(job)[-1]


def test_a_profile_without_a_key_does_not_claim_to_have_used_one(rig: Any) -> None:
    """CLU-11: `signCallStartedAt` stays empty."""
    rig.change_profile(key_reference=None)
    job = rig.run()
    assert (job.error_code, job.sign_call_started_at) == ("profile.degraded", None)


@pytest.mark.parametrize("shift_days", [-3, 3])
def test_outside_its_validity_a_certificate_never_signs(rig: Any, shift_days: int) -> None:
    """BEY-21, PIPE-77: expired and not yet valid alike."""
    shift = datetime.timedelta(days=shift_days)
    rig.change_profile(certificate_not_before=utc_now() + shift - datetime.timedelta(days=1))
    rig.change_profile(certificate_not_after=utc_now() + shift + datetime.timedelta(days=1))
    job = rig.run()
    assert (job.error_code, rig.engine.tasks, job.sign_call_started_at) == ("sign.certificate-invalid", [], None)


def test_an_input_that_is_gone_fails_naming_it(rig: Any) -> None:
    """PIPE-73: nothing was touched."""
    job = rig.drop()
    (rig.folder_path / "folha.rem").unlink()
    rig.worker().step()
    assert rig.job(job).error_message == f"The input no longer exists: {rig.folder_path / 'folha.rem'}"
    assert rig.roots.error_folder(job.id).is_dir()


def test_an_input_that_someone_holds_fails_naming_it(rig: Any) -> None:
    """PIPE-73, PIPE-91: `job.input-held`; the other's hold stands."""
    hold = rig.inputs.folder.hold("folha.rem")
    job = rig.run()
    assert job.error_code == "job.input-held"
    assert "folha.rem is held by another job" in rig.history(job)[-1]
    with pytest.raises(HeldElsewhere):
        rig.inputs.folder.hold("folha.rem")
    hold.release()


def test_a_finding_ends_the_job_before_the_key(rig: Any) -> None:
    """PIPE-75: code of the first error, ten findings told and the rest counted."""
    finding = Finding("payments.invalid", Severity.ERROR, "line 3", "The total is wrong.", "Correct it.")
    rig.validator.report = CheckReport((attrs.evolve(finding, severity=Severity.WARNING), *[finding] * 12))
    job = rig.run()
    assert (job.error_code, rig.engine.tasks, job.sign_call_started_at) == ("payments.invalid", [], None)
    text = rig.history(job)[-1]
    assert text.count("line 3: The total is wrong. Correct it.") == 10
    assert text.endswith("… and 2 more.")


@pytest.mark.parametrize("answer", [None, "fine", CheckReport(findings=None)])  # type: ignore[arg-type]
def test_a_validator_that_gives_no_report_fails_the_job(rig: Any, answer: object) -> None:
    """PIPE-75: fails closed, in the plugin's name."""
    rig.validator.report = answer
    job = rig.run()
    assert (job.status, rig.engine.tasks) == (JobStatus.FAILED, [])
    assert "file validator payments of the plugin checks broke" in str(job.error_message)


@pytest.mark.parametrize("error", [RuntimeError("a bug"), SystemExit(3), KeyboardInterrupt()])
def test_a_validator_that_raises_fails_the_job(rig: Any, error: BaseException) -> None:
    """PIPE-75, PIPE-67: fails closed; not even an exit ends more than the job."""

    def fail(_: object) -> None:
        raise error

    rig.validator.act = fail
    job = rig.run()
    assert (job.status, rig.engine.tasks) == (JobStatus.FAILED, [])
    assert f"broke: {type(error).__name__}" in str(job.error_message)


def test_a_validator_that_hangs_fails_the_job_at_the_limit(rig: Any, caplog: pytest.LogCaptureFixture) -> None:
    """PIPE-75, SEC-70: fails closed, in the plugin's name; the slot is free for the next job."""
    released = threading.Event()
    rig.validation_limit_seconds = 0.05
    rig.validator.act = lambda _: released.wait()
    job = rig.run()
    assert (job.status, rig.engine.tasks) == (JobStatus.FAILED, [])
    told = "file validator payments of the plugin checks gave no answer within 0.05 s"
    assert told in str(job.error_message)
    assert "its thread is abandoned" in caplog.text
    released.set()
    rig.validation_limit_seconds, rig.validator.act = 300.0, lambda _: None
    assert rig.run("next.rem").status is JobStatus.COMPLETED


def test_a_validator_that_does_not_apply_is_not_asked(rig: Any) -> None:
    """PIPE-75: the profile decides."""
    rig.validator.is_wanted = False
    rig.validator.report = None
    assert rig.run().status is JobStatus.COMPLETED


def test_a_failure_of_the_engine_has_the_code_of_signing(rig: Any) -> None:
    """PIPE-79: `sign.failed`, with and without words of our own; no output."""

    def fail(_: object) -> None:
        raise error

    for error in (StepFailed("The token is gone."), KeyError("slot")):
        rig.engine.act = fail
        job = rig.run(f"{type(error).__name__}.rem")
        assert job.error_code == "sign.failed"
        assert job.output_path is None
    assert job.error_message == "sign.failed: KeyError: 'slot'"
    assert list(rig.roots.output.iterdir()) == []


def test_an_artifact_that_reads_back_differently_is_not_delivered(rig: Any) -> None:
    """BEY-01, PIPE-80: what lies on disk must be what the signing step wrote."""
    rig.engine.see = lambda content: content + b"!"
    job = rig.run()
    assert job.error_code == "verify.failed"
    assert list(rig.roots.output.iterdir()) == []
    assert (rig.folder_path / "folha.rem").exists()
    assert (rig.roots.error_folder(job.id) / "folha.rem.p7m").exists()


def test_an_artifact_that_does_not_pass_its_check_is_not_delivered(rig: Any) -> None:
    """PIPE-80: `verify.failed` also for a fault nobody expected."""
    for error in (StepFailed("digest", code="verify.failed"), RecursionError("deep")):
        rig.engine.check_error = error
        assert rig.run(f"{type(error).__name__}.rem").error_code == "verify.failed"
    assert list(rig.roots.output.iterdir()) == []


def test_verification_may_be_switched_off_and_is_said_to_be(rig: Any) -> None:
    """PIPE-33: the job still passes through Verifying."""
    rig.change_profile(verify=False)
    rig.engine.check_error = AssertionError()
    job = rig.run()
    assert job.status is JobStatus.COMPLETED
    assert rig.history(job)[2:4] == ["Signed", "Verification skipped"]


def test_a_taken_output_name_overwrites_nothing(rig: Any) -> None:
    """PIPE-82, PIPE-95: `promote.output-exists` with the words of the sheet; the input stays."""
    taken = rig.roots.output / "folha.rem.p7m"
    taken.write_bytes(b"an earlier output")
    job = rig.run()
    assert job.error_code == "promote.output-exists"
    assert job.error_message == (
        f"promote.output-exists: Output already exists at {taken}; resolve manually before re-queueing."
    )
    assert taken.read_bytes() == b"an earlier output"
    assert (rig.folder_path / "folha.rem").exists()


def test_a_promotion_that_fails_after_the_rename_tells_of_the_output(rig: Any, monkeypatch: Any) -> None:
    """PIPE-85: the disk failed in the flush; the operator learns that the file lies there."""
    promote = durable.promote

    def fail(source: Path, target: Path) -> None:
        promote(source, target)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(durable, "promote", fail)
    job = rig.run()
    assert job.status is JobStatus.FAILED
    assert str(job.error_message).endswith(f"Input/output error. Output delivered: {job.output_path}.")
    assert (rig.folder_path / "folha.rem").exists()


def test_a_full_disk_is_told_and_leaves_no_output(rig: Any, monkeypatch: Any) -> None:
    """BEY-22: nothing lies under the final name, so nothing is said to be delivered."""

    def fail(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable, "promote", fail)
    job = rig.run()
    assert f"No space left on device. Free space below {rig.roots.root}" in str(job.error_message)
    assert job.status is JobStatus.FAILED


def diverge(rig: Any, act: Any) -> Any:
    """Run a job whose input changes while it is signed."""
    rig.engine.act = lambda _: act(rig.folder_path / "folha.rem")
    job = rig.run()
    assert job.status is JobStatus.COMPLETED
    assert (job.error_code, job.error_message) == ("job.input-diverged", "job.input-diverged")
    assert job.input_diverged
    assert Path(job.output_path).exists()
    assert events(rig) == ["InputDiverged"]
    assert rig.inputs.offered == [job.original_path]
    return job


def test_a_rewritten_input_is_left_and_offered_again(rig: Any) -> None:
    """PIPE-92 to PIPE-94, PIPE-111: Completed, the new bytes stay, an event tells why."""
    job = diverge(rig, lambda path: path.write_bytes(b"CONTENT"))
    assert (rig.folder_path / "folha.rem").read_bytes() == b"CONTENT"
    assert rig.history(job)[-1] == (
        "Completed: folha.rem.p7m; job.input-diverged: the input was left in place (rewritten)"
    )


def test_an_unreadable_input_is_left(rig: Any, monkeypatch: Any) -> None:
    """PIPE-93: reason `unreadable: …`."""

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    job = diverge(rig, lambda _: monkeypatch.setattr(durable, "measure_identified", refuse))
    assert "(unreadable: Permission denied)" in rig.history(job)[-1]


def test_an_input_that_is_gone_after_signing_is_no_divergence(rig: Any) -> None:
    """PIPE-93: nothing to do."""
    rig.engine.act = lambda _: (rig.folder_path / "folha.rem").unlink()
    job = rig.run()
    assert (job.status, job.error_code, events(rig)) == (JobStatus.COMPLETED, None, [])


@attrs.define
class HostileFolder:
    """A folder that copies well and then does what a test says."""

    folder: Any
    hold_error: BaseException | None = None
    removal: Any = None
    release_error: BaseException | None = None
    holds: int = 0

    def hold(self, name: str) -> Any:
        self.holds += 1
        if self.holds > 1 and self.hold_error is not None:
            raise self.hold_error
        return self

    def release(self) -> None:
        if self.release_error is not None:
            raise self.release_error

    def copy_to(self, name: str, target: Path) -> Any:
        return self.folder.copy_to(name, target)

    def remove_if(self, name: str, expected: Any) -> Any:
        if isinstance(self.removal, BaseException):
            raise self.removal
        return self.removal


@pytest.mark.parametrize(
    ("hostile", "reason"),
    [
        ({"removal": KeyError("hush")}, "unreadable: KeyError: '***'"),
        ({"removal": SystemExit(1)}, "unreadable: SystemExit: 1"),
        ({"removal": None}, "unreadable: AttributeError"),
        ({"hold_error": RuntimeError("lease")}, "unreadable: RuntimeError: lease"),
        ({"hold_error": HeldElsewhere("by the ERP")}, "held by another lease: by the ERP"),
    ],
)
def test_after_delivery_no_storage_plugin_can_fail_the_job(
    rig: Any, monkeypatch: Any, hostile: dict[str, Any], reason: str
) -> None:
    """PIPE-93, SEC-57: whatever it raises or answers, the job is Completed and the reason is scrubbed."""
    monkeypatch.setattr(clean, "WAITS_SECONDS", (0.0, 0.0, 0.0))
    rig.inputs.folder = HostileFolder(rig.inputs.folder, **hostile)
    job = rig.run()
    assert (job.status, job.error_code) == (JobStatus.COMPLETED, "job.input-diverged")
    assert reason in rig.history(job)[-1]


def test_a_held_input_is_tried_four_times(rig: Any, monkeypatch: Any) -> None:
    """PIPE-93: at 0, 0.5, 2 and 5 seconds."""
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    rig.inputs.folder = folder = HostileFolder(rig.inputs.folder, hold_error=HeldElsewhere("by the ERP"))
    rig.run()
    assert (folder.holds, waits) == (1 + 4, [0.5, 2.0, 5.0])


def test_a_hold_that_cannot_be_released_changes_no_outcome(rig: Any) -> None:
    """PIPE-91: the removal stands."""
    removed = Removal(RemovalOutcome.REMOVED)
    rig.inputs.folder = HostileFolder(rig.inputs.folder, removal=removed, release_error=OSError("lease service"))
    job = rig.run()
    assert (job.status, job.error_code) == (JobStatus.COMPLETED, None)


@pytest.mark.parametrize("kind", [StageTask, CheckTask, DeliverTask, DiscardTask])
@pytest.mark.parametrize("is_done", [True, False])
def test_a_worker_lost_over_anything_but_the_key_costs_no_job(rig: Any, kind: type, is_done: bool) -> None:
    """PERF-06, PIPE-85: what can be begun anew is; an output that was delivered is found; the key is used once."""
    rig.engine.losses = {kind: is_done}
    job = rig.run()
    assert (job.status, job.error_code, len(rig.engine.tasks)) == (JobStatus.COMPLETED, None, 1)
    assert job.output_modified_at is not None
    assert [path.read_bytes() for path in rig.roots.output.iterdir()] == [b"signed content"]
    assert list(rig.folder_path.iterdir()) == []
    assert rig.roots.job_folder_names() == []


@pytest.mark.parametrize("is_done", [True, False])
def test_a_worker_lost_over_the_key_fails_its_job(rig: Any, is_done: bool) -> None:
    """SEC-81: whether it was used nobody knows, so no second signature is made without a person."""
    rig.engine.losses = {SignTask: is_done}
    job = rig.run()
    assert (job.status, job.error_code, len(rig.engine.tasks)) == (JobStatus.FAILED, "sign.failed", int(is_done))
    assert job.sign_call_started_at is not None
    assert (rig.folder_path / "folha.rem").exists()


def test_steps_refuse_to_run_without_the_ones_before(rig: Any) -> None:
    """PIPE-67: a plan in the wrong order fails the job, and uses no key."""
    work = Work(rig.parts, rig.drop())
    for ask in (lambda: work.opened, lambda: work.staged_fingerprint, lambda: work.require(None)):
        with pytest.raises(StepFailed):
            ask()
