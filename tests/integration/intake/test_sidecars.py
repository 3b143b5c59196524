"""Sidecars: the metadata of a file in a file beside it (PIPE-117, PIPE-118, PIPE-127)."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.contract.errors import TemporaryFailure
from bulksigner.intake.offers import Offer, OutcomeKind
from bulksigner.intake.rescan import Rescanner
from bulksigner.intake.sidecar import consume, consume_interrupted, is_sidecar_name, pair
from bulksigner.jobs.states import JobStatus
from bulksigner.settings.model import WatchedFolderSettings

TWO_SAMPLES = WatchedFolderSettings(stability_poll_interval_ms=50, stability_required_samples=2)
VALID = json.dumps({"consignado.lote": "segredo-17"}).encode()


def offer(desk: Any, name: str, *, is_rescan: bool = False) -> OutcomeKind:
    [outcome] = desk.service.offer([Offer(desk.opened, desk.folder.look(name), is_rescan)])
    return outcome.kind


def in_error(desk: Any, job_id: str) -> list[str]:
    return sorted(path.name for path in (desk.roots.error / job_id).iterdir())


def test_a_file_has_the_metadata_of_its_sidecar(strict_desk: Any) -> None:
    """PIPE-117: the map, and the SHA-256 of what it was read from; both files stay until the job is done."""
    desk = strict_desk
    desk.drop("a.pdf.meta.json", VALID)
    desk.drop("a.pdf")
    assert offer(desk, "a.pdf") is OutcomeKind.ENQUEUED
    job = desk.ledger.rows[-1]
    assert dict(job.metadata) == {"consignado.lote": "segredo-17"}
    assert desk.folder.measure("a.pdf.meta.json").sha256.hex() == job.sidecar_sha256
    assert sorted(path.name for path in desk.root.iterdir()) == ["a.pdf", "a.pdf.meta.json"]
    assert list(desk.roots.landing.iterdir()) == []


def test_no_sidecar_is_no_metadata(strict_desk: Any) -> None:
    """PIPE-117: absent means an empty map."""
    strict_desk.drop("a.pdf")
    assert offer(strict_desk, "a.pdf") is OutcomeKind.ENQUEUED
    job = strict_desk.ledger.rows[-1]
    assert (dict(job.metadata), job.sidecar_sha256) == ({}, None)


def test_a_name_without_room_for_a_sidecar_has_none(strict_desk: Any) -> None:
    """PIPE-117: 255 bytes are a name, and no longer one exists that could be its sidecar's."""
    name = "n" * 251 + ".pdf"
    (strict_desk.root / name).touch()
    assert offer(strict_desk, name) is OutcomeKind.ENQUEUED


def test_without_the_setting_a_sidecar_is_a_file_like_any_other(desk: Any) -> None:
    """CFG-183: off, nothing is read and nothing is left out."""
    desk.drop("a.pdf.meta.json", VALID)
    desk.drop("a.pdf")
    assert [offer(desk, name) for name in ("a.pdf", "a.pdf.meta.json")] == [OutcomeKind.ENQUEUED] * 2
    assert [dict(job.metadata) for job in desk.ledger.rows] == [{}, {}]


def test_a_sidecar_is_never_a_candidate(strict_desk: Any, polled: Any) -> None:
    """PIPE-117, PIPE-118: also without its file, in any case of letters; it is left alone."""
    for name in ("gone.pdf.meta.json", "a.META.json", ".meta.json"):
        strict_desk.drop(name, VALID)
    watcher = strict_desk.watcher(settings=attrs.evolve(TWO_SAMPLES, stability_required_samples=1), notices=polled())
    watcher.step()
    assert strict_desk.ledger.names() == []
    assert len(list(strict_desk.root.iterdir())) == 3
    assert offer(strict_desk, "gone.pdf.meta.json") is OutcomeKind.IGNORED
    assert is_sidecar_name("X.Meta.Json")


INVALID = {
    "no json": b"segredo",
    "a list": b'["segredo"]',
    "a number": b'{"segredo": 1}',
    "twice": b'{"segredo": "a", "segredo": "b"}',
    "33 keys": json.dumps({f"segredo{number}": "" for number in range(33)}).encode(),
    "long value": json.dumps({"k": "segredo" * 100}).encode(),
    "over 16 KiB": b'{"segredo": "x"}' + b" " * 16 * 1024,
}


@pytest.mark.parametrize("name", INVALID)
@pytest.mark.parametrize("is_rescan", [False, True])
def test_what_breaks_a_rule_is_born_failed(strict_desk: Any, caplog: Any, name: str, is_rescan: bool) -> None:
    """PIPE-127, PIPE-128, PIPE-119: file and sidecar in error/, the rule in the history, no key, no value anywhere."""
    desk = strict_desk
    desk.drop("a.pdf.meta.json", INVALID[name])
    desk.drop("a.pdf", b"content")
    with caplog.at_level(logging.DEBUG):
        assert offer(desk, "a.pdf", is_rescan=is_rescan) is OutcomeKind.METADATA_INVALID
    job = desk.ledger.rows[-1]
    assert (job.status, job.error_code, job.error_message) == (JobStatus.FAILED, *["job.metadata-invalid"] * 2)
    assert (dict(job.metadata), job.path_released, desk.ledger.events) == ({}, True, [])
    assert in_error(desk, job.id) == ["a.pdf", "a.pdf.meta.json"]
    assert list(desk.root.iterdir()) == []
    assert "segredo" not in caplog.text + desk.announced[-1].change.message
    assert desk.announced[-1].change.message.startswith("Not signed: ")
    assert list(desk.roots.refusals.iterdir()) == list(desk.roots.landing.iterdir()) == []


def test_16_kib_are_read(strict_desk: Any) -> None:
    """PIPE-117, PIPE-128: at the limit, not over it."""
    strict_desk.drop("a.pdf.meta.json", VALID + b" " * (16 * 1024 - len(VALID)))
    strict_desk.drop("a.pdf")
    assert offer(strict_desk, "a.pdf") is OutcomeKind.ENQUEUED


def test_a_link_is_not_followed(strict_desk: Any, tmp_path: Path) -> None:
    """PIPE-117, PIPE-128, SEC-67: what it points to is neither read nor moved; the file is refused."""
    desk = strict_desk
    target = tmp_path / "elsewhere"
    target.write_bytes(VALID)
    (desk.root / "a.pdf.meta.json").symlink_to(target)
    desk.drop("a.pdf")
    assert offer(desk, "a.pdf") is OutcomeKind.METADATA_INVALID
    assert in_error(desk, desk.ledger.rows[-1].id) == ["a.pdf"]
    assert target.read_bytes() == VALID


def test_a_huge_sidecar_is_neither_read_nor_copied(strict_desk: Any, caplog: Any) -> None:
    """PIPE-127, BEY-22: its file is refused at once, and it stays with a warning, whatever the disk has room for."""
    desk = strict_desk
    with (desk.root / "a.pdf.meta.json").open("wb") as sidecar:
        sidecar.truncate(64 * 1024**3)
    desk.drop("a.pdf")
    assert offer(desk, "a.pdf") is OutcomeKind.METADATA_INVALID
    assert in_error(desk, desk.ledger.rows[-1].id) == ["a.pdf"]
    assert [path.name for path in desk.root.iterdir()] == ["a.pdf.meta.json"]
    assert "was left: it has 68719476736 bytes" in caplog.text


def test_both_corrected_are_taken_without_a_rescan(strict_desk: Any) -> None:
    """PIPE-44, PIPE-113, OPS-242: a path whose file was moved away at its birth is free."""
    desk = strict_desk
    desk.drop("a.pdf.meta.json", b"broken")
    desk.drop("a.pdf")
    assert offer(desk, "a.pdf") is OutcomeKind.METADATA_INVALID
    desk.drop("a.pdf.meta.json", VALID)
    desk.drop("a.pdf")
    assert offer(desk, "a.pdf") is OutcomeKind.ENQUEUED
    assert desk.ledger.rows[-1].metadata


def test_a_sidecar_that_cannot_be_read_now_keeps_its_file_waiting(strict_desk: Any, monkeypatch: Any) -> None:
    """PIPE-117, PIPE-47: no job without the metadata it was meant to have; an error of the file alone."""
    desk = strict_desk
    desk.drop("a.pdf.meta.json", VALID)
    desk.drop("a.pdf")

    def fail(*_: Any) -> None:
        raise TemporaryFailure("the share is away")

    with monkeypatch.context() as patch:
        patch.setattr(desk.folder, "copy_to", fail)
        [outcome] = desk.service.offer([Offer(desk.opened, desk.folder.look("a.pdf"))])
    assert (outcome.kind, outcome.is_of_file, desk.ledger.rows) == (OutcomeKind.ERROR, True, [])
    assert offer(desk, "a.pdf") is OutcomeKind.ENQUEUED


def test_a_sidecar_must_stand_still_with_its_file(strict_desk: Any, polled: Any) -> None:
    """PIPE-117, PIPE-128: one that still grows, or comes while its file is waited for, restarts the looks."""
    desk, now = strict_desk, [0.0]
    watcher = desk.watcher(settings=TWO_SAMPLES, notices=polled(), clock=lambda: now[0])
    desk.drop("a.pdf")
    watcher.step()
    for size in range(1, 5):
        (desk.root / "a.pdf.meta.json").write_bytes(VALID[:size])
        now[0] += 1
        watcher.step()
        assert desk.ledger.names() == []
    (desk.root / "a.pdf.meta.json").write_bytes(VALID)
    for _ in range(2):
        now[0] += 1
        watcher.step()
    assert dict(desk.ledger.rows[-1].metadata) == {"consignado.lote": "segredo-17"}


def test_a_sidecar_that_never_stands_still_times_out_with_its_file(strict_desk: Any) -> None:
    """PIPE-117, PIPE-43: the rescan counts one error and takes the others."""
    desk, now = strict_desk, [0.0]
    desk.drop("a.pdf")
    desk.drop("b.pdf")
    growing = desk.drop("a.pdf.meta.json")

    def sleep(seconds: float) -> None:
        now[0] += seconds
        growing.write_bytes(growing.read_bytes() + b" ")

    settings = attrs.evolve(TWO_SAMPLES, stability_timeout_seconds=1)
    rescanner = Rescanner(desk.folders, desk.service, desk.profiles.bound, settings, clock=lambda: now[0], sleep=sleep)
    report = rescanner.rescan("in").folders[0]
    assert (report.enqueued_files, report.errors, report.ignored, report.scanned) == (["b.pdf"], 1, 1, 3)


def test_a_sidecar_that_is_open_for_writing_keeps_its_file_waiting(strict_desk: Any, polled: Any) -> None:
    """PIPE-117, PIPE-43: a writer that pauses has not finished."""
    desk, now = strict_desk, [0.0]
    watcher = desk.watcher(settings=attrs.evolve(TWO_SAMPLES, stability_required_samples=1), clock=lambda: now[0])
    with (desk.root / "a.pdf.meta.json").open("wb") as writer:
        writer.write(VALID[:5])
        writer.flush()
        if not desk.folder.is_being_written("a.pdf.meta.json"):
            pytest.skip("the system does not tell who writes a file")
        desk.drop("a.pdf")
        watcher.step()
        assert desk.ledger.names() == []
        writer.write(VALID[5:])
    now[0] += 1
    watcher.step()
    watcher.stop()
    assert desk.ledger.rows[-1].metadata


def test_a_late_sidecar_is_left_alone(strict_desk: Any) -> None:
    """PIPE-117, PIPE-128: the producer puts it there before the file; one that comes later has no say."""
    desk = strict_desk
    desk.drop("a.pdf")
    assert offer(desk, "a.pdf") is OutcomeKind.ENQUEUED
    late = desk.drop("a.pdf.meta.json", VALID)
    consume(desk.folder, "a.pdf", desk.ledger.rows[-1].sidecar_sha256)
    assert late.exists()
    assert dict(desk.ledger.rows[-1].metadata) == {}


def test_a_sidecar_is_consumed_while_it_is_what_was_read(strict_desk: Any, caplog: Any) -> None:
    """PIPE-118, PIPE-128: removed; changed since, it is left with one warning; gone already, nothing happens."""
    desk = strict_desk
    desk.drop("a.pdf.meta.json", VALID)
    desk.drop("a.pdf")
    offer(desk, "a.pdf")
    sha256 = desk.ledger.rows[-1].sidecar_sha256
    changed = desk.drop("a.pdf.meta.json", VALID.replace(b"17", b"18"))
    with caplog.at_level(logging.WARNING):
        consume(desk.folder, "a.pdf", sha256)
    assert [record.getMessage() for record in caplog.records] == [
        f"The sidecar {changed} was left: it changed since it was read with its file"
    ]
    desk.drop("a.pdf.meta.json", VALID)
    for _ in range(2):
        consume(desk.folder, "a.pdf", sha256)
        assert not changed.exists()
    assert len(caplog.records) == 1


@pytest.mark.parametrize("error", [TemporaryFailure("the share is away"), OSError(5, "I/O"), RuntimeError("broken")])
def test_a_sidecar_that_cannot_be_removed_is_a_warning(
    strict_desk: Any, monkeypatch: Any, caplog: Any, error: Exception
) -> None:
    """PIPE-118: the job is delivered and its input gone; whatever a provider raises ends nothing."""
    desk = strict_desk

    def fail(*_: Any) -> None:
        raise error

    desk.drop("a.pdf.meta.json", VALID)
    monkeypatch.setattr(desk.folder, "remove_if", fail)
    consume(desk.folder, "a.pdf", desk.folder.measure("a.pdf.meta.json").sha256.hex())
    assert "a.pdf.meta.json was left: " in caplog.text


@pytest.mark.parametrize(
    ("output_path", "is_input_there", "is_consumed"),
    [("/out/a.signed.pdf", False, True), ("/out/a.signed.pdf", True, False), (None, False, False)],
)
def test_what_a_killed_process_left_is_consumed(
    strict_desk: Any, output_path: str | None, is_input_there: bool, is_consumed: bool
) -> None:
    """PIPE-118, CLU-06: the input of a delivered job is gone and its sidecar is not: it would meet the next file."""
    desk = strict_desk
    sidecar, path = desk.drop("a.pdf.meta.json", VALID), desk.drop("a.pdf")
    offer(desk, "a.pdf")
    desk.ledger.end(desk.path("a.pdf"), JobStatus.FAILED, output_path=output_path)
    if not is_input_there:
        path.unlink()
    consume_interrupted(desk.ledger.rows, lambda stored: (desk.folder, Path(stored).name))
    assert sidecar.exists() is not is_consumed


def test_sidecars_are_paired_by_the_whole_name_of_their_file(strict_desk: Any) -> None:
    """PIPE-117: `<file name>.meta.json`, not the name without its extension."""
    strict_desk.drop("a.pdf.meta.json")
    strict_desk.drop("a.meta.json")
    assert set(pair(strict_desk.folder.entries())) == {"a.pdf", "a"}
