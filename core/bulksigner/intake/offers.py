"""What is offered to the enqueue service, and how an offer can end."""

from __future__ import annotations

import enum

import attrs

from bulksigner.contract.storage import Entry
from bulksigner.intake.folders import OpenedFolder

__all__ = ["BATCH", "Offer", "Outcome", "OutcomeKind"]

BATCH = 64
"""Files offered at once: few, so that signing begins with the first, and running jobs wait for none of them long."""


class OutcomeKind(enum.Enum):
    """How an offer can end (PIPE-35)."""

    ENQUEUED = "Enqueued"
    ALREADY_ACTIVE = "AlreadyActive"
    ALREADY_PROCESSED = "AlreadyProcessed"
    IGNORED = "Ignored"
    PROFILE_DISABLED = "ProfileDisabled"
    UNASSIGNED = "Unassigned"
    PATH_TOO_LONG = "PathTooLong"
    METADATA_INVALID = "MetadataInvalid"
    VANISHED = "Vanished"
    ERROR = "Error"


@attrs.frozen
class Offer:
    """One stable file of an input folder; a rescan takes it also after a failed job (PIPE-100)."""

    folder: OpenedFolder
    entry: Entry
    is_rescan: bool = False


@attrs.frozen
class Outcome:
    """What became of an offer; `reason` is for operators, where there is one.

    An error that is about one file only, such as one that somebody holds, does not count towards the breaker of its
    folder (PIPE-47). One that `passes` ends without a person's help but for space on a disk (BEY-22).
    """

    kind: OutcomeKind
    reason: str = ""
    is_of_file: bool = False
    passes: bool = False
