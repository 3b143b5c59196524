"""Calls of code that may never return, under a time limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Overdue", "call_within"]

T = TypeVar("T")


class Overdue(Exception):
    """Say that a call gave no answer in time."""


class _Call(threading.Thread, Generic[T]):
    """One call in a thread that does not hold up the exit of the process."""

    def __init__(self, name: str, act: Callable[[], T]) -> None:
        super().__init__(name=name, daemon=True)
        self._act = act
        self.answers: list[T] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        """Keep the answer, or whatever was raised in place of one."""
        try:
            self.answers.append(self._act())
        except BaseException as error:  # noqa: BLE001 - it is raised again where the call was asked for
            self.error = error


def call_within(limit_seconds: float, name: str, act: Callable[[], T]) -> T:
    """Call in a thread called `name`; what it raises is raised here. Raises `Overdue` and abandons the thread."""
    call = _Call(name, act)
    call.start()
    call.join(limit_seconds)
    if call.is_alive():
        raise Overdue
    if call.error is not None:
        raise call.error
    return call.answers[0]
