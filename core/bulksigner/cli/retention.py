"""`bulksigner retention`: status, preview, acknowledge and run (STA-70 to STA-76)."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bulksigner.boot import lay_foundation, open_store
from bulksigner.contract.errors import BulkSignerError
from bulksigner.files.work import WorkRoots
from bulksigner.intake.folders import open_folders
from bulksigner.jobs.model import utc_now
from bulksigner.pipeline.pause import PauseFlag
from bulksigner.records.migrate import require_current_schema
from bulksigner.retention.desk import RetentionDesk
from bulksigner.retention.items import Item
from bulksigner.retention.policy import Policy
from bulksigner.retention.records import FinishedRun, acknowledge, last_run
from bulksigner.retention.run import Retention

__all__ = ["ACTIONS", "retention"]


def retention(action: str, *, preview: str | None, by: str | None, shows_all: bool) -> int:
    """Do one of the actions; what it needs is said when it is missing."""
    with _opened() as opened:
        ACTIONS[action](opened, by or f"{getpass.getuser()} (command line)", preview, shows_all)
    return 0


@contextmanager
def _opened() -> Iterator[Retention]:
    foundation = lay_foundation(os.environ)
    settings = foundation.settings
    policy = Policy.of(settings.core.retention)
    if policy is None:
        raise BulkSignerError("No retention policy is configured (Retention:Enabled); nothing goes by age.")
    store = open_store(settings)
    try:
        require_current_schema(store)
        core, pause = settings.core, PauseFlag(store)
        folders = open_folders(core.storage, core.watched_folder, foundation.registry.storage_provider)
        yield Retention(store, WorkRoots(core.storage.root), folders, policy, lambda: pause.read().is_paused)
    finally:
        store.close()


def _status(opened: Retention, _: str, __: str | None, ___: bool) -> None:
    desk = RetentionDesk(opened)
    print(f"Policy {opened.policy.fingerprint}: {desk.describe()}")
    for is_preview, what in ((True, "preview"), (False, "run")):
        found = last_run(opened.store, is_preview=is_preview)
        if found is None:
            print(f"There was no {what} yet.")
            continue
        same = "" if found.fingerprint == opened.policy.fingerprint else ", of another policy"
        print(f"Last {what}: {found.id}, ended {found.ended_at:%Y-%m-%dT%H:%M:%SZ} by {found.actor}{same}")
        _show(found)


def _preview(opened: Retention, actor: str, _: str | None, shows_all: bool) -> None:
    def see(item: Item, reason: str | None) -> None:
        what = item.path or f"{item.name} {item.job_id or item.event_id}"
        print(f"{'KEPT' if reason else 'GOES'}  {item.kind.value:<8}  {what}" + (f"  ({reason})" if reason else ""))

    done = opened.preview(actor, see) if shows_all else opened.preview(actor)
    print(f"Nothing was removed. Preview {done.id}: {opened.policy.describe()}")
    _show(done)
    if opened.policy.enforces:
        print(f"To let these go: bulksigner retention acknowledge --preview {done.id}")
    else:
        print("Nothing will be removed while Retention:Mode is DryRun.")


def _acknowledge(opened: Retention, actor: str, preview: str | None, _: bool) -> None:
    if preview is None:
        raise BulkSignerError("Name the preview you have looked at: --preview ID.")
    acknowledge(opened.store, opened.policy.fingerprint, preview, actor, utc_now())
    print(
        f"Acknowledged by {actor}: {opened.policy.describe()}. It holds until a key of Retention changes, or no preview"
    )
    print("was made for 90 days.")


def _run(opened: Retention, actor: str, _: str | None, __: bool) -> None:
    done = RetentionDesk(opened).clean_up(actor, dry_run=False)
    print(done.message)
    if done.run is not None:
        _show(done.run)


def _show(run: FinishedRun) -> None:
    for kind, tally in run.tallies.items():
        print(
            f"  {kind:<8}  {tally['matched']} old enough, {tally['removed']} removed, {tally['moved']} moved, "
            f"{tally['bytes']} bytes{_span(tally)}"
        )
        for word in ("kept", "failed"):
            for reason, count in sorted(tally[word].items()):
                print(f"    {count} {word}: {reason}")
        if tally["samples"]:
            print(f"    such as {', '.join(tally['samples'][:3])}")


def _span(tally: dict[str, Any]) -> str:
    return f", from {tally['oldest'][:10]} to {tally['newest'][:10]}" if tally["oldest"] else ""


ACTIONS: dict[str, Callable[[Retention, str, str | None, bool], None]] = {
    "status": _status,
    "preview": _preview,
    "acknowledge": _acknowledge,
    "run": _run,
}
