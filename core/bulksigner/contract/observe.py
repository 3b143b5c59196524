"""What plugins may watch and add to what operators see: readiness rows, banner rows, job changes."""

from __future__ import annotations

import datetime
from typing import Protocol, runtime_checkable

import attrs

__all__ = ["BannerRow", "JobChange", "ReadinessCheck", "ReadinessRow"]


@attrs.frozen
class ReadinessRow:
    """One verdict (API-77): `ok`, and a detail for operators that passes through redaction."""

    name: str
    ok: bool
    gating: bool
    detail: str


@runtime_checkable
class ReadinessCheck(Protocol):
    """Answers for one part of the service; asked at each probe, at most 5 seconds long."""

    @property
    def name(self) -> str:
        """Return the row's name, such as `storage-share:account/share`."""
        ...

    @property
    def gating(self) -> bool:
        """Tell whether a red row turns the whole verdict to 503."""
        ...

    def run(self) -> ReadinessRow:
        """Look now and answer; what it raises makes the row red."""
        ...


@attrs.frozen
class BannerRow:
    """One fact for the ready panel: label (at most 17 characters) and value."""

    label: str
    value: str


@attrs.frozen
class JobChange:
    """One committed change of a job: `before` is None at birth; statuses are wire names."""

    job_id: str
    event: str
    before: str | None
    after: str
    profile: str
    format: str
    at: datetime.datetime
    message: str
