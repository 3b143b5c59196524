"""Jobs and queues on the stores of `tests/integration/conftest.py`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bulksigner.contract.signing import Format
from bulksigner.jobs.model import Birth, Job, JobSource, Owner
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.store import Jobs
from bulksigner.records.engines import Store

BirthMaker = Callable[..., Birth]


@pytest.fixture
def birth() -> BirthMaker:
    """Make a birth for a file name; any field can be given."""

    def make(name: str = "report.pdf", **fields: object) -> Birth:
        usual: dict[str, object] = {
            "file_name": name,
            "original_path": f"/in/{name}",
            "input_folder": "in",
            "profile_name": "default",
            "format": Format.PADES,
            "source": JobSource.WATCHER,
            "message": "Queued from watched folder in",
        }
        return Birth(**(usual | fields))  # type: ignore[arg-type]

    return make


@pytest.fixture
def jobs(store: Store) -> Jobs:
    """The jobs of the store."""
    return Jobs(store)


@pytest.fixture
def queue(store: Store) -> Queue:
    """The queue of the store."""
    return Queue(store)


@pytest.fixture
def owner() -> Owner:
    """One life of one instance."""
    return Owner("signer-1", "life-1")


@pytest.fixture
def new_job(queue: Queue, birth: BirthMaker) -> Callable[..., Job]:
    """Enqueue a file and return its job."""

    def make(name: str = "report.pdf", **fields: object) -> Job:
        [answer] = queue.enqueue([birth(name, **fields)])
        assert answer.changed is not None
        return answer.changed.job

    return make
