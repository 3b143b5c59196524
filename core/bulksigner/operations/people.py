"""Who asks for an action and why: the actor of events (SEC-26) and the reason that is kept (API-70)."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import attrs

from bulksigner.contract.errors import Refusal

__all__ = ["REASON_LIMIT", "Person", "ReasonReader", "as_sentence", "with_reason"]

REASON_LIMIT = 512
"""The longest reason after trimming, in characters (API-70)."""

_ENDINGS = (".", "!", "?", "…")


@attrs.frozen
class Person:
    """Whoever asked: the name that events record, never a display name, and how it was proved (SEC-26)."""

    name: str
    scheme: str


@attrs.frozen
class ReasonReader:
    """Makes of what was given the reason that is recorded: one line, without secrets."""

    scrub: Callable[[str], str]

    def read(self, given: str | None) -> str | None:
        """Return the reason, or None for a blank one.

        Raises `Refusal` (`validation.reason-too-long`) instead of cutting it short.
        """
        trimmed = (given or "").strip()
        if len(trimmed) > REASON_LIMIT:
            raise Refusal(
                f"The reason has {len(trimmed)} characters, {REASON_LIMIT} are allowed.",
                code="validation.reason-too-long",
            )
        # Neither a control character nor half of a surrogate pair has a place in a line; no database keeps both.
        shown = "".join(" " if unicodedata.category(mark) == "Cc" else mark for mark in trimmed)
        text = " ".join(shown.encode("utf-8", "replace").decode().split())
        return self.scrub(text) or None


def as_sentence(text: str) -> str:
    """End a text with a full stop, unless it ends like a sentence already."""
    return text if text.endswith(_ENDINGS) else f"{text}."


def with_reason(text: str, reason: str | None) -> str:
    """Add the sentence that tells the reason, where there is one."""
    return text if reason is None else f"{text} Reason: {as_sentence(reason)}"
