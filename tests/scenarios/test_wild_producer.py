"""A producer that spares nothing, and a service killed again and again: every file and every byte is accounted for."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from asn1crypto import cms

from bulksigner.testing.certificates import Authority
from bulksigner.testing.producer import Fate, Ledger, WildProducer, base_name
from bulksigner.testing.served import ServedService, ServiceFailed
from bulksigner.testing.verify import verify_cms_with_openssl, verify_pdf_with_pyhanko

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="the producer locks and replaces files as POSIX does"),
]

DRAIN_SECONDS = 180.0
RESTART_SECONDS = 30.0
ENDED = ("Completed", "Failed")
LASTING = ("sign.failed", "promote.output-exists")
"""Why a file still waits in its folder after a rescan: it is no file of its kind, or its output has the name.

One that arrived under the name of a signed one was moved to error/ instead.
"""
SETTINGS = {"Pipeline:MaxConcurrency": 4, "Pipeline:PollIntervalSeconds": 1}


def restart(service: ServedService) -> None:
    """Kill the service and start it as a service manager does: again, while workers of the old life still end."""
    service.kill()
    deadline = time.monotonic() + RESTART_SECONDS
    while True:
        try:
            service.start()
            return
        except ServiceFailed:
            if time.monotonic() > deadline:
                raise
            service.kill()
            time.sleep(0.1)


def drain(service: ServedService, lasting: tuple[str, ...] | None = None) -> None:
    """Wait until every job has ended, and every file left has a failed job, for one of the lasting reasons."""
    deadline = time.monotonic() + DRAIN_SECONDS
    while open_ends := find_open_ends(service, lasting):
        assert time.monotonic() < deadline, f"{open_ends[:5]}\n{service.last_lines()}"
        time.sleep(0.25)


def find_open_ends(service: ServedService, lasting: tuple[str, ...] | None) -> list[object]:
    paths = [str(path) for path in (service.root / "inbox").iterdir()]
    jobs = service.jobs()
    newest: dict[str, Mapping[str, Any]] = {}
    for job in jobs:
        newest.setdefault(job["originalPath"], job)
    return [
        *(job for job in jobs if job["status"] not in ENDED),
        *(path for path in paths if path not in newest or newest[path]["status"] != "Failed"),
        *(newest[path] for path in paths if lasting and path in newest and newest[path]["errorCode"] not in lasting),
    ]


def read_jobs(service: ServedService) -> list[dict[str, Any]]:
    database = service.data / "db" / "bulksigner.db"
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute("SELECT * FROM job ORDER BY created_at")]


def has_delivered(job: Mapping[str, Any]) -> bool:
    told = f"Output delivered: {job['output_path']}."
    return job["status"] == "Completed" or told in (job["error_message"] or "")


def signed_content(output: Path, staged_length: int) -> bytes:
    """Return what a signed file says that it signs."""
    signed = output.read_bytes()
    if output.suffix == ".pdf":
        return signed[:staged_length]
    content: bytes = cms.ContentInfo.load(signed)["content"]["encap_content_info"]["content"].native
    return content or b""


def read_deliveries(jobs: list[dict[str, Any]]) -> dict[str, list[bytes]]:
    """Return what was signed and handed out, by the name the producer gave."""
    found: dict[str, list[bytes]] = {}
    for job in filter(has_delivered, jobs):
        content = signed_content(Path(job["output_path"]), job["staged_length"])
        assert hashlib.sha256(content).hexdigest() == job["staged_sha256"], f"other bytes than were staged: {job}"
        found.setdefault(base_name(job["file_name"]), []).append(content)
    return found


def unexplained_outputs(service: ServedService, jobs: list[dict[str, Any]]) -> Iterator[str]:
    outputs = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in service.output.iterdir()}
    claims = Counter((job["output_path"], job["output_sha256"]) for job in jobs if has_delivered(job))
    for output in outputs.items():
        if claims[output] != 1:
            yield f"{claims[output]} jobs name the output {output}"
    yield from (f"no output for {claim}" for claim in claims if claim not in outputs.items())


def unpublished_contents(deliveries: Mapping[str, list[bytes]], ledger: Ledger) -> Iterator[str]:
    for name, contents in deliveries.items():
        for content, times in Counter(contents).items():
            published = ledger.publications(name, content)
            if times > published:
                yield f"{len(content)} bytes of {name} were delivered {times} times and published {published} times"


def lost_versions(
    service: ServedService, deliveries: Mapping[str, list[bytes]], ledger: Ledger
) -> tuple[list[str], int]:
    """Return the contents that are nowhere, and how many were written into a file that was just being removed."""
    kept: dict[str, list[bytes]] = {}
    for path in [*(service.root / "inbox").iterdir(), *(service.data / "error").glob("*/*")]:
        kept.setdefault(base_name(path.name), []).append(path.read_bytes())
    lost, too_late = [], 0
    for name, versions in ledger.versions.items():
        delivered = deliveries.get(name, [])
        for version in versions:
            if version.fate is Fate.UNDONE or version.content in (*kept.get(name, ()), *delivered):
                continue
            if any(map(version.held_before, delivered)):
                too_late += 1
            else:
                lost.append(f"{name}, {len(version.content)} bytes, {version.fate.value}, is nowhere")
    return lost, too_late


def broken_signatures(service: ServedService, authority: Authority) -> list[str]:
    def verify(path: Path) -> str | None:
        check = verify_pdf_with_pyhanko if path.suffix == ".pdf" else verify_cms_with_openssl
        verdict = check(path, [authority.root_der])
        return None if verdict else f"{path.name}: {verdict.output}"

    with ThreadPoolExecutor(2) as pool:
        return [broken for broken in pool.map(verify, service.output.iterdir()) if broken]


def left_behind(service: ServedService, jobs: list[dict[str, Any]]) -> Iterator[str]:
    for folder in ("processing", "landing"):
        yield from (f"left in {folder}/: {path.name}" for path in (service.data / folder).iterdir())
    for folder in (service.root / "inbox", service.output):
        yield from (f"a private name: {path}" for path in folder.glob(".*"))
    failed = {job["id"] for job in jobs if job["status"] == "Failed"}
    yield from (f"unexplained: {path}" for path in (service.data / "error").iterdir() if path.name not in failed)


def taken_away(service: ServedService, jobs: list[dict[str, Any]], ledger: Ledger) -> Iterator[str]:
    """Yield the jobs whose file is nowhere any more because the producer itself took it before it was copied."""
    newest = {job["original_path"]: job["id"] for job in jobs}
    for job in jobs:
        kept = service.data / "error" / job["id"]
        is_somewhere = (
            has_delivered(job) or Path(job["original_path"]).exists() or (kept.is_dir() and any(kept.iterdir()))
        )
        if not is_somewhere and newest[job["original_path"]] == job["id"]:
            assert ledger.versions[base_name(job["file_name"])][-1].fate is Fate.UNDONE, job
            yield job["id"]


def contradictions(service: ServedService, jobs: list[dict[str, Any]], ledger: Ledger) -> list[str]:
    """Return where `bulksigner audit`, which reads every output, and the ledger of this test tell different stories."""
    done = service.run("audit", "--hashes", "--json")
    document = json.loads(done.stdout)
    delivered = [job for job in jobs if has_delivered(job)]
    gone = sorted(taken_away(service, jobs, ledger))
    pairs = {
        "exit code": (done.returncode, int(bool(gone))),
        "unaccounted": (sorted(one["jobId"] or one["path"] for one in document["unaccounted"]), gone),
        "jobs": (+Counter(document["jobs"]), Counter(job["status"] for job in jobs)),
        "outputs present": (document["outputsPresent"], len(delivered)),
        "outputs collected": (document["outputsCollected"], 0),
    }
    return [
        f"{what}: the audit says {said}, the ledger {known}" for what, (said, known) in pairs.items() if said != known
    ]


def run(service: ServedService, authority: Authority, seconds: float, seed: int) -> None:
    chance = random.Random(seed)
    print(f"seed {seed}")
    producer = WildProducer(service.root / "inbox", seed)
    producer.start()
    deadline = time.monotonic() + seconds
    kills = 0
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(left, chance.uniform(1.0, 4.0)))
        restart(service)
        kills += 1
    producer.stop()
    drain(service)
    with service.client() as client:
        assert client.post("/api/rescan").status_code == 200
    drain(service, LASTING)
    assert service.stop() == 0
    jobs, ledger = read_jobs(service), producer.ledger
    assert list(unexplained_outputs(service, jobs)) == []
    deliveries = read_deliveries(jobs)
    lost, too_late = lost_versions(service, deliveries, ledger)
    assert [*unpublished_contents(deliveries, ledger), *lost, *left_behind(service, jobs)] == []
    assert broken_signatures(service, authority) == []
    assert contradictions(service, jobs, ledger) == []
    print(
        f"{kills} kills, acts {dict(sorted(producer.acts.items()))}, "
        f"jobs {dict(Counter((job['status'], job['error_code']) for job in jobs))}, too late {too_late}"
    )
    # Bytes that are written into a file after its removal go with it; Linux tells who could.
    assert too_late == 0 or sys.platform != "linux"
    # Enough happened for this to say something.
    assert kills >= seconds / 20
    assert len(producer.acts) == 8
    assert sum(map(has_delivered, jobs)) >= seconds


def test_a_wild_producer_and_a_service_that_is_killed(
    serve: Callable[..., ServedService], authority: Authority
) -> None:
    """BEY-51, PIPE-43, PIPE-92, PIPE-94: outputs, jobs, inputs and what the producer did add up, for twenty seconds.

    So does the audit of the product (BEY-50), which knows nothing of the producer.
    """
    run(serve({**SETTINGS, "Signing:Engine": "Processes"}), authority, 20.0, random.randrange(1 << 30))


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["Processes", "InProcess"])
def test_a_wild_producer_for_five_minutes(
    serve: Callable[..., ServedService], authority: Authority, engine: str
) -> None:
    """BEY-51, PIPE-43, PIPE-92, PIPE-94: as above, for five minutes."""
    run(serve({**SETTINGS, "Signing:Engine": engine}), authority, 300.0, random.randrange(1 << 30))
