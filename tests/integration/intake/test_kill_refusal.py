"""Kill the process at each system call of a refusal, and start again (PIPE-07, PIPE-127)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bulksigner.builtin.local_folder import LocalFolder
from bulksigner.files.work import WorkRoots
from bulksigner.intake.folders import OpenedFolder, OpenedFolders
from bulksigner.intake.turned_away import METADATA_INVALID, TurnedAway
from bulksigner.jobs.model import Birth
from bulksigner.records.events import Event
from bulksigner.testing.rows import new_birth

CONTENT, SIDECAR = b"x" * 100_000, b"y" * 1000
JOB = "11111111-2222-4333-8444-555555555555"
CHILD = """
import os, signal, sys
from pathlib import Path
from bulksigner.builtin.local_folder import LocalFolder
from bulksigner.files.work import WorkRoots
from bulksigner.intake.turned_away import TurnedAway
sys.path.insert(0, sys.argv[3])
from test_kill_refusal import birth_of

root, fatal = Path(sys.argv[1]), int(sys.argv[2])
away, birth = TurnedAway(WorkRoots(root / "data")), birth_of(root)
seen = 0
def hook(event, arguments):
    global seen
    if event in ("os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "open"):
        seen += 1
        if seen == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
away.move(LocalFolder(root / "in"), birth)
(root / "rows").write_text(birth.id)
away.recorded(birth)
"""


def birth_of(root: Path) -> Birth:
    """Return the birth of the refused file."""
    return new_birth(
        "a.pdf",
        id=JOB,
        original_path=str(root / "in" / "a.pdf"),
        message="Not signed: no.",
        event=METADATA_INVALID,
        error_code="job.metadata-invalid",
        path_released=True,
        operational_event=Event("FileAlreadyProcessed", "no", {"folder": "in"}),
    )


def begin(root: Path) -> tuple[WorkRoots, OpenedFolders]:
    """Make the folders of a service, or open those that an earlier life left."""
    (root / "in").mkdir(parents=True, exist_ok=True)
    roots = WorkRoots(root / "data")
    roots.prepare()
    return roots, OpenedFolders([OpenedFolder("in", LocalFolder(root / "in"), has_sidecars=True)])


def settle(root: Path) -> list[Birth]:
    """Start as the service does; return what was recorded then."""
    roots, folders = begin(root)
    rows = (root / "rows").read_text().split() if (root / "rows").exists() else []
    folders.settle_leftovers()
    inserted: list[Birth] = []

    def find(job_id: str) -> Any:
        return object() if job_id in rows else None

    TurnedAway(roots).settle(find, folders, inserted.extend)
    return inserted


def contents(root: Path) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Return what lies in the input folder and in error/."""
    error = root / "data" / "error"
    return (
        {path.name: path.read_bytes() for path in (root / "in").iterdir()},
        {str(path.relative_to(error)): path.read_bytes() for path in error.rglob("*") if path.is_file()},
    )


@pytest.mark.slow
@pytest.mark.parametrize("arrives_meanwhile", [None, b"x" * 100_000, b"a new arrival"])
def test_no_kill_loses_a_refused_file_or_leaves_it_without_a_name(
    tmp_path: Path, arrives_meanwhile: bytes | None
) -> None:
    """PIPE-07, PIPE-127, BEY-51: the bytes are in the folder without a job, or in error/ with one; never neither."""
    kills = recorded = 0
    for fatal in range(1, 200):
        root = tmp_path / str(fatal)
        begin(root)
        (root / "in" / "a.pdf").write_bytes(CONTENT)
        (root / "in" / "a.pdf.meta.json").write_bytes(SIDECAR)
        call = [sys.executable, "-c", CHILD, str(root), str(fatal), str(Path(__file__).parent)]
        ended = subprocess.run(call, capture_output=True, check=False)
        is_input_left = (root / "in" / "a.pdf").exists()
        if arrives_meanwhile is not None and not is_input_left:
            (root / "in" / "a.pdf").write_bytes(arrives_meanwhile)
        inserted = settle(root)
        folder, error = contents(root)
        has_row = (root / "rows").exists() or bool(inserted)
        assert not (inserted and (root / "rows").exists())
        if has_row:
            assert inserted in ([], [birth_of(root)])
            if arrives_meanwhile is not None:
                assert folder.pop("a.pdf") == arrives_meanwhile
            assert error.pop(f"{JOB}/a.pdf") == CONTENT
            # Whose sidecar lies beside a new arrival cannot be told, so it may be there still, or twice.
            left = [*error.values(), *folder.values()]
            assert left == [SIDECAR] if arrives_meanwhile is None else set(left) == {SIDECAR}
            assert arrives_meanwhile is not None or list(error) == [f"{JOB}/a.pdf.meta.json"]
        else:
            assert error == {}
            assert folder == {"a.pdf": CONTENT, "a.pdf.meta.json": SIDECAR}
        assert list((root / "data" / "refusals").iterdir()) == []
        assert settle(root) == []
        recorded += bool(inserted)
        if ended.returncode == 0:
            break
        assert ended.returncode == -9, ended.stderr.decode()
        kills += 1
    assert kills >= 10
    assert recorded >= (0 if arrives_meanwhile == CONTENT else 2)


def test_a_file_that_was_rewritten_before_the_next_start_is_not_taken_for_the_copy(tmp_path: Path) -> None:
    """PIPE-07: the copy in error/ is kept with its job, as nothing else has its bytes any more."""
    roots, folders = begin(tmp_path)
    (tmp_path / "in" / "a.pdf").write_bytes(CONTENT)
    TurnedAway(roots).move(next(iter(folders)).folder, birth_of(tmp_path))
    (tmp_path / "in" / "a.pdf").write_bytes(b"rewritten")
    assert settle(tmp_path) == [birth_of(tmp_path)]
    assert contents(tmp_path) == ({"a.pdf": b"rewritten"}, {f"{JOB}/a.pdf": CONTENT})


def test_a_folder_that_is_away_is_settled_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-07: nothing is decided blindly; the note waits."""
    roots, folders = begin(tmp_path)
    (tmp_path / "in" / "a.pdf").write_bytes(CONTENT)
    TurnedAway(roots).move(next(iter(folders)).folder, birth_of(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "lstat", lambda _: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
        assert settle(tmp_path) == []
    assert settle(tmp_path) == [birth_of(tmp_path)]
