"""A few threads for calls that take their time."""

from __future__ import annotations

import queue
import threading
from typing import Any

import pytest

from bulksigner.lanes import Lanes

LIMIT_SECONDS = 10.0


def test_acts_are_carried_out_side_by_side_up_to_the_limit() -> None:
    """PERF-07: two lanes write two acts at a time, and the third when one of them is over."""
    gate, entered = threading.Event(), queue.SimpleQueue[str]()
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def act(item: str) -> str:
        entered.put(threading.current_thread().name)
        assert gate.wait(LIMIT_SECONDS)
        return item

    lanes = Lanes("lane", 2, act, RuntimeError)
    for label in ("a", "b", "c"):
        lanes.put(label, lambda value, error: answers.put((value, error)))
    first, second = entered.get(timeout=LIMIT_SECONDS), entered.get(timeout=LIMIT_SECONDS)
    assert first != second
    assert entered.empty()
    gate.set()
    assert {answers.get(timeout=LIMIT_SECONDS) for _ in range(3)} == {("a", None), ("b", None), ("c", None)}
    lanes.close()


def test_an_act_that_fails_tells_who_waits_and_ends_no_lane() -> None:
    """PERF-07: not even an interrupt."""
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def act(is_good: bool) -> int:
        if is_good:
            return 7
        raise KeyboardInterrupt

    lanes = Lanes("lane", 1, act, RuntimeError)
    for item in (False, True):
        lanes.put(item, lambda value, error: answers.put((value, type(error))))
    assert [answers.get(timeout=LIMIT_SECONDS) for _ in range(2)] == [(None, KeyboardInterrupt), (7, type(None))]
    lanes.close()


def test_closed_lanes_finish_what_waits_and_take_no_more() -> None:
    """CLU-04: an act that was accepted is carried out."""
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    lanes = Lanes("lane", 1, lambda number: number + 1, RuntimeError)
    for number in range(5):
        lanes.put(number, lambda value, _: answers.put(value))
    lanes.close()
    assert [answers.get(timeout=LIMIT_SECONDS) for _ in range(5)] == [1, 2, 3, 4, 5]
    with pytest.raises(RuntimeError):
        lanes.put(1, lambda *_: None)
