"""Errors that nobody caught go out without secrets, and no image of the memory is left."""

from __future__ import annotations

import subprocess
import sys

import pytest

SECRET = "a-secret-in-a-traceback"
PROGRAM = f"""
import gc, logging, resource, sys, threading
from bulksigner.observability import logs
from bulksigner.observability.crashes import forbid_core_files, tell_crashes
from bulksigner.observability.redaction import Scrubber

scrubber = Scrubber(["{SECRET[:8]}" + "{SECRET[8:]}"])
tell_crashes(scrubber)
forbid_core_files()
logs.configure(logging.INFO, {{}}, scrubber)
assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0


def fail(place):
    raise RuntimeError("connecting with " + "{SECRET[:8]}" + "{SECRET[8:]}" + " in " + place)


class Left:
    def __del__(self):
        fail("finaliser")


thread = threading.Thread(target=fail, args=("thread",), name="worker of the test")
thread.start()
thread.join()
Left()
gc.collect()
fail("main")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no core files of this kind")
def test_nothing_that_escapes_shows_a_secret() -> None:
    """SEC-57, SEC-60: main thread, another thread and a finaliser; the traceback itself is kept."""
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert SECRET not in ended.stdout + ended.stderr
    assert "[FTL] The thread worker of the test died" in ended.stdout
    assert "connecting with *** in thread" in ended.stdout
    assert "connecting with *** in finaliser" in ended.stdout
    assert "Traceback" in ended.stderr
    assert "RuntimeError: connecting with *** in main" in ended.stderr


WORKER = f"""
from bulksigner.contract.settings import Secret
from bulksigner.pipeline.engine_worker import WorkerBoot, run


class Names(frozenset):
    def __contains__(self, name):
        raise RuntimeError("opening with " + "{SECRET[:8]}" + "{SECRET[8:]}")


run(None, WorkerBoot(Names(), None, secrets=(Secret("{SECRET[:8]}" + "{SECRET[8:]}"),)))
"""


def test_a_signing_worker_that_cannot_start_tells_why_without_secrets() -> None:
    """SEC-57, SEC-60: the process would print the error as it is; it goes to the log instead."""
    ended = subprocess.run([sys.executable, "-c", WORKER], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1, ended.stderr
    assert SECRET not in ended.stdout + ended.stderr
    assert "[FTL] A signing worker process ends with an error that nobody expected" in ended.stdout
    assert "opening with ***" in ended.stdout
    assert "Traceback" not in ended.stderr
