"""The table of metrics, what feeds it, and its page agree."""

from __future__ import annotations

import re
from pathlib import Path

from bulksigner.observability.instruments import INSTRUMENTS, metrics_page

_NAMES = re.compile(r"[\"']bulksigner_([a-z0-9_]+(?:_total|_seconds|_bytes|_paused|_in_flight))[\"']")
BUILT = {"bulksigner_pipeline_pause_total", "bulksigner_pipeline_resume_total"}
"""Names that the code puts together."""


def test_every_metric_is_fed_and_on_its_page(root: Path) -> None:
    """API-94: no metric that nothing feeds, none that is not in the table, and none that the page leaves out."""
    sources = [*root.glob("core/bulksigner/**/*.py"), *root.glob("plugins/*/bulksigner_*/**/*.py")]
    fed = {
        f"bulksigner_{name}"
        for path in sources
        if path.name != "instruments.py" and "testing" not in path.parts
        for name in _NAMES.findall(path.read_text(encoding="utf-8"))
    }
    table = [one.name for one in INSTRUMENTS]
    assert len(set(table)) == len(table)
    assert fed | BUILT == set(table)
    page = metrics_page("note")
    assert all(f"| `{name}` |" in page for name in table)
