"""A service keeps the timings of what it signs, and shows them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bulksigner.cli import main
from bulksigner.jobs.model import utc_now
from bulksigner.operations.people import Person
from bulksigner.records.prepared import Prepared
from bulksigner.records.tables import StatisticsStateRow
from bulksigner.records.times import read_time
from bulksigner.statistics.figures import read_figures


@pytest.fixture
def environment(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in harness.environ.items():
        monkeypatch.setenv(name, value)


def test_what_is_signed_is_counted(harness: Any, environment: None, capsys: pytest.CaptureFixture[str]) -> None:
    """STA-01 to STA-08, STA-17 to STA-26: real stages of real files, told by the command while the service runs."""
    for number in range(3):
        harness.drop(f"{number}.rem", b"content")
    harness.drop("broken.pdf", b"no PDF")
    harness.run_until_idle()
    figures = harness.service.figures.read()
    assert (figures.total.count, figures.local.count, figures.remote.count) == (3, 3, 0)
    assert figures.verification.count == figures.signing.count == figures.queue_wait.count == 3
    assert figures.last_minute_count == 3
    assert figures.shortest_ms <= figures.total.milliseconds <= figures.longest_ms
    capsys.readouterr()
    assert main(["statistics"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("3 completed jobs since the oldest completion on record (20")
    assert "  Local (3)               " in shown
    assert main(["statistics", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["total"]["count"], told["remote"]["meanMs"]) == (3, None)


def test_clear_jobs_begins_the_figures_anew(harness: Any) -> None:
    """STA-31, STA-32, PIPE-103: the marker moves in the transaction of the clear, and later jobs count from there."""
    harness.drop("a.rem", b"content")
    harness.run_until_idle()
    store = harness.service.store
    harness.service.operations.clearing.clear(Person("Ana", "ApiKey"))
    now = utc_now()
    assert read_figures(store, now).total.count == 0
    marker = Prepared(StatisticsStateRow.select(StatisticsStateRow.reset_at))
    [row] = store.read(lambda: store.execute(marker).rows)
    reset_at = read_time(row[0])
    assert reset_at is not None
    assert (now - reset_at).total_seconds() < 60
    harness.drop("b.rem", b"content")
    harness.run_until_idle()
    assert read_figures(store, utc_now()).total.count == 1


def test_no_completed_jobs(harness: Any, environment: None, capsys: pytest.CaptureFixture[str]) -> None:
    """STA-27: every figure is a dash."""
    assert harness.service.figures.read().total.count == 0
    capsys.readouterr()
    assert main(["statistics"]) == 0
    caption, *rows = capsys.readouterr().out.splitlines()
    assert caption == "no completed jobs"
    assert all(row.rstrip().endswith("—") for row in rows)


def test_switched_off_nothing_is_kept_and_what_was_kept_stays(
    make_harness: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """STA-12, CFG-154: no rows, no panel; stored rows reappear when it is switched on again."""
    made = make_harness()
    made.drop("a.rem", b"content")
    made.run_until_idle()
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    made.close()
    text = (made.folder / "settings.json").read_text()
    for enabled, counted in ((False, None), (True, 1)):
        (made.folder / "settings.json").write_text(json.dumps(json.loads(text) | {"Statistics:Enabled": enabled}))
        made.restart()
        if not enabled:
            made.drop("b.rem", b"content")
            assert len(made.run_until_idle()) == 2
            assert main(["statistics"]) == 1
            assert "Statistics:Enabled" in capsys.readouterr().err
        panel = made.service.figures
        assert (None if panel is None else panel.read().total.count) == counted


def test_a_database_that_was_never_started_is_told(
    harness: Any, environment: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """DEP-27: the command reads; it makes no database and migrates none."""
    assert main(["statistics"]) == 1
    assert "is not there. The first start of the service makes it" in capsys.readouterr().err
    assert not harness.root.exists()
