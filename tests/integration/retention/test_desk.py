"""Retention of a running service: schedule, requests, and what is said of it (STA-74, STA-80, STA-106)."""

from __future__ import annotations

import datetime
import threading
from typing import Any

from bulksigner.records.errors import StoreFailed
from bulksigner.records.prepared import Prepared
from bulksigner.records.tables import RetentionRunRow
from bulksigner.retention.desk import RetentionDesk
from bulksigner.retention.policy import RetentionClass
from bulksigner.retention.records import acknowledge, take_lease

HOUR = datetime.timedelta(hours=1)
CLASSES = [RetentionClass.OUTPUT]


def runs(ground: Any) -> list[bool]:
    """Tell of each finished run whether it was a preview, oldest first."""
    prepared = Prepared(RetentionRunRow.select(RetentionRunRow.is_preview).order_by(RetentionRunRow.ended_at))
    return [bool(row[0]) for row in ground.store.read(lambda: ground.store.execute(prepared).rows)]


def test_the_schedule_previews_until_it_may_run(ground: Any) -> None:
    """STA-70, STA-106: by the end of the last run of any kind, across restarts; enforcing once acknowledged."""
    ground.complete(11)

    def desk() -> RetentionDesk:
        return RetentionDesk(ground.retention(classes=CLASSES, interval=24 * HOUR))

    desk().step()
    assert desk().step() == 24 * 3600
    assert (runs(ground), len(ground.manifests())) == ([True], 0)
    ground.clock += 24 * HOUR
    desk().step()
    assert runs(ground) == [True, True]
    ground.clock += HOUR
    preview = ground.retention(classes=CLASSES, interval=24 * HOUR).preview("person")
    acknowledge(ground.store, "policy", preview.id, "person", ground.clock)
    ground.clock += 24 * HOUR
    desk().step()
    assert runs(ground) == [True, True, True, False]
    assert list(ground.roots.output.iterdir()) == []


def test_while_paused_or_taken_nothing_runs(ground: Any) -> None:
    """STA-75: the schedule looks again a minute later; a request is told."""
    is_paused = threading.Event()
    is_paused.set()
    made = ground.accepted(classes=CLASSES, interval=24 * HOUR, is_paused=is_paused.is_set)
    ground.clock += 25 * HOUR
    desk = RetentionDesk(made)
    assert desk.step() == 60
    assert desk.clean_up("Api", dry_run=False).message == "Nothing was removed: the pipeline is paused."
    assert runs(ground) == [True]
    is_paused.clear()
    assert take_lease(ground.store, "another instance", ground.clock)
    assert desk.step() == 60
    assert runs(ground) == [True]


def test_a_request_without_a_wish_runs_only_what_is_in_force(ground: Any) -> None:
    """STA-74: a preview until the policy enforces and is acknowledged; `dryRun` always wins."""
    ground.complete(11)
    before = RetentionDesk(ground.retention(classes=CLASSES)).clean_up("Api", None)
    assert (before.is_in_force, before.run and before.run.is_preview) == (False, True)
    ground.clock += HOUR
    desk = RetentionDesk(ground.accepted(classes=CLASSES))
    ground.clock += HOUR
    assert desk.clean_up("Api", dry_run=True).message == "Nothing was removed: this was a preview."
    assert len(list(ground.roots.output.iterdir())) == 1
    done = desk.clean_up("Api", None)
    assert done.message.startswith("1 item(s) were let go; the list is retention/2026")
    assert list(ground.roots.output.iterdir()) == []


def test_what_is_said_of_the_policy(ground: Any) -> None:
    """STA-80: preview only, wanted but not acknowledged, enforcing since when and by whom; a warning for the second."""
    preview_only = RetentionDesk(ground.retention(classes=CLASSES, enforces=False))
    assert preview_only.describe() == "preview only (Output>10d)"
    assert preview_only.find_warning() is None
    wanted = RetentionDesk(ground.retention(classes=CLASSES))
    assert wanted.describe() == "preview only (Output>10d; not acknowledged)"
    assert "nothing is removed" in str(wanted.find_warning())
    enforcing = RetentionDesk(ground.accepted(classes=CLASSES))
    assert enforcing.describe() == "enforcing Output>10d (acknowledged 2026-08-12 by person)"
    assert enforcing.find_warning() is None


def test_the_thread_outlives_a_database_that_is_away(ground: Any, monkeypatch: Any) -> None:
    """STA-75: the next look comes; a stop ends it whatever it waits for, and without an interval there is none."""
    looked = threading.Event()

    def away(_: RetentionDesk) -> float:
        looked.set()
        raise StoreFailed("the database is away")

    monkeypatch.setattr(RetentionDesk, "step", away)
    desk = RetentionDesk(ground.retention(interval=HOUR))
    desk.start()
    assert looked.wait(20)
    assert "retention" in {thread.name for thread in threading.enumerate()}
    desk.stop()
    desk.stop()
    idle = RetentionDesk(ground.retention())
    idle.start()
    assert "retention" not in {thread.name for thread in threading.enumerate()}
