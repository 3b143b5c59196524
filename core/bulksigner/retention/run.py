"""One look at what is old, or one run that lets it go (STA-72 to STA-76)."""

from __future__ import annotations

import datetime
import logging
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs

from bulksigner.contract.errors import NotAllowed
from bulksigner.files.work import WorkRoots
from bulksigner.intake.folders import OpenedFolders
from bulksigner.jobs.model import utc_now
from bulksigner.observability.logs import facts
from bulksigner.observability.metrics import Metrics
from bulksigner.operations.leftovers import Leftovers
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import EventRow
from bulksigner.retention.acting import delete_item, move_item
from bulksigner.retention.items import Item, Selection, job_of_folder
from bulksigner.retention.job_rows import JobRows
from bulksigner.retention.manifest import Manifest
from bulksigner.retention.policy import ClassRule, Policy, RetentionClass
from bulksigner.retention.records import (
    FinishedRun,
    find_acknowledgement,
    hold_lease,
    record_run,
    release_lease,
    take_lease,
)

__all__ = ["Retention", "Tally"]

BATCH = 200
SAMPLES = 20
log = logging.getLogger("bulksigner.retention")
_DELETE_EVENT = Prepared(EventRow.delete().where(EventRow.id == slot("id")))


@attrs.define
class Tally:
    """What became of one class; `kept` and `failed` by reason."""

    matched: int = 0
    removed: int = 0
    moved: int = 0
    kept: Counter[str] = attrs.field(factory=Counter)
    failed: Counter[str] = attrs.field(factory=Counter)
    length: int = 0
    oldest: datetime.datetime | None = None
    newest: datetime.datetime | None = None
    samples: list[str] = attrs.field(factory=list)

    def note(self, item: Item) -> None:
        """Count an item that is old enough."""
        self.matched += 1
        self.oldest = min(filter(None, (self.oldest, item.aged_from)))
        self.newest = max(filter(None, (self.newest, item.aged_from)))

    def let_go(self, item: Item, *, moved: bool) -> None:
        """Count an item that goes, or would."""
        if moved:
            self.moved += 1
        else:
            self.removed += 1
        self.length += item.length
        if len(self.samples) < SAMPLES:
            self.samples.append(item.name)

    def count(self, metrics: Metrics, kind: RetentionClass) -> None:
        """Add to the metrics what became of the items (STA-79)."""
        numbers = {"removed": self.removed, "moved": self.moved, "kept": self.kept.total()}
        for result, number in (numbers | {"failed": self.failed.total()}).items():
            metrics.count("bulksigner_retention_items_total", kind.value, result, by=number)

    def document(self) -> dict[str, Any]:
        """Return the tally as it is stored and shown."""
        return {
            "matched": self.matched,
            "removed": self.removed,
            "moved": self.moved,
            "kept": dict(self.kept),
            "failed": dict(self.failed),
            "bytes": self.length,
            "oldest": None if self.oldest is None else self.oldest.isoformat(),
            "newest": None if self.newest is None else self.newest.isoformat(),
            "samples": self.samples,
        }


@attrs.frozen
class Retention:
    """A policy over one store and its folders; previews and runs take the same way through it."""

    store: Store
    roots: WorkRoots
    folders: OpenedFolders
    policy: Policy
    is_paused: Callable[[], bool] = lambda: False
    clock: Callable[[], datetime.datetime] = utc_now
    stopping: threading.Event = attrs.field(factory=threading.Event)
    metrics: Metrics = attrs.field(factory=Metrics)

    @property
    def is_in_force(self) -> bool:
        """Tell whether a run may remove anything now (STA-70)."""
        return self.policy.enforces and (
            find_acknowledgement(self.store, self.policy.fingerprint, self.clock()) is not None
        )

    def preview(self, actor: str, see: Callable[[Item, str | None], None] = lambda *_: None) -> FinishedRun:
        """Look at everything and change nothing; `see` is shown each item with the reason it stays, or None."""
        return self._run(actor, is_preview=True, see=see)

    def apply(self, actor: str) -> FinishedRun:
        """Let go what may go. Raises `NotAllowed` unless the policy enforces and was acknowledged."""
        if not self.is_in_force:
            raise NotAllowed(
                "Nothing is removed until the policy is acknowledged: set Retention:Mode to Enforce, look at "
                "`bulksigner retention preview`, and accept it with `bulksigner retention acknowledge`.",
                code="retention.not-acknowledged",
            )
        return self._run(actor, is_preview=False, see=lambda *_: None)

    def _run(self, actor: str, *, is_preview: bool, see: Callable[[Item, str | None], None]) -> FinishedRun:
        run_id, started_at = str(uuid.uuid4()), self.clock()
        if not take_lease(self.store, run_id, started_at):
            raise NotAllowed("A preview or run is under way already.", code="retention.already-running")
        tallies = {kind: Tally() for kind in RetentionClass if kind in self.policy.rules}
        try:
            manifest = None if is_preview else Manifest(self.roots.root / "retention", run_id, started_at)
            try:
                is_complete = self._work(run_id, started_at, tallies, manifest, see)
                shown = {kind.value: tally.document() for kind, tally in tallies.items()}
                if manifest is not None:
                    manifest.close(shown, is_complete=is_complete)
            finally:
                if manifest is not None:
                    manifest.abandon()
            name = None if manifest is None else manifest.path.name
            done = FinishedRun(
                run_id, is_preview, self.policy.fingerprint, actor, started_at, self.clock(), name, shown
            )
            if not is_preview:
                for kind, tally in tallies.items():
                    tally.count(self.metrics, kind)
            if is_complete or not is_preview:
                # A preview that was cut short has not shown everything, so nobody may acknowledge it.
                record_run(self.store, done)
        finally:
            release_lease(self.store, run_id)
        for kind, tally in tallies.items():
            log.info(
                "Retention %s %s",
                "preview of" if is_preview else "run over",
                kind.value,
                extra=facts(run_id=run_id, actor=actor, **attrs.asdict(tally, filter=_is_no_sample)),
            )
        return done

    def _work(
        self,
        run_id: str,
        started_at: datetime.datetime,
        tallies: dict[RetentionClass, Tally],
        manifest: Manifest | None,
        see: Callable[[Item, str | None], None],
    ) -> bool:
        """Go through all classes; False when the work was cut short by a stop, a pause or the loss of the lease."""
        rows = JobRows(self.store, Leftovers(self.folders, self.roots), job_of_folder, self.policy.releases_names)
        selection, left = Selection(self.store, self.roots, rows), self.policy.max_items
        for kind, tally in tallies.items():
            rule = self.policy.rules[kind]
            cutoff = rule.cutoff(started_at)
            for batch in _batches(selection.items(kind, cutoff)):
                if self.stopping.is_set() or (manifest is not None and self.is_paused()):
                    return False
                if not hold_lease(self.store, run_id, self.clock()):
                    log.warning("The retention run lost its lease and ends here", extra=facts(run_id=run_id))
                    return False
                going: list[Item] = []
                for item in batch:
                    reason = selection.judge(item, cutoff)
                    tally.note(item)
                    see(item, reason)
                    if reason is not None:
                        tally.kept[reason] += 1
                    elif left > len(going) or _is_continued(going, item):
                        going.append(item)
                    else:
                        tally.kept["the run has reached Retention:MaxItemsPerRun"] += 1
                left -= len(going)
                if manifest is None:
                    for item in going:
                        tally.let_go(item, moved=rule.move_to is not None)
                else:
                    self._let_go(going, rule, tally, manifest, selection, cutoff)
                    manifest.flush()
                if left <= 0:
                    # What is left waits for the next run, so it need not be looked at now.
                    return True
        return True

    def _let_go(
        self,
        items: list[Item],
        rule: ClassRule,
        tally: Tally,
        manifest: Manifest,
        selection: Selection,
        cutoff: datetime.datetime,
    ) -> None:
        if items and items[0].kind is RetentionClass.JOBS:
            self._let_jobs_go(items, tally, manifest, selection.job_rows, cutoff)
            return
        events = [item for item in items if item.event_id is not None]
        for item in events:
            tally.let_go(item, moved=False)
            manifest.add(item, "Delete", "removed")
        if events:
            # The list first: after a kill it may name an event that is still there, never miss one that is gone.
            manifest.flush()
            self.store.write(lambda: self.store.execute_each(_DELETE_EVENT, [{"id": item.event_id} for item in events]))
        for item in items:
            if item.path is None:
                continue
            # Asked again: a minute may have passed since, and something else may lie there (STA-72).
            reason = selection.judge(item, cutoff)
            if reason is not None:
                tally.kept[reason] += 1
                manifest.add(item, "Keep", reason)
                continue
            self._let_file_go(item, item.path, rule, tally, manifest)

    def _let_jobs_go(
        self, items: list[Item], tally: Tally, manifest: Manifest, rows: JobRows, cutoff: datetime.datetime
    ) -> None:
        for item in items:
            manifest.add(item, "Delete", "removed")
        # The list first here, too; a job that stays all the same gets a second line.
        manifest.flush()
        kept = rows.remove([item.job_id for item in items if item.job_id is not None], cutoff)
        for item in items:
            reason = kept.get(item.job_id or "")
            if reason is None:
                tally.let_go(item, moved=False)
            else:
                tally.kept[reason] += 1
                manifest.add(item, "Keep", reason)

    def _let_file_go(self, item: Item, path: Path, rule: ClassRule, tally: Tally, manifest: Manifest) -> None:
        action = "Delete" if rule.move_to is None else "Move"
        try:
            if rule.move_to is None:
                delete_item(path)
                result = "removed"
            else:
                result = f"moved to {move_item(item, path, rule.move_to)}"
        except OSError as error:
            text = error.strerror or str(error)
            log.warning("Retention could not let go of %s: %s", path, text)
            tally.failed[text] += 1
            manifest.add(item, action, f"failed: {text}")
            return
        tally.let_go(item, moved=rule.move_to is not None)
        manifest.add(item, action, result)


def _is_no_sample(attribute: attrs.Attribute[Any], _: object) -> bool:
    return attribute.name != "samples"


def _is_continued(going: list[Item], item: Item) -> bool:
    """Tell whether an item belongs to the chain that goes already; a chain is not divided by a limit."""
    return bool(going) and item.chain is not None and going[-1].chain == item.chain


def _batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    batch: list[Item] = []
    for item in items:
        if len(batch) >= BATCH and not _is_continued(batch, item):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch
