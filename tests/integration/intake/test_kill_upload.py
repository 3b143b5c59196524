"""An upload killed at each step it takes on files: nothing acknowledged is lost, nothing is signed unasked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bulksigner.builtin.local_folder import LocalFolder
from bulksigner.files.work import WorkRoots
from bulksigner.intake.folders import OpenedFolder, OpenedFolders
from bulksigner.intake.upload import UploadDoor
from bulksigner.settings.model import UploadSettings

CONTENT = b"x" * 100_000
# A row is a line of a flushed file; everything else is the product's own code. `argv`: root, number of the fatal step.
CHILD = """
import io, os, signal, sys
from pathlib import Path
from types import SimpleNamespace as N
from bulksigner.builtin.local_folder import LocalFolder
from bulksigner.files.work import WorkRoots
from bulksigner.intake.enqueue import EnqueueService
from bulksigner.intake.folders import OpenedFolder, OpenedFolders
from bulksigner.intake.taken_names import TakenNames
from bulksigner.intake.upload import UploadDoor
from bulksigner.jobs.queue import Enqueued, Outcome
from bulksigner.settings.model import UploadSettings

root, fatal = Path(sys.argv[1]), int(sys.argv[2])

class Rows:
    def enqueue(self, births):
        with open(root / "rows", "a") as out:
            out.write(births[0].original_path + "\\n")
            out.flush()
            os.fsync(out.fileno())
        return [Enqueued(Outcome.ENQUEUED, N(original_path=births[0].original_path), None)]

profile = N(stored=N(name="default", enabled=True, format=None))
roots = WorkRoots(root / "data")
folders = OpenedFolders([OpenedFolder("in", LocalFolder(root / "in"))])
service = EnqueueService(None, Rows(), None, print, lambda name: None, None)
names = TakenNames(N(holder_of=lambda name, besides: None, held_among=lambda names: ()), is_on=True)
door = UploadDoor(UploadSettings(), folders, service, lambda name: profile, roots, names)

seen = 0
def hook(event, arguments):
    global seen
    if event in ("os.link", "os.remove", "os.rename", "open"):
        seen += 1
        if seen == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
job = door.receive(io.BytesIO(b"x" * 100_000), file_name="report.pdf")
os.write(1, job.original_path.encode())
"""


class Known:
    def __init__(self, rows: list[str]) -> None:
        self._rows = rows

    def latest_for(self, paths: Any) -> dict[str, object]:
        return {path: object() for path in paths if path in self._rows}


@pytest.mark.slow
def test_no_kill_loses_or_doubles_an_upload(tmp_path: Path) -> None:
    """PIPE-54, SEC-66: at every step, then a new start: an acknowledged upload has its row, a row has its input, and
    nothing in the folder can become a second job."""
    kills = 0
    for fatal in range(1, 100):
        root = tmp_path / str(fatal)
        (root / "in").mkdir(parents=True)
        roots = WorkRoots(root / "data")
        roots.prepare()
        ended = subprocess.run([sys.executable, "-c", CHILD, str(root), str(fatal)], capture_output=True, check=False)
        rows = (root / "rows").read_text().splitlines() if (root / "rows").exists() else []
        opened = OpenedFolder("in", LocalFolder(root / "in"))
        folders = OpenedFolders([opened])
        folders.settle_leftovers()
        door = UploadDoor(UploadSettings(), folders, None, None, roots, None)  # type: ignore[arg-type]
        door.settle_leftovers(Known(rows))  # type: ignore[arg-type]
        acknowledged = ended.stdout.decode()
        assert acknowledged == "" or rows == [acknowledged]
        assert all(Path(row).read_bytes() == CONTENT for row in rows)
        assert [entry.name for entry in opened.folder.entries() if opened.is_candidate_name(entry.name)] == []
        assert list(roots.landing.iterdir()) == []
        if ended.returncode == 0:
            break
        assert ended.returncode == -9, ended.stderr.decode()
        kills += 1
    assert acknowledged
    assert kills >= 4
