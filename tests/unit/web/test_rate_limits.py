"""Fixed windows by client."""

from __future__ import annotations

import threading
from collections.abc import Callable

import attrs
import pytest
from falcon.testing import TestClient

from bulksigner.settings.hosting import RateLimitingSettings, WindowSettings
from bulksigner.web import rate_limits
from bulksigner.web.clients import ProxyTrust
from bulksigner.web.entrance import Entrance
from bulksigner.web.rate_limits import ROUTE_LIMITS, LimitName, RateLimits
from bulksigner.web.routes import ROUTES

Making = Callable[..., TestClient]
A, B = "203.0.113.9", "203.0.113.10"


@attrs.define
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def limits(clock: Callable[[], float], *, threads: int = 8, enabled: bool = True, **window: int) -> RateLimits:
    rule = WindowSettings(**({"permits_per_window": 3, "window_seconds": 60} | window))
    settings = RateLimitingSettings(upload=rule, actions=rule, export=rule, login=rule, enabled=enabled)
    return RateLimits(settings, threads=threads, clock=clock)


def test_a_window_has_so_many_permits() -> None:
    """API-18: the fourth is refused with the seconds to the end of the window, rounded up; then it begins anew."""
    clock = Clock()
    counted = limits(clock)
    assert [counted.take(LimitName.UPLOAD, A) for _ in range(3)] == [None] * 3
    clock.now += 59.5
    assert counted.take(LimitName.UPLOAD, A) == 1
    clock.now += 0.4
    assert counted.take(LimitName.UPLOAD, A) == 1
    clock.now += 0.1
    assert [counted.take(LimitName.UPLOAD, A) for _ in range(3)] == [None] * 3
    assert counted.take(LimitName.UPLOAD, A) == 60


def test_limits_and_clients_are_counted_apart() -> None:
    """API-18, SEC-62: what one address uses up of one limit touches neither another's nor its other limits."""
    counted = limits(Clock(), permits_per_window=1)
    assert counted.take(LimitName.UPLOAD, A) is None
    assert counted.take(LimitName.UPLOAD, A) == 60
    assert counted.take(LimitName.UPLOAD, B) is None
    assert counted.take(LimitName.LOGIN, A) is None


def test_the_master_switch() -> None:
    """CFG-134: off counts nothing."""
    counted = limits(Clock(), enabled=False, permits_per_window=1)
    assert [counted.take(LimitName.UPLOAD, A) for _ in range(50)] == [None] * 50


def test_many_addresses_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """API-18: windows that have ended are forgotten, and beyond the bound the oldest, never the newest."""
    monkeypatch.setattr(rate_limits, "_MOST_WINDOWS", 10)
    clock = Clock()
    counted = limits(clock, permits_per_window=1)
    for number in range(100):
        assert counted.take(LimitName.UPLOAD, f"client {number}") is None
    assert len(counted._windows) <= 10
    assert counted.take(LimitName.UPLOAD, "client 99") == 60


def test_a_queue_holds_requests_until_the_next_window() -> None:
    """CFG-137: those over the limit wait, up to the queue's limit; the next is refused at once."""
    moved = threading.Event()

    def clock() -> float:
        return 1061.0 if moved.is_set() else 1000.0

    counted = limits(clock, permits_per_window=1, queue_limit=1)
    assert counted.take(LimitName.UPLOAD, A) is None
    given: list[int | None] = []
    waiting = threading.Thread(target=lambda: given.append(counted.take(LimitName.UPLOAD, A)))
    waiting.start()
    while counted._windows[LimitName.UPLOAD, A].waiting == 0:
        assert waiting.is_alive()
    assert counted.take(LimitName.UPLOAD, A) == 60
    moved.set()
    with counted._changed:
        counted._changed.notify_all()
    waiting.join(10)
    assert given == [None]


def test_waiting_requests_leave_threads_for_others() -> None:
    """CFG-137: at most half of the threads wait, whatever the limit; a stop waits for none of them."""
    counted = limits(Clock(), threads=4, permits_per_window=1, queue_limit=100)
    assert counted.take(LimitName.UPLOAD, A) is None
    given: list[int | None] = []
    waiting = [threading.Thread(target=lambda: given.append(counted.take(LimitName.UPLOAD, A))) for _ in range(2)]
    for thread in waiting:
        thread.start()
    while counted._places:
        assert all(thread.is_alive() for thread in waiting)
    assert counted.take(LimitName.UPLOAD, A) == 60
    counted.close()
    for thread in waiting:
        thread.join(10)
    assert given == [60, 60]


def test_one_thread_is_never_held() -> None:
    """CFG-137: with a single thread nothing waits."""
    counted = limits(Clock(), threads=1, permits_per_window=1, queue_limit=5)
    assert [counted.take(LimitName.UPLOAD, A) for _ in range(2)] == [None, 60]


def test_the_defaults() -> None:
    """API-13 to API-17, CFG-134: on, with these numbers."""
    given = RateLimitingSettings(
        upload=default("upload"), actions=default("actions"), export=default("export"), login=default("login")
    )
    assert given.enabled
    assert {
        name: (getattr(given, name).permits_per_window, getattr(given, name).window_seconds)
        for name in ("upload", "actions", "export", "login")
    } == {"upload": (30, 60), "actions": (60, 60), "export": (10, 60), "login": (10, 60)}


def default(name: str) -> WindowSettings:
    kind = attrs.fields_dict(attrs.resolve_types(RateLimitingSettings))[name].type
    assert kind is not None
    made: WindowSettings = kind()
    return made


def test_routes_that_act_have_a_limit() -> None:
    """API-13 to API-17: every route that changes anything of the service, and no other than these reads."""
    unsafe = {(row.method, row.path) for row in ROUTES if row.method != "GET"}
    unsafe -= {("POST", "/api/auth/logout"), ("POST", "/api/culture")}
    assert {(row.method, row.path) for row in ROUTES if row.limit is not None} - {("GET", "/api/jobs/export")} == (
        unsafe | {("GET", "/api/pipeline/state")}
    )
    assert {row.limit for row in ROUTES} >= {LimitName.UPLOAD, LimitName.ACTIONS, LimitName.LOGIN, None}
    assert ROUTE_LIMITS["GET", "/api/jobs/export"] is LimitName.EXPORT


def test_a_request_over_the_limit(make_client: Making) -> None:
    """API-18, SEC-13: 429 `rate-limited` with `Retry-After`, before the key is looked at, so that guesses count."""
    client = make_client(key="wrong", limits=limits(Clock(), permits_per_window=2))
    assert [client.simulate_post("/api/rescan").status_code for _ in range(3)] == [401, 401, 429]
    answer = client.simulate_post("/api/pipeline/pause", headers={"X-API-Key": "a-key-for-the-tests"})
    assert (answer.status_code, answer.json["code"], answer.headers["retry-after"]) == (429, "rate-limited", "60")
    assert client.simulate_get("/api/health").status_code == 200


def test_a_forged_address_counts_for_the_peer(make_client: Making) -> None:
    """SEC-16, SEC-62: forwarded headers give nobody a fresh window unless the proxy is trusted."""
    counted = limits(Clock(), permits_per_window=1)
    client = make_client(limits=counted)
    forged = [{"X-Forwarded-For": f"198.51.100.{number}"} for number in range(3)]
    assert [client.simulate_post("/api/rescan", headers=one, remote_addr=B).status_code for one in forged] == [
        200,
        429,
        429,
    ]
    client = make_client(limits=counted, entrance=Entrance(trust=ProxyTrust(trusts_any=True)))
    for one in forged:
        assert client.simulate_post("/api/rescan", headers=one, remote_addr=B).status_code == 200
