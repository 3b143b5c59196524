"""Retry makes a new job, or says why not."""

from __future__ import annotations

import datetime
import threading
import uuid
from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from bulksigner.contract.errors import NotAllowed, NotFound, RaceLost, Refusal
from bulksigner.contract.observe import JobChange
from bulksigner.contract.signing import Format
from bulksigner.jobs.model import Birth, Changed, Job, JobSource
from bulksigner.jobs.queue import Enqueued, Outcome
from bulksigner.jobs.states import JobStatus
from bulksigner.operations.operator import Operator
from bulksigner.operations.people import Person, ReasonReader

NOW = datetime.datetime(2026, 5, 26, 15, 42, tzinfo=datetime.UTC)
OPERATOR = Person("operator", "ApiKey")
JOB_ID = "0f8fad5b-d9cb-469f-a165-70867728950e"


def job(**changes: object) -> Job:
    values: dict[str, object] = dict.fromkeys(field.name for field in attrs.fields(Job))
    values |= {
        "id": JOB_ID,
        "file_name": "folha.pdf",
        "original_path": "/in/folha.pdf",
        "input_folder": "payments",
        "profile_name": "Folha",
        "format": Format.PADES,
        "source": JobSource.WATCHER,
        "status": JobStatus.FAILED,
        "created_at": NOW,
        "updated_at": NOW,
        "row_version": 1,
        "metadata": {},
    }
    return Job(**(values | changes))  # type: ignore[arg-type]


class FakeJobs:
    def __init__(self, *known: Job) -> None:
        self._known = {one.id: one for one in known}

    def get(self, job_id: str) -> Job | None:
        return self._known.get(job_id)


class FakeQueue:
    """Answers with one outcome and remembers the births."""

    def __init__(self, outcome: Outcome = Outcome.ENQUEUED) -> None:
        self.outcome = outcome
        self.births: list[Birth] = []

    def enqueue(self, births: Sequence[Birth]) -> list[Enqueued]:
        self.births += births
        if self.outcome is not Outcome.ENQUEUED:
            return [Enqueued(self.outcome, None, None) for _ in births]
        return [self._born(birth) for birth in births]

    def _born(self, birth: Birth) -> Enqueued:
        born = job(
            id=birth.id,
            status=JobStatus.QUEUED,
            source=birth.source,
            parent_job_id=birth.parent_job_id,
            profile_name=birth.profile_name,
        )
        change = JobChange(born.id, "enqueue", None, "Queued", birth.profile_name, "Pades", NOW, birth.message)
        return Enqueued(Outcome.ENQUEUED, born, Changed(born, change, True))


@attrs.frozen
class FakeProfile:
    enabled: bool = True


class FakeProfiles(dict[str, FakeProfile]):
    """Profiles by name, in any case."""

    def get(self, name: str, default: object = None) -> FakeProfile | None:  # type: ignore[override]
        return super().get(name.lower())


def operator(
    failed: Job | None,
    *,
    queue: FakeQueue | None = None,
    profile: FakeProfile | None = FakeProfile(),
    has_input: bool = True,
) -> Operator:
    profiles = FakeProfiles({} if profile is None else {"folha": profile, "default": profile})
    jobs: Any = FakeJobs(*([failed] if failed else []))
    # Nothing of a retry is about the roots.
    roots: Any = None
    reasons = ReasonReader(lambda text: text)
    gate = threading.RLock()
    return Operator(jobs, queue or FakeQueue(), profiles, lambda _: has_input, roots, reasons, lambda _: None, gate)


def test_a_retry_is_a_new_job_that_names_its_parent() -> None:
    """PIPE-99: new id, the same file, path, folder and format, the recorded profile, source Retry."""
    queue = FakeQueue()
    changed = operator(job(), queue=queue).retry(JOB_ID, OPERATOR)
    (birth,) = queue.births
    assert (birth.parent_job_id, birth.parent_row_version) == (JOB_ID, job().row_version)
    assert birth.source is JobSource.RETRY
    assert (birth.file_name, birth.original_path, birth.input_folder) == ("folha.pdf", "/in/folha.pdf", "payments")
    assert (birth.profile_name, birth.format) == ("Folha", Format.PADES)
    assert birth.message == f"Queued from retry of job {JOB_ID}"
    assert birth.parent_message == f"Retried as job {birth.id}"
    assert changed.job.id == birth.id != JOB_ID
    assert uuid.UUID(changed.job.id).version == 4


def test_a_job_without_a_recorded_profile_uses_default() -> None:
    """PIPE-99: such a job is retried under `default`."""
    queue = FakeQueue()
    operator(job(profile_name=""), queue=queue).retry(JOB_ID, OPERATOR)
    assert queue.births[0].profile_name == "default"


@pytest.mark.parametrize("status", [status for status in JobStatus if status is not JobStatus.FAILED])
def test_only_a_failed_job_can_be_retried(status: JobStatus) -> None:
    """PIPE-99: every other status is refused with `job.not-failed`."""
    assert refusal(operator(job(status=status))) == (NotAllowed, "job.not-failed")


@pytest.mark.parametrize(("folder", "advice"), [("in", "Rescan its folder"), (None, "Delete it and upload")])
def test_a_canceled_job_is_told_what_helps(folder: str | None, advice: str) -> None:
    """PIPE-99, PIPE-100: a retry never will, so the refusal does not speak of one again."""
    with pytest.raises(NotAllowed) as refused:
        operator(job(status=JobStatus.CANCELED, input_folder=folder)).retry(JOB_ID, OPERATOR)
    assert advice in refused.value.message


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda queue: operator(None, queue=queue), (NotFound, "job.not-found")),
        (lambda queue: operator(job(), queue=queue, has_input=False), (NotAllowed, "job.input-missing")),
        (
            lambda queue: operator(job(), queue=queue, profile=FakeProfile(enabled=False)),
            (NotAllowed, "profile.disabled"),
        ),
        (lambda queue: operator(job(), queue=queue, profile=None), (NotAllowed, "profile.disabled")),
        (
            lambda queue: operator(job(error_code="approval.rejected"), queue=queue, has_input=False),
            (NotAllowed, "job.rejected-not-retriable"),
        ),
        (
            lambda queue: operator(job(error_code="file.already-processed"), queue=queue, has_input=False),
            (NotAllowed, "file.already-processed"),
        ),
    ],
    ids=["unknown", "input gone", "disabled", "profile gone", "rejected", "name taken"],
)
def test_what_is_refused_is_not_queued(made: object, expected: tuple[type, str]) -> None:
    """PIPE-99: each refusal has its code and leaves the queue alone."""
    queue = FakeQueue()
    assert refusal(made(queue)) == expected  # type: ignore[operator]
    assert queue.births == []


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome.ALREADY_ACTIVE, (RaceLost, "job.race-lost")),
        (Outcome.PATH_TOO_LONG, (NotAllowed, "job.path-too-long")),
    ],
)
def test_what_the_queue_refuses_has_a_code(outcome: Outcome, expected: tuple[type, str]) -> None:
    """PIPE-99: an active job on the path is a lost race; a path over the limit says so."""
    assert refusal(operator(job(), queue=FakeQueue(outcome))) == expected


def refusal(made: Operator) -> tuple[type, str | None]:
    with pytest.raises(Refusal) as caught:
        made.retry(JOB_ID, OPERATOR)
    return type(caught.value), caught.value.code


def test_a_retry_has_the_metadata_of_its_parent() -> None:
    """PIPE-99, PIPE-116: copied, with the digest of the sidecar, so that it goes with its input after all."""
    queue = FakeQueue()
    parent = job(metadata={"lote": "17"}, sidecar_sha256="ab" * 32)
    operator(parent, queue=queue).retry(JOB_ID, OPERATOR)
    [birth] = queue.births
    assert (dict(birth.metadata), birth.sidecar_sha256) == ({"lote": "17"}, "ab" * 32)


def test_a_job_that_was_refused_for_its_name_is_not_retried() -> None:
    """PIPE-50: retry is exempt from the rule of names, so this one would sign what the rule refused."""
    queue = FakeQueue()
    refused_job = job(error_code="file.already-processed")
    with pytest.raises(NotAllowed) as refused:
        operator(refused_job, queue=queue, has_input=False).retry(JOB_ID, OPERATOR)
    assert (refused.value.code, queue.births) == ("file.already-processed", [])
