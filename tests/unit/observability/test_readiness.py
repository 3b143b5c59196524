"""Readiness rows: verdict, time limit, and one log line per change."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from bulksigner.contract.observe import ReadinessRow
from bulksigner.observability.readiness import CallableCheck, Readiness
from bulksigner.observability.redaction import Scrubber

CANARY = "canary-secret-0042"


def green(name: str = "a", *, gating: bool = True) -> CallableCheck:
    return CallableCheck(name, gating, lambda: (True, "fine"))


def red(name: str = "a", *, gating: bool = True) -> CallableCheck:
    return CallableCheck(name, gating, lambda: (False, "broken"))


def test_only_gating_rows_decide() -> None:
    """API-77, API-80: a red row that does not gate shows and decides nothing."""
    report = Readiness([green("a"), red("b", gating=False)], Scrubber()).report()
    assert report.ready
    assert [(row.name, row.ok, row.gating, row.detail) for row in report.rows] == [
        ("a", True, True, "fine"),
        ("b", False, False, "broken"),
    ]
    assert not Readiness([green("a"), red("b")], Scrubber()).report().ready
    assert Readiness([], Scrubber()).report().ready


def test_a_check_that_raises_is_red_and_scrubbed() -> None:
    """API-78: what a check raises is its detail, without secrets; the others are unaffected."""

    def fail() -> tuple[bool, str]:
        raise OSError(f"cannot reach {CANARY}")

    report = Readiness([CallableCheck("db", True, fail), green("b")], Scrubber([CANARY])).report()
    assert [(row.ok, row.detail) for row in report.rows] == [
        (False, "the check failed: OSError: cannot reach ***"),
        (True, "fine"),
    ]


def test_a_check_that_hangs_costs_its_limit_once_and_one_thread() -> None:
    """API-77: a check that does not answer is red, is not started again, and holds nobody else up."""
    release = threading.Event()
    started: list[int] = []

    def hang() -> tuple[bool, str]:
        started.append(1)
        release.wait(10)
        return True, "back"

    readiness = Readiness([CallableCheck("slow", True, hang), green("b")], Scrubber(), limit_seconds=0.1)
    first, second = readiness.report(), readiness.report()
    assert not first.ready
    assert [row.detail for row in first.rows] == ["no answer within 0.1 s", "fine"]
    assert second.rows[0].detail == "no answer within 0.1 s"
    assert len(started) == 1
    release.set()
    deadline = time.monotonic() + 5
    while not readiness.report().ready:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_only_changes_of_verdict_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """API-79: red once at Warning with the detail, recovery once at Information, nothing per poll."""
    state = {"ok": True}
    readiness = Readiness([CallableCheck("db", True, lambda: (state["ok"], "detail"))], Scrubber())
    with caplog.at_level(logging.INFO, "bulksigner.observability"):
        for ok in (True, True, False, False, True, True):
            state["ok"] = ok
            readiness.report()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "Readiness check db is red: detail"),
        ("INFO", "Readiness check db has recovered: detail"),
    ]


def test_a_row_keeps_the_name_and_weight_of_its_check() -> None:
    """API-101: a plugin's row cannot pass for another or gate less than declared."""

    class Odd:
        name = "plugin-row"
        gating = True

        def run(self) -> ReadinessRow:
            return ReadinessRow("database", False, False, "x")

    report = Readiness([Odd()], Scrubber()).report()
    assert not report.ready
    assert report.rows[0].name == "plugin-row"


def test_rows_come_and_go_with_what_they_are_about(caplog: pytest.LogCaptureFixture) -> None:
    """API-79, API-88: the checks of the moment are asked, and a row that comes back red is told of anew."""
    now: list[CallableCheck] = [red("binding", gating=False)]
    readiness = Readiness(lambda: [green("a"), *now, green("a")], Scrubber())
    with caplog.at_level(logging.WARNING, logger="bulksigner.observability"):
        assert [row.name for row in readiness.report().rows] == ["a", "binding", "a"]
        readiness.report()
        now.clear()
        assert [row.name for row in readiness.report().rows] == ["a", "a"]
        now.append(red("binding", gating=False))
        readiness.report()
    assert [record.getMessage() for record in caplog.records] == ["Readiness check binding is red: broken"] * 2
