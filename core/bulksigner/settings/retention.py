"""`Retention`: what may be removed by age, and how (STA-104 to STA-110)."""

from __future__ import annotations

import enum
from pathlib import Path

import attrs

from bulksigner.contract.settings import Check, between, option

__all__ = [
    "ErrorClass",
    "EventsClass",
    "FileClass",
    "JobsClass",
    "OrphansClass",
    "OutputClass",
    "RetentionAction",
    "RetentionMode",
    "RetentionSettings",
]

_LONGEST_DAYS = 36500
_ANY_PATH = Check(lambda path: "\0" not in str(path), "the path of a directory")
_KEEP = "Days that it is kept; without the key nothing of this class is ever touched."
_ACTION = "What becomes of it afterwards."
_MOVE_TO = "Directory of this host that it is moved to; required with `Move`."


class RetentionMode(enum.Enum):
    """Whether a run may remove anything at all (STA-105)."""

    DRY_RUN = "DryRun"
    ENFORCE = "Enforce"


class RetentionAction(enum.Enum):
    """What becomes of files whose time is over (STA-109)."""

    DELETE = "Delete"
    MOVE = "Move"


@attrs.frozen
class FileClass:
    """What the classes of files have in common."""

    keep_days: int | None = None
    action: RetentionAction = RetentionAction.DELETE
    move_to: Path | None = None


@attrs.frozen
class OutputClass(FileClass):
    """`Retention:Output` (STA-59)."""

    keep_days: int | None = option(None, help=_KEEP, check=between(7, _LONGEST_DAYS))
    action: RetentionAction = option(RetentionAction.DELETE, help=_ACTION)
    move_to: Path | None = option(None, help=_MOVE_TO, check=_ANY_PATH)


@attrs.frozen
class ErrorClass(FileClass):
    """`Retention:Error` (STA-61)."""

    keep_days: int | None = option(None, help=_KEEP, check=between(30, _LONGEST_DAYS))
    action: RetentionAction = option(RetentionAction.DELETE, help=_ACTION)
    move_to: Path | None = option(None, help=_MOVE_TO, check=_ANY_PATH)


@attrs.frozen
class OrphansClass(FileClass):
    """`Retention:Orphans` (STA-64)."""

    keep_days: int | None = option(None, help=_KEEP, check=between(30, _LONGEST_DAYS))
    action: RetentionAction = option(RetentionAction.DELETE, help=_ACTION)
    move_to: Path | None = option(None, help=_MOVE_TO, check=_ANY_PATH)


@attrs.frozen
class EventsClass:
    """`Retention:Events` (STA-63)."""

    keep_days: int | None = option(None, help=_KEEP, check=between(365, _LONGEST_DAYS))


@attrs.frozen
class JobsClass:
    """`Retention:Jobs` (STA-62, STA-68)."""

    keep_days: int | None = option(None, help=_KEEP, check=between(90, _LONGEST_DAYS))
    release_names: bool = option(
        False, help="Let files be signed again that have the names of jobs that went; else the names stay taken."
    )


@attrs.frozen
class RetentionSettings:
    """`Retention`."""

    output: OutputClass = option()
    error: ErrorClass = option()
    orphans: OrphansClass = option()
    events: EventsClass = option()
    jobs: JobsClass = option()
    enabled: bool = option(False, help="Look for what may go by age; by itself this removes nothing.")
    mode: RetentionMode = option(
        RetentionMode.DRY_RUN, help="`Enforce` removes, once a preview of exactly these keys was acknowledged."
    )
    interval_hours: int | None = option(
        None, help="Hours from the end of one run to the next; without it only on request.", check=between(1, 720)
    )
    max_items_per_run: int = option(
        10_000, help="Most items of one run; the rest waits for the next.", check=between(1, 1_000_000)
    )
