"""Readiness: asks every check, each within its time limit, and logs only changes of verdict (API-77 to API-80)."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial

import attrs

from bulksigner.contract.observe import ReadinessCheck, ReadinessRow
from bulksigner.looks import Looks
from bulksigner.observability.logs import facts
from bulksigner.observability.redaction import Scrubber

__all__ = ["TIME_LIMIT_SECONDS", "CallableCheck", "Readiness", "Report"]

TIME_LIMIT_SECONDS = 5.0
_Key = tuple[str, int]
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


def _run(check: ReadinessCheck) -> ReadinessRow:
    try:
        return check.run()
    except Exception as failure:  # noqa: BLE001 - whatever a check raises is its verdict, not our failure
        return _red(check, f"the check failed: {type(failure).__name__}: {failure}")


def _red(check: ReadinessCheck, detail: str) -> ReadinessRow:
    return ReadinessRow(check.name, False, check.gating, detail)


def _with_keys(checks: Sequence[ReadinessCheck]) -> dict[_Key, ReadinessCheck]:
    met: Counter[str] = Counter()
    keyed = {}
    for check in checks:
        met[check.name] += 1
        keyed[check.name, met[check.name]] = check
    return keyed


class Readiness:
    """Runs the checks at each probe.

    A check that hangs costs one thread: until it returns it is not started again, and its row is red.
    """

    def __init__(
        self,
        checks: Sequence[ReadinessCheck] | Callable[[], Sequence[ReadinessCheck]],
        scrubber: Scrubber,
        *,
        limit_seconds: float = TIME_LIMIT_SECONDS,
    ) -> None:
        """Take the checks, or what gives those of the moment; one is known again by its name."""
        self._collect = checks if callable(checks) else lambda: checks
        self._scrubber = scrubber
        self._limit_seconds = limit_seconds
        self._lock = threading.Lock()
        self._looks: Looks[ReadinessRow] = Looks()
        self._verdicts: dict[_Key, bool] = {}

    def report(self) -> Report:
        """Ask every check at the same time and return all rows; takes at most the time limit of one check."""
        checks = _with_keys(self._collect())
        looks = {
            key: self._looks.begin(key, f"readiness {check.name}", partial(_run, check))
            for key, check in checks.items()
        }
        rows = []
        for key, check in checks.items():
            seen = looks[key].wait(self._limit_seconds)
            if seen is None:
                seen = _red(check, f"no answer within {self._limit_seconds:g} s")
            row = ReadinessRow(check.name, seen.ok, check.gating, self._scrubber.scrub(seen.detail))
            self._note(key, row)
            rows.append(row)
        self._forget_others(checks)
        return Report(all(row.ok for row in rows if row.gating), tuple(rows))

    def _forget_others(self, checks: Collection[_Key]) -> None:
        """Forget rows that are no longer there, so that one that comes back is told of anew."""
        with self._lock:
            for key in self._verdicts.keys() - checks:
                del self._verdicts[key]
        self._looks.forget_others(checks)

    def _note(self, key: _Key, row: ReadinessRow) -> None:
        with self._lock:
            before = self._verdicts.get(key, True)
            self._verdicts[key] = row.ok
        if before and not row.ok:
            _log.warning("Readiness check %s is red: %s", row.name, row.detail, extra=facts(gating=row.gating))
        elif row.ok and not before:
            _log.info("Readiness check %s has recovered: %s", row.name, row.detail)
