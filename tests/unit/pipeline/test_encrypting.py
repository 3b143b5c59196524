"""Jobs of profiles that encrypt: what is delivered, what is recorded, and that nothing clear ever leaves."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from bulksigner.contract.errors import StepFailed
from bulksigner.contract.signing import Format, Measured
from bulksigner.encryption import envelope
from bulksigner.encryption.key import EnvelopeKey
from bulksigner.files import durable
from bulksigner.jobs.states import JobStatus
from bulksigner.pipeline import tasks
from bulksigner.pipeline.tasks import EncryptTask, encrypt_here
from bulksigner.pipeline.work import Work

KEY = EnvelopeKey(bytes(range(32)))
SIGNED = b"signed content"


@pytest.fixture(autouse=True)
def _encrypts(rig: Any) -> None:
    rig.change_profile(encrypt=True)
    rig.engine.envelope_key = KEY


def opened(path: Path, key: EnvelopeKey = KEY) -> bytes:
    content, out = path.read_bytes(), io.BytesIO()
    envelope.open_envelope(io.BytesIO(content), len(content), key, out.write)
    return out.getvalue()


def outputs(rig: Any) -> list[str]:
    return sorted(path.name for path in rig.roots.output.iterdir())


def test_the_envelope_is_delivered_and_recorded(rig: Any) -> None:
    """ENC-01, ENC-05, ENC-23, PIPE-81: its name, length and hash, and that it is one; the clear file is gone."""
    job = rig.run()
    assert (job.status, job.output_encrypted) == (JobStatus.COMPLETED, True)
    [name] = outputs(rig)
    assert name == "folha.rem.p7m.enc"
    output = Path(job.output_path or "")
    assert output == rig.roots.output / name
    assert opened(output) == SIGNED
    measured = durable.measure(output)
    assert (job.output_length, job.output_sha256) == (measured.length, measured.sha256.hex())
    assert measured.length == len(SIGNED) + 37
    assert not rig.roots.job_folder(job.id).exists()
    assert not list(rig.folder_path.iterdir())
    assert rig.told[-1].job.output_encrypted


def test_without_the_switch_nothing_of_it_happens(rig: Any) -> None:
    """ENC-01: the same job, clear, with the tasks and the writes that it always had."""
    kinds: list[str] = []
    rig.engine.before = lambda task: kinds.append(type(task).__name__)
    rig.change_profile(encrypt=False)
    rig.engine.envelope_key = None
    job = rig.run()
    assert kinds == ["StageTask", "SignTask", "CheckTask", "DeliverTask", "DiscardTask"]
    assert job.row_version == 5
    assert (job.status, job.output_encrypted) == (JobStatus.COMPLETED, False)
    assert outputs(rig) == ["folha.rem.p7m"]


@pytest.mark.parametrize(
    ("name", "format", "profile", "expected"),
    [
        ("report.pdf", Format.PADES, {}, "report.signed.pdf.enc"),
        ("data.bin", Format.CADES, {}, "data.bin.p7m.enc"),
        ("data.bin", Format.CADES, {"save_as_pem": True}, "data.bin.pem.enc"),
        ("remessa.rem", Format.CADES, {"preserve_file_extension": True}, "remessa.signed.rem.enc"),
        ("contract.xml", Format.XADES, {}, "contract.signed.xml.enc"),
        ("abc.enc", Format.CADES, {"preserve_file_extension": True}, "abc.signed.enc.enc"),
    ],
)
def test_the_name_says_that_it_is_an_envelope(
    name: str, format: Format, profile: dict[str, bool], expected: str, rig: Any
) -> None:
    """ENC-22 to ENC-24, PIPE-89: that of the signed file and `.enc`."""
    rig.change_profile(**profile)
    job = rig.run(name, format=format)
    assert job.status is JobStatus.COMPLETED
    assert outputs(rig) == [expected]
    assert rig.engine.tasks[0].target.name == expected.removesuffix(".enc")


def test_a_name_too_long_with_its_suffix_costs_no_signature(rig: Any) -> None:
    """PIPE-90: four bytes less are left for a file that is encrypted."""
    assert rig.run("n" * 247).status is JobStatus.COMPLETED
    job = rig.run("n" * 248)
    assert job.status is JobStatus.FAILED
    assert "at most 247 bytes" in (job.error_message or "")
    assert len(rig.engine.tasks) == 1


def test_the_promise_is_of_the_envelope(rig: Any) -> None:
    """ENC-12, PIPE-85: nothing is recorded of an output before there is an envelope, then exactly that one."""
    seen = []

    def look(task: Any) -> None:
        job = rig.job(dropped)
        seen.append((type(task).__name__, job.status.value, job.output_path, job.output_encrypted))

    rig.engine.before = look
    dropped = rig.drop()
    assert rig.worker().step() == 1
    path = str(rig.roots.output / "folha.rem.p7m.enc")
    assert ("EncryptTask", "Verifying", None, False) in seen
    assert ("DeliverTask", "Verifying", path, True) in seen


@pytest.mark.parametrize("is_done", [False, True])
def test_a_worker_lost_over_the_envelope_costs_no_job(rig: Any, is_done: bool) -> None:
    """ENC-10, PERF-06: it is written anew, under a fresh nonce."""
    rig.engine.losses = {EncryptTask: is_done}
    nonces: list[bytes] = []
    write = tasks.write_envelope

    def note(plain: Any, out: Any, key: EnvelopeKey) -> Measured:
        measured = write(plain, out, key)
        out.seek(9)
        nonces.append(out.read(12))
        return measured

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "write_envelope", note)
        job = rig.run()
    assert job.status is JobStatus.COMPLETED
    assert opened(Path(job.output_path)) == SIGNED
    assert len(set(nonces)) == (2 if is_done else 1)


def fail_write(*_: Any) -> Measured:
    raise OSError(28, "No space left on device")


def write_wrong(plain: Any, out: Any, key: EnvelopeKey) -> Measured:
    return envelope.write_envelope(io.BytesIO(plain.read()[::-1]), out, key)


def write_damaged(plain: Any, out: Any, key: EnvelopeKey) -> Measured:
    measured = envelope.write_envelope(plain, out, key)
    out.seek(-1, 2)
    out.write(b"?")
    return measured


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (fail_write, "No space left on device. Free space below"),
        (write_wrong, "does not open to the signed file"),
        (write_damaged, "It does not open"),
    ],
)
def test_an_envelope_that_cannot_be_relied_on_fails_the_job(
    write: Any, told: str, rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENC-04, ENC-12, PIPE-23: nothing is promoted, the input stays, the clear file is with the failed job's."""
    monkeypatch.setattr(tasks, "write_envelope", write)
    job = rig.run()
    assert (job.status, job.error_code) == (JobStatus.FAILED, "encrypt.failed")
    assert told in (job.error_message or "")
    assert (job.error_message or "").startswith("encrypt.failed: ")
    assert outputs(rig) == []
    assert (job.output_path, job.output_encrypted) == (None, False)
    assert [path.name for path in rig.folder_path.iterdir()] == ["folha.rem"]
    assert (rig.roots.error_folder(job.id) / "folha.rem.p7m").read_bytes() == SIGNED


@pytest.mark.parametrize(("content", "is_signed"), [(SIGNED[1:], True), (SIGNED, False)])
def test_an_artifact_above_the_limit_fails_the_job(
    content: bytes, is_signed: bool, rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENC-11, PIPE-78: refused with what to do; where the input is too long already, before the key is used."""
    monkeypatch.setattr(envelope, "LONGEST_PLAINTEXT", len(SIGNED) - 1)
    job = rig.run(content=content)
    assert bool(rig.engine.tasks) == is_signed
    assert (job.sign_call_started_at is not None) == is_signed
    assert (job.status, job.error_code) == (JobStatus.FAILED, "encrypt.failed")
    assert "2 GiB" in (job.error_message or "")
    assert outputs(rig) == []


def test_without_a_key_nothing_is_delivered(rig: Any) -> None:
    """ENC-01, ENC-02: a profile that asks for envelopes never gets clear files in their place."""
    rig.engine.envelope_key = None
    job = rig.run()
    assert (job.status, job.error_code) == (JobStatus.FAILED, "encrypt.failed")
    assert outputs(rig) == []


def test_a_file_changed_after_its_check_is_not_delivered(rig: Any) -> None:
    """BEY-01, ENC-12: what the envelope opens to is compared with what was checked, not with what lies there now."""
    rig.change_profile(verify=False)

    def tamper(task: Any) -> None:
        if isinstance(task, EncryptTask):
            task.signed.write_bytes(b"other content!!")

    rig.engine.before = tamper
    job = rig.run()
    assert (job.status, job.error_code) == (JobStatus.FAILED, "encrypt.failed")
    assert outputs(rig) == []


def test_a_taken_name_overwrites_nothing(rig: Any) -> None:
    """PIPE-82: the envelope's own name counts; the job tells of no output then."""
    (rig.roots.output / "folha.rem.p7m.enc").write_bytes(b"another's")
    job = rig.run()
    assert (job.status, job.error_code) == (JobStatus.FAILED, "promote.output-exists")
    assert (job.output_path, job.output_encrypted) == (None, False)
    assert (rig.roots.output / "folha.rem.p7m.enc").read_bytes() == b"another's"


def test_what_is_delivered_is_never_the_clear_file(rig: Any) -> None:
    """ENC-02: a plan that lost its step would end the job, not deliver plaintext."""
    work = Work(rig.parts, rig.drop(), rig.profile)
    work.signed = rig.roots.processing / "folha.rem.p7m"
    with pytest.raises(StepFailed, match="before the step it depends on"):
        _ = work.artifact


def test_each_envelope_is_counted_with_its_record(rig: Any) -> None:
    """ENC-10: in the same transaction, also where the promotion fails afterwards."""
    counted = []

    def count() -> None:
        assert rig.store.is_writing
        counted.append(1)

    rig.count_envelope = count
    rig.run()
    assert len(counted) == 1
    (rig.roots.output / "b.rem.p7m.enc").write_bytes(b"")
    assert rig.run("b.rem").status is JobStatus.FAILED
    assert len(counted) == 2
    rig.change_profile(encrypt=False)
    assert rig.run("c.rem").status is JobStatus.COMPLETED
    assert len(counted) == 2


def test_a_link_in_the_place_of_the_signed_file_is_not_followed(tmp_path: Path) -> None:
    """SEC-67: nor is one in the place of the envelope written through."""
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "signed").symlink_to(tmp_path / "secret")
    task = EncryptTask(tmp_path / "signed", Measured(6, bytes(32)), tmp_path / "signed.enc")
    with pytest.raises(StepFailed, match="symbolic link"):
        encrypt_here(task, KEY)
    (tmp_path / "signed").unlink()
    (tmp_path / "signed").write_bytes(b"signed")
    (tmp_path / "signed.enc").symlink_to(tmp_path / "secret")
    encrypt_here(EncryptTask(task.signed, durable.measure(task.signed), task.envelope), KEY)
    assert (tmp_path / "secret").read_bytes() == b"secret"
    assert opened(task.envelope) == b"signed"
