"""What the pipeline does for metadata: it hands it to what signs, and lets the sidecar go with its input."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from bulksigner.contract.signing import Format
from bulksigner.jobs.states import JobStatus
from bulksigner.testing.rows import new_birth


def run(rig: Any, *, sidecar_sha256: str | None, act: Any = lambda _: None) -> Any:
    path = rig.folder_path / "folha.rem"
    path.write_bytes(b"content")
    birth = new_birth(
        path.name,
        original_path=str(path),
        format=Format.CADES,
        metadata={"lote": "17"},
        sidecar_sha256=sidecar_sha256,
    )
    [answer] = rig.queue.enqueue([birth])
    rig.engine.act = lambda _: act(path)
    assert rig.worker().step() == 1
    return rig.job(answer.job)


def test_what_signs_is_given_the_metadata(rig: Any) -> None:
    """PIPE-119: as the hook of signing methods promises; it is not printed with the task."""
    run(rig, sidecar_sha256=None)
    [task] = rig.engine.tasks
    assert dict(task.metadata) == {"lote": "17"}
    assert "lote" not in repr(task)
    assert attrs.evolve(task, metadata={}).metadata == {}


@pytest.mark.parametrize(
    ("sidecar_sha256", "act", "is_consumed"),
    [
        ("ab" * 32, lambda _: None, True),
        (None, lambda _: None, False),
        ("ab" * 32, lambda path: path.unlink(), False),
        ("ab" * 32, lambda path: path.write_bytes(b"rewritten"), False),
    ],
    ids=["removed", "no sidecar", "gone already", "rewritten"],
)
def test_a_sidecar_goes_when_its_input_was_removed(
    rig: Any, sidecar_sha256: str | None, act: Any, is_consumed: bool
) -> None:
    """PIPE-118: after it, and only then; an input that somebody else took or rewrote keeps what is beside it."""
    job = run(rig, sidecar_sha256=sidecar_sha256, act=act)
    assert job.status is JobStatus.COMPLETED
    assert rig.inputs.consumed == ([job.original_path] if is_consumed else [])
