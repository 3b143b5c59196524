"""Which thread answers which request: uploads never hold up the rest, and nothing holds up health."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import attrs
import pytest

from bulksigner.dispatching import Dispatcher, Errand, errand_of

LIMIT_SECONDS = 10.0


@attrs.frozen
class Request:
    command: str
    path: str


@attrs.define
class Channel:
    """A request that is answered once it is let go."""

    request: Request
    begun: threading.Event = attrs.field(factory=threading.Event)
    may_end: threading.Event = attrs.field(factory=threading.Event)
    ended: threading.Event = attrs.field(factory=threading.Event)
    note: Callable[[], object] = int
    is_canceled: bool = False

    @property
    def requests(self) -> list[Request]:
        return [self.request]

    def service(self) -> None:
        self.note()
        self.begun.set()
        assert self.may_end.wait(LIMIT_SECONDS)
        self.ended.set()

    def cancel(self) -> None:
        self.is_canceled = True


class Failing(Channel):
    def service(self) -> None:
        super().service()
        raise SystemExit


@pytest.fixture
def dispatch() -> Iterator[Callable[[int], Dispatcher]]:
    """Return a function that makes a dispatcher, which is shut down afterwards."""
    made: list[Dispatcher] = []

    def make(threads: int) -> Dispatcher:
        made.append(Dispatcher(threads))
        return made[-1]

    yield make
    for one in made:
        one.shutdown()


def upload() -> Channel:
    return Channel(Request("POST", "/api/files"))


def other() -> Channel:
    return Channel(Request("GET", "/api/jobs"))


@pytest.mark.parametrize(
    ("method", "path", "errand"),
    [
        ("GET", "/api/health", Errand.HEALTH),
        ("HEAD", "/api/health", Errand.HEALTH),
        ("POST", "/api/health", Errand.OTHER),
        ("GET", "/api/health/x", Errand.OTHER),
        ("POST", "/api/files", Errand.UPLOAD),
        ("POST", "/api/files/check", Errand.UPLOAD),
        ("POST", "/api/filesystem", Errand.OTHER),
        ("GET", "/api/files", Errand.OTHER),
        ("", "", Errand.OTHER),
    ],
)
def test_the_errand_of_a_request(method: str, path: str, errand: Errand) -> None:
    """API-46: only the question for health has a line of its own, and only whole files stand in that of uploads."""
    assert errand_of(method, path) is errand


@pytest.mark.parametrize(("threads", "together"), [(1, 1), (2, 1), (4, 3), (8, 6)])
def test_uploads_never_take_every_thread(dispatch: Callable[[int], Dispatcher], threads: int, together: int) -> None:
    """API-46, CFG-195: at most three in four upload at a time; the others answer meanwhile, and so does health."""
    dispatcher = dispatch(threads)
    uploads = [upload() for _ in range(together + 3)]
    for channel in uploads:
        dispatcher.add_task(channel)
    for channel in uploads[:together]:
        assert channel.begun.wait(LIMIT_SECONDS)
    if threads > 1:
        question = other()
        dispatcher.add_task(question)
        assert question.begun.wait(LIMIT_SECONDS)
        question.may_end.set()
        assert question.ended.wait(LIMIT_SECONDS)
    health = Channel(Request("GET", "/api/health"))
    dispatcher.add_task(health)
    assert health.begun.wait(LIMIT_SECONDS)
    health.may_end.set()
    assert not any(channel.begun.is_set() for channel in uploads[together:])
    for channel in uploads:
        channel.may_end.set()
    assert all(channel.ended.wait(LIMIT_SECONDS) for channel in uploads)


def test_health_is_answered_when_every_thread_is_busy(dispatch: Callable[[int], Dispatcher]) -> None:
    """API-46: whatever the threads of the pool hang in."""
    dispatcher = dispatch(2)
    busy = [other() for _ in range(4)]
    for channel in busy:
        dispatcher.add_task(channel)
    assert busy[0].begun.wait(LIMIT_SECONDS)
    for _ in range(3):
        health = Channel(Request("GET", "/api/health"))
        health.may_end.set()
        dispatcher.add_task(health)
        assert health.ended.wait(LIMIT_SECONDS)
    assert not busy[3].begun.is_set()
    for channel in busy:
        channel.may_end.set()
    assert all(channel.ended.wait(LIMIT_SECONDS) for channel in busy)


def test_the_oldest_that_may_go_goes_first(dispatch: Callable[[int], Dispatcher]) -> None:
    """PERF-24: questions do not starve uploads: with one thread the line is that of arrival."""
    dispatcher = dispatch(1)
    order: list[int] = []
    first, *line = [other(), other(), upload(), other(), upload()]
    dispatcher.add_task(first)
    assert first.begun.wait(LIMIT_SECONDS)
    for number, channel in enumerate(line):
        channel.may_end.set()
        channel.note = lambda number=number: order.append(number)
        dispatcher.add_task(channel)
    first.may_end.set()
    assert line[-1].ended.wait(LIMIT_SECONDS)
    assert order == [0, 1, 2, 3]


def test_a_request_that_breaks_costs_no_thread(
    dispatch: Callable[[int], Dispatcher], caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-64: the next one is answered by the same thread."""
    dispatcher = dispatch(1)
    for kind in ("/api/files", "/api/jobs"):
        broken = Failing(Request("POST", kind))
        broken.may_end.set()
        dispatcher.add_task(broken)
    after = upload()
    after.may_end.set()
    dispatcher.add_task(after)
    assert after.ended.wait(LIMIT_SECONDS)
    assert [record.getMessage() for record in caplog.records] == ["A request could not be answered"] * 2


def test_a_stop_waits_for_what_is_under_way_and_sends_the_rest_away() -> None:
    """CLU-04: requests in line are not answered any more; those under way are."""
    dispatcher = Dispatcher(1)
    under_way, in_line = other(), upload()
    dispatcher.add_task(under_way)
    assert under_way.begun.wait(LIMIT_SECONDS)
    dispatcher.add_task(in_line)
    threading.Timer(0.1, under_way.may_end.set).start()
    assert dispatcher.shutdown(timeout=LIMIT_SECONDS) is False
    assert (under_way.ended.is_set(), in_line.is_canceled, in_line.begun.is_set()) == (True, True, False)
