"""Retention of a running service: by schedule and on request (STA-74, STA-75, STA-106)."""

from __future__ import annotations

import logging
import threading

import attrs

from bulksigner.contract.errors import BulkSignerError, NotAllowed
from bulksigner.retention.records import FinishedRun, find_acknowledgement, last_run
from bulksigner.retention.run import Retention

__all__ = ["SCHEDULE", "CleanUp", "RetentionDesk"]

SCHEDULE = "Schedule"
LONGEST_WAIT_SECONDS = 60.0
log = logging.getLogger("bulksigner.retention")


@attrs.frozen
class CleanUp:
    """What came of a request; `run` is None where nothing ran."""

    message: str
    is_in_force: bool
    run: FinishedRun | None


class RetentionDesk:
    """Runs one policy on a thread of its own."""

    def __init__(self, retention: Retention) -> None:
        self._retention = retention
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to keep the schedule; without an interval there is nothing to keep."""
        if self._retention.policy.interval is None:
            return
        self._thread = threading.Thread(target=self._serve, name="retention", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a run under way ends after its batch."""
        self._retention.stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def describe(self) -> str:
        """Say what the policy does at present, for the panel of the start (STA-80)."""
        policy = self._retention.policy
        if not policy.enforces:
            return f"preview only ({policy.describe()})"
        accepted = find_acknowledgement(self._retention.store, policy.fingerprint, self._retention.clock())
        if accepted is None:
            return f"preview only ({policy.describe()}; not acknowledged)"
        return f"enforcing {policy.describe()} (acknowledged {accepted.at:%Y-%m-%d} by {accepted.actor})"

    def find_warning(self) -> str | None:
        """Say that removal is wanted and waits for a person, or None (STA-80)."""
        if not self._retention.policy.enforces or self._retention.is_in_force:
            return None
        return (
            "Retention:Mode is Enforce, but the policy as it is now is not acknowledged, so nothing is removed. Look "
            "at `bulksigner retention preview` and accept it with `bulksigner retention acknowledge`."
        )

    def clean_up(self, actor: str, dry_run: bool | None) -> CleanUp:
        """Preview or run now; without a wish a run where the policy is in force, else a preview.

        Raises `NotAllowed` as `Retention` does.
        """
        in_force = self._retention.is_in_force
        if dry_run is None:
            dry_run = not in_force
        if dry_run:
            run = self._retention.preview(actor)
            return CleanUp("Nothing was removed: this was a preview.", in_force, run)
        if in_force and self._retention.is_paused():
            return CleanUp("Nothing was removed: the pipeline is paused.", in_force, None)
        run = self._retention.apply(actor)
        removed = sum(tally["removed"] + tally["moved"] for tally in run.tallies.values())
        return CleanUp(f"{removed} item(s) were let go; the list is retention/{run.manifest}.", in_force, run)

    def step(self) -> float:
        """Run what is due; return how long nothing is, in seconds."""
        interval, store = self._retention.policy.interval, self._retention.store
        if interval is None:
            return LONGEST_WAIT_SECONDS
        last = last_run(store)
        if last is not None:
            wait = (last.ended_at + interval - self._retention.clock()).total_seconds()
            if wait > 0:
                return wait
        if self._retention.is_paused():
            return LONGEST_WAIT_SECONDS
        try:
            self.clean_up(SCHEDULE, None)
        except NotAllowed as error:
            log.info("Retention was not run: %s", error.message)
        return LONGEST_WAIT_SECONDS

    def _serve(self) -> None:
        wait = 0.0
        while not self._retention.stopping.wait(min(wait, LONGEST_WAIT_SECONDS)):
            try:
                wait = self.step()
            except (BulkSignerError, OSError):  # the database may be away for a while, a folder unreadable
                log.exception("Retention could not be looked after; trying again in %g s", LONGEST_WAIT_SECONDS)
                wait = LONGEST_WAIT_SECONDS
