"""The policy of the settings: its classes, its fingerprint, and how it is said (STA-70, STA-80)."""

from __future__ import annotations

import datetime
import enum
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import attrs

from bulksigner.settings.retention import FileClass, RetentionAction, RetentionMode, RetentionSettings

__all__ = ["ClassRule", "Policy", "RetentionClass"]


class RetentionClass(enum.Enum):
    """The kinds of things that may go by age, in the order in which a run takes them; the value is the settings' key.

    Jobs come first: one whose files go in the same run stays until the next, so that a preview tells what a run does.
    """

    JOBS = "Jobs"
    OUTPUT = "Output"
    ERROR = "Error"
    ORPHANS = "Orphans"
    EVENTS = "Events"


@attrs.frozen
class ClassRule:
    """How long one class is kept, and where it goes then; None: it is deleted."""

    keep_days: int
    move_to: Path | None = None

    def cutoff(self, now: datetime.datetime) -> datetime.datetime:
        """Return the time before which an item is old enough."""
        return now - datetime.timedelta(days=self.keep_days)


@attrs.frozen
class Policy:
    """What the settings ask for; only classes with `KeepDays` are in `rules`."""

    enforces: bool
    interval: datetime.timedelta | None
    max_items: int
    rules: Mapping[RetentionClass, ClassRule]
    fingerprint: str
    releases_names: bool = False

    @classmethod
    def of(cls, given: RetentionSettings) -> Policy | None:
        """Return the policy, or None where there is none."""
        if not given.enabled:
            return None
        rules = {
            kind: rule
            for kind, part in (
                (RetentionClass.OUTPUT, given.output),
                (RetentionClass.ERROR, given.error),
                (RetentionClass.ORPHANS, given.orphans),
            )
            if (rule := _rule(part)) is not None
        }
        for kind, days in (
            (RetentionClass.JOBS, given.jobs.keep_days),
            (RetentionClass.EVENTS, given.events.keep_days),
        ):
            if days is not None:
                rules[kind] = ClassRule(days)
        return cls(
            enforces=given.mode is RetentionMode.ENFORCE,
            interval=None if given.interval_hours is None else datetime.timedelta(hours=given.interval_hours),
            max_items=given.max_items_per_run,
            rules={kind: rules[kind] for kind in RetentionClass if kind in rules},
            fingerprint=_fingerprint(given),
            releases_names=given.jobs.release_names,
        )

    def describe(self) -> str:
        """Say the classes and their days, such as `Output>90d, Error>60d`."""
        return ", ".join(f"{kind.value}>{rule.keep_days}d" for kind, rule in self.rules.items()) or "no class"


def _rule(part: FileClass) -> ClassRule | None:
    if part.keep_days is None:
        return None
    return ClassRule(part.keep_days, part.move_to if part.action is RetentionAction.MOVE else None)


def _fingerprint(given: RetentionSettings) -> str:
    def plain(value: object) -> object:
        return value.value if isinstance(value, enum.Enum) else str(value)

    text = json.dumps(attrs.asdict(given), sort_keys=True, separators=(",", ":"), default=plain)
    return hashlib.sha256(text.encode()).hexdigest()
