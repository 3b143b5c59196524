"""A removal killed at each step it takes on files."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from bulksigner.builtin.local_folder import LocalFolder
from bulksigner.contract.storage import Fingerprint, RemovalOutcome

SIGNED = b"what was signed" * 1000
ARRIVED = b"what arrived!!!" * 1000
EXPECTED = Fingerprint(len(SIGNED), hashlib.sha256(SIGNED).digest())
# `argv`: folder, number of the fatal step, whether a file arrives between comparing and removing.
CHILD = """
import hashlib, os, signal, sys
from pathlib import Path
from bulksigner.builtin.local_folder import LocalFolder
from bulksigner.contract.storage import Fingerprint
from bulksigner.files import durable

root, fatal, arrives = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "True"
content = b"what was signed" * 1000
seen, counts = 0, True

def hook(event, arguments):
    global seen
    if counts and event in ("os.link", "os.remove", "os.rename", "open"):
        seen += 1
        if seen == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

compare = durable.measure_identified

def compare_then_arrive(path):
    global counts
    answer = compare(path)
    if arrives:
        counts = False
        (root.parent / "arriving").write_bytes(b"what arrived!!!" * 1000)
        (root.parent / "arriving").replace(path)
        root.with_suffix(".arrived").touch()
        counts = True
    return answer

durable.measure_identified = compare_then_arrive
sys.addaudithook(hook)
LocalFolder(root).remove_if("a.pdf", Fingerprint(len(content), hashlib.sha256(content).digest()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("arrives", [False, True])
def test_no_kill_loses_or_hides_an_input(tmp_path: Path, arrives: bool) -> None:
    """PIPE-92, PIPE-114, CLU-06: after the next start the folder shows the input or, once its removal was decided,
    nothing; a new arrival is there under its own name, whole, and no private name is left."""
    kills = 0
    for fatal in range(1, 100):
        root = tmp_path / str(fatal)
        root.mkdir()
        (root / "a.pdf").write_bytes(SIGNED)
        ended = subprocess.run(
            [sys.executable, "-c", CHILD, str(root), str(fatal), str(arrives)], capture_output=True, check=False
        )
        folder = LocalFolder(root)
        folder.settle_leftovers()
        left = {path.name: path.read_bytes() for path in root.iterdir()}
        if root.with_suffix(".arrived").exists():
            assert left == {"a.pdf": ARRIVED}
        else:
            assert left in ({}, {"a.pdf": SIGNED})
        if ended.returncode == 0:
            break
        assert ended.returncode == -9, ended.stderr.decode()
        kills += 1
    assert left == ({"a.pdf": ARRIVED} if arrives else {})
    assert kills >= 3
    assert folder.remove_if("a.pdf", EXPECTED).outcome is (
        RemovalOutcome.DIVERGED if arrives else RemovalOutcome.ABSENT
    )
