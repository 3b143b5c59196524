"""A volume that fills up at a bad moment: nothing is lost or half there, and the work goes on when space is back."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bulksigner.testing.certificates import Authority
from bulksigner.testing.files import pdf_file, text_file
from bulksigner.testing.kill import DIED, Moment, Plan, child_environment, fill_volume
from bulksigner.testing.served import ServedService
from bulksigner.testing.verify import verify_cms_with_openssl, verify_pdf_with_pyhanko

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounting a small file system needs root"
    ),
]

MIB = 1 << 20
LIMIT_SECONDS = 60.0
ENDED = ("Completed", "Failed")
FILES = {
    "contract.pdf": pdf_file(pages=1),
    "large.bin": os.urandom(MIB),
    **{f"{number}.txt": text_file(size_bytes=20_000, seed=number) for number in range(4)},
}
SETTINGS = {"Signing:Engine": "InProcess", "Storage:MinimumFreeBytes": 0, "Pipeline:PollIntervalSeconds": 1}


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 24 MiB where the service will have its data; unmounted after the service has ended."""
    data = tmp_path / "service" / "data"
    data.mkdir(parents=True)
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(data)], capture_output=True, text=True, check=False
    )
    if mount.returncode:
        pytest.skip(f"cannot mount a tmpfs: {mount.stderr.strip()}")
    yield data
    subprocess.run(["umount", str(data)], check=True)


@pytest.fixture
def serve_there(volume: Path, serve: Callable[..., ServedService]) -> Callable[..., ServedService]:
    """Return `serve`, for services that end before their volume does."""
    assert os.path.ismount(volume)
    return serve


def wait_until(is_so: Callable[[], Any], service: ServedService, what: str) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"not within {LIMIT_SECONDS} s: {what}\n{service.last_lines()}"
        time.sleep(0.05)


def drop(service: ServedService, names: Sequence[str] = tuple(FILES)) -> None:
    for name in names:
        arriving = service.root / "inbox" / f"{name}.part"
        arriving.write_bytes(FILES[name])
        arriving.rename(arriving.with_suffix(""))


def all_ended(service: ServedService, count: int) -> Callable[[], bool]:
    def is_so() -> bool:
        jobs = service.jobs()
        return len(jobs) >= count and all(job["status"] in ENDED for job in jobs)

    return is_so


def retry_failed(service: ServedService) -> None:
    """Retry each failed job, which must name what happened, and see that all are completed then."""
    jobs = service.jobs()
    failed = [job for job in jobs if job["status"] == "Failed"]
    for job in failed:
        assert "Free space below" in job["errorMessage"], job
    with service.client() as client:
        for job in failed:
            assert client.post(f"/api/jobs/{job['id']}/retry").status_code == 200
    wait_until(all_ended(service, len(jobs) + len(failed)), service, "the retries ended")


def account(service: ServedService, authority: Authority, names: Sequence[str] = tuple(FILES)) -> None:
    """See that each file was signed once, as a whole, and that nothing is left anywhere."""
    jobs = service.jobs()
    completed = [job for job in jobs if job["status"] == "Completed"]
    assert Counter(job["fileName"] for job in completed) == Counter(names), jobs
    assert not list((service.root / "inbox").iterdir())
    wait_until(lambda: not list((service.data / "processing").iterdir()), service, "processing/ is empty")
    assert not list((service.data / "landing").iterdir())
    assert {path.name for path in (service.data / "error").iterdir()} <= {job["id"] for job in jobs}
    outputs = {path.name: path for path in service.output.iterdir()}
    assert len(outputs) == len(names)
    for name in names:
        if name.endswith(".pdf"):
            output = outputs[f"{Path(name).stem}.signed.pdf"]
            verdict = verify_pdf_with_pyhanko(output, [authority.root_der])
            assert output.read_bytes().startswith(FILES[name])
        else:
            output = outputs[f"{name}.p7m"]
            verdict = verify_cms_with_openssl(output, [authority.root_der])
            assert FILES[name] in output.read_bytes()
        assert verdict, verdict.output


NO_WRITE, NO_COMMIT = b"No space left on device", b"database or disk is full"
MOMENTS = {
    "staging": ("files.durable.copy_measured", 2, "before", NO_WRITE),
    "the mark of the key": ("files.durable.copy_measured", 1, "after", NO_COMMIT),
    "signing": ("files.durable.write_new", 2, "before", NO_WRITE),
    "the commit of the signature": ("files.durable.write_new", 1, "after", NO_COMMIT),
    # Two promotions prove at the start that a promotion never overwrites.
    "promotion": ("files.durable.promote", 3, "before", NO_COMMIT),
    "the commit of the end": ("files.durable.promote", 3, "after", NO_COMMIT),
    "the removal of the input": ("files.durable.remove_file", 1, "before", NO_COMMIT),
}


@pytest.mark.parametrize("slots", [1, 4])
@pytest.mark.parametrize("name", MOMENTS)
def test_a_volume_that_fills_up_costs_at_most_a_retry(
    volume: Path, serve_there: Callable[..., ServedService], authority: Authority, name: str, slots: int
) -> None:
    """BEY-22, PIPE-86, PERF-07: each file ends as one completed job, or a failed one whose retry completes it."""
    step, number, side, trouble = MOMENTS[name]
    plan = Plan(volume.parent, dies_at=Moment(step, number, side), filler=volume / "filler")
    service = serve_there(
        {**SETTINGS, "Pipeline:MaxConcurrency": slots}, environment=child_environment(plan), start=False
    )
    service.start()
    drop(service)
    wait_until((service.root / DIED).exists, service, "the moment came")
    # Beside others, another job may be the one that finds no space, at another step.
    troubles = [trouble] if slots == 1 else [NO_WRITE, NO_COMMIT]
    wait_until(
        lambda: any(map(service.log.read_bytes().count, troubles)), service, "something failed for lack of space"
    )
    assert {path.name.removesuffix(".p7m").replace(".signed", "") for path in service.output.iterdir()} <= {*FILES}
    plan.filler.unlink()  # type: ignore[union-attr]  # it was given
    wait_until(all_ended(service, len(FILES)), service, "every job ended")
    assert len(service.jobs()) == len(FILES)
    retry_failed(service)
    account(service, authority)
    assert service.stop() == 0


def test_a_volume_that_is_full_time_and_again(
    volume: Path, serve_there: Callable[..., ServedService], authority: Authority
) -> None:
    """BEY-22: as above, whatever is under way when the space goes, and with signing workers."""
    service = serve_there({**SETTINGS, "Pipeline:MaxConcurrency": 4, "Signing:Engine": "Processes"})
    for name in FILES:
        fill_volume(volume / "filler")
        seen = service.log.read_bytes().count(NO_COMMIT)
        drop(service, [name])
        wait_until(lambda: service.log.read_bytes().count(NO_COMMIT) > seen, service, "a commit failed")  # noqa: B023
        (volume / "filler").unlink()
    wait_until(all_ended(service, len(FILES)), service, "every job ended")
    retry_failed(service)
    account(service, authority)


def test_an_upload_to_a_full_volume_leaves_nothing(
    volume: Path, serve_there: Callable[..., ServedService], authority: Authority
) -> None:
    """BEY-22, API-55: it is answered with the cause, and sent again it is taken."""
    service = serve_there(SETTINGS)
    name = "0.txt"
    fill_volume(volume / "filler")
    with service.client() as client:
        refused = client.post("/api/files", files={"file": (name, FILES[name])})
        assert (refused.status_code, refused.json()["code"]) == (500, "internal")
        assert "Request failed: the disk is full" in service.last_lines()
        assert not list((volume / "landing").iterdir())
        assert not list((service.root / "inbox").iterdir())
        assert service.jobs() == []
        (volume / "filler").unlink()
        assert client.post("/api/files", files={"file": (name, FILES[name])}).status_code == 202
    wait_until(all_ended(service, 1), service, "the job ended")
    account(service, authority, [name])


def test_below_the_least_nothing_fails(
    volume: Path, serve_there: Callable[..., ServedService], authority: Authority
) -> None:
    """PIPE-129, CFG-203, API-100: jobs wait Queued, the row says why, and they go on by themselves."""
    database = volume.parent / "database" / "bulksigner.db"
    service = serve_there({**SETTINGS, "Storage:MinimumFreeBytes": 12 * MIB, "ConnectionStrings:Default": database})
    (volume / "filler").write_bytes(bytes(14 * MIB))
    drop(service)
    wait_until(lambda: len(service.jobs()) == len(FILES), service, "the files were taken")
    wait_until(lambda: b"No job is claimed" in service.log.read_bytes(), service, "the shortage was told")
    assert {job["status"] for job in service.jobs()} == {"Queued"}
    with service.client() as client:
        report = client.get("/api/ready/details").raise_for_status().json()
    rows = {check["name"]: check for check in report["checks"] if check["name"].startswith("disk:")}
    assert rows.keys() == {f"disk:{volume}", f"disk:{database.parent}"}
    row = rows[f"disk:{volume}"]
    assert (row["ok"], "Storage:MinimumFreeBytes asks for 12.0 MiB" in row["detail"]) == (False, True)
    (volume / "filler").unlink()
    wait_until(all_ended(service, len(FILES)), service, "every job ended")
    assert {job["status"] for job in service.jobs()} == {"Completed"}
    account(service, authority)
    assert service.log.read_bytes().count(b"No job is claimed") == 1


def test_a_volume_that_fills_up_holds_the_profile(
    volume: Path, serve_there: Callable[..., ServedService], authority: Authority
) -> None:
    """BEY-20, BEY-22: with Pipeline:HoldOnKeyTrouble no job fails that finds no space for its copy; all are signed."""
    database = volume.parent / "database" / "bulksigner.db"
    step, number, side, _ = MOMENTS["staging"]
    plan = Plan(volume.parent, dies_at=Moment(step, number, side), filler=volume / "filler")
    service = serve_there(
        {**SETTINGS, "Pipeline:HoldOnKeyTrouble": True, "ConnectionStrings:Default": database},
        environment=child_environment(plan),
        start=False,
    )
    service.start()
    drop(service)
    wait_until(lambda: b"is held: " in service.log.read_bytes(), service, "the hold was told")
    with service.client() as client:
        [profile] = client.get("/api/profiles").raise_for_status().json()["profiles"]
    assert "Free space below" in profile["heldReason"]
    plan.filler.unlink()  # type: ignore[union-attr]  # it was given
    wait_until(all_ended(service, len(FILES)), service, "every job ended")
    assert {job["status"] for job in service.jobs()} == {"Completed"}
    account(service, authority)


def test_a_large_file_waits_alone(
    volume: Path, serve_there: Callable[..., ServedService], authority: Authority
) -> None:
    """PIPE-129: it stays Queued without a third of its size free, while those behind it are signed."""
    service = serve_there(SETTINGS)
    (volume / "filler").write_bytes(bytes(21 * MIB))
    drop(service, ["large.bin"])
    wait_until(lambda: b"while smaller ones go on" in service.log.read_bytes(), service, "the shortage was told")
    others = [name for name in FILES if name != "large.bin"]
    drop(service, others)
    wait_until(lambda: service.count("Completed") == len(others), service, "the others were signed")
    assert [job["fileName"] for job in service.jobs("Queued")] == ["large.bin"]
    (volume / "filler").unlink()
    wait_until(all_ended(service, len(FILES)), service, "every job ended")
    account(service, authority)


def test_a_start_on_a_full_volume_is_refused_until_there_is_space(
    volume: Path, serve_there: Callable[..., ServedService], authority: Authority
) -> None:
    """OPS-29, OPS-59, BEY-22: killed while full, it names the cause, exits 73 (tried again), and loses nothing."""
    service = serve_there(SETTINGS)
    fill_volume(volume / "filler")
    drop(service)
    wait_until(lambda: NO_COMMIT in service.log.read_bytes(), service, "a commit failed")
    service.kill()
    for name in ("", "db/.lock"):
        if name:
            (volume / name).unlink()
            fill_volume(volume / "filler")
        service.start(wait=False)
        process: subprocess.Popen[bytes] = service.process  # type: ignore[assignment]  # it was just started
        assert process.wait(LIMIT_SECONDS) == 73
        assert "Free space" in service.last_lines().splitlines()[-1]
    (volume / "filler").unlink()
    service.start()
    wait_until(all_ended(service, len(FILES)), service, "every job ended")
    retry_failed(service)
    account(service, authority)
