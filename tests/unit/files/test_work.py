from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from bulksigner.contract.errors import BulkSignerError, StartRefused
from bulksigner.files import durable
from bulksigner.files.work import WorkRoots, open_place


@pytest.fixture
def roots(tmp_path: Path) -> WorkRoots:
    roots = WorkRoots(tmp_path / "data")
    roots.prepare()
    return roots


def test_the_roots_are_made_and_nothing_is_left_of_the_proof(roots: WorkRoots) -> None:
    """OPS-59, SEC-71: folders of mode 0750, empty; preparing them again is harmless."""
    roots.prepare()
    for folder in (roots.processing, roots.output, roots.error, roots.landing):
        assert folder.stat().st_mode & 0o777 & ~0o750 == 0
        assert list(folder.iterdir()) == []


def test_a_root_that_cannot_be_made_refuses_the_start(tmp_path: Path) -> None:
    """OPS-59: exit 73, naming the path and what to do."""
    (tmp_path / "file").touch()
    with pytest.raises(StartRefused, match=r"cannot be created.*ReadWritePaths") as refused:
        WorkRoots(tmp_path / "file" / "data").prepare()
    assert refused.value.exit_code == 73


@pytest.mark.parametrize("behaviour", ["none", "replaces"])
def test_a_file_system_that_cannot_promote_refuses_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str
) -> None:
    """PIPE-82: create-only promotion is proven before the first job, not hoped for."""

    def promote(source: Path, target: Path) -> None:
        if behaviour == "none":
            raise OSError(errno.ENOTSUP, "Operation not supported")
        source.replace(target)

    monkeypatch.setattr(durable, "promote", promote)
    with pytest.raises(StartRefused) as refused:
        WorkRoots(tmp_path).prepare()
    assert refused.value.exit_code == 73
    assert list((tmp_path / "output").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a second file system needs root")
def test_roots_on_two_file_systems_refuse_the_start(tmp_path: Path) -> None:
    """PIPE-82: a rename into output must be possible."""
    (tmp_path / "output").mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "tmpfs", str(tmp_path / "output")], capture_output=True, text=True, check=False
    )
    if mount.returncode:
        pytest.skip(f"cannot mount a tmpfs: {mount.stderr.strip()}")
    try:
        with pytest.raises(StartRefused, match="different file systems"):
            WorkRoots(tmp_path).prepare()
    finally:
        subprocess.run(["umount", str(tmp_path / "output")], check=True)


def test_a_failed_job_keeps_its_folder_in_error(roots: WorkRoots) -> None:
    """PIPE-86: processing/<id> becomes error/<id>; a job without a folder is no error."""
    open_place(roots.job_folder("a") / "file").touch()
    assert roots.fail_job_folder("a") == roots.error_folder("a")
    assert (roots.error / "a" / "file").exists()
    assert roots.fail_job_folder("a") is None
    open_place(roots.job_folder("b") / "file").touch()
    roots.discard_job_folder("b")
    assert list(roots.processing.iterdir()) == []


def test_a_place_is_made_and_cleared(roots: WorkRoots) -> None:
    """PIPE-74: what a lost worker copied goes; what else is in the folder stays."""
    place = roots.job_folder("a") / "file"
    for content in (b"half a co", b"py"):
        assert open_place(place) == place
        assert not place.exists()
        place.write_bytes(content)
    beside = roots.job_folder("a") / "other"
    beside.touch()
    open_place(place)
    assert list(place.parent.iterdir()) == [beside]


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/etc/passwd", "a\0b"])
def test_no_name_leads_out_of_its_root(roots: WorkRoots, name: str) -> None:
    """SEC-67: names are checked before a path is built of them."""
    for build in (roots.output_path, roots.job_folder, roots.error_folder):
        with pytest.raises(BulkSignerError, match="not the name of a file inside"):
            build(name)
