from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import Any

import pytest

from bulksigner.contract.errors import Refusal
from bulksigner.contract.signing import Format
from bulksigner.files import durable
from bulksigner.files.work import WorkRoots
from bulksigner.intake.names import is_landing_name, mint_landing_name
from bulksigner.intake.upload import UploadDoor
from bulksigner.jobs.model import JobSource
from bulksigner.settings.model import UploadSettings


@pytest.fixture
def roots(tmp_path: Path) -> WorkRoots:
    roots = WorkRoots(tmp_path / "data")
    roots.prepare()
    return roots


@pytest.fixture
def door(desk: Any, roots: WorkRoots) -> UploadDoor:
    return UploadDoor(UploadSettings(max_bytes=2048), desk.folders, desk.service, desk.profiles.get, roots, desk.names)


def left_on_disk(desk: Any, roots: WorkRoots) -> list[str]:
    return [path.name for root in (desk.root, roots.landing) for path in root.iterdir()]


def test_an_upload_lands_and_becomes_a_job(desk: Any, door: UploadDoor, roots: WorkRoots) -> None:
    """PIPE-54, SEC-66, API-56: cleaned name, minted path in the first folder, no input folder, the bytes as sent."""
    job = door.receive(io.BytesIO(b"%PDF"), file_name="C:\\x\\report.pdf")
    assert (job.file_name, job.source, job.input_folder) == ("report.pdf", JobSource.UPLOAD, None)
    assert (job.profile_name, job.format) == ("default", Format.PADES)
    landed = Path(job.original_path)
    assert landed.parent == desk.root
    assert is_landing_name(landed.name)
    assert landed.suffix == ".pdf"
    assert landed.read_bytes() == b"%PDF"
    assert list(roots.landing.iterdir()) == []
    assert desk.folders.input_exists(job.original_path)
    assert [changed.job for changed in desk.announced] == [job]


def test_the_format_of_the_request_goes_first(desk: Any, door: UploadDoor) -> None:
    """PIPE-38: request, profile, extension; the wire name in any case."""
    desk.profiles.default.stored.format = Format.XADES
    assert door.receive(io.BytesIO(b"x"), file_name="a.pdf", format="cades").format is Format.CADES
    assert door.receive(io.BytesIO(b"x"), file_name="a.pdf", format=" ").format is Format.XADES


def test_the_cap_is_on_what_comes(desk: Any, door: UploadDoor, roots: WorkRoots) -> None:
    """SEC-68: exactly the limit passes; a byte more is refused, however small it was declared, and leaves nothing."""
    assert door.receive(io.BytesIO(b"x" * 2048), file_name="a.pdf", declared_length=2048)
    before = left_on_disk(desk, roots)
    for declared in (None, 10):
        with pytest.raises(Refusal) as refused:
            door.receive(io.BytesIO(b"x" * 2049), file_name="a.pdf", declared_length=declared)
        assert refused.value.code == "upload.too-large"
    assert left_on_disk(desk, roots) == before


def test_checks_come_in_their_order(desk: Any, roots: WorkRoots) -> None:
    """API-55: a request with every fault is refused for the first; as each is mended, the next shows."""
    profile = desk.profiles.default.stored
    profile.enabled = False
    request: dict[str, Any] = {"file_name": "con", "profile": "missing", "format": "Pdf", "declared_length": 5000}
    settings, content = UploadSettings(enabled=False, max_bytes=2048), b""

    def refused_for() -> str | None:
        door = UploadDoor(settings, desk.folders, desk.service, desk.profiles.get, roots, desk.names)
        with pytest.raises(Refusal) as refused:
            door.receive(io.BytesIO(content), **request)
        return refused.value.code

    assert refused_for() == "upload.disabled"
    settings = UploadSettings(max_bytes=2048)
    assert refused_for() == "upload.too-large"
    request["declared_length"] = 100
    assert refused_for() == "profile.not-found"
    request["profile"] = " "
    assert refused_for() == "profile.disabled"
    profile.enabled = True
    assert refused_for() == "upload.format-unsupported"
    request["format"] = "Xades"
    assert refused_for() == "upload.empty"
    content = b"x"
    assert refused_for() == "upload.invalid-name"
    assert left_on_disk(desk, roots) == []
    assert desk.ledger.rows == []


def test_no_part_is_an_empty_upload(door: UploadDoor) -> None:
    """API-55: the part must be there."""
    with pytest.raises(Refusal) as refused:
        door.receive(None, file_name="a.pdf")
    assert refused.value.code == "upload.empty"


def test_a_failing_database_leaves_nothing(desk: Any, door: UploadDoor, roots: WorkRoots) -> None:
    """PIPE-54: failure after writing removes the landing copy."""
    desk.ledger.fails = 1
    with pytest.raises(RuntimeError, match="the database is away"):
        door.receive(io.BytesIO(b"x"), file_name="a.pdf")
    assert left_on_disk(desk, roots) == []


def test_a_landing_that_fails_half_way_leaves_nothing(
    desk: Any, door: UploadDoor, roots: WorkRoots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-54: the name was given, and then the folder could not be flushed."""

    def fail(path: Path) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(durable, "flush_folder", fail)
        with pytest.raises(OSError, match="Input/output"):
            door.receive(io.BytesIO(b"x"), file_name="a.pdf")
    assert desk.ledger.rows == []
    assert [name for name in left_on_disk(desk, roots) if not is_landing_name(name)] == []


def test_a_stream_that_breaks_leaves_nothing(desk: Any, door: UploadDoor, roots: WorkRoots) -> None:
    """API-55: a client that goes away in the middle."""

    class Breaking(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() > 100:
                raise ConnectionResetError("gone")
            return super().read(50)

    with pytest.raises(ConnectionResetError):
        door.receive(Breaking(b"x" * 1000), file_name="a.pdf")
    assert left_on_disk(desk, roots) == []


def test_what_was_never_acknowledged_is_settled_at_start(
    desk: Any, door: UploadDoor, roots: WorkRoots, caplog: pytest.LogCaptureFixture
) -> None:
    """PIPE-54: halves are removed; a landing copy without a job is named, kept and never signed."""
    job = door.receive(io.BytesIO(b"x"), file_name="a.pdf")
    orphan = mint_landing_name("b.pdf")
    desk.drop(orphan)
    (roots.landing / mint_landing_name("c.pdf")).touch()
    with caplog.at_level(logging.WARNING):
        door.settle_leftovers(desk.ledger)
    assert list(roots.landing.iterdir()) == []
    assert orphan in caplog.text
    assert Path(job.original_path).name not in caplog.text
    assert (desk.root / orphan).exists()
