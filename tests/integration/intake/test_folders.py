from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.builtin.local_folder import LocalFileSystem
from bulksigner.contract.errors import ProviderError, StartRefused, TemporaryFailure
from bulksigner.contract.storage import Folder
from bulksigner.files.set_aside import PRIVATE_PREFIX
from bulksigner.intake import folders as folders_module
from bulksigner.intake.folders import open_folders
from bulksigner.intake.names import mint_landing_name
from bulksigner.intake.offers import Outcome, OutcomeKind
from bulksigner.intake.watcher import WatcherState
from bulksigner.intake.watchers import FolderWatchers
from bulksigner.settings.model import InputFolder, StorageSettings, WatchedFolderSettings

WATCHED = WatchedFolderSettings(
    stability_poll_interval_ms=50,
    stability_required_samples=1,
    poll_interval_seconds=7,
    ignored_extensions=(".tmp",),
    ignored_prefixes=(),
)


def step_until(watchers: FolderWatchers, wait_until: Any, holds: Callable[[], bool]) -> None:
    """Look at every folder until something holds."""

    def look() -> bool:
        watchers.step()
        return holds()

    wait_until(look)


class Unreachable:
    name = "Share"
    notifies = False

    def open(self, path: str, options: Mapping[str, str]) -> Folder:
        raise TemporaryFailure("no route to the share")


def provider(name: str) -> Any:
    return {"LocalFileSystem": LocalFileSystem(), "Share": Unreachable()}[name]


@pytest.fixture
def storage(tmp_path: Path) -> StorageSettings:
    inputs = (
        InputFolder(name="first", path=tmp_path / "data" / "input"),
        InputFolder(name="second", path=tmp_path / "elsewhere", ignored_prefixes=("_",), poll_interval_seconds=11),
        InputFolder(name="share", path=Path("drop"), provider="Share"),
    )
    return StorageSettings(root=tmp_path / "data", inputs=inputs)


def test_folders_are_opened_as_configured(storage: StorageSettings, tmp_path: Path) -> None:
    """CFG-43, CFG-48, CFG-49: order, lists joined, polling by presence; only folders of the root are made."""
    opened = open_folders(storage, WATCHED, provider)
    first, second, share = opened
    assert opened.landing is first
    assert (first.has_events, first.poll_interval_seconds) == (True, None)
    assert (second.has_events, second.poll_interval_seconds) == (True, 11)
    assert (share.has_events, share.poll_interval_seconds) == (False, 7)
    assert [one.is_candidate_name("_a") for one in opened] == [True, False, True]
    assert [one.is_candidate_name("a.tmp") for one in opened] == [False, False, False]
    assert not first.is_candidate_name(mint_landing_name("a.pdf"))
    assert not first.is_candidate_name(f"{PRIVATE_PREFIX}x")
    assert (tmp_path / "data" / "input").is_dir()
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_cannot_be_made_refuses_the_start(storage: StorageSettings, tmp_path: Path) -> None:
    """OPS-59: exit 73, naming the folder."""
    (tmp_path / "data").touch()
    with pytest.raises(StartRefused, match="input folder first cannot be created") as refused:
        open_folders(storage, WATCHED, provider)
    assert refused.value.exit_code == 73


def test_a_network_mount_is_polled_without_a_setting(storage: StorageSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """BEY-41: recognised, its events are not relied on."""
    monkeypatch.setattr(folders_module, "network_type", lambda path: "nfs4" if path.name == "input" else None)
    first, second, _ = open_folders(storage, WATCHED, provider)
    assert (first.has_events, first.poll_interval_seconds) == (False, 7)
    assert second.has_events


def test_an_unreachable_share_says_so_at_each_use(storage: StorageSettings, caplog: pytest.LogCaptureFixture) -> None:
    """CFG-59: it never refuses the boot."""
    *_, share = open_folders(storage, WATCHED, provider)
    assert "no route to the share" in caplog.text
    with pytest.raises(ProviderError, match="could not be opened when the service started: no route"):
        share.folder.entries()
    assert share.folder.path_of("a") == "drop/a"


def test_stored_paths_lead_back_to_their_folder(storage: StorageSettings, tmp_path: Path) -> None:
    """PIPE-99: the input of a retry; only files directly inside a configured folder."""
    opened = open_folders(storage, WATCHED, provider)
    present = tmp_path / "data" / "input" / "a.pdf"
    present.touch()
    assert opened.resolve(str(present)) == (opened.landing, "a.pdf")
    assert opened.input_exists(str(present))
    assert not opened.input_exists(str(present.with_name("b.pdf")))
    for path in (f"{present.parent}/sub/a.pdf", f"{present.parent}", f"{present.parent}/", f"{present.parent}x/a", "a"):
        assert opened.resolve(path) is None
        assert not opened.input_exists(path)


def test_leftovers_are_settled_before_anything_looks(
    storage: StorageSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """CLU-06: in every local folder, also with one that does not exist and one that cannot be opened."""
    opened = open_folders(storage, WATCHED, provider)
    half = tmp_path / "data" / "input" / f"{PRIVATE_PREFIX}arriving-1"
    half.touch()
    opened.settle_leftovers()
    assert not half.exists()
    assert "never completed" in caplog.text


def test_watchers_are_reached_by_stored_path(desk: Any, caplog: pytest.LogCaptureFixture) -> None:
    """PIPE-94: a diverged input is offered again; of an upload, or without a watcher, that is a warning."""
    watchers = FolderWatchers(desk.folders, desk.service, desk.profiles.bound, WATCHED)
    watchers.start()
    try:
        desk.drop("a.pdf")
        desk.wait_for(["a.pdf"])
        assert [status.state.value for status in watchers.statuses()] == ["Running"]
        job = desk.ledger.rows[0]
        desk.ledger.end(job.original_path)
        assert watchers.offer_again(job.original_path)
        desk.wait_for(["a.pdf", "a.pdf"])
        desk.ledger.end(job.original_path)
        watchers.job_ended(job.original_path)
        with caplog.at_level(logging.WARNING):
            assert not watchers.offer_again(desk.path(mint_landing_name("u.pdf")))
            assert not watchers.offer_again("/nowhere/a.pdf")
        assert caplog.text.count("no watcher takes it again") == 2
    finally:
        watchers.stop()


@pytest.mark.parametrize("state", [WatcherState.STOPPED, WatcherState.UNASSIGNED])
def test_a_hand_back_that_no_watcher_can_take_is_taken_by_the_next_start(
    desk: Any, wait_until: Any, caplog: pytest.LogCaptureFixture, state: WatcherState
) -> None:
    """PIPE-94: dropped with a warning that says what to do; nothing is lost, whether the folder broke or was let go."""
    desk.drop("a.pdf")
    first = FolderWatchers(desk.folders, desk.service, desk.profiles.bound, WATCHED)
    watcher = first._watchers["in"]
    step_until(first, wait_until, lambda: desk.ledger.names() != [])
    if state is WatcherState.UNASSIGNED:
        desk.profiles.bindings.clear()
        first.step()
    else:
        for _ in range(WATCHED.max_consecutive_failures):
            watcher._count([Outcome(OutcomeKind.ERROR, "the database is away")])
    assert watcher.status.state is state
    desk.drop("a.pdf", b"corrected")
    desk.ledger.end(desk.path("a.pdf"), input_diverged=True)
    with caplog.at_level(logging.WARNING):
        assert not first.offer_again(desk.path("a.pdf"))
    [line] = [record for record in caplog.records if "no watcher takes it again" in record.getMessage()]
    assert line.levelname == "WARNING"
    assert line.getMessage().endswith("rescan its folder once it is watched again")
    first.stop()
    desk.profiles.bindings["in"] = desk.profiles.default
    second = FolderWatchers(desk.folders, desk.service, desk.profiles.bound, WATCHED)
    second.start()
    try:
        desk.wait_for(["a.pdf", "a.pdf"])
    finally:
        second.stop()


def test_a_hand_back_to_a_watcher_that_starts_is_in_its_first_listing(desk: Any) -> None:
    """PIPE-94: the process is still coming up; the file is taken without a rescan."""
    desk.drop("a.pdf")
    watchers = FolderWatchers(desk.folders, desk.service, desk.profiles.bound, WATCHED)
    assert [status.state for status in watchers.statuses()] == [WatcherState.INITIALIZING]
    watchers.offer_again(desk.path("a.pdf"))
    watchers.start()
    try:
        desk.wait_for(["a.pdf"])
    finally:
        watchers.stop()


@pytest.fixture
def handed_back(desk: Any, wait_until: Any) -> Iterator[FolderWatchers]:
    """Watchers to step by hand, and a file that was signed once and came back rewritten."""
    desk.drop("a.pdf", b"first")
    watchers = FolderWatchers(
        desk.folders, desk.service, desk.profiles.bound, attrs.evolve(WATCHED, stability_required_samples=3)
    )
    step_until(watchers, wait_until, lambda: desk.ledger.names() != [])
    desk.drop("a.pdf", b"corrected")
    desk.ledger.end(desk.path("a.pdf"), input_diverged=True)
    assert watchers.offer_again(desk.path("a.pdf"))
    yield watchers
    watchers.stop()


def test_a_hand_back_waits_until_the_file_stands_still(desk: Any, handed_back: Any, wait_until: Any) -> None:
    """PIPE-43, PIPE-94: by the ordinary route, so a producer that still writes is waited for."""
    path = desk.root / "a.pdf"
    began, lengths = time.monotonic(), itertools.count()

    def keep_writing() -> bool:
        path.write_bytes(b"x" * next(lengths))
        return time.monotonic() > began + 10 * WATCHED.stability_poll_interval_ms / 1000

    step_until(handed_back, wait_until, keep_writing)
    assert desk.ledger.names() == ["a.pdf"]
    assert handed_back.statuses()[0].candidate_count == 1
    step_until(handed_back, wait_until, lambda: len(desk.ledger.names()) > 1)
    assert desk.ledger.names() == ["a.pdf", "a.pdf"]


def test_a_hand_back_meets_the_ignore_lists(desk: Any, handed_back: Any, wait_until: Any) -> None:
    """PIPE-42, PIPE-94: a name that is ignored stays ignored, whoever offers it; what else came is taken."""
    desk.drop("a.tmp")
    assert handed_back.offer_again(desk.path("a.tmp"))
    step_until(handed_back, wait_until, lambda: len(desk.ledger.names()) > 1)
    for _ in range(5):
        handed_back.step()
    assert desk.ledger.names() == ["a.pdf", "a.pdf"]


def test_a_hand_back_under_a_profile_that_was_disabled_waits(desk: Any, handed_back: Any, wait_until: Any) -> None:
    """PIPE-39, PIPE-94: the profile applies as to any arrival; enabled again, it takes the file without a rescan."""
    desk.profiles.default.stored.enabled = False
    for _ in range(5):
        handed_back.step()
    assert desk.ledger.names() == ["a.pdf"]
    desk.profiles.default.stored.enabled = True
    step_until(handed_back, wait_until, lambda: len(desk.ledger.names()) > 1)
    assert (desk.root / "a.pdf").read_bytes() == b"corrected"
