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
    cells = [_HEADS, *(_cells(job, output) for job in jobs)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    # The last column has paths of any length, so only its heading is underlined.
    rules = tuple("-" * width for width in (*widths[:-1], len(_HEADS[-1])))
    lines = (zip(row, widths, strict=True) for row in (_HEADS, rules, *cells[1:]))
    return "\n".join("  ".join(cell.ljust(width) for cell, width in line).rstrip() for line in lines)


def _cells(job: Followed, output: Path) -> tuple[str, ...]:
    stages = (("Queued", "Processing"), ("Processing", "Verifying"), ("Verifying", "Completed"))
    times = (job.seconds_between(earlier, later) for earlier, later in stages)
    told = ("-" if seconds is None else f"{seconds:.3f} s" for seconds in times)
    ending = f"FAILED: {job.timeline[-1].message}" if job.output_name is None else str(output / job.output_name)
    return (job.delivery.file_name, job.delivery.format_label, job.job_id, *told, ending)


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
