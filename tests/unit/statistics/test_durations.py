"""Durations are written as STA-30 says, in both languages, at every border."""

from __future__ import annotations

import pytest

from bulksigner.statistics.durations import Language, write_duration, write_exact


@pytest.mark.parametrize(
    ("milliseconds", "english", "portuguese"),
    [
        (None, "—", "—"),
        (0, "0 ms", "0 ms"),
        (421, "421 ms", "421 ms"),
        (999.4, "999 ms", "999 ms"),
        (999.6, "1.0 sec", "1,0 s"),
        (3_400, "3.4 sec", "3,4 s"),
        (59_949, "59.9 sec", "59,9 s"),
        (59_960, "1 min 0 sec", "1 min 0 s"),
        (134_000, "2 min 14 sec", "2 min 14 s"),
        (3_599_600, "1 h 00 min", "1 h 00 min"),
        (3_780_000, "1 h 03 min", "1 h 03 min"),
        (360_000_000, "100 h 00 min", "100 h 00 min"),
    ],
)
def test_cards(milliseconds: float | None, english: str, portuguese: str) -> None:
    """STA-30: two units at most; rounding never shows 60 of something."""
    assert write_duration(milliseconds) == english
    assert write_duration(milliseconds, Language.PORTUGUESE) == portuguese


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, "—"),
        (0, "00:00:00.000"),
        (20.4, "00:00:00.020"),
        (86_399_999, "23:59:59.999"),
        (86_400_000, "1.00:00:00.000"),
        (3_723_004, "01:02:03.004"),
    ],
)
def test_exact(milliseconds: float | None, text: str) -> None:
    """STA-30: hh:mm:ss.fff, with days before it."""
    assert write_exact(milliseconds) == text
