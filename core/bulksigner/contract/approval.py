"""Approval rules: who must agree before a file is signed (role `approval rule`). Declared; not called yet."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import attrs

__all__ = ["ApprovalRequest", "ApprovalRule", "Decision", "FrozenRule", "Verdict"]


class Verdict(enum.Enum):
    """What the decisions so far amount to under a frozen rule."""

    RELEASE = "release"
    WAIT = "wait"
    VETO = "veto"


@attrs.frozen
class ApprovalRequest:
    """The job a rule is asked about: its profile, file name, content hash and metadata."""

    job_id: str
    profile: str
    file_name: str
    content_sha256: bytes
    metadata: Mapping[str, str]
    summary: Mapping[str, object]


@attrs.frozen
class FrozenRule:
    """A rule as it was when the job was parked; never read again from the profile (PIPE-87)."""

    rule: str
    terms: Mapping[str, object]


@attrs.frozen
class Decision:
    """One person's answer."""

    approver: str
    approved: bool
    decided_at: datetime.datetime
    reason: str | None = None


@runtime_checkable
class ApprovalRule(Protocol):
    """Decides whether a job must wait for people, and when it has waited enough."""

    @property
    def name(self) -> str:
        """Return the rule's name, unique among rules."""
        ...

    def freeze(self, request: ApprovalRequest) -> FrozenRule | None:
        """Return the rule to keep with the job, or None when no approval is needed."""
        ...

    def judge(self, rule: FrozenRule, decisions: Sequence[Decision]) -> Verdict:
        """Weigh the decisions under the frozen rule; pure, repeatable."""
        ...
