"""Whatever the store and the policy: nothing protected goes, and a preview is what the run then does (STA-101)."""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bulksigner.files.work import WorkRoots
from bulksigner.jobs.names import Names
from bulksigner.jobs.states import TERMINAL, JobStatus
from bulksigner.jobs.store import Jobs
from bulksigner.records.migrate import migrate
from bulksigner.records.sqlite import open_sqlite
from bulksigner.retention.items import PROTECTED_EVENTS, Item
from bulksigner.retention.policy import ClassRule, RetentionClass
from bulksigner.retention.records import acknowledge
from bulksigner.statistics.figures import read_figures
from bulksigner.statistics.timings import Spans

NOW = datetime.datetime(2026, 8, 12, 12, tzinfo=datetime.UTC)
SPANS = Spans("Local", queue_wait_ms=7, signing_ms=400, verification_ms=None, output_ms=3)
DAY = datetime.timedelta(days=1)
AGES = st.integers(0, 60)
KINDS = [
    "complete",
    "collected",
    "fail",
    "gone",
    "waiting",
    "take",
    "retry",
    "tampered",
    "orphan",
    "event",
    "protected",
]
THINGS = st.lists(
    st.tuples(st.sampled_from(KINDS), AGES),
    max_size=14,
)
RULES = st.dictionaries(st.sampled_from(list(RetentionClass)), st.integers(1, 50).map(ClassRule))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(things=THINGS, rules=RULES, max_items=st.integers(1, 20))
def test_nothing_protected_goes_and_a_preview_is_the_run(ground_class, things, rules, max_items) -> None:
    """STA-65 to STA-69, STA-72, STA-77, STA-101; the figures of the panel are the same before and after."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_sqlite(Path(folder) / "db" / "b.db")
        migrate(store)
        roots = WorkRoots(Path(folder) / "data")
        roots.prepare()
        (roots.root / "input").mkdir()
        ground = ground_class(store, roots)
        jobs, parents = [], {}
        for number, (kind, age) in enumerate(things):
            if kind in ("complete", "tampered"):
                jobs.append(ground.complete(age))
                if kind == "tampered":
                    Path(jobs[-1].output_path).write_bytes(b"another file")
            elif kind == "collected":
                jobs.append(ground.collect(age, spans=SPANS))
            elif kind in ("fail", "gone", "waiting"):
                jobs.append(ground.fail(age, is_kept=kind == "fail"))
                if kind == "waiting":
                    Path(jobs[-1].original_path).write_bytes(b"waits")
            elif kind == "take":
                jobs.append(ground.take(age))
            elif kind == "retry" and jobs:
                parent = jobs[number % len(jobs)]
                jobs.append(ground.fail(age, parent.id, is_kept=number % 2 == 0))
                parents[jobs[-1].id] = parent.id
            elif kind == "orphan":
                ground.folder("error", f"orphan-{number}", age)
            elif kind in ("event", "protected"):
                ground.event(age, "ServiceStarted" if kind == "event" else PROTECTED_EVENTS[number % 9] + "X")
        before, events = ground.tree(), ground.events()
        figures, known = read_figures(store, NOW), {job.id: Jobs(store).get(job.id) for job in jobs}
        retention = ground.retention(classes=[], rules=rules, max_items=max_items)
        goes: list[Item] = []
        preview = retention.preview("person", lambda item, reason: goes.append(item) if reason is None else None)
        assert ground.tree() == before
        acknowledge(store, "policy", preview.id, "person", ground.clock)
        run = retention.apply("person")
        assert run.tallies == preview.tallies
        gone = before - ground.tree()
        # Only a chain, which is not divided, goes on after the last item.
        shown = goes[:max_items]
        shown += [item for item in goes[max_items:] if item.chain is not None and item.chain == shown[-1].chain]
        assert {path.split("/")[1] for path in gone} == {item.name for item in shown if item.path is not None}
        assert sum(tally["removed"] for tally in run.tallies.values()) == len(shown)
        _check_protected(ground, known, parents, rules, shown)
        _check_jobs(ground, known, parents, before, shown)
        assert {job_id for job_id in known if Jobs(store).get(job_id) is None} == _jobs_in(shown)
        assert read_figures(store, NOW) == figures
        kept = [kind for kind in ground.events() if kind.startswith(PROTECTED_EVENTS)]
        assert [kind for kind in events if kind.startswith(PROTECTED_EVENTS)] == kept[: len(kept) - 3]
        store.close()


def _chain(job_id: str, parents) -> set[str]:
    members, before = {job_id}, set()
    while members != before:
        before = set(members)
        members |= {parents[one] for one in before if one in parents}
        members |= {child for child, parent in parents.items() if parent in before}
    return members


def _jobs_in(shown) -> set[str]:
    return {item.job_id for item in shown if item.kind is RetentionClass.JOBS}


def _check_jobs(ground, known, parents, before, shown) -> None:
    """Judge every job whose row went: whole chains, no file of any member, and the name of a completed one held."""
    gone = _jobs_in(shown)
    for job_id in gone:
        assert _chain(job_id, parents) <= gone
        job = known[job_id]
        left = {f"error/{job_id}", f"processing/{job_id}", f"input/{job.file_name}"}
        if job.output_path is not None:
            left.add(f"output/{Path(job.output_path).name}")
        assert not before & left
        holder = Names(ground.store).holder_of(job.file_name)
        assert (None if holder is None else holder.id) == (job_id if job.status is JobStatus.COMPLETED else None)


def _check_protected(ground, known, parents, rules, shown) -> None:
    """Judge every job that lost something, by rules written anew."""
    for item in shown:
        if item.job_id is None:
            continue
        cutoff = ground.clock - rules[item.kind].keep_days * DAY
        for member in _chain(item.job_id, parents):
            assert known[member].status in TERMINAL
            assert known[member].completed_at < cutoff
