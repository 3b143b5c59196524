"""Run the benchmark: `python -m bench [LINE …] [--count N] [--out FOLDER]`."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

from bench.lines import LINES
from bench.measure import Result, peak_memory_mib

_LIBRARIES = ("asn1crypto", "cryptography", "lxml", "peewee", "pyhanko", "signxml")
_TEXT_COLUMNS = (0, 1, 6)


def host_facts() -> dict[str, object]:
    """Describe the host and the libraries, so that a result can be read later."""
    return {
        "measured_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "libraries": {name: importlib.metadata.version(name) for name in _LIBRARIES},
    }


def table(results: Iterable[Result]) -> str:
    """Lay results out as a table of fixed width."""
    rows = [("line", "what", "per second", "ms each", "CPU ms", "repetitions", "")]
    rows += [
        (
            result.line,
            result.name,
            f"{result.per_second:,.1f}",
            f"{result.milliseconds:.3f}",
            f"{result.cpu_milliseconds:.3f}",
            str(result.repetitions),
            result.note,
        )
        for result in results
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = zip(row, widths, strict=True)
        aligned = [
            text.ljust(width) if at in _TEXT_COLUMNS else text.rjust(width) for at, (text, width) in enumerate(cells)
        ]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def write_results(folder: Path, names: Sequence[str], results: Sequence[Result]) -> Path:
    """Write facts and results as JSON under a name that holds the time; returns the path."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = host_facts()
    moment = datetime.datetime.now(datetime.UTC)
    path = folder / f"{moment:%Y%m%dT%H%M%SZ}-{'-'.join(names)}.json"
    document = {
        "host": facts,
        "peak_memory_mib": round(peak_memory_mib(), 1),
        "results": [attrs.asdict(result) for result in results],
    }
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def main(arguments: Sequence[str]) -> int:
    """Run the lines asked for, all when none is; print the table and write the JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what signing costs on this host.")
    parser.add_argument("lines", nargs="*", metavar="LINE", help=f"one or more of: {', '.join(LINES)}, all")
    parser.add_argument("--count", type=int, metavar="N", help="repetitions a round, or files of an end-to-end line")
    parser.add_argument("--out", type=Path, default=Path("bench/results"), metavar="FOLDER", help="folder for the JSON")
    options = parser.parse_args(arguments)
    names = list(LINES) if not options.lines or "all" in options.lines else options.lines
    unknown = [name for name in names if name not in LINES]
    if unknown:
        parser.error(f"no such line: {', '.join(unknown)}; there are: {', '.join(LINES)}, all")
    if options.count is not None and options.count < 1:
        parser.error("--count must be at least 1")
    results = [result for name in names for result in LINES[name](options.count)]
    print(table(results))
    print(f"\n{os.cpu_count()} cores, Python {platform.python_version()}; peak memory {peak_memory_mib():.0f} MiB")
    print(f"written: {write_results(options.out, names, results)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
