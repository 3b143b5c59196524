"""What the demonstration prints at its end: times, signed files, verdicts, and how to check again; plain text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bulksigner.testing.demo.follow import Followed
from bulksigner.testing.demo.ground import PASSWORD, Ground
from bulksigner.testing.demo.proof import Opinion
from bulksigner.testing.demo.service import DemoService

__all__ = ["commands_text", "keep_text", "opinions_text", "table"]

_HEADS = ("file", "format", "job", "queue", "signing", "verify+deliver", "output")
_VERDICTS = {True: "valid", False: "NOT VALID", None: "not asked"}


def table(jobs: Sequence[Followed], output: Path) -> str:
    """Lay out one row per job, with the time spent in each stage."""
    rows = [_HEADS]
    for job in jobs:
        rows.append(
            (
                job.delivery.file_name,
                job.delivery.format_label,
                job.job_id,
                _seconds(job.seconds_between("Queued", "Processing")),
                _seconds(job.seconds_between("Processing", "Verifying")),
                _seconds(job.seconds_between("Verifying", "Completed")),
                f"FAILED: {job.timeline[-1].message}" if job.output_name is None else str(output / job.output_name),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    rows.insert(1, tuple("-" * width for width in widths[:-1]) + ("-" * len(_HEADS[-1]),))
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def opinions_text(opinions: Sequence[tuple[str, Sequence[Opinion]]]) -> str:
    """Lay out the verdicts, by file; a tool that did not accept is quoted."""
    width = max(len(name) for name, _ in opinions)
    lines = []
    for name, given in opinions:
        for opinion in given:
            told = f"  {name:<{width}}  {opinion.tool:<8}  {_VERDICTS[opinion.accepted]}"
            lines.append(told if opinion.accepted is not None else f"{told}: {opinion.output}")
            if opinion.accepted is False:
                lines += [f"      {line}" for line in opinion.output.splitlines()]
    return "\n".join(lines)


def commands_text(commands: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Lay out the commands, by file, ready to be pasted."""
    return "\n\n".join("\n".join([f"  # {name}", *(f"  {command}" for command in given)]) for name, given in commands)


def keep_text(ground: Ground, service: DemoService) -> str:
    """Say how to use the service that stays, and how to stop it."""
    folders = "\n".join(f"  folder    {path}" for path in sorted((ground.folder / "inbox").iterdir()))
    return (
        f"The service stays (KEEP=1).\n  URL       {service.url}\n  API key   {ground.api_key}\n{folders}\n"
        f"  output    {ground.output}\n  log       {ground.log}\n"
        f"  PFX       {ground.pfx}, password {PASSWORD}\n"
        f"  jobs      curl -H 'X-Api-Key: {ground.api_key}' {service.url}/api/jobs\n"
        f"  stop      kill {service.process_id}"
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f} s"
