"""What a caller shows is compared in a time that tells nothing of what it should be."""

from __future__ import annotations

import hmac
import statistics
import time
from collections.abc import Callable

import pytest
from falcon.testing import TestClient

from bulksigner.contract.settings import Secret
from bulksigner.web import equality
from bulksigner.web.equality import is_same_secret

KEY = "a-key-for-the-tests"
DIGEST_BYTES = 32
ROUNDS = 400


@pytest.mark.parametrize("given", ["", "a", KEY[:-1], KEY + "x", "z" * 5000, KEY.upper(), KEY])
def test_the_key_is_compared_as_a_digest_of_one_length(
    make_client: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """SEC-18: whatever is sent, two digests are compared in constant time, and nothing of the key itself."""
    seen: list[tuple[bytes, bytes]] = []
    compare = hmac.compare_digest

    def watch(one: bytes, other: bytes) -> bool:
        seen.append((one, other))
        return compare(one, other)

    monkeypatch.setattr(equality.hmac, "compare_digest", watch)
    client = make_client(key=given, api_key=Secret(KEY))
    assert client.simulate_get("/api/jobs").status_code == (200 if given == KEY else 401)
    assert seen
    assert {len(side) for pair in seen for side in pair} == {DIGEST_BYTES}
    assert KEY.encode() not in b"".join(side for pair in seen for side in pair)


def test_the_time_does_not_tell_how_much_was_right() -> None:
    """SEC-18, SEC-13: a guess right up to its last byte takes as long as one that is wrong from its first."""
    expected = b"k" * 200_000
    guesses = {"first": b"x" + expected[1:], "last": expected[:-1] + b"x"}
    taken: dict[str, list[float]] = {name: [] for name in guesses}
    for _ in range(ROUNDS):
        for name, guess in guesses.items():
            began = time.perf_counter()
            assert not is_same_secret(guess, expected)
            taken[name].append(time.perf_counter() - began)
    # What is compared byte by byte from the front differs here by more than ten times.
    ratio = statistics.median(taken["last"]) / statistics.median(taken["first"])
    assert 1 / 2 < ratio < 2
