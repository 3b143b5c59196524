"""Readiness: asks every check, each within its time limit, and logs only changes of verdict (API-77 to API-80)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

import attrs

from bulksigner.contract.observe import ReadinessCheck, ReadinessRow
from bulksigner.observability.logs import facts
from bulksigner.observability.redaction import Scrubber

__all__ = ["TIME_LIMIT_SECONDS", "CallableCheck", "Readiness", "Report"]

TIME_LIMIT_SECONDS = 5.0
_log = logging.getLogger("bulksigner.observability")


@attrs.frozen
class CallableCheck:
    """A check made of a function that answers `(ok, detail)`."""

    name: str
    gating: bool
    look: Callable[[], tuple[bool, str]]

    def run(self) -> ReadinessRow:
        """Ask the function."""
        ok, detail = self.look()
        return ReadinessRow(self.name, ok, self.gating, detail)


@attrs.frozen
class Report:
    """One look at everything: `ready` unless a gating row is red, and the rows in the order of the checks."""

    ready: bool
    rows: tuple[ReadinessRow, ...]


class _Run:
    """One run of a check on a thread of its own; several probes may wait for the same run."""

    def __init__(self, check: ReadinessCheck) -> None:
        self._check = check
        self._finished = threading.Event()
        self._began = time.monotonic()
        self._row: ReadinessRow | None = None
        threading.Thread(target=self._look, name=f"readiness {check.name}", daemon=True).start()

    @property
    def is_over(self) -> bool:
        return self._finished.is_set()

    def _look(self) -> None:
        try:
            row = self._check.run()
        except Exception as failure:  # noqa: BLE001 - whatever a check raises is its verdict, not our failure
            row = self._red(f"the check failed: {type(failure).__name__}: {failure}")
        self._row = row
        self._finished.set()

    def _red(self, detail: str) -> ReadinessRow:
        return ReadinessRow(self._check.name, False, self._check.gating, detail)

    def wait(self, limit_seconds: float) -> ReadinessRow:
        remaining = self._began + limit_seconds - time.monotonic()
        if self._finished.wait(max(remaining, 0.0)) and self._row is not None:
            return self._row
        return self._red(f"no answer within {limit_seconds:g} s")


class Readiness:
    """Runs the checks at each probe.

    A check that hangs costs one thread: until it returns it is not started again, and its row is red.
    """

    def __init__(
        self,
        checks: Sequence[ReadinessCheck],
        scrubber: Scrubber,
        *,
        limit_seconds: float = TIME_LIMIT_SECONDS,
    ) -> None:
        self._checks = tuple(checks)
        self._scrubber = scrubber
        self._limit_seconds = limit_seconds
        self._lock = threading.Lock()
        self._runs: dict[int, _Run] = {}
        self._verdicts: dict[int, bool] = {}

    def report(self) -> Report:
        """Ask every check at the same time and return all rows; takes at most the time limit of one check."""
        runs = [self._run_of(position, check) for position, check in enumerate(self._checks)]
        rows = []
        for position, (check, run) in enumerate(zip(self._checks, runs, strict=True)):
            seen = run.wait(self._limit_seconds)
            row = ReadinessRow(check.name, seen.ok, check.gating, self._scrubber.scrub(seen.detail))
            self._note(position, row)
            rows.append(row)
        return Report(all(row.ok for row in rows if row.gating), tuple(rows))

    def _run_of(self, position: int, check: ReadinessCheck) -> _Run:
        with self._lock:
            run = self._runs.get(position)
            if run is None or run.is_over:
                run = self._runs[position] = _Run(check)
            return run

    def _note(self, position: int, row: ReadinessRow) -> None:
        with self._lock:
            before = self._verdicts.get(position, True)
            self._verdicts[position] = row.ok
        if before and not row.ok:
            _log.warning("Readiness check %s is red: %s", row.name, row.detail, extra=facts(gating=row.gating))
        elif row.ok and not before:
            _log.info("Readiness check %s has recovered: %s", row.name, row.detail)
