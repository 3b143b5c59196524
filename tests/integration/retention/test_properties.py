"""Whatever the store and the policy: nothing protected goes, and a preview is what the run then does (STA-101)."""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bulksigner.files.work import WorkRoots
from bulksigner.jobs.states import TERMINAL
from bulksigner.jobs.store import Jobs
from bulksigner.records.migrate import migrate
from bulksigner.records.sqlite import open_sqlite
from bulksigner.retention.items import PROTECTED_EVENTS, Item
from bulksigner.retention.policy import ClassRule, RetentionClass
from bulksigner.retention.records import acknowledge

DAY = datetime.timedelta(days=1)
AGES = st.integers(0, 60)
THINGS = st.lists(
    st.tuples(st.sampled_from(["complete", "fail", "take", "retry", "tampered", "orphan", "event", "protected"]), AGES),
    max_size=14,
)
RULES = st.dictionaries(st.sampled_from(list(RetentionClass)), st.integers(1, 50).map(ClassRule))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(things=THINGS, rules=RULES, max_items=st.integers(1, 20))
def test_nothing_protected_goes_and_a_preview_is_the_run(ground_class, things, rules, max_items) -> None:
    """STA-65, STA-67, STA-69, STA-72, STA-101."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_sqlite(Path(folder) / "db" / "b.db")
        migrate(store)
        roots = WorkRoots(Path(folder) / "data")
        roots.prepare()
        ground = ground_class(store, roots)
        jobs, parents = [], {}
        for number, (kind, age) in enumerate(things):
            if kind in ("complete", "tampered"):
                jobs.append(ground.complete(age))
                if kind == "tampered":
                    Path(jobs[-1].output_path).write_bytes(b"another file")
            elif kind == "fail":
                jobs.append(ground.fail(age))
            elif kind == "take":
                jobs.append(ground.take(age))
            elif kind == "retry" and jobs:
                parent = jobs[number % len(jobs)]
                jobs.append(ground.fail(age, parent.id))
                parents[jobs[-1].id] = parent.id
            elif kind == "orphan":
                ground.folder("error", f"orphan-{number}", age)
            elif kind in ("event", "protected"):
                ground.event(age, "ServiceStarted" if kind == "event" else PROTECTED_EVENTS[number % 9] + "X")
        before, events = ground.tree(), ground.events()
        retention = ground.retention(classes=[], rules=rules, max_items=max_items)
        goes: list[Item] = []
        preview = retention.preview("person", lambda item, reason: goes.append(item) if reason is None else None)
        assert ground.tree() == before
        acknowledge(store, "policy", preview.id, "person", ground.clock)
        run = retention.apply("person")
        assert run.tallies == preview.tallies
        gone = before - ground.tree()
        shown = goes[:max_items]
        assert {path.split("/")[1] for path in gone} == {item.name for item in shown if item.path is not None}
        assert sum(tally["removed"] for tally in run.tallies.values()) == len(shown)
        _check_protected(ground, jobs, parents, rules, shown)
        kept = [kind for kind in ground.events() if kind.startswith(PROTECTED_EVENTS)]
        assert [kind for kind in events if kind.startswith(PROTECTED_EVENTS)] == kept[: len(kept) - 3]
        store.close()


def _check_protected(ground, jobs, parents, rules, shown) -> None:
    """Judge every job that lost something, by rules written anew."""
    known = {job.id: Jobs(ground.store).get(job.id) for job in jobs}

    def chain(job_id: str) -> set[str]:
        members, before = {job_id}, set()
        while members != before:
            before = set(members)
            members |= {parents[one] for one in before if one in parents}
            members |= {child for child, parent in parents.items() if parent in before}
        return members

    for item in shown:
        if item.job_id is None:
            continue
        cutoff = ground.clock - rules[item.kind].keep_days * DAY
        for member in chain(item.job_id):
            assert known[member].status in TERMINAL
            assert known[member].completed_at < cutoff
