"""Jobs and queues on the stores of `tests/integration/conftest.py`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bulksigner.jobs.model import Birth, Job, Owner
from bulksigner.jobs.queue import Queue
from bulksigner.jobs.store import Jobs
from bulksigner.records.engines import Store
from bulksigner.testing.rows import new_birth

BirthMaker = Callable[..., Birth]


@pytest.fixture
def birth() -> BirthMaker:
    """Make a birth for a file name; any field can be given."""

    return new_birth


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
