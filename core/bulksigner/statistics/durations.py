"""How durations are written (STA-30)."""

from __future__ import annotations

import enum

__all__ = ["Language", "write_duration", "write_exact"]


class Language(enum.Enum):
    """The languages of the console."""

    ENGLISH = "en-US"
    PORTUGUESE = "pt-BR"


def write_duration(milliseconds: float | None, language: Language = Language.ENGLISH) -> str:
    """Write a duration as a card shows it: `421 ms`, `3.4 sec`, `2 min 14 sec`, `1 h 03 min`; a dash for none."""
    if milliseconds is None:
        return "—"
    second = "sec" if language is Language.ENGLISH else "s"
    whole = round(milliseconds)
    if whole < 1000:
        return f"{whole} ms"
    tenths = round(milliseconds / 100)
    if tenths < 600:
        text = f"{tenths // 10}.{tenths % 10}"
        return f"{text if language is Language.ENGLISH else text.replace('.', ',')} {second}"
    seconds = round(milliseconds / 1000)
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} {second}"
    minutes = round(milliseconds / 60_000)
    return f"{minutes // 60} h {minutes % 60:02} min"


def write_exact(milliseconds: float | None) -> str:
    """Write a duration as `hh:mm:ss.fff`, with days before it as `d.hh:mm:ss.fff`; a dash for none."""
    if milliseconds is None:
        return "—"
    seconds, fraction = divmod(round(milliseconds), 1000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    clock = f"{hour:02}:{minute:02}:{second:02}.{fraction:03}"
    return f"{days}.{clock}" if days else clock
