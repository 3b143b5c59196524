"""One thread leading many coroutines: order, errors, pauses, calls that never return."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from bulksigner.pipeline.conductor import Conductor, Effect, Started, apart

LIMIT_SECONDS = 10.0


def later() -> tuple[Effect[Any], Callable[..., None]]:
    """Return an effect, and the function that ends it."""
    waiting: list[Any] = []
    return Effect(waiting.append), lambda value=None, error=None: waiting[0](value, error)


def test_a_value_comes_back_and_an_error_is_raised_where_it_was_awaited() -> None:
    """PIPE-67: from another thread as from this one."""
    seen: list[Any] = []

    async def story() -> None:
        seen.append(await apart(lambda: 1))
        try:
            await apart(lambda: 1 / 0)
        except ZeroDivisionError as error:
            seen.append(type(error))
        seen.append(await Effect[int](lambda done: done(2, None)))

    Conductor().run(story())
    assert seen == [1, ZeroDivisionError, 2]


def test_an_effect_that_cannot_begin_is_an_error_of_its_story() -> None:
    """PIPE-67: such as a task for an engine that was closed."""

    def refuse(_: object) -> None:
        raise RuntimeError("closed")

    async def story() -> None:
        await Effect[None](refuse)

    with pytest.raises(RuntimeError, match="closed"):
        Conductor().run(story())


def test_one_story_that_waits_holds_up_no_other() -> None:
    """PIPE-67: the others go on meanwhile, in one thread."""
    conductor, ended = Conductor(), list[str]()
    effect, end = later()

    async def waits() -> None:
        await effect
        ended.append("slow")

    async def runs() -> None:
        for _ in range(3):
            await apart(threading.get_ident)
        ended.append("quick")

    conductor.begin(waits(), lambda _: None)
    conductor.run(runs())
    assert ended == ["quick"]
    end()
    conductor.turn(0)
    assert ended == ["quick", "slow"]


def test_what_is_started_goes_on_before_it_is_awaited() -> None:
    """PIPE-80: the check of a signed file beside the commit that tells of it."""

    async def story() -> None:
        started: Started[str] = Started()
        started.end("value", None)
        assert await started == "value"
        assert await started == "value"
        assert started.seconds >= 0
        slow: Started[int] = Started()
        apart(lambda: time.sleep(0.05) or 3).begin(slow.end)  # type: ignore[func-returns-value]
        assert await slow == 3
        assert slow.seconds >= 0.05

    Conductor().run(story())


def test_what_stands_behind_another_is_measured_from_its_end() -> None:
    """STA-07: a check counts for itself, without the signing that it waited for."""

    async def story() -> None:
        first: Started[None] = Started()
        second: Started[None] = Started(first)
        apart(lambda: time.sleep(0.05)).begin(first.end)
        await first
        second.end(None, None)
        await second
        assert first.seconds >= 0.05
        assert 0 <= second.seconds < 0.05

    Conductor().run(story())


def test_pauses_end_in_their_order_and_can_be_cut_short() -> None:
    """CLU-04: a stop waits for nobody's patience."""
    conductor, ended = Conductor(), list[str]()

    async def pause(name: str, seconds: float) -> None:
        await conductor.pause(seconds)
        ended.append(name)

    conductor.begin(pause("second", 0.03), lambda _: None)
    conductor.begin(pause("first", 0.01), lambda _: None)
    conductor.begin(pause("last", 3600), lambda _: None)
    deadline = time.monotonic() + LIMIT_SECONDS
    while len(ended) < 2 and time.monotonic() < deadline:
        conductor.turn(None)
    assert ended == ["first", "second"]
    conductor.wake_sleepers()
    conductor.turn(0)
    assert ended == ["first", "second", "last"]


def test_a_turn_ends_with_its_patience_or_a_poke() -> None:
    """PIPE-64: a signal from another thread is heard at once."""
    conductor = Conductor()
    began = time.monotonic()
    conductor.turn(0.02)
    assert time.monotonic() - began >= 0.02
    threading.Timer(0.02, conductor.poke).start()
    conductor.turn(LIMIT_SECONDS)
    assert time.monotonic() - began < LIMIT_SECONDS / 2


def test_whoever_began_a_story_hears_how_it_ended() -> None:
    """OPS-22: also of what ends more than the job."""
    ends: list[BaseException | None] = []

    async def story(error: BaseException | None) -> None:
        if error is not None:
            raise error

    for error in (None, KeyError("x"), KeyboardInterrupt()):
        Conductor().begin(story(error), ends.append)
    assert [type(end) for end in ends] == [type(None), KeyError, KeyboardInterrupt]
