"""The page of job states shows exactly the rows of the table."""

from __future__ import annotations

from pathlib import Path

from bulksigner.jobs.states import BIRTHS, TERMINAL, TRANSITIONS, JobStatus

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "job-states.md"


def cells(first_heading: str) -> list[list[str]]:
    """Return the body cells of the table whose first column is headed so, without code marks."""
    lines = iter(PAGE.read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line.startswith(f"| {first_heading} |"):
            break
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("`", "") for cell in line.strip("|").split("|")])
    return rows


def test_the_page_lists_every_status() -> None:
    """PIPE-06 to PIPE-31: statuses in the order of the enum, final ones marked."""
    shown = [(row[0], row[1]) for row in cells("Status")]
    assert shown == [(status.value, "final" if status in TERMINAL else "active") for status in JobStatus]


def test_the_page_lists_every_birth() -> None:
    """PIPE-06, PIPE-07: how a job begins, and where."""
    assert {row[0]: row[1] for row in cells("Birth")} == {event: status.value for event, status in BIRTHS.items()}


def test_the_page_lists_every_transition() -> None:
    """PIPE-08 to PIPE-28: event, from, to and actors of each row, in the order of the table."""
    assert [row[:4] for row in cells("Event")] == [
        [
            row.event,
            ", ".join(source.value for source in row.sources),
            row.target.value,
            ", ".join(sorted(actor.value for actor in row.actors)),
        ]
        for row in TRANSITIONS
    ]
