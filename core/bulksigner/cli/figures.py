"""`bulksigner statistics`: the figures of the completed jobs, read from the database."""

from __future__ import annotations

import json
import os

import attrs

from bulksigner.boot import lay_foundation
from bulksigner.cli.desk import open_database
from bulksigner.contract.errors import BulkSignerError
from bulksigner.jobs.model import utc_now
from bulksigner.statistics.durations import write_duration, write_exact
from bulksigner.statistics.figures import Figures, Mean, read_figures

__all__ = ["show_statistics"]


def show_statistics(*, as_json: bool) -> int:
    """Print what the stages of completed jobs took; also while the service runs."""
    foundation = lay_foundation(os.environ)
    if not foundation.settings.core.statistics.enabled:
        raise BulkSignerError("Statistics are switched off (Statistics:Enabled = false); stored rows are kept.")
    with open_database(foundation) as store:
        figures = read_figures(store, utc_now())
    print(json.dumps(_document(figures), indent=2) if as_json else "\n".join(_lines(figures)))
    return 0


def _lines(figures: Figures) -> list[str]:
    duration = write_duration
    rows = [
        ("Avg job time", duration(figures.total.milliseconds)),
        ("Avg signing", duration(figures.signing.milliseconds)),
        ("Avg verification", duration(figures.verification.milliseconds)),
        ("Throughput (last min)", _rate(figures.last_minute_count if figures.total.count else None)),
        ("Lifetime throughput", _rate(figures.lifetime_per_minute)),
        (
            "Total: min / avg / max",
            " / ".join(map(write_exact, (figures.shortest_ms, figures.total.milliseconds, figures.longest_ms))),
        ),
        ("95th percentile, 24 h", duration(figures.percentile_95_ms)),
        ("Avg queue wait", duration(figures.queue_wait.milliseconds)),
        ("Avg output", duration(figures.output.milliseconds)),
        (f"Local ({figures.local.count})", duration(figures.local.milliseconds)),
        (f"Remote ({figures.remote.count})", duration(figures.remote.milliseconds)),
    ]
    return [_caption(figures), *(f"  {label:<22}  {value}" for label, value in rows)]


def _caption(figures: Figures) -> str:
    if figures.window_start is None:
        return "no completed jobs"
    since = "the last reset" if figures.is_since_reset else "the oldest completion on record"
    return f"{figures.total.count} completed jobs since {since} ({figures.window_start:%Y-%m-%dT%H:%M:%SZ})"


def _rate(per_minute: float | None) -> str:
    return "—" if per_minute is None else f"{per_minute:.3g} per minute"


def _document(figures: Figures) -> dict[str, object]:
    shown: dict[str, object] = {}
    for name, value in attrs.asdict(figures, recurse=False).items():
        key = "".join(part.capitalize() if place else part for place, part in enumerate(name.split("_")))
        if isinstance(value, Mean):
            shown[key] = {"count": value.count, "meanMs": value.milliseconds}
        else:
            shown[key] = f"{value:%Y-%m-%dT%H:%M:%S.%fZ}" if key == "windowStart" and value is not None else value
    return shown
