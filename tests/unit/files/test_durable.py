from __future__ import annotations

import errno
import hashlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bulksigner.contract.signing import Measured
from bulksigner.files import durable
from bulksigner.files.exclusive import rename_exclusive

CONTENT = bytes(range(256)) * 5000


def measured(content: bytes) -> Measured:
    return Measured(len(content), hashlib.sha256(content).digest())


class Breaking(io.RawIOBase):
    """Gives some bytes, then fails."""

    def __init__(self) -> None:
        self._left = 2

    def readinto(self, view: memoryview) -> int:  # type: ignore[override]
        self._left -= 1
        if not self._left:
            raise OSError(errno.EIO, "Input/output error")
        view[:4] = b"part"
        return 4


def test_a_copy_is_measured_in_the_same_read(tmp_path: Path) -> None:
    """PERF-05, SEC-71: copy, length and SHA-256 come from one read; the file is not for others."""
    target = tmp_path / "copy"
    assert durable.copy_measured(io.BytesIO(CONTENT), target, flush=True) == measured(CONTENT)
    assert target.read_bytes() == CONTENT
    assert target.stat().st_mode & 0o777 & ~0o640 == 0


def test_an_empty_file_is_copied(tmp_path: Path) -> None:
    """PIPE-43: an empty file is a candidate like any other."""
    assert durable.copy_measured(io.BytesIO(b""), tmp_path / "copy", flush=False) == measured(b"")


def test_a_copy_takes_no_existing_name(tmp_path: Path) -> None:
    """SEC-66: files are created exclusively, and a refused copy leaves the other file alone."""
    target = tmp_path / "copy"
    target.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        durable.copy_measured(io.BytesIO(CONTENT), target, flush=False)
    assert target.read_bytes() == b"mine"


def test_a_copy_that_breaks_leaves_nothing(tmp_path: Path) -> None:
    """BEY-22: no partial file stays."""
    with pytest.raises(OSError, match="Input/output"):
        durable.copy_measured(Breaking(), tmp_path / "copy", flush=True)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_leaves_nothing_under_a_final_name(tmp_path: Path) -> None:
    """BEY-22: a write that fails for lack of space leaves no file, neither copied nor written beside."""
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(tmp_path)], capture_output=True, text=True, check=False
    )
    if mount.returncode:
        pytest.skip(f"cannot mount a tmpfs: {mount.stderr.strip()}")
    try:
        kept = tmp_path / "kept"
        kept.write_bytes(b"old")
        with pytest.raises(OSError, match="No space"):
            durable.copy_measured(io.BytesIO(CONTENT), tmp_path / "copy", flush=True)
        with pytest.raises(OSError, match="No space"):
            durable.write_beside(kept, lambda out: out.write(CONTENT))
        assert [path.name for path in tmp_path.iterdir()] == ["kept"]
        assert kept.read_bytes() == b"old"
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_measuring_refuses_what_is_no_regular_file(tmp_path: Path) -> None:
    """SEC-67: links are not followed, and a FIFO does not stop the thread."""
    real = tmp_path / "real"
    real.write_bytes(CONTENT)
    (tmp_path / "link").symlink_to(real)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    assert durable.measure(real) == measured(CONTENT)
    for name in ("link", "fifo", "folder"):
        with pytest.raises(durable.NotRegular):
            durable.measure(tmp_path / name)


def test_the_identity_is_that_of_before_the_read(tmp_path: Path) -> None:
    """PIPE-92: a file written to while it is measured is told apart afterwards."""
    path = tmp_path / "input"
    path.write_bytes(CONTENT)
    content, identity = durable.measure_identified(path)
    assert (content, identity) == (measured(CONTENT), durable.identify(path))
    os.utime(path, ns=(1, 1))
    assert durable.identify(path) != identity


def promote_by_link(source: Path, target: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable, "rename_exclusive", refuse_renames)
        durable.promote(source, target)


def refuse_renames(*_: object) -> None:
    raise OSError(errno.EINVAL, "Invalid argument")


@pytest.mark.parametrize("promote", [durable.promote, promote_by_link])
def test_promotion_is_create_only(tmp_path: Path, promote: object) -> None:
    """PIPE-82: a taken name is refused, by link as by rename; nothing is overwritten, the source stays."""
    assert callable(promote)
    first, second, target = tmp_path / "first", tmp_path / "second", tmp_path / "target"
    first.write_bytes(b"first")
    second.write_bytes(b"second")
    promote(first, target)
    assert (target.read_bytes(), first.exists()) == (b"first", False)
    with pytest.raises(FileExistsError):
        promote(second, target)
    assert (target.read_bytes(), second.read_bytes()) == (b"first", b"second")


def test_promotion_does_not_follow_a_link(tmp_path: Path) -> None:
    """SEC-67: a link at the target is a taken name, even when it leads nowhere."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"x")
    target.symlink_to(tmp_path / "elsewhere")
    for promote in (durable.promote, rename_exclusive):
        with pytest.raises(FileExistsError):
            promote(source, target)
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_whose_name_is_taken_gets_a_timestamp(tmp_path: Path) -> None:
    """PIPE-86: nothing in error/ is replaced."""
    for number in range(3):
        source = tmp_path / "processing"
        source.mkdir()
        (source / "file").write_text(str(number))
        durable.move_folder(source, tmp_path / "error")
    places = sorted(path.name for path in tmp_path.iterdir())
    assert len(places) == 3
    assert places[0] == "error"
    assert all(name.startswith("error-2") for name in places[1:])
    assert {(tmp_path / name / "file").read_text() for name in places} == {"0", "1", "2"}


def test_removals_are_repeatable(tmp_path: Path) -> None:
    """OPS-59: what is gone is gone; folders go with all they hold, links in them are not followed."""
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "link").symlink_to(kept)
    durable.remove_folder(folder)
    durable.remove_folder(folder)
    assert not folder.exists()
    assert durable.remove_file(kept / "file")
    assert not durable.remove_file(kept / "file")


def test_writing_beside_replaces_or_leaves_the_old(tmp_path: Path) -> None:
    """BEY-22: readers see the whole old file or the whole new one."""
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def fail(out: object) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        durable.write_beside(target, fail)
    assert target.read_bytes() == b"old"
    assert durable.write_beside(target, lambda out: out.write(b"new")) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert target.read_bytes() == b"new"


REFUSE_RENAMES = """
def refuse(*_): raise OSError(22, "Invalid argument")
durable.rename_exclusive = refuse
"""


@pytest.mark.parametrize(("preamble", "moments"), [("", 2), (REFUSE_RENAMES, 3)], ids=["rename", "link"])
def test_a_kill_between_the_halves_of_a_promotion_loses_nothing(tmp_path: Path, preamble: str, moments: int) -> None:
    """CLU-09: wherever the process is killed, the bytes are complete under at least one of the two names."""
    script = (
        "import os, signal, sys; from pathlib import Path; from bulksigner.files import durable\n"
        f"{preamble}count = 0\n"
        "def hook(event, args):\n"
        "    global count\n"
        "    if event in ('os.link', 'os.remove', 'os.rename', 'open'):\n"
        "        count += 1\n"
        "        if count == int(sys.argv[1]): os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.addaudithook(hook)\n"
        "durable.promote(Path(sys.argv[2]), Path(sys.argv[3]))\n"
    )
    kills = 0
    for step in range(1, 10):
        source, target = tmp_path / f"source{step}", tmp_path / f"target{step}"
        source.write_bytes(CONTENT)
        ended = subprocess.run([sys.executable, "-c", script, str(step), str(source), str(target)], check=False)
        there = [path for path in (source, target) if path.exists()]
        assert there
        assert all(path.read_bytes() == CONTENT for path in there)
        if ended.returncode == 0:
            break
        kills += 1
    assert kills == moments
