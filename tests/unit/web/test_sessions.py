"""Tickets: whole, in force, of this deployment and this API key, or none."""

from __future__ import annotations

import base64
import datetime
import stat
import sys
from pathlib import Path

import attrs
import pytest

from bulksigner.contract.errors import StartRefused
from bulksigner.contract.settings import Secret
from bulksigner.web.key_ring import KeyRing, open_key_ring
from bulksigner.web.sessions import LIFETIME, Sessions, read_cookie

KEY = Secret("a-key-for-the-tests")
BEGIN = datetime.datetime(2026, 5, 26, 15, 42, 11, tzinfo=datetime.UTC)


@attrs.define
class Clock:
    now: datetime.datetime = BEGIN

    def __call__(self) -> datetime.datetime:
        return self.now

    def pass_time(self, **spans: float) -> None:
        self.now += datetime.timedelta(**spans)


class Revoked:
    def __init__(self) -> None:
        self.until: dict[str, datetime.datetime] = {}

    def revoke(self, ticket_id: str, until: datetime.datetime) -> None:
        self.until[ticket_id] = until

    def is_revoked(self, ticket_id: str) -> bool:
        return ticket_id in self.until


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ring(tmp_path: Path, clock: Clock) -> KeyRing:
    return open_key_ring(tmp_path / "keys", clock)


@pytest.fixture
def revoked() -> Revoked:
    return Revoked()


@pytest.fixture
def sessions(ring: KeyRing, clock: Clock, revoked: Revoked) -> Sessions:
    return Sessions(ring, revoked, KEY, "lbs-auth", clock)


def test_a_ticket_comes_back_as_it_was(sessions: Sessions) -> None:
    """SEC-20, SEC-22: sealed and opened again; a second one shares nothing with it."""
    one, other = sessions.begin("operator"), sessions.begin("operator")
    assert sessions.find(sessions.seal(one)) == one
    assert one.id != other.id
    assert one.csrf != other.csrf
    assert sessions.seal(one) != sessions.seal(one)


def test_the_cookie_holds_nothing_that_can_be_read(sessions: Sessions) -> None:
    """SEC-20: neither the key nor the tokens are in it, and it fits a cookie."""
    ticket = sessions.begin("operator")
    cookie = sessions.seal(ticket)
    raw = base64.urlsafe_b64decode(cookie + "==")
    for text in (KEY.reveal(), ticket.csrf, ticket.id, "operator"):
        assert text.encode() not in raw
    assert len(cookie) < 1000


def test_a_changed_cookie_is_none(sessions: Sessions) -> None:
    """SEC-20: no bit of it can be turned, cut off or added, and garbage is no error."""
    cookie = sessions.seal(sessions.begin("operator"))
    raw = bytearray(base64.urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4)))
    for at in range(len(raw)):
        turned = bytearray(raw)
        turned[at] ^= 1
        assert sessions.find(base64.urlsafe_b64encode(bytes(turned)).decode().rstrip("=")) is None
    for text in ("", "é", cookie[:-4], cookie[:20], cookie + "AAAA", "A" * 5000, "AQ", "=" * 10, None):
        assert sessions.find(text) is None


def test_a_session_ends_eight_hours_after_the_last_request(sessions: Sessions, clock: Clock) -> None:
    """SEC-20: sliding; a ticket is written anew once a minute at most, and each copy has its own end."""
    ticket = sessions.begin("operator")
    assert sessions.prolong(ticket) is None
    clock.pass_time(hours=7, minutes=59)
    later = sessions.prolong(ticket)
    assert later is not None
    assert (later.id, later.csrf, later.expires_at) == (ticket.id, ticket.csrf, clock.now + LIFETIME)
    clock.pass_time(minutes=1)
    assert sessions.find(sessions.seal(ticket)) is None
    assert sessions.find(sessions.seal(later)) == later
    clock.pass_time(hours=8)
    assert sessions.find(sessions.seal(later)) is None


def test_another_api_key_ends_every_session(sessions: Sessions, ring: KeyRing, clock: Clock, revoked: Revoked) -> None:
    """SEC-19: after a restart with a new key, or none, no older cookie counts."""
    cookie = sessions.seal(sessions.begin("operator"))
    assert Sessions(ring, revoked, KEY, "lbs-auth", clock).find(cookie) is not None
    for key in (Secret("another-key-for-the-tests"), Secret("")):
        assert Sessions(ring, revoked, key, "lbs-auth", clock).find(cookie) is None


def test_a_ticket_of_another_cookie_is_none(ring: KeyRing, sessions: Sessions, clock: Clock, revoked: Revoked) -> None:
    """SEC-20: a ticket is sealed for the name of its cookie."""
    cookie = sessions.seal(sessions.begin("operator"))
    assert Sessions(ring, revoked, KEY, "other", clock).find(cookie) is None


def test_a_session_that_was_ended_stays_so(sessions: Sessions, clock: Clock, revoked: Revoked) -> None:
    """SEC-22: every copy of the ticket, also one that was prolonged, for as long as one could be in force."""
    ticket = sessions.begin("operator")
    clock.pass_time(hours=1)
    later = sessions.prolong(ticket)
    assert later is not None
    sessions.end(ticket)
    assert sessions.find(sessions.seal(ticket)) is sessions.find(sessions.seal(later)) is None
    assert revoked.until[ticket.id] >= later.expires_at


def test_what_was_signed_is_known(sessions: Sessions, tmp_path: Path, clock: Clock) -> None:
    """SEC-36: the digest of a text is ours alone, and an empty one is none."""
    digest = sessions.sign("text")
    assert sessions.has_signed("text", digest)
    assert not sessions.has_signed("other", digest)
    assert not sessions.has_signed("text", "")
    foreign = Sessions(open_key_ring(tmp_path / "foreign", clock), Revoked(), KEY, "lbs-auth", clock)
    assert not foreign.has_signed("text", digest)


def test_the_ring_outlives_the_process_and_rolls_once_a_year(tmp_path: Path, clock: Clock) -> None:
    """SEC-21: a restart reads the same keys; after a year a new one writes and the old one still reads."""
    first = open_key_ring(tmp_path / "keys", clock).newest()
    clock.pass_time(days=200)
    assert open_key_ring(tmp_path / "keys", clock).newest().secret == first.secret
    clock.pass_time(days=200)
    ring = open_key_ring(tmp_path / "keys", clock)
    assert ring.newest().id != first.id
    known = ring.find(first.id)
    assert known is not None
    assert known.secret == first.secret


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_the_keys_are_the_accounts_alone(tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """SEC-21, SEC-84: 0700 and 0600, also where somebody had opened them up, which is told."""
    folder = tmp_path / "keys"
    open_key_ring(folder, clock)
    [path] = folder.iterdir()
    assert (stat.S_IMODE(folder.stat().st_mode), stat.S_IMODE(path.stat().st_mode)) == (0o700, 0o600)
    folder.chmod(0o755)
    path.chmod(0o644)
    open_key_ring(folder, clock)
    assert (stat.S_IMODE(folder.stat().st_mode), stat.S_IMODE(path.stat().st_mode)) == (0o700, 0o600)
    assert "could be read by other accounts" in caplog.text


def test_a_spoilt_key_is_left_out(tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """SEC-21: a file that holds no key is named and a new key is made; other files are not looked at."""
    folder = tmp_path / "keys"
    first = open_key_ring(folder, clock).newest()
    [path] = folder.iterdir()
    path.write_text("not a key")
    (folder / "notes.txt").write_text("x")
    assert open_key_ring(folder, clock).newest().secret != first.secret
    assert f"{path} holds no key" in caplog.text


def test_a_folder_that_cannot_be_had_refuses_the_start(tmp_path: Path, clock: Clock) -> None:
    """SEC-21: exit 73, naming the folder."""
    (tmp_path / "keys").write_text("a file")
    with pytest.raises(StartRefused, match="keys") as refused:
        open_key_ring(tmp_path / "keys", clock)
    assert refused.value.exit_code == 73


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("lbs-auth=abc", "abc"),
        ("a=b; lbs-auth=abc; c=d", "abc"),
        ('lbs-auth="abc"', "abc"),
        ("LBS-AUTH=abc", None),
        ("lbs-auth=abc; lbs-auth=def", None),
        ("xlbs-auth=abc", None),
        ("", None),
        (None, None),
    ],
)
def test_a_cookie_that_is_there_twice_counts_for_nothing(header: str | None, value: str | None) -> None:
    """SEC-20: a neighbouring site can add a cookie of the same name, and must gain nothing by it."""
    assert read_cookie(header, "lbs-auth") == value
