"""Pause and resume, for all instances at once and across restarts (PIPE-68, CLU-55, API-69)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from bulksigner.contract.errors import RaceLost
from bulksigner.observability.logs import facts
from bulksigner.observability.metrics import Metrics
from bulksigner.operations.people import Person, ReasonReader, with_reason
from bulksigner.pipeline.pause import PauseFlag, PauseState
from bulksigner.records.events import Event

__all__ = ["Pausing"]

_log = logging.getLogger("bulksigner.operations")


class Pausing:
    """Turns the pause flag at the wish of a person; asking for the present state changes nothing.

    `wake` tells the worker that claims go on, so that it does not wait for its next poll.
    """

    def __init__(
        self, flag: PauseFlag, reasons: ReasonReader, wake: Callable[[], None], metrics: Metrics | None = None
    ) -> None:
        self._flag = flag
        self._reasons = reasons
        self._wake = wake
        self._metrics = metrics or Metrics()

    def pause(self, person: Person, reason: str | None = None) -> PauseState:
        """Stop the next claim; jobs under way finish. Raises `Refusal` (API-34)."""
        return self._turn(person, reason, is_paused=True)

    def resume(self, person: Person, reason: str | None = None) -> PauseState:
        """Let claims go on. Raises `Refusal` (API-35)."""
        state = self._turn(person, reason, is_paused=False)
        self._wake()
        return state

    def _turn(self, person: Person, reason: str | None, *, is_paused: bool) -> PauseState:
        told = self._reasons.read(reason)
        seen = self._flag.read()
        if seen.is_paused is is_paused:
            return seen
        word = "paused" if is_paused else "resumed"
        message = with_reason(f"Pipeline {word} by {person.name}.", told)
        event = Event(
            f"Pipeline{word.capitalize()}", message, {"actor": person.name, "scheme": person.scheme, "reason": told}
        )
        try:
            state = self._flag.change(seen, is_paused=is_paused, by=person.name, reason=told, event=event)
        except RaceLost:
            # Two who wish the same are no conflict.
            found = self._flag.read()
            if found.is_paused is is_paused:
                return found
            raise
        self._metrics.count(f"bulksigner_pipeline_{'pause' if is_paused else 'resume'}_total")
        _log.info("%s", message, extra=facts(actor=person.name))
        return state
