"""The few threads that write submitted acts side by side."""

from __future__ import annotations

import queue
import threading
from typing import Any

import pytest

from bulksigner.records.errors import StoreFailed
from bulksigner.records.lanes import Lanes
from bulksigner.records.store import Act

LIMIT_SECONDS = 10.0


def test_acts_are_carried_out_side_by_side_up_to_the_limit() -> None:
    """PERF-07: two lanes write two acts at a time, and the third when one of them is over."""
    gate, entered = threading.Event(), queue.SimpleQueue[str]()
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def carry_out(act: Act[Any]) -> str:
        entered.put(threading.current_thread().name)
        assert gate.wait(LIMIT_SECONDS)
        return act.label

    lanes = Lanes(carry_out, 2)
    for label in ("a", "b", "c"):
        lanes.put(Act(label, lambda: None), lambda value, error: answers.put((value, error)))
    first, second = entered.get(timeout=LIMIT_SECONDS), entered.get(timeout=LIMIT_SECONDS)
    assert first != second
    assert entered.empty()
    gate.set()
    assert {answers.get(timeout=LIMIT_SECONDS) for _ in range(3)} == {("a", None), ("b", None), ("c", None)}
    lanes.close()


def test_an_act_that_fails_tells_who_waits_and_ends_no_lane() -> None:
    """PERF-07: not even an interrupt."""
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    lanes = Lanes(lambda act: act.run(), 1)

    def fail() -> None:
        raise KeyboardInterrupt

    for run in (fail, lambda: 7):
        lanes.put(Act("x", run), lambda value, error: answers.put((value, type(error))))
    assert [answers.get(timeout=LIMIT_SECONDS) for _ in range(2)] == [(None, KeyboardInterrupt), (7, type(None))]
    lanes.close()


def test_closed_lanes_finish_what_waits_and_take_no_more() -> None:
    """CLU-04: an act that was accepted is carried out."""
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    lanes = Lanes(lambda act: act.run(), 1)
    for number in range(5):
        lanes.put(Act("x", lambda number=number: number), lambda value, _: answers.put(value))  # type: ignore[misc]
    lanes.close()
    assert [answers.get(timeout=LIMIT_SECONDS) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(StoreFailed, match="takes no more writes"):
        lanes.put(Act("x", lambda: None), lambda *_: None)
