"""What nobody expected: it is told once, without secrets, and leaves no image of the memory behind (SEC-57, SEC-60)."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from types import TracebackType

from bulksigner.observability.redaction import Scrubber

__all__ = ["describe_crash", "forbid_core_files", "tell_crashes"]

_log = logging.getLogger("bulksigner.observability")


def describe_crash(error: BaseException, scrubber: Scrubber) -> str:
    """Return the traceback of an error, scrubbed; the interpreter would print it as it is."""
    return scrubber.scrub("".join(traceback.format_exception(error)))


def tell_crashes(scrubber: Scrubber) -> None:
    """Have errors that escape the main thread, another thread or a finaliser go out scrubbed.

    Those of other threads go to the log, which scrubs; that of the main thread to standard error, as the log is closed
    by then.
    """

    def tell_main(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
        elif sys.stderr is not None:
            sys.stderr.write(describe_crash(error, scrubber))

    def tell_thread(given: threading.ExceptHookArgs) -> None:
        if given.exc_type is SystemExit:
            return
        name = given.thread.name if given.thread is not None else "unknown"
        _log.critical("The thread %s died", name, exc_info=given.exc_value)

    def tell_unraisable(given: sys.UnraisableHookArgs) -> None:
        _log.error("%s", given.err_msg or "An error could not be raised", exc_info=given.exc_value)

    sys.excepthook = tell_main
    threading.excepthook = tell_thread
    sys.unraisablehook = tell_unraisable


def forbid_core_files() -> None:
    """Have the system write no core file of this process and of those it starts: it would hold every key."""
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
