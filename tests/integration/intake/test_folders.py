from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bulksigner.builtin.local_folder import LocalFileSystem
from bulksigner.contract.errors import ProviderError, StartRefused, TemporaryFailure
from bulksigner.contract.storage import Folder
from bulksigner.files.set_aside import PRIVATE_PREFIX
from bulksigner.intake import folders as folders_module
from bulksigner.intake.folders import open_folders
from bulksigner.intake.names import mint_landing_name
from bulksigner.intake.watchers import FolderWatchers
from bulksigner.settings.model import InputFolder, StorageSettings, WatchedFolderSettings

WATCHED = WatchedFolderSettings(
    stability_poll_interval_ms=50,
    stability_required_samples=1,
    poll_interval_seconds=7,
    ignored_extensions=(".tmp",),
    ignored_prefixes=(),
)


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
