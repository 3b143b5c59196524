"""A producer, a watcher and workers at once: every file that stays is signed, and no content twice."""

from __future__ import annotations

import itertools
import random
import threading
import time
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.contract.storage import RemovalOutcome
from bulksigner.jobs.states import JobStatus
from bulksigner.settings.model import WatchedFolderSettings

EAGER = WatchedFolderSettings(
    stability_poll_interval_ms=10,
    stability_required_samples=1,
    stability_timeout_seconds=60,
    poll_interval_seconds=None,
)


class Signer:
    """Takes the oldest queued job as a worker does: stage, sign, remove the input, commit, and only then tell."""

    def __init__(self, desk: Any, watcher: Any, staging: Path) -> None:
        self._desk, self._watcher, self._staging = desk, watcher, staging
        self.signed: list[bytes] = []
        self.missing = 0
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._work) for _ in range(2)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _claim(self) -> Any:
        ledger = self._desk.ledger
        with ledger._lock:
            for index, job in enumerate(ledger.rows):
                if job.status is JobStatus.QUEUED:
                    ledger.rows[index] = attrs.evolve(job, status=JobStatus.PROCESSING)
                    return job
        return None

    def _work(self) -> None:
        while not self._stopping.is_set():
            job = self._claim()
            if job is None:
                time.sleep(0.002)
                continue
            staged = self._staging / job.id
            try:
                fingerprint = self._desk.folder.copy_to(job.file_name, staged)
            except FileNotFoundError:
                self.missing += 1
                self._desk.ledger.end(job.original_path, JobStatus.FAILED)
                self._watcher.job_ended(job.file_name)
                continue
            self.signed.append(staged.read_bytes())
            time.sleep(random.random() * 0.005)
            removal = self._desk.folder.remove_if(job.file_name, fingerprint)
            time.sleep(random.random() * 0.02)
            self._desk.ledger.end(job.original_path)
            self._watcher.job_ended(job.file_name)
            if removal.outcome is RemovalOutcome.DIVERGED:
                self._watcher.offer_again(job.file_name)


@pytest.mark.slow
def test_no_arrival_is_lost_and_none_signed_twice(desk: Any, tmp_path: Path, wait_until: Any) -> None:
    """PIPE-44, PIPE-94, PIPE-114: names dropped again and again, before, while and after their job ends."""
    staging = tmp_path / "staging"
    staging.mkdir()
    watcher = desk.run(desk.watcher(settings=EAGER))
    signer = Signer(desk, watcher, staging)
    numbers = itertools.count()
    dropped: list[bytes] = []
    try:
        for _ in range(30):
            # The second drop of a name falls anywhere in the life of the job of the first.
            for name in ["a.pdf", "b.pdf", "c.pdf"] * 2:
                dropped.append(b"%06d" % next(numbers))
                desk.drop(name, dropped[-1])
                time.sleep(random.random() * 0.03)
            wait_until(
                lambda: set(dropped[-3:]) <= set(signer.signed) and not list(desk.folder.entries()),
                15,
                lambda: f"left: {[entry.name for entry in desk.folder.entries()]}, {watcher.status}",
            )
    finally:
        signer.stop()
    assert len(signer.signed) == len(set(signer.signed))
    assert signer.missing == 0
    assert [path.name for path in desk.root.iterdir()] == []
