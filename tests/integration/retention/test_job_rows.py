"""Rows of jobs go by age with all that hangs on them, and neither names nor figures go with them (STA-62 to STA-77)."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.builtin.local_folder import LocalFolder
from bulksigner.contract.errors import NotAllowed, NotFound, TemporaryFailure
from bulksigner.intake.folders import OpenedFolder, OpenedFolders
from bulksigner.jobs.listing import history
from bulksigner.jobs.model import Job, JobSource
from bulksigner.jobs.names import Names, forget_names
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.states import Actor
from bulksigner.jobs.store import Jobs
from bulksigner.records.prepared import Prepared
from bulksigner.records.tables import EventRow, HistoryRow, JobTimingDailyRow, JobTimingRow
from bulksigner.retention import run as run_module
from bulksigner.retention.job_rows import JobRows
from bulksigner.retention.policy import ClassRule, RetentionClass
from bulksigner.retention.records import acknowledge
from bulksigner.statistics.figures import read_figures
from bulksigner.statistics.timings import Spans, reset_statistics, write_timings
from bulksigner.testing.rows import new_birth

DAY = datetime.timedelta(days=1)
ONLY = {"classes": [RetentionClass.JOBS]}
SPANS = Spans("Local", queue_wait_ms=7, signing_ms=400, verification_ms=None, output_ms=0)


def apply(ground: Any, **options: Any) -> Any:
    """Preview, accept and run; both must have said the same."""
    made = ground.retention(**ONLY, **options)
    preview = made.preview("person")
    acknowledge(ground.store, made.policy.fingerprint, preview.id, "person", ground.clock)
    run = made.apply("person")
    assert run.tallies == preview.tallies
    return run.tallies["Jobs"]


def is_there(ground: Any, job: Job) -> bool:
    return Jobs(ground.store).get(job.id) is not None


def count(ground: Any, table: Any) -> int:
    prepared = Prepared(table.select())
    return len(ground.store.read(lambda: ground.store.execute(prepared).rows))


def test_a_job_goes_with_its_history_timings_and_metadata(ground: Any) -> None:
    """STA-62: everything that hangs on the row; of a younger one nothing, and the manifest names what went."""
    old, young = ground.collect(91, spans=SPANS), ground.collect(89, spans=SPANS)
    kept = history(ground.store, young.id)
    tally = apply(ground)
    assert (tally["matched"], tally["removed"], tally["kept"]) == (1, 1, {})
    assert not is_there(ground, old)
    assert Jobs(ground.store).get(young.id) == young
    assert history(ground.store, young.id) == kept
    assert (count(ground, HistoryRow), count(ground, JobTimingRow)) == (len(kept), 1)
    [line] = ground.manifests()[0][:-1]
    assert (line["class"], line["jobId"], line["name"], line["sha256"]) == ("Jobs", old.id, old.file_name, "aa")


def keep_output(ground: Any) -> Job:
    return ground.complete(91)  # type: ignore[no-any-return]


def lose_output_folder(ground: Any) -> Job:
    job = ground.collect(91)
    return Jobs(ground.store, lambda: ground.clock - 91 * DAY).record(job, output_path="/unmounted/out/x.pdf")


def keep_error(ground: Any) -> Job:
    return ground.fail(91)  # type: ignore[no-any-return]


def keep_twin(ground: Any) -> Job:
    job = ground.fail(91, is_kept=False)
    ground.folder("error", f"{job.id}-20260101T000000.000000Z")
    return job  # type: ignore[no-any-return]


def keep_staged(ground: Any) -> Job:
    job = ground.fail(91, is_kept=False)
    ground.folder("processing", job.id)
    return job  # type: ignore[no-any-return]


def keep_input(ground: Any) -> Job:
    job = ground.fail(91, is_kept=False)
    Path(job.original_path).write_bytes(b"waits for an operator")
    return job  # type: ignore[no-any-return]


def keep_canceled_input(ground: Any) -> Job:
    ground.count += 1
    path = ground.input / f"{ground.count}"
    path.write_bytes(b"waits for an operator")
    jobs = Jobs(ground.store, lambda: ground.clock - 91 * DAY)
    birth = new_birth(path.name, original_path=str(path))
    [born] = Queue(ground.store, lambda: ground.clock - 92 * DAY).enqueue([birth])
    assert born.job is not None
    return jobs.transition(born.job, "cancel", by=Actor.OPERATOR, message="Canceled").job


def keep_rewritten_input(ground: Any) -> Job:
    job = Jobs(ground.store, lambda: ground.clock - 91 * DAY).record(ground.collect(91), input_diverged=True)
    Path(job.original_path).write_bytes(b"rewritten")
    return job


def lose_input_folder(ground: Any) -> Job:
    job = ground.fail(91, is_kept=False)
    ground.input.rmdir()
    return job  # type: ignore[no-any-return]


KEPT: dict[str, tuple[Callable[[Any], Job], str]] = {
    "output": (keep_output, "its output is still there"),
    "output folder gone": (lose_output_folder, "the folder of its output is not there"),
    "error": (keep_error, "its folder under processing/ or error/ is still there"),
    "error twin": (keep_twin, "its folder under processing/ or error/ is still there"),
    "processing": (keep_staged, "its folder under processing/ or error/ is still there"),
    "input of a failed one": (keep_input, "its input is still there"),
    "input of a canceled one": (keep_canceled_input, "its input is still there"),
    "rewritten input": (keep_rewritten_input, "its input is still there"),
    "input folder gone": (lose_input_folder, "whether its input is there cannot be seen"),
}


@pytest.mark.parametrize("case", KEPT)
def test_a_job_stays_while_a_file_of_it_is_there(ground: Any, case: str) -> None:
    """STA-62, STA-66: without its row the file would be nobody's, or be taken for new; unseen is not gone."""
    make, reason = KEPT[case]
    job = make(ground)
    assert apply(ground)["kept"] == {reason: 1}
    assert is_there(ground, job)


def test_a_failed_job_of_a_folder_this_host_does_not_know_stays(ground: Any, tmp_path: Path) -> None:
    """STA-66: its input may be there for another host, or once the folder is configured again."""
    job = ground.fail(91, is_kept=False)
    done = ground.collect(92)
    other = OpenedFolders([OpenedFolder("other", LocalFolder(tmp_path))])
    assert apply(ground, folders=other)["kept"] == {"no input folder of this host could hold its input": 1}
    assert (is_there(ground, job), is_there(ground, done)) == (True, False)


def test_a_folder_that_refuses_to_be_looked_at_keeps_its_jobs(ground: Any, monkeypatch: Any) -> None:
    """STA-66: what a storage provider raises is no proof that a file is gone."""
    job = ground.fail(91, is_kept=False)

    def fail(*_: object) -> None:
        raise TemporaryFailure("the share is away")

    monkeypatch.setattr(LocalFolder, "look", fail)
    assert apply(ground)["kept"] == {"whether its input is there cannot be seen": 1}
    assert is_there(ground, job)


@pytest.mark.parametrize("hindrance", ["young", "unfinished", "file"])
def test_a_chain_goes_as_a_whole(ground: Any, hindrance: str) -> None:
    """STA-65: one member that is young, not ended or protected keeps all; without it all go at once."""
    first = ground.fail(120, is_kept=False)
    second = ground.fail(110, first.id, is_kept=False)
    third = ground.collect(100, second.id)
    {
        "young": lambda: ground.collect(5, first.id),
        "unfinished": lambda: ground.take(100, third.id),
        "file": lambda: ground.fail(100, third.id),
    }[hindrance]()
    assert apply(ground)["removed"] == 0
    assert all(is_there(ground, job) for job in (first, second, third))
    ground.clock += 100 * DAY
    for place in ground.roots.error.iterdir():
        (place / "file").unlink()
        place.rmdir()
    assert apply(ground)["removed"] == (0 if hindrance == "unfinished" else 4)


def test_a_limit_does_not_divide_a_chain(ground: Any, monkeypatch: Any) -> None:
    """STA-65, STA-75, STA-107: neither the most items of a run nor a batch ends in the middle of one."""
    monkeypatch.setattr(run_module, "BATCH", 2)
    single = ground.collect(130)
    first = ground.fail(120, is_kept=False)
    chain = [first, *(ground.fail(age, first.id, is_kept=False) for age in (110, 109, 108))]
    last = ground.collect(100)
    assert apply(ground, max_items=2)["removed"] == 5
    assert not any(is_there(ground, job) for job in (single, *chain))
    assert is_there(ground, last)


def test_a_job_whose_file_goes_in_the_same_run_waits_for_the_next(ground: Any) -> None:
    """STA-72, STA-75, STA-101: files first, rows after; so a preview of both classes is what the run does."""
    job = ground.complete(91)
    retention = ground.retention(classes=[RetentionClass.OUTPUT, RetentionClass.JOBS])
    preview = retention.preview("person")
    acknowledge(ground.store, "policy", preview.id, "person", ground.clock)
    assert retention.apply("person").tallies == preview.tallies
    assert is_there(ground, job)
    assert retention.apply("person").tallies["Jobs"]["removed"] == 1
    assert not is_there(ground, job)


def test_a_job_that_is_retried_meanwhile_stays(ground: Any, monkeypatch: Any) -> None:
    """STA-72: what was looked at is what goes; the others of the batch go all the same, the manifest has it."""
    others = [ground.collect(95), ground.collect(91)]
    failed = ground.fail(92, is_kept=False)
    original = JobRows._remove

    def remove(rows: JobRows, jobs: list[Job]) -> None:
        read = Jobs(ground.store).get(failed.id)
        if read is not None and read.row_version == failed.row_version:
            child = new_birth(parent_job_id=failed.id, parent_row_version=read.row_version, source=JobSource.RETRY)
            Queue(ground.store).enqueue([child])
        original(rows, jobs)

    made = ground.accepted(**ONLY)
    monkeypatch.setattr(JobRows, "_remove", remove)
    tally = made.apply("person").tallies["Jobs"]
    assert (tally["removed"], tally["kept"]) == (2, {"it changed meanwhile": 1})
    assert is_there(ground, failed)
    assert not any(is_there(ground, job) for job in others)
    lines = [line["result"] for line in ground.manifests()[0] if line.get("jobId") == failed.id]
    assert lines == ["removed", "it changed meanwhile"]


def test_a_kill_between_list_and_rows_loses_nothing(ground: Any, monkeypatch: Any) -> None:
    """STA-76, STA-101: the list has it before the rows go, so nothing is ever gone that no list names."""
    job = ground.collect(91, spans=SPANS)
    made, figures = ground.accepted(**ONLY), read_figures(ground.store, ground.clock)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("bulksigner.retention.job_rows.write_days", die)
        with pytest.raises(KeyboardInterrupt):
            made.apply("person")
    assert [line["jobId"] for line in ground.manifests()[0]] == [job.id]
    assert is_there(ground, job)
    assert Names(ground.store).holder_of(job.file_name).is_removed is False  # type: ignore[union-attr]
    assert count(ground, JobTimingDailyRow) == 0
    made.apply("person")
    assert not is_there(ground, job)
    assert read_figures(ground.store, ground.clock) == figures


# -- names -----------------------------------------------------------------------------------------------------------


def test_the_name_of_a_completed_job_stays_held(ground: Any) -> None:
    """STA-68, PIPE-48: folded, for its job; that of a failed one was never held."""
    done, failed = ground.collect(91), ground.fail(92, is_kept=False)
    assert apply(ground)["removed"] == 2
    names = Names(ground.store)
    holder = names.holder_of(done.file_name)
    assert holder is not None
    assert (holder.id, holder.is_removed) == (done.id, True)
    assert str(holder) == f"{done.id} (Completed, since removed by age)"
    assert names.holder_of(done.file_name, besides="another") == holder
    assert names.holder_of(failed.file_name) is None


def test_names_can_be_freed_with_the_jobs(ground: Any) -> None:
    """STA-68: `Retention:Jobs:ReleaseNames`."""
    done = ground.collect(91)
    apply(ground, releases_names=True)
    assert not is_there(ground, done)
    assert Names(ground.store).holder_of(done.file_name) is None


def rename(ground: Any, job: Job, name: str) -> None:
    statement = "UPDATE job SET file_name = '{0}', name_key = '{1}' WHERE id = '{2}'"
    text = statement.format(name, name.casefold(), job.id)
    ground.store.write(lambda: ground.store.database.execute_sql(text))


def test_a_job_that_is_there_comes_before_one_that_went(ground: Any) -> None:
    """PIPE-48: of two that hold a name the one to be named is the one that can be looked at."""
    gone, there = ground.collect(91), ground.collect(5)
    for job in (gone, there):
        rename(ground, job, "Folha.PDF")
    apply(ground)
    names = Names(ground.store)
    holder = names.holder_of("folha.pdf")
    assert holder is not None
    assert (holder.id, holder.is_removed) == (there.id, False)
    with pytest.raises(NotAllowed, match=f"bulksigner jobs delete {there.id}"):
        names.release("FOLHA.pdf", "Ana", ground.clock)
    ground.clock += 100 * DAY
    apply(ground)
    assert names.holder_of("folha.pdf").id == there.id  # type: ignore[union-attr]


def test_one_name_is_released(ground: Any) -> None:
    """STA-68: the event tells who, which name and which job; a second time there is nothing to release."""
    done, other = ground.collect(91), ground.collect(92)
    apply(ground)
    names = Names(ground.store)
    assert names.release(done.file_name, "Ana", ground.clock).id == done.id
    assert names.holder_of(done.file_name) is None
    assert names.holder_of(other.file_name) is not None
    prepared = Prepared(EventRow.select(EventRow.message).where(EventRow.event_type == "FileNameReleased"))
    [row] = ground.store.read(lambda: ground.store.execute(prepared).rows)
    assert row[0] == f"File name '{done.file_name}' released by Ana; job {done.id} held it."
    with pytest.raises(NotFound, match="Nobody holds the name"):
        names.release(done.file_name, "Ana", ground.clock)


def test_clearing_all_jobs_frees_all_names(ground: Any) -> None:
    """PIPE-103: no job is left that could hold one."""
    done = ground.collect(91)
    apply(ground)
    ground.store.write(lambda: forget_names(ground.store, ground.clock))
    assert Names(ground.store).holder_of(done.file_name) is None


def test_a_path_is_free_once_its_last_job_went(ground: Any) -> None:
    """PIPE-44, STA-66: an older job that stays, for a file of its own, does not close the path again."""
    older = ground.fail(95)
    newer = ground.collect(91)
    statement = "UPDATE job SET path_key = '{0}', original_path = '{0}' WHERE id = '{1}'"
    path = older.original_path
    ground.store.write(lambda: ground.store.database.execute_sql(statement.format(path, newer.id)))
    apply(ground)
    latest = Jobs(ground.store).latest_for([path])[path]
    assert (latest.id, latest.path_released) == (older.id, True)


# -- figures ---------------------------------------------------------------------------------------------------------


def furnish(ground: Any, jobs: int, seed: int) -> list[Job]:
    """Completed jobs of half a year, whose outputs were collected."""
    chance, made = random.Random(seed), []

    def stage() -> int | None:
        return None if chance.random() < 0.3 else int(chance.lognormvariate(5, 2))

    for number in range(jobs):
        method = chance.choice(["Local", "LacunaSigner", "SignerFolder"])
        spans = Spans(method, stage(), stage(), stage(), stage())
        age = chance.choice([chance.uniform(0, 1), chance.uniform(0, 180)]) if number else 175.0
        made.append(ground.collect(age, spans=spans))
    return made


def test_no_figure_jumps_when_jobs_go(ground: Any) -> None:
    """STA-77, STA-100: means, counts, extremes, window and rates stay to the digit, run after run."""
    furnish(ground, 60, seed=7)
    before = read_figures(ground.store, ground.clock)
    for days in (170, 120, 90):
        rules = {RetentionClass.JOBS: ClassRule(days)}
        assert apply(ground, rules=rules, fingerprint=str(days))["removed"] >= 1
        assert read_figures(ground.store, ground.clock) == before
    assert 0 < count(ground, JobTimingRow) < 60
    assert 0 < count(ground, JobTimingDailyRow) <= 60 - count(ground, JobTimingRow)


def test_a_day_and_profile_have_one_row_however_often_it_is_added_to(ground: Any) -> None:
    """STA-77: sums, not rows; the table does not grow with the jobs."""
    for age in (91.1, 91.2, 91.3, 91.4):
        ground.collect(age, spans=SPANS)
    before = read_figures(ground.store, ground.clock)
    for limit in (1, 2, 3):
        apply(ground, max_items=limit, fingerprint=str(limit))
    assert (count(ground, JobTimingRow), count(ground, JobTimingDailyRow)) == (0, 1)
    assert read_figures(ground.store, ground.clock) == before


def test_a_reset_takes_the_sums_of_the_days_too(ground: Any) -> None:
    """STA-31, STA-77: the figures begin anew."""
    ground.collect(91, spans=SPANS)
    apply(ground)
    assert read_figures(ground.store, ground.clock).total.count == 1
    ground.store.write(lambda: reset_statistics(ground.store, ground.clock))
    assert (read_figures(ground.store, ground.clock).total.count, count(ground, JobTimingDailyRow)) == (0, 0)


def test_what_the_marker_hides_stays_hidden(ground: Any) -> None:
    """STA-26, STA-77: a row that a clock which was behind stamped before the reset is in no figure, before or after."""
    ground.store.write(lambda: reset_statistics(ground.store, ground.clock - 91.5 * DAY))
    ground.collect(92, spans=SPANS)
    ground.collect(91, spans=attrs.evolve(SPANS, signing_ms=5))
    before = read_figures(ground.store, ground.clock)
    assert before.total.count == 1
    apply(ground)
    after = read_figures(ground.store, ground.clock)
    assert after == before


def test_a_job_without_timings_leaves_no_sums(ground: Any) -> None:
    """STA-12: with statistics off there was no row, and none comes of its removal."""
    ground.collect(91)
    apply(ground)
    assert count(ground, JobTimingDailyRow) == 0


def test_timings_written_meanwhile_are_counted_once(ground: Any) -> None:
    """STA-77: what goes into the sums is what went from the rows, in one transaction."""
    gone = ground.collect(91, spans=SPANS)
    [claimed] = [ground.take(1)]
    jobs = Jobs(ground.store, lambda: ground.clock)
    signed = jobs.transition(claimed, "sign", by=Actor.WORKER, message="Signed").job
    apply(ground)
    jobs.transition(signed, "complete", by=Actor.WORKER, message="Completed",
        also=lambda job: write_timings(ground.store, job, SPANS, ground.clock))  # fmt: skip
    figures = read_figures(ground.store, ground.clock)
    assert (is_there(ground, gone), figures.total.count, figures.total.sum_ms) == (False, 2, 2 * 407)
    assert figures.window_start == gone.completed_at
