from __future__ import annotations

import errno
import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bulksigner.builtin import local_folder
from bulksigner.builtin.local_folder import LocalFileSystem, LocalFolder
from bulksigner.contract.errors import BulkSignerError, HeldElsewhere, PermanentFailure, ProviderError, TemporaryFailure
from bulksigner.contract.storage import Fingerprint, Folder, Removal, RemovalOutcome, StorageProvider
from bulksigner.files import durable
from bulksigner.files.set_aside import PRIVATE_PREFIX, removing_path

SIGNED = b"what was signed"
NEW = b"a new arrival!!"


def fingerprint(content: bytes) -> Fingerprint:
    return Fingerprint(len(content), hashlib.sha256(content).digest())


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def folder(tmp_path: Path, pauses: list[float]) -> LocalFolder:
    return LocalFileSystem(pauses.append).open(str(tmp_path), {})


def test_it_is_what_the_contract_asks_for(folder: LocalFolder) -> None:
    """The provider fills its roles, and knows its paths (PIPE-01)."""
    provider = LocalFileSystem()
    assert isinstance(provider, StorageProvider)
    assert isinstance(folder, Folder)
    assert (provider.name, provider.notifies) == ("LocalFileSystem", True)
    assert folder.path_of("a.pdf") == f"{folder.location}/a.pdf"


def test_only_regular_files_are_entries(tmp_path: Path, folder: LocalFolder) -> None:
    """PIPE-40, SEC-67: no link, no folder, no FIFO, nothing the product itself set aside."""
    (tmp_path / "a.pdf").write_bytes(SIGNED)
    (tmp_path / "link.pdf").symlink_to(tmp_path / "a.pdf")
    (tmp_path / "sub").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / f"{PRIVATE_PREFIX}x").touch()
    assert [(entry.name, entry.length) for entry in folder.entries()] == [("a.pdf", len(SIGNED))]
    assert folder.look("link.pdf") is None
    assert folder.look("gone.pdf") is None
    assert [folder.look("a.pdf")] == list(folder.entries())


def test_a_file_dropped_again_never_equals_the_first(tmp_path: Path, folder: LocalFolder) -> None:
    """PIPE-44: same name, size and time, yet another entry."""
    path = tmp_path / "a.pdf"
    path.write_bytes(SIGNED)
    os.utime(path, ns=(5, 5))
    before = folder.look("a.pdf")
    path.unlink()
    path.write_bytes(NEW)
    os.utime(path, ns=(5, 5))
    after = folder.look("a.pdf")
    assert before is not None
    assert after is not None
    assert (before.length, before.modified_ns) == (after.length, after.modified_ns)
    assert before != after


def test_a_folder_that_is_gone_cannot_be_listed(tmp_path: Path) -> None:
    """PIPE-47: a failed listing says which folder and why."""
    folder = LocalFolder(tmp_path / "gone")
    with pytest.raises(ProviderError, match="gone cannot be listed: No such file"):
        list(folder.entries())


def test_names_that_lead_out_are_refused(folder: LocalFolder, tmp_path: Path) -> None:
    """SEC-67: whatever the method."""
    asks: list[Callable[[str], object]] = [
        folder.path_of,
        folder.look,
        folder.remove,
        lambda name: folder.copy_to(name, tmp_path / "x"),
        lambda name: folder.remove_if(name, fingerprint(SIGNED)),
        lambda name: folder.receive(name, tmp_path / "x"),
    ]
    for ask in asks:
        with pytest.raises(BulkSignerError, match="not the name of a file inside"):
            ask("../a.pdf")


def test_a_hold_is_exclusive_and_ends_once(folder: LocalFolder) -> None:
    """PIPE-91: a second hold is refused; ending a hold twice does not end the next one."""
    hold = folder.hold("a.pdf")
    with pytest.raises(HeldElsewhere):
        folder.hold("a.pdf")
    folder.hold("b.pdf")
    hold.release()
    folder.hold("a.pdf")
    hold.release()
    with pytest.raises(HeldElsewhere):
        folder.hold("a.pdf")


@pytest.mark.parametrize("change", [b"2nd", b"longer than before", b""])
def test_what_is_written_to_while_it_is_copied_is_not_taken(
    tmp_path: Path, folder: LocalFolder, monkeypatch: pytest.MonkeyPatch, change: bytes
) -> None:
    """PIPE-74, PIPE-43: no mixture of two contents is ever signed; no copy stays, the input does."""
    path = tmp_path / "a.pdf"
    path.write_bytes(b"1st")
    os.utime(path, ns=(0, 0))
    copy = durable.copy_measured

    def write_meanwhile(*arguments: Any, **named: Any) -> Any:
        measured = copy(*arguments, **named)
        with path.open("r+b") as file:
            file.truncate(len(change))
            file.write(change)
        return measured

    monkeypatch.setattr(durable, "copy_measured", write_meanwhile)
    with pytest.raises(TemporaryFailure, match="written to while it was copied"):
        folder.copy_to("a.pdf", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    assert path.read_bytes() == change


def test_a_copy_measures_and_follows_no_link(tmp_path: Path, folder: LocalFolder) -> None:
    """PIPE-74, SEC-67: copy and fingerprint of a regular file, or a refusal."""
    (tmp_path / "a.pdf").write_bytes(SIGNED)
    (tmp_path / "link.pdf").symlink_to(tmp_path / "a.pdf")
    staged = tmp_path / "work"
    staged.mkdir()
    assert folder.copy_to("a.pdf", staged / "a.pdf") == fingerprint(SIGNED)
    assert (staged / "a.pdf").read_bytes() == SIGNED
    with pytest.raises(PermanentFailure, match="is a symbolic link; only regular files"):
        folder.copy_to("link.pdf", staged / "link.pdf")
    with pytest.raises(FileNotFoundError):
        folder.copy_to("gone.pdf", staged / "gone.pdf")
    with pytest.raises(TemporaryFailure, match="File exists"):
        folder.copy_to("a.pdf", staged / "a.pdf")


def test_what_holds_a_folder_is_asked_once_however_far_it_travels(
    tmp_path: Path, folder: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PERF-33: a folder that comes with each task knows that it is near, and still asks for writers."""
    assert folder.is_near
    sent = pickle.dumps(folder)
    monkeypatch.setattr(local_folder, "is_on_this_host", lambda _: pytest.fail("asked again"))
    far_end = pickle.loads(sent)
    assert far_end.is_near
    (tmp_path / "a.txt").write_bytes(b"x")
    seen = folder.measure("a.txt")
    asked: list[Path] = []
    monkeypatch.setattr(local_folder, "is_open_for_writing", lambda path: bool(asked.append(path)))
    assert far_end.remove_now("a.txt", seen).outcome is RemovalOutcome.REMOVED
    assert len(asked) == 1


def test_an_unchanged_input_is_removed(tmp_path: Path, folder: LocalFolder) -> None:
    """PIPE-92, PIPE-93: equal is removed, gone is nothing to do."""
    (tmp_path / "a.pdf").write_bytes(SIGNED)
    assert folder.remove_if("a.pdf", fingerprint(SIGNED)).outcome is RemovalOutcome.REMOVED
    assert list(tmp_path.iterdir()) == []
    assert folder.remove_if("a.pdf", fingerprint(SIGNED)).outcome is RemovalOutcome.ABSENT


@pytest.mark.parametrize("name", ["a.pdf", "n" * 250 + ".pdf"])
@pytest.mark.parametrize("content", [NEW, b"longer than what was signed", b""])
def test_a_rewritten_input_stays(tmp_path: Path, folder: LocalFolder, name: str, content: bytes) -> None:
    """PIPE-93, PIPE-114: the comparison alone protects it, also when length and time are the same."""
    path = tmp_path / name
    path.write_bytes(content)
    os.utime(path, ns=(5, 5))
    assert folder.remove_if(name, fingerprint(SIGNED)) == Removal(RemovalOutcome.DIVERGED, "rewritten")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(name, content)]


def test_a_link_in_place_of_the_input_stays(tmp_path: Path, folder: LocalFolder) -> None:
    """SEC-67: removal follows no link."""
    (tmp_path / "real").write_bytes(SIGNED)
    (tmp_path / "a.pdf").symlink_to(tmp_path / "real")
    assert folder.remove_if("a.pdf", fingerprint(SIGNED)).outcome is RemovalOutcome.DIVERGED
    assert (tmp_path / "a.pdf").is_symlink()
    assert (tmp_path / "real").exists()


def test_an_unreadable_input_is_tried_four_times(
    tmp_path: Path, folder: LocalFolder, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-93: at 0, 0.5, 2 and 5 seconds, then it is left, with the reason."""
    (tmp_path / "a.pdf").write_bytes(SIGNED)

    def refuse(path: Path) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(durable, "measure_identified", refuse)
    assert folder.remove_if("a.pdf", fingerprint(SIGNED)) == Removal(
        RemovalOutcome.DIVERGED, "unreadable: Permission denied"
    )
    assert pauses == [0.5, 2.0, 5.0]
    assert (tmp_path / "a.pdf").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who writes a file")
@pytest.mark.parametrize("name", ["a.pdf", "n" * 250 + ".pdf"])
def test_an_input_that_a_program_still_writes_to_stays(
    tmp_path: Path, folder: LocalFolder, pauses: list[float], name: str
) -> None:
    """PIPE-92, PIPE-93: though it is what was signed; what the program writes later is not lost with it."""
    path = tmp_path / name
    path.write_bytes(SIGNED)
    with path.open("r+b") as writer:
        left = folder.remove_if(name, fingerprint(SIGNED))
        assert left == Removal(RemovalOutcome.DIVERGED, "open for writing by another program")
        assert pauses == [0.5, 2.0, 5.0]
        writer.write(NEW)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(name, NEW)]
    assert folder.remove_if(name, fingerprint(NEW)).outcome is RemovalOutcome.REMOVED


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who writes a file")
def test_a_program_that_closes_the_input_is_waited_for(tmp_path: Path) -> None:
    """PIPE-93: with the file as it was, a later try removes it."""
    path = tmp_path / "a.pdf"
    path.write_bytes(SIGNED)
    writer = path.open("r+b")
    folder = LocalFileSystem(lambda _: writer.close()).open(str(tmp_path), {})
    assert folder.remove_if("a.pdf", fingerprint(SIGNED)).outcome is RemovalOutcome.REMOVED
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who writes a file")
def test_a_removal_that_was_cut_short_is_not_finished_under_a_writer(tmp_path: Path, folder: LocalFolder) -> None:
    """CLU-06, PIPE-92: after a kill, what a program still has open gets its name back."""
    aside = removing_path(tmp_path, "a.pdf", fingerprint(SIGNED))
    assert aside is not None
    aside.write_bytes(SIGNED)
    with aside.open("r+b"):
        [told] = folder.settle_leftovers()
    assert told == f"Put {tmp_path / 'a.pdf'} back: a program has it open for writing."
    assert (tmp_path / "a.pdf").read_bytes() == SIGNED


def test_a_file_renamed_over_the_compared_one_survives(
    tmp_path: Path, folder: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-114: the race between comparing and removing costs nobody a file, even one of equal length and time."""
    path = tmp_path / "a.pdf"
    path.write_bytes(SIGNED)
    os.utime(path, ns=(5, 5))
    compare = durable.measure_identified

    def compare_then_replace(given: Path) -> object:
        seen = compare(given)
        arriving = tmp_path / "arriving.part"
        arriving.write_bytes(NEW)
        os.utime(arriving, ns=(5, 5))
        arriving.replace(path)
        return seen

    monkeypatch.setattr(durable, "measure_identified", compare_then_replace)
    assert folder.remove_if("a.pdf", fingerprint(SIGNED)) == Removal(RemovalOutcome.DIVERGED, "rewritten")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.pdf", NEW)]


def test_two_arrivals_in_the_race_both_survive(
    tmp_path: Path, folder: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-114: the one that was set aside gets a name beside the newer one; nothing is overwritten."""
    path = tmp_path / "a.pdf"
    path.write_bytes(NEW)
    identify = durable.identify
    identity = (0, 0, 0, 0)

    def look_then_drop(aside: Path) -> durable.Identity:
        path.write_bytes(b"the newest")
        return identify(aside)

    monkeypatch.setattr(durable, "measure_identified", lambda given: (durable.measure(tmp_path / "signed"), identity))
    monkeypatch.setattr(durable, "identify", look_then_drop)
    (tmp_path / "signed").write_bytes(SIGNED)
    assert len(NEW) == len(SIGNED)
    assert folder.remove_if("a.pdf", fingerprint(SIGNED)).outcome is RemovalOutcome.DIVERGED
    assert path.read_bytes() == b"the newest"
    assert (tmp_path / "a (2).pdf").read_bytes() == NEW


def test_leftovers_are_finished_or_put_back(tmp_path: Path, folder: LocalFolder) -> None:
    """CLU-06: after a kill, what was signed is removed and what was caught by chance gets its name back."""
    signed = removing_path(tmp_path, "signed.pdf", fingerprint(SIGNED))
    caught = removing_path(tmp_path, "caught.pdf", fingerprint(SIGNED))
    taken = removing_path(tmp_path, "taken.pdf", fingerprint(SIGNED))
    linked = removing_path(tmp_path, "linked.pdf", fingerprint(SIGNED))
    assert signed is not None
    assert caught is not None
    assert taken is not None
    assert linked is not None
    signed.write_bytes(SIGNED)
    caught.write_bytes(NEW)
    taken.write_bytes(NEW)
    (tmp_path / "taken.pdf").write_bytes(b"newer")
    linked.write_bytes(NEW)
    (tmp_path / "linked.pdf").hardlink_to(linked)
    (tmp_path / f"{PRIVATE_PREFIX}arriving-1").write_bytes(b"ha")
    lines = folder.settle_leftovers()
    assert len(lines) == 5
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "caught.pdf": NEW,
        "taken.pdf": b"newer",
        "taken (2).pdf": NEW,
        "linked.pdf": NEW,
    }
    assert folder.settle_leftovers() == []


def test_names_made_to_look_like_leftovers_stop_nothing(tmp_path: Path, folder: LocalFolder) -> None:
    """SEC-67: a start survives what anyone may drop, and settles the rest."""
    odd = [
        f"{PRIVATE_PREFIX}removing-",
        f"{PRIVATE_PREFIX}removing-{'a' * 24}-",
        f"{PRIVATE_PREFIX}removing-{'a' * 24}-..",
    ]
    for name in odd:
        (tmp_path / name).write_bytes(NEW)
    (tmp_path / f"{PRIVATE_PREFIX}removing-{'b' * 24}-link").symlink_to("/etc/passwd")
    caught = removing_path(tmp_path, "caught.pdf", fingerprint(SIGNED))
    assert caught is not None
    caught.write_bytes(NEW)
    lines = folder.settle_leftovers()
    assert [line.split()[0] for line in sorted(lines)] == ["Left"] * 4 + ["Put"]
    assert [entry.name for entry in folder.entries()] == ["caught.pdf"]


def test_receiving_takes_no_existing_name(tmp_path: Path, folder: LocalFolder) -> None:
    """SEC-66: create-only; the finished file moves."""
    source = tmp_path / "sub"
    source.mkdir()
    (source / "one").write_bytes(SIGNED)
    (source / "two").write_bytes(NEW)
    folder.receive("a.pdf", source / "one")
    with pytest.raises(FileExistsError):
        folder.receive("a.pdf", source / "two")
    assert (tmp_path / "a.pdf").read_bytes() == SIGNED
    assert [path.name for path in source.iterdir()] == ["two"]
    folder.remove("a.pdf")
    folder.remove("a.pdf")
    assert not (tmp_path / "a.pdf").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a second file system needs root")
def test_receiving_from_another_file_system_copies(tmp_path: Path) -> None:
    """SEC-66: under a private name until complete, create-only all the same."""
    target = tmp_path / "in"
    target.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(target)], capture_output=True, text=True, check=False)
    if mount.returncode:
        pytest.skip(f"cannot mount a tmpfs: {mount.stderr.strip()}")
    try:
        folder = LocalFolder(target)
        (tmp_path / "one").write_bytes(SIGNED)
        (tmp_path / "two").write_bytes(NEW)
        folder.receive("a.pdf", tmp_path / "one")
        with pytest.raises(FileExistsError):
            folder.receive("a.pdf", tmp_path / "two")
        assert [(path.name, path.read_bytes()) for path in target.iterdir()] == [("a.pdf", SIGNED)]
        assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["two"]
    finally:
        subprocess.run(["umount", str(target)], check=True)


@pytest.mark.parametrize("call", ["rename", "unlink"])
def test_a_signed_file_that_cannot_be_removed_is_kept(
    tmp_path: Path, folder: LocalFolder, pauses: list[float], monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """PIPE-93: told apart from a rewritten one, at once, and still under its name."""
    (tmp_path / "a.pdf").write_bytes(SIGNED)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(*((Path, "rename") if call == "rename" else (durable, "remove_file")), refuse)
        kept = folder.remove_if("a.pdf", fingerprint(SIGNED))
    assert kept == Removal(RemovalOutcome.KEPT, "not removable: Operation not permitted")
    assert pauses == []
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.pdf", SIGNED)]


def test_a_full_journal_is_waited_for(
    tmp_path: Path, folder: LocalFolder, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-93: a removal that may work later is tried four times."""
    (tmp_path / "a.pdf").write_bytes(SIGNED)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "rename", refuse)
    assert folder.remove_if("a.pdf", fingerprint(SIGNED)).outcome is RemovalOutcome.KEPT
    assert pauses == [0.5, 2.0, 5.0]
