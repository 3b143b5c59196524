"""Who holds a name, and what is kept of a file's metadata, on both engines."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from bulksigner.jobs.model import Birth, Job, JobSource, Owner
from bulksigner.jobs.names import Names
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.states import Actor
from bulksigner.jobs.store import Jobs
from bulksigner.records.engines import Store

NewJob = Callable[..., Job]


def holder(store: Store, name: str, **options: str) -> str | None:
    names = Names(store)
    found = names.holder_of(name, **options)
    if not options:
        assert names.held_among([name, "nobody.pdf"]) == (set() if found is None else {name})
    return None if found is None else found.id


def test_a_name_is_held_without_case_and_wherever_it_lies(store: Store, new_job: NewJob) -> None:
    """PIPE-48: in all folders and uploads; the name decides, not the path."""
    job = new_job("Remessa-É.rem", original_path="/elsewhere/x", input_folder=None, source=JobSource.UPLOAD)
    for name in ("Remessa-É.rem", "REMESSA-é.REM", "remessa-e\u0301.rem"):
        assert holder(store, name) == job.id
    assert holder(store, "remessa-e.rem") is None


def test_only_unfinished_and_completed_jobs_hold(
    store: Store, jobs: Jobs, queue: Queue, new_job: NewJob, owner: Owner
) -> None:
    """PIPE-48, PIPE-51: failed and cancelled ones reserve nothing; the database itself lets two have one name."""
    job = new_job()
    jobs.transition(job, "cancel", by=Actor.OPERATOR, message="x")
    assert holder(store, "report.pdf") is None
    new_job()
    [claimed] = queue.claim(1, owner)
    assert holder(store, "report.pdf") == claimed.job.id
    jobs.transition(claimed.job, "fail", by=Actor.WORKER, message="x")
    assert holder(store, "report.pdf") is None
    new_job()
    [claimed] = queue.claim(1, owner)
    done = jobs.transition(
        jobs.transition(claimed.job, "sign", by=Actor.WORKER, message="x").job, "complete", by=Actor.WORKER, message="x"
    ).job
    assert holder(store, "report.pdf") == done.id
    second = new_job("REPORT.pdf", original_path="/other/REPORT.pdf")
    assert holder(store, "report.pdf") == second.id
    assert holder(store, "report.pdf", besides=second.id) == done.id


def test_any_number_of_names_is_asked_about(store: Store, new_job: NewJob) -> None:
    """PIPE-48, PERF-08: the answer has the names as they were given."""
    for number in range(0, 100, 7):
        new_job(f"FOLHA-{number}.pdf", original_path=f"/in/{number}")
    asked = [f"folha-{number}.pdf" for number in range(100)]
    assert Names(store).held_among(asked) == {f"folha-{number}.pdf" for number in range(0, 100, 7)}
    assert Names(store).held_among([]) == set()


def test_a_remote_document_holds_no_name(store: Store, new_job: NewJob) -> None:
    """PIPE-48: its name is a title."""
    new_job(source=JobSource.SIGNER)
    assert holder(store, "report.pdf") is None


@pytest.mark.parametrize("metadata", [{}, {"a.b": "é \x00 \U0001f600", "c": ""}])
def test_metadata_is_kept_as_given(jobs: Jobs, new_job: NewJob, metadata: dict[str, str]) -> None:
    """PIPE-115, PIPE-116: text by text, with the digest of the sidecar, unchanged by what follows."""
    job = new_job(metadata=metadata, sidecar_sha256="ab" * 32)
    found = jobs.get(job.id)
    assert found == job
    assert found is not None
    assert (dict(found.metadata), found.sidecar_sha256) == (metadata, "ab" * 32)
    after = jobs.transition(job, "cancel", by=Actor.OPERATOR, message="x").job
    assert jobs.get(job.id) == after
    assert after.metadata == metadata


def test_metadata_is_never_changed_nor_printed(jobs: Jobs, birth: Callable[..., Birth], new_job: NewJob) -> None:
    """PIPE-116, PIPE-119, SEC-86: the store has no way to set it, and no job shows it in a log line."""
    job = new_job(metadata={"cpf": "secret"})
    with pytest.raises(TypeError, match="no columns to set: metadata"):
        jobs.record(job, metadata={})
    assert "secret" not in f"{job} {birth(metadata={'cpf': 'secret'})}"
    assert attrs.evolve(job, metadata={}) != job
