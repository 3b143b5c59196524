"""Input folders: the operator's rescan (API-36, API-71)."""

from __future__ import annotations

import falcon

from bulksigner.contract.errors import NotFound
from bulksigner.operations.folder_list import FolderView
from bulksigner.operations.rescanning import COUNTS
from bulksigner.web.guards import person_of
from bulksigner.web.parameters import Text
from bulksigner.web.services import FolderReport, WebServices
from bulksigner.web.wire import dump_json, wire_time

__all__ = ["FOLDER", "list_all", "rescan"]

FOLDER = Text("folder", "Only this input folder.", code="request.invalid", may_be_blank=True)


def list_all(services: WebServices, _: falcon.Request, response: falcon.Response) -> None:
    """List the input folders; outside of a cluster no instance is named."""
    response.data = dump_json({"instance": None, "folders": [_view_members(one) for one in services.list_folders()]})


def rescan(services: WebServices, request: falcon.Request, response: falcon.Response) -> None:
    """Offer every file of one input folder, or of all, to the queue again."""
    folder = FOLDER.read(request)
    if folder == "":
        # An empty name must not widen to all folders.
        raise NotFound("The parameter folder is empty; leave it out to rescan all folders.", code="folder.not-found")
    folders = services.rescan(folder, person_of(request)).folders
    totals: dict[str, int] = {"folders": len(folders)}
    totals |= {member: sum(getattr(one, name) for one in folders) for member, name in COUNTS.items()}
    totals["unassigned"] = sum(one.unassigned for one in folders)
    response.data = dump_json({"folders": [_members(one) for one in folders], "totals": totals})


def _members(folder: FolderReport) -> dict[str, object]:
    return {
        "name": folder.name,
        "path": folder.path,
        **{member: getattr(folder, name) for member, name in COUNTS.items()},
        "enqueuedFiles": list(folder.enqueued_files),
        "unassigned": folder.unassigned,
    }


def _view_members(folder: FolderView) -> dict[str, object]:
    return {
        "name": folder.name,
        "path": folder.path,
        "exists": folder.exists,
        "status": folder.status,
        "lastScanAt": None if folder.last_scan_at is None else wire_time(folder.last_scan_at),
        "lastEnqueueAt": None if folder.last_enqueue_at is None else wire_time(folder.last_enqueue_at),
        "lastError": folder.last_error,
        "processedCount": folder.processed_count,
        "fileCount": folder.file_count,
        "fileCountCapped": folder.is_capped,
        "profileName": folder.profile_name,
        "profileFormat": folder.profile_format,
    }
