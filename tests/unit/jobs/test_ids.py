"""Ids of jobs."""

from __future__ import annotations

import time
import uuid

from bulksigner.jobs.model import new_id


def test_ids_follow_the_clock_and_are_not_to_be_guessed() -> None:
    """PERF-08: version 7 of RFC 9562, so that rows written together lie together; 62 bits are random."""
    before = time.time_ns() // 1_000_000
    ids = [new_id() for _ in range(2000)]
    after = time.time_ns() // 1_000_000
    parsed = [uuid.UUID(one) for one in ids]
    assert {(one.version, one.variant) for one in parsed} == {(7, uuid.RFC_4122)}
    assert all(before <= one.int >> 80 <= after for one in parsed)
    assert [one.int >> 64 for one in parsed] == sorted(one.int >> 64 for one in parsed)
    assert len({one.int & (1 << 62) - 1 for one in parsed}) == 2000
