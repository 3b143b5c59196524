"""Pause and resume: durable, repeatable, told once, and never overwritten in silence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bulksigner.contract.errors import RaceLost, Refusal
from bulksigner.operations.people import Person
from bulksigner.operations.service import Operations
from bulksigner.pipeline.pause import PauseFlag
from bulksigner.records.prepared import Prepared
from bulksigner.records.tables import EventRow, PipelineStateRow

OPERATOR = Person("operator", "ApiKey")
FACTS = Prepared(EventRow.select(EventRow.facts).order_by(EventRow.id))
FORGET = Prepared(PipelineStateRow.delete())


def facts(desk: Any) -> list[Any]:
    return [json.loads(row[0]) for row in desk.store.read(lambda: desk.store.execute(FACTS).rows)]


def told(desk: Any) -> list[tuple[str, str]]:
    return [(event.event_type, event.message) for event in desk.events()]


def test_a_pause_is_kept_with_who_and_why(desk: Any) -> None:
    """PIPE-68, CLU-55, SEC-76: the row says it to whoever reads it; the event names person and reason."""
    state = desk.operations.pausing.pause(OPERATOR, " Manutenção trimestral ")
    assert state == PauseFlag(desk.store).read()
    assert (state.is_paused, state.by, state.reason) == (True, "operator", "Manutenção trimestral")
    assert state.paused_at == state.since
    assert state.resumed_at is None
    assert told(desk) == [("PipelinePaused", "Pipeline paused by operator. Reason: Manutenção trimestral.")]
    assert facts(desk) == [{"actor": "operator", "scheme": "ApiKey", "reason": "Manutenção trimestral"}]
    assert desk.events()[0].at == state.since


def test_a_resume_keeps_when_the_pause_was(desk: Any) -> None:
    """API-68: after a resume both times are known, and the worker is told at once (PIPE-64)."""
    paused = desk.operations.pausing.pause(OPERATOR, "year end")
    assert not desk.queue.wake.take()
    state = desk.operations.pausing.resume(OPERATOR)
    assert desk.queue.wake.take()
    assert (state.is_paused, state.reason) == (False, None)
    assert (state.paused_at, state.paused_by) == (paused.paused_at, "operator")
    assert state.resumed_at == state.since
    assert told(desk)[1:] == [("PipelineResumed", "Pipeline resumed by operator.")]


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_repeating_the_present_state_writes_nothing(desk: Any, action: str) -> None:
    """API-69: the second time is no error and leaves row, reason and events as they were."""
    turn = getattr(desk.operations.pausing, action)
    if action == "pause":
        turn(OPERATOR, "first")
    before, events = PauseFlag(desk.store).read(), told(desk)
    assert turn(OPERATOR, "second") == before
    assert (PauseFlag(desk.store).read(), told(desk)) == (before, events)


def test_a_reason_that_is_too_long_changes_nothing(desk: Any) -> None:
    """API-70: refused before anything is read or written."""
    with pytest.raises(Refusal) as caught:
        desk.operations.pausing.pause(OPERATOR, "x" * 513)
    assert caught.value.code == "validation.reason-too-long"
    assert not PauseFlag(desk.store).read().is_paused


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_a_lost_row_is_named(desk: Any, action: str) -> None:
    """API-34: without its row the flag cannot be read or turned; `pipeline.state-missing` says so."""
    desk.store.write(lambda: desk.store.execute(FORGET))
    with pytest.raises(Refusal) as caught:
        getattr(desk.operations.pausing, action)(OPERATOR)
    assert caught.value.code == "pipeline.state-missing"
    assert told(desk) == []


class Overtaken(PauseFlag):
    """A flag that others turn between the look and the write of whoever looks first."""

    def __init__(self, desk: Any, *others: Any) -> None:
        super().__init__(desk.store)
        self._others = list(others)

    def read(self) -> Any:
        seen = super().read()
        others, self._others = self._others, []
        for other in others:
            other()
        return seen


def overtaken(operations: Operations, flag: PauseFlag) -> Any:
    pausing = operations.pausing
    return type(pausing)(flag, pausing._reasons, lambda: None)


def test_the_loser_of_a_pause_and_a_resume_records_nothing(desk: Any) -> None:
    """API-69, PIPE-110: what was decided on an old look at the flag is refused with `pipeline.race-lost`."""
    pausing = desk.operations.pausing
    flag = Overtaken(desk, lambda: pausing.pause(OPERATOR, "mine"), lambda: pausing.resume(OPERATOR, "mine too"))
    with pytest.raises(RaceLost) as caught:
        overtaken(desk.operations, flag).pause(OPERATOR, "lost")
    assert caught.value.code == "pipeline.race-lost"
    state = PauseFlag(desk.store).read()
    assert (state.is_paused, state.reason, state.row_version) == (False, "mine too", 3)
    assert [name for name, _ in told(desk)] == ["PipelinePaused", "PipelineResumed"]


def test_two_who_wish_the_same_are_no_conflict(desk: Any) -> None:
    """API-69: when somebody else pauses first, the second pause finds what it wanted and writes nothing."""
    flag = Overtaken(desk, lambda: desk.operations.pausing.pause(OPERATOR, "first"))
    assert overtaken(desk.operations, flag).pause(OPERATOR, "second").reason == "first"
    assert len(told(desk)) == 1
