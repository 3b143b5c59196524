"""Turns whatever a provider raises into an error of the contract, naming plugin and provider."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bulksigner.contract.errors import BulkSignerError, PermanentFailure

__all__ = ["ANYTHING", "describe", "guarded"]

# What the code of others may raise and must not pass: SystemExit would end a thread, or the service, without a word.
ANYTHING = (Exception, SystemExit)

_LONGEST_DESCRIPTION = 400


def describe(error: BaseException) -> str:
    """Describe an error in one line: its own words for an error of the contract, else its class and its words."""
    text = " ".join(str(error).split())
    if len(text) > _LONGEST_DESCRIPTION:
        text = f"{text[:_LONGEST_DESCRIPTION]}…"
    if isinstance(error, BulkSignerError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def guarded(plugin: str, provider: str, *, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Let errors of the contract pass, and those in `passing` that a role promises; the rest is `PermanentFailure`.

    The text is not scrubbed yet: the worker does that when it stores it.
    """
    promised: tuple[type[Exception], ...] = (BulkSignerError, *passing)
    try:
        yield
    except promised:
        raise
    except ANYTHING as error:
        raise PermanentFailure(f"{provider} of the plugin {plugin} broke: {describe(error)}") from error
