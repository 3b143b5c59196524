"""`GET /api/folders` of a whole service: each folder's watch, profile and files (API-72)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import falcon.testing

from bulksigner.builtin.local_folder import LocalFolder
from bulksigner.exposure import expose
from bulksigner.operations.folder_list import FILES_SHOWN
from bulksigner.testing.harness import API_KEY, Harness
from bulksigner.web.app import create_app


def folders_of(harness: Harness) -> dict[str, dict[str, Any]]:
    client = falcon.testing.TestClient(create_app(expose(harness.service)), headers={"X-API-Key": API_KEY})
    answer = client.simulate_get("/api/folders")
    assert (answer.status_code, answer.json["instance"]) == (200, None)
    return {one["name"]: one for one in answer.json["folders"]}


def two_folders(make_harness: Callable[..., Harness], tmp_path: Path) -> Harness:
    """Return a service whose second folder no profile chose."""
    return make_harness(
        settings={"Storage:Inputs:1:Name": "other", "Storage:Inputs:1:Path": str(tmp_path / "other in")}
    )


def test_each_folder_with_its_profile(
    make_harness: Callable[..., Harness], tmp_path: Path, pdf_file: Callable[..., bytes]
) -> None:
    """API-72: before the first look, after it, and a folder that nobody chose; members are null, not absent."""
    harness = two_folders(make_harness, tmp_path)
    harness.drop("a.pdf", pdf_file())
    first = folders_of(harness)["inbox"]
    assert first == {
        "name": "inbox",
        "path": str(harness.input_folder()),
        "exists": True,
        "status": "Initializing",
        "lastScanAt": None,
        "lastEnqueueAt": None,
        "lastError": None,
        "processedCount": 0,
        "fileCount": 1,
        "fileCountCapped": False,
        "profileName": "default",
        "profileFormat": "auto",
    }
    harness.run_until_idle()
    later, other = folders_of(harness).values()
    assert (later["status"], later["processedCount"], later["fileCount"]) == ("Running", 1, 0)
    assert later["lastScanAt"] >= later["lastEnqueueAt"] > "2026"
    assert (other["status"], other["profileName"], other["profileFormat"]) == ("Unassigned", None, None)


def test_files_are_counted_up_to_a_limit(make_harness: Callable[..., Harness], tmp_path: Path) -> None:
    """API-72: fifty at most, and it is said when there are more; ignored names do not count."""
    harness = two_folders(make_harness, tmp_path)
    (harness.input_folder("other") / ".hidden").touch()
    for number in range(FILES_SHOWN):
        (harness.input_folder("other") / f"{number}.pdf").touch()
    shown = folders_of(harness)["other"]
    assert (shown["fileCount"], shown["fileCountCapped"]) == (FILES_SHOWN, False)
    (harness.input_folder("other") / "one more.pdf").touch()
    shown = folders_of(harness)["other"]
    assert (shown["fileCount"], shown["fileCountCapped"]) == (FILES_SHOWN, True)


def test_a_folder_that_is_gone(make_harness: Callable[..., Harness], tmp_path: Path) -> None:
    """OPS-91: missing, with the error; the next good listing clears both."""
    harness = two_folders(make_harness, tmp_path)
    folder = harness.input_folder()
    away = folder.rename(folder.with_name("away"))
    harness.service.watchers.step()
    gone = folders_of(harness)["inbox"]
    assert gone["exists"] is False
    assert str(folder) in gone["lastError"]
    away.rename(folder)
    harness.service.watchers.step()
    back = folders_of(harness)["inbox"]
    assert (back["exists"], back["lastError"]) == (True, None)


def test_a_folder_that_does_not_answer_holds_up_nobody(
    make_harness: Callable[..., Harness], tmp_path: Path, monkeypatch: Any
) -> None:
    """API-72: a mount that hangs is shown as such after the limit, and costs one thread however often it is asked."""
    harness = two_folders(make_harness, tmp_path)
    hangs, listings = threading.Event(), list[str]()
    entries = LocalFolder.entries

    def hang(folder: LocalFolder) -> Iterator[Any]:
        if folder.location.endswith("inbox"):
            listings.append(folder.location)
            hangs.wait(30)
        return entries(folder)

    vars(harness.service.operations.folder_list)["_limit_seconds"] = 0.2
    monkeypatch.setattr(LocalFolder, "entries", hang)
    for _ in range(3):
        shown = folders_of(harness)
        assert (shown["inbox"]["exists"], shown["inbox"]["lastError"]) == (False, "no answer within 0.2 s")
        assert shown["other"]["exists"] is True
    assert len(listings) == 1
    hangs.set()
