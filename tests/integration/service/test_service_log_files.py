"""A service writes its log lines to files, those of its signing workers too."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from bulksigner.contract.errors import StartRefused
from bulksigner.jobs.states import JobStatus

LIMIT_SECONDS = 30.0
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00 \[[A-Z]{3}\] .+")
CHATTY_PLUGIN = """
import logging
import multiprocessing

from bulksigner.contract.hookspecs import hookimpl

if multiprocessing.parent_process() is not None:
    logging.getLogger("chatty").warning("said by a worker with %s", "senha de teste, longa")


class Chatty:
    name, needs_certificate = "Chatty", True

    def sign(self, request): ...

    def poll(self, dispatched): ...

    def withdraw(self, dispatched): ...

    def settle(self, job_id): ...


@hookimpl
def bulksigner_signing_methods(settings):
    return [Chatty()]
"""


def lines_of(folder: Path) -> list[str]:
    return [line for path in sorted(folder.glob("bulksigner-*.log")) for line in path.read_text().splitlines()]


def test_a_life_is_in_the_file_from_start_to_stop(built: Any, tmp_path: Path) -> None:
    """STA-55, STA-58, OPS-215: the lines of a job and of the stop, and nothing after it; the file is let go of."""
    service = built()
    service.start()
    (tmp_path / "inbox" / "folha.rem").write_bytes(b"content")
    deadline = time.monotonic() + LIMIT_SECONDS
    while service.jobs.counts()[JobStatus.COMPLETED] < 1:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    service.stop()
    lines = lines_of(tmp_path / "data/logs")
    assert all(LINE.fullmatch(line) for line in lines)
    messages = [line.partition("] ")[2] for line in lines]
    assert messages[0].startswith("Settings read")
    assert any(message.startswith("Job completed  {JobId: ") for message in messages)
    assert messages[-1] == "Service stopped"


def test_workers_write_to_the_same_files(built: Any, install: Any, tmp_path: Path) -> None:
    """STA-57, SEC-57: what a signing process says is there, masked as ours is."""
    install("chatty", "chatty_plugin")
    (tmp_path / "site" / "chatty_plugin.py").write_text(CHATTY_PLUGIN)
    service = built(Signing__Engine="Processes", Signing__EngineWorkers="1", Logging__File__WriteToConsole="false")
    assert service.engine.find_fault() is None
    service.stop()
    (said,) = [line for line in lines_of(tmp_path / "data/logs") if "said by a worker" in line]
    assert said.endswith("[WRN] said by a worker with ***")


def test_a_refused_start_is_in_the_file_too(built: Any, tmp_path: Path) -> None:
    """OPS-19: whoever looks in the log file finds the reason."""
    built()
    with pytest.raises(StartRefused):
        built()
    assert "[FTL] Not started: " in lines_of(tmp_path / "data/logs")[-1]


def test_files_can_be_switched_off(built: Any, tmp_path: Path) -> None:
    """CFG-140: then nothing is written, and no folder is made."""
    built(Logging__File__Enabled="false").stop()
    assert not (tmp_path / "data/logs").exists()
