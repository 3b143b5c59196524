"""A service under measurement: its settings, its CPU time and memory as the system counts them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import attrs

from bench.inputs import signing_leaf
from bulksigner.testing.certificates import KeyKind
from bulksigner.testing.served import ServedService

__all__ = ["STABILITY_SECONDS", "Usage", "resident_mib", "running_service", "usage_of"]

STABILITY_SECONDS = 0.05
"""The stability window of measured services: one look 50 ms after the first."""

NO_MORE: Mapping[str, object] = MappingProxyType({})
_PASSWORD = "medida-medida"
_TICKS = os.sysconf("SC_CLK_TCK")


@attrs.frozen
class Usage:
    """CPU seconds of a service and its workers so far, and the most memory of the main process and of one worker."""

    cpu_seconds: float
    main_peak_mib: float
    worker_peak_mib: float


@contextmanager
def running_service(
    *,
    concurrency: int,
    engine: str,
    kind: KeyKind = KeyKind.RSA_2048,
    window_seconds: float = STABILITY_SECONDS,
    settings: Mapping[str, object] = NO_MORE,
) -> Iterator[ServedService]:
    """Run a service with one folder `inbox` for any format; everything is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="bulksigner-bench-", dir=os.environ.get("BENCH_FOLDER")) as place:
        root = Path(place)
        pfx = signing_leaf(kind).write_pfx(root / "leaf.pfx", _PASSWORD)
        (root / "inbox").mkdir()
        (root / "trust").mkdir()
        signing_leaf(kind).write_root_pem(root / "trust" / "root.pem")
        service = ServedService(
            root,
            {
                "Storage:Inputs:0:Name": "inbox",
                "Storage:Inputs:0:Path": root / "inbox",
                "Signing:Trust:RootsPath": root / "trust",
                "Signing:Profiles:0:Name": "default",
                "Signing:Profiles:0:Certificate:Pfx:Path": pfx,
                "Signing:Profiles:0:Certificate:Pfx:Password": _PASSWORD,
                "Signing:Engine": engine,
                "Pipeline:MaxConcurrency": concurrency,
                "WatchedFolder:StabilityPollIntervalMs": int(window_seconds * 1000),
                "WatchedFolder:StabilityRequiredSamples": 2,
                **settings,
            },
        )
        service.start()
        try:
            yield service
        finally:
            service.stop()


def usage_of(pid: int) -> Usage:
    """Read what a process and its children have used; Linux only."""
    family = [pid, *_children(pid)]
    peaks = [_peak_mib(member) for member in family]
    return Usage(sum(map(_cpu_seconds, family)), peaks[0], max(peaks[1:], default=0.0))


def resident_mib(pid: int) -> tuple[float, float]:
    """Return the memory that the main process, and the largest of its children, hold at this moment; Linux only."""
    held = [_status_mib(member, "VmRSS:") for member in (pid, *_children(pid))]
    return held[0], max(held[1:], default=0.0)


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for task in found.parent.parent.iterdir() for child in (task / "children").read_text().split()]


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _peak_mib(pid: int) -> float:
    return _status_mib(pid, "VmHWM:")


def _status_mib(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return 0.0
