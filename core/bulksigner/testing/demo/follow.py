"""Follows jobs over REST: hands files in, tells each change of state once, and keeps the timeline."""

from __future__ import annotations

import datetime
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.message import Message
from typing import Any

import attrs
import httpx

from bulksigner.contract.errors import BulkSignerError
from bulksigner.testing.demo.ground import DELIVERIES, Delivery, Ground, profile_name
from bulksigner.testing.demo.service import DemoService

__all__ = ["Entry", "Followed", "deliver", "follow", "open_client"]

JOBS_SECONDS = 90.0
_POLL_SECONDS = 0.1
_FINAL = ("Completed", "Failed", "Canceled")


@attrs.frozen
class Entry:
    """One line of a job's timeline."""

    at: datetime.datetime
    status: str
    message: str


@attrs.frozen
class Followed:
    """A job that has ended; `output_name` is None unless it is completed."""

    delivery: Delivery
    job_id: str
    timeline: Sequence[Entry]
    output_name: str | None

    def seconds_between(self, earlier: str, later: str) -> float | None:
        """Return how long it took from reaching one status to reaching another, None when either was not reached."""
        first: dict[str, datetime.datetime] = {}
        for entry in self.timeline:
            first.setdefault(entry.status, entry.at)
        if earlier not in first or later not in first:
            return None
        return (first[later] - first[earlier]).total_seconds()


def open_client(ground: Ground, service: DemoService) -> httpx.Client:
    """Open a client that shows the API key and uses no proxy."""
    return httpx.Client(base_url=service.url, headers={"X-Api-Key": ground.api_key}, trust_env=False, timeout=20)


def deliver(ground: Ground, client: httpx.Client, tell: Callable[[str], None]) -> dict[str, Delivery]:
    """Drop the files into their folders and upload the last; return the jobs known by now, by id."""
    known = {}
    for delivery in DELIVERIES:
        if delivery.is_upload:
            profile = profile_name(delivery.format)
            with ground.original(delivery).open("rb") as content:
                answer = client.post(
                    "/api/files", data={"profile": profile}, files={"file": (delivery.file_name, content)}
                )
            members = _members(answer)
            known[members["jobId"]] = delivery
            tell(f"{delivery.file_name:<16}  uploaded: POST /api/files, profile {profile}")
        else:
            shutil.copyfile(ground.original(delivery), ground.inbox(delivery.format) / delivery.file_name)
            tell(f"{delivery.file_name:<16}  dropped into {ground.inbox(delivery.format).relative_to(ground.folder)}")
    return known


def follow(
    service: DemoService, client: httpx.Client, known: dict[str, Delivery], tell: Callable[[str], None]
) -> list[Followed]:
    """Tell every change of state until each delivery has a job that has ended. Raises `ServiceLost` on a time limit."""
    deadline = time.monotonic() + JOBS_SECONDS
    timelines: dict[str, list[Entry]] = {}
    while True:
        service.check_alive()
        try:
            _find_watched(client, known)
            fresh = []
            for job_id, delivery in known.items():
                timeline = _timeline(client, job_id)
                fresh += [(entry, delivery.file_name) for entry in timeline[len(timelines.get(job_id, ())) :]]
                timelines[job_id] = timeline
        except httpx.TransportError as error:
            service.check_alive()
            raise service.lost(f"The service gave no answer ({error}).") from error
        for entry, file_name in sorted(fresh, key=lambda pair: pair[0].at):
            tell(f"{entry.at:%H:%M:%S.%f}  {file_name:<16}  {entry.status:<10}  {entry.message}")
        if len(known) == len(DELIVERIES) and all(_has_ended(timeline) for timeline in timelines.values()):
            break
        if time.monotonic() > deadline:
            waiting = ", ".join(_unfinished(known, timelines))
            raise service.lost(f"Not done within {JOBS_SECONDS:.0f} s: {waiting}.")
        time.sleep(_POLL_SECONDS)
    jobs = [
        Followed(delivery, job_id, timelines[job_id], _output_name(client, job_id, timelines[job_id]))
        for job_id, delivery in known.items()
    ]
    return sorted(jobs, key=lambda job: DELIVERIES.index(job.delivery))


def _find_watched(client: httpx.Client, known: dict[str, Delivery]) -> None:
    """Add the jobs that the watched folders gave rise to since the last look."""
    by_name = {delivery.file_name: delivery for delivery in DELIVERIES if not delivery.is_upload}
    for item in _members(client.get("/api/jobs"))["items"]:
        if item["id"] not in known and item["fileName"] in by_name:
            known[item["id"]] = by_name[item["fileName"]]


def _timeline(client: httpx.Client, job_id: str) -> list[Entry]:
    history = _members(client.get(f"/api/jobs/{job_id}"))["history"]
    return [
        Entry(datetime.datetime.fromisoformat(row["timestamp"]), row["status"], row["message"] or "") for row in history
    ]


def _has_ended(timeline: Sequence[Entry]) -> bool:
    return bool(timeline) and timeline[-1].status in _FINAL


def _unfinished(known: Mapping[str, Delivery], timelines: Mapping[str, Sequence[Entry]]) -> Iterator[str]:
    for delivery in DELIVERIES:
        job_id = next((found for found, which in known.items() if which == delivery), None)
        if job_id is None:
            yield f"{delivery.file_name} (no job was made for it)"
        elif not _has_ended(timelines[job_id]):
            yield f"{delivery.file_name} ({timelines[job_id][-1].status})"


def _output_name(client: httpx.Client, job_id: str, timeline: Sequence[Entry]) -> str | None:
    if timeline[-1].status != "Completed":
        return None
    header = Message()
    with client.stream("GET", f"/api/jobs/{job_id}/output") as answer:
        answer.raise_for_status()
        header["Content-Disposition"] = answer.headers["Content-Disposition"]
    return header.get_filename()


def _members(answer: httpx.Response) -> Any:
    if not answer.is_success:
        asked = f"{answer.request.method} {answer.request.url}"
        raise BulkSignerError(f"{asked} was answered with {answer.status_code}: {answer.text}")
    return answer.json()
