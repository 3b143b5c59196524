"""The registry of one service: its instruments, and gauges that are read when somebody asks."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bulksigner.observability.instruments import INSTRUMENTS, Instrument, Kind
from bulksigner.observability.metrics import FRESH_SECONDS, Metrics, Reading

ROWS = (
    Instrument("bulksigner_done_total", Kind.COUNTER, (), "Done"),
    Instrument("bulksigner_by_total", Kind.COUNTER, ("profile",), "By profile"),
    Instrument("bulksigner_took_seconds", Kind.HISTOGRAM, ("format",), "Took"),
    Instrument("bulksigner_held", Kind.GAUGE, ("root",), "Held"),
)


def samples(metrics: Metrics) -> dict[str, float]:
    """Return the rendered samples by name and labels, as a scraper reads them."""
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def test_series_without_labels_are_there_from_the_start() -> None:
    """API-94: label-free counters begin at 0; no other series is made up, and no `_created`."""
    assert samples(Metrics(ROWS)) == {"bulksigner_done_total[]": 0.0}


def test_two_services_in_one_process_do_not_add_up() -> None:
    """API-94: per process and service; no state is global."""
    one, other = Metrics(ROWS), Metrics(ROWS)
    one.count("bulksigner_done_total")
    one.count("bulksigner_by_total", "folha", by=3)
    one.count("bulksigner_by_total", "folha")
    assert samples(one) == {"bulksigner_done_total[]": 1.0, "bulksigner_by_total[('profile', 'folha')]": 4.0}
    assert samples(other) == {"bulksigner_done_total[]": 0.0}


def test_histograms_have_the_limits_of_the_table() -> None:
    """API-96: the limits, and a duration in the right one."""
    metrics = Metrics(ROWS)
    metrics.observe("bulksigner_took_seconds", 0.3, "Pades")
    found = samples(metrics)
    limits = [key.partition("'le', '")[2].rstrip("')]") for key in found if "_bucket" in key]
    assert limits == [
        "0.01",
        "0.025",
        "0.05",
        "0.1",
        "0.25",
        "0.5",
        "1.0",
        "2.5",
        "5.0",
        "10.0",
        "30.0",
        "60.0",
        "+Inf",
    ]
    assert found["bulksigner_took_seconds_bucket[('format', 'Pades'), ('le', '0.25')]"] == 0
    assert found["bulksigner_took_seconds_bucket[('format', 'Pades'), ('le', '0.5')]"] == 1
    assert found["bulksigner_took_seconds_sum[('format', 'Pades')]"] == 0.3


def test_gauges_are_read_at_most_once_a_second() -> None:
    """API-94: a gauge is what the database says, however many ask."""
    now, asked = [100.0], 0

    def look() -> Reading:
        nonlocal asked
        asked += 1
        return [(("/data",), asked)]

    metrics = Metrics(ROWS, clock=lambda: now[0])
    metrics.read_with({"bulksigner_held": look})
    key = "bulksigner_held[('root', '/data')]"
    assert [samples(metrics)[key], samples(metrics)[key]] == [1, 1]
    now[0] += FRESH_SECONDS
    assert samples(metrics)[key] == 2


def test_a_gauge_that_cannot_be_read_costs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """OPS-156: while the database is away the counters are still answered, and it is told once."""
    now, is_away = [0.0], True

    def look() -> Reading:
        if is_away:
            raise OSError("gone")
        return [(("/data",), 7)]

    metrics = Metrics(ROWS, clock=lambda: now[0])
    metrics.read_with({"bulksigner_held": look})
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            now[0] += FRESH_SECONDS
            assert samples(metrics) == {"bulksigner_done_total[]": 0.0}
    assert [record.getMessage() for record in caplog.records] == [
        "The metric bulksigner_held cannot be read: OSError: gone"
    ]
    is_away, now[0] = False, now[0] + FRESH_SECONDS
    assert samples(metrics)["bulksigner_held[('root', '/data')]"] == 7


def test_only_names_of_the_table_are_counted() -> None:
    """API-94: the names are a contract, so one that is not in it is a mistake."""
    metrics = Metrics(ROWS)
    with pytest.raises(KeyError):
        metrics.count("bulksigner_other_total")
    with pytest.raises(KeyError):
        metrics.read_with({"bulksigner_other": list})
    with pytest.raises(ValueError, match="label"):
        metrics.count("bulksigner_by_total", "folha", "more")


def test_no_label_can_name_a_job_a_file_or_a_person() -> None:
    """API-94: labels are few, so that the number of series stays small."""
    allowed = {"profile", "folder", "format", "result", "class", "mode", "root", "op", "outcome", "means"}
    assert {label for one in INSTRUMENTS for label in one.labels} <= allowed
    assert all(one.kind is not Kind.COUNTER or one.name.endswith("_total") for one in INSTRUMENTS)


def test_a_variable_of_the_host_does_not_share_numbers(tmp_path: Path) -> None:
    """API-94: the library would keep them in files, and another service or life would begin with them."""
    program = (
        "from bulksigner.observability.metrics import Metrics\n"
        "Metrics().count('bulksigner_jobs_completed_total')\n"
        "print(Metrics().render().decode())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "\nbulksigner_jobs_completed_total 0.0\n" in ended.stdout
    assert list(tmp_path.iterdir()) == []
