"""Each completed job leaves a signed receipt that anyone can check, and none is lost, doubled or left unsigned."""

from __future__ import annotations

import datetime
import errno
import hashlib
import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.audit.accounts import Audit, Period, run_audit
from bulksigner.audit.receipt_chain import Note, walk_chains
from bulksigner.contract.errors import StepFailed
from bulksigner.files import durable
from bulksigner.jobs.receipts import Receipts
from bulksigner.jobs.states import JobStatus
from bulksigner.lanes import Done
from bulksigner.pipeline import receipts as writing
from bulksigner.pipeline.tasks import SealTask
from bulksigner.testing.files import pdf_file
from bulksigner.testing.harness import OPERATOR

RECEIPTS = {"Receipts:Enabled": True}
ENCRYPTED = {
    "Encryption:Enabled": True,
    "Encryption:Password": "correct horse battery staple",
    "Encryption:Salt": "AAECAwQFBgcICQoLDA0ODw==",
    "Encryption:Iterations": 10_000,
    "Signing:Profiles:0:Encrypt": True,
}


def read(harness: Any, output: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(harness.output(f"{output}.receipt.json").read_bytes())
    return told


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_receipt_says_what_came_in_what_left_and_who_signed(served: Any, leaf: Any) -> None:
    """BEY-03: every fact of the sheet, beside the output."""
    content = pdf_file(pages=1)
    served.drop("contract.pdf", content)
    [job] = served.run_until_idle()
    assert job.status is JobStatus.COMPLETED
    output = served.output("contract.signed.pdf").read_bytes()
    told = read(served, "contract.signed.pdf")
    assert told["input"] == {"name": "contract.pdf", "length": len(content), "sha256": sha256(content)}
    assert told["output"] == {
        "name": "contract.signed.pdf",
        "length": len(output),
        "sha256": sha256(output),
        "encrypted": False,
    }
    assert told["certificate"]["sha256"] == sha256(leaf.certificate_der)
    assert (told["job"], told["format"], told["approvals"], told["repair"]) == (job.id, "Pades", [], None)
    assert told["chain"] == {"instance": served.service.owner.identity, "number": 1, "previous": None}
    assert [check["verdict"] for check in told["checks"]] == ["valid"]
    assert told["checks"][0]["engine"].startswith("bulksigner ")
    assert None not in told["times"].values()
    assert told["times"]["taken"] <= told["times"]["signed"] <= told["times"]["completed"]


def test_openssl_checks_a_receipt(served: Any, leaf: Any, tmp_path: Path, require_tool: Any) -> None:
    """BEY-03: the signature is a detached CMS that openssl verifies up to the root, and refuses for other bytes."""
    openssl = require_tool("openssl", "openssl")
    served.drop("contract.pdf", pdf_file(pages=1))
    served.run_until_idle()
    receipt = served.output("contract.signed.pdf.receipt.json")
    signature = served.output("contract.signed.pdf.receipt.json.p7s")
    root = leaf.write_root_pem(tmp_path / "root.pem") or tmp_path / "root.pem"

    def ask(content: Path) -> int:
        # The purpose of an e-CPF is not that of e-mail, which openssl would ask for.
        command = [openssl, "cms", "-verify", "-binary", "-inform", "DER", "-in", signature, "-content", content]
        command += ["-CAfile", root, "-purpose", "any", "-out", os.devnull]
        return subprocess.run(command, capture_output=True, check=False).returncode

    assert ask(receipt) == 0
    edited = tmp_path / "edited.json"
    edited.write_bytes(receipt.read_bytes().replace(b"contract", b"contradt"))
    assert ask(edited) != 0


def test_each_receipt_has_the_digest_of_the_one_before(served: Any) -> None:
    """BEY-03: one chain, in the files as in the database, also over a restart."""
    for number in range(8):
        served.drop(f"{number}.rem", b"content %d" % number)
    served.run_until_idle()
    served.restart()
    served.drop("late.rem", b"late")
    jobs = served.run_until_idle()
    files = sorted(served.root.glob("output/*.receipt.json"), key=lambda path: _number(path))
    assert [_number(path) for path in files] == list(range(1, 10))
    digests = [None, *(sha256(path.read_bytes()) for path in files)]
    assert [json.loads(path.read_bytes())["chain"]["previous"] for path in files] == digests[:-1]
    assert {json.loads(path.read_bytes())["job"] for path in files} == {job.id for job in jobs}
    [head] = Receipts(served.service.store).heads()
    assert (head.number, head.sha256) == (9, digests[-1])


def test_a_chain_never_forks(served: Any) -> None:
    """BEY-03: links that are given at the same time, by several connections, follow one another."""
    served.drop("report.rem", b"content")
    [job] = served.run_until_idle()
    store = served.service.store
    receipts = Receipts(store)
    together = threading.Barrier(4)

    def add(lane: int) -> None:
        together.wait()
        for number in range(10):
            one = attrs.evolve(job, id=f"{lane}-{number}")
            store.write(lambda one=one: receipts.add(one, lambda link: json.dumps(attrs.asdict(link))))

    lanes = [threading.Thread(target=add, args=(lane,)) for lane in range(4)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    [head] = receipts.heads()
    chain = list(receipts.walk(head.instance, 1, head.number))
    assert [one.number for one in chain] == list(range(1, 42))
    assert [one.previous for one in chain] == [None, *(one.sha256 for one in chain[:-1])]
    assert [json.loads(one.content)["previous"] for one in chain[1:]] == [one.sha256 for one in chain[:-1]]
    assert head.sha256 == chain[-1].sha256


def _number(path: Path) -> int:
    number: int = json.loads(path.read_bytes())["chain"]["number"]
    return number


def test_an_encrypted_output_has_a_receipt_of_both_files(make_harness: Any) -> None:
    """BEY-03, ENC-01: the measures of the envelope, and of the signed file in it."""
    harness = make_harness(settings=RECEIPTS | ENCRYPTED)
    harness.drop("report.rem", b"content")
    harness.run_until_idle()
    envelope = harness.output("report.rem.p7m.enc").read_bytes()
    told = read(harness, "report.rem.p7m.enc")
    assert (told["output"]["sha256"], told["output"]["encrypted"]) == (sha256(envelope), True)
    assert told["signed"]["sha256"] not in (told["output"]["sha256"], told["input"]["sha256"])
    assert 0 < told["signed"]["length"] < told["output"]["length"]


def test_worker_processes_sign_receipts(make_harness: Any) -> None:
    """BEY-03, PERF-06: the key stays where it is open, behind the seam that signs files."""
    harness = make_harness(
        engine="Processes", settings=RECEIPTS | {"Signing:EngineWorkers": 2, "Pipeline:MaxConcurrency": 2}
    )
    for number in range(4):
        harness.drop(f"{number}.rem", b"content %d" % number)
    harness.run_until_idle()
    assert walk_chains(Receipts(harness.service.store), Period()).faults == ()
    assert len(list(harness.root.glob("output/*.receipt.json.p7s"))) == 4


def test_without_the_setting_there_is_no_receipt(harness: Any) -> None:
    """CFG-199: off is the default, and costs neither a file nor a row."""
    harness.drop("report.rem", b"content")
    [job] = harness.run_until_idle()
    assert harness.outputs() == ["report.rem.p7m"]
    assert harness.service.receipts is None
    assert Receipts(harness.service.store).of_job(job.id) is None


def test_a_file_of_another_is_never_replaced(served: Any) -> None:
    """BEY-03, PIPE-90: where the name is taken, by either file, the receipt gets the next number."""
    served.service  # noqa: B018 - makes the folder
    for name in ("a.rem.p7m.receipt.json", "b.rem.p7m.receipt.json.p7s", "b.rem.p7m.receipt-2.json"):
        served.output(name).write_bytes(b"mine")
    served.drop("a.rem", b"content a")
    served.drop("b.rem", b"content b")
    served.run_until_idle()
    for name in ("a.rem.p7m.receipt.json", "b.rem.p7m.receipt.json.p7s", "b.rem.p7m.receipt-2.json"):
        assert served.output(name).read_bytes() == b"mine"
    assert json.loads(served.output("a.rem.p7m.receipt-2.json").read_bytes())["input"]["name"] == "a.rem"
    assert json.loads(served.output("b.rem.p7m.receipt-3.json").read_bytes())["input"]["name"] == "b.rem"
    assert not served.output("b.rem.p7m.receipt.json").exists()
    assert not served.output("b.rem.p7m.receipt-2.json.p7s").exists()


def test_a_long_name_gets_a_receipt_named_after_its_job(make_harness: Any) -> None:
    """BEY-03: a name that has no room for the suffix loses no receipt."""
    harness = make_harness(settings=RECEIPTS)
    harness.drop("x" * 238 + ".rem", b"content")
    [job] = harness.run_until_idle()
    assert job.status is JobStatus.COMPLETED
    assert harness.output(f"{job.id}.receipt.json.p7s").exists()


def test_what_a_life_owes_the_next_one_writes(served: Any) -> None:
    """BEY-03, BEY-51: a job that completed without a file has its row, and the next life writes the same bytes."""
    served.service.receipts.settle = lambda: 0
    served.drop("report.rem", b"content")
    [job] = served.run_until_idle()
    assert served.outputs() == ["report.rem.p7m"]
    owed = Receipts(served.service.store).of_job(job.id)
    served.restart()
    served.run_until_idle()
    assert served.output("report.rem.p7m.receipt.json").read_bytes() == owed.content
    assert served.output("report.rem.p7m.receipt.json.p7s").exists()


def test_a_receipt_that_is_owed_is_written_after_receipts_are_switched_off(make_harness: Any) -> None:
    """CFG-199: off means no further receipts; it takes none away."""
    harness = make_harness(settings=RECEIPTS)
    harness.service.receipts.settle = lambda: 0
    harness.drop("report.rem", b"content")
    harness.run_until_idle()
    harness.close()
    settings = harness.folder / "settings.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "Receipts:Enabled": False}))
    harness.drop("later.rem", b"later")
    harness.run_until_idle()
    assert harness.output("report.rem.p7m.receipt.json").exists()
    assert not harness.output("later.rem.p7m.receipt.json").exists()


def test_a_key_that_does_not_sign_leaves_the_job_completed_and_the_receipt_owed(
    served: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """BEY-03: the output is delivered; its receipt waits for the key, and one line of the log says so."""
    engine = served.service.engine
    begin = engine.begin

    def refuse(task: Any, done: Done) -> None:
        if isinstance(task, SealTask):
            done(None, StepFailed("The token was taken out."))
        else:
            begin(task, done)

    monkeypatch.setattr(engine, "begin", refuse)
    served.drop("report.rem", b"content")
    [job] = served.run_until_idle()
    assert job.status is JobStatus.COMPLETED
    assert served.outputs() == ["report.rem.p7m"]
    assert served.service.receipts.settle() == 1
    assert caplog.text.count("waits for its signature: The token was taken out.") == 1
    monkeypatch.undo()
    assert served.service.receipts.settle() == 0
    assert served.output("report.rem.p7m.receipt.json.p7s").exists()


def test_no_receipt_is_signed_after_the_end_of_the_certificate(
    served: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """BEY-21, BEY-03: a receipt that is late is written without a signature, and the log says why."""
    settle, served.service.receipts.settle = served.service.receipts.settle, lambda: 0
    served.drop("late.rem", b"content")
    served.run_until_idle()
    [profile] = served.service.profiles.all
    after = profile.certificate_not_after + datetime.timedelta(seconds=1)
    monkeypatch.setattr(writing, "utc_now", lambda: after)
    assert settle() == 0
    assert served.outputs() == ["late.rem.p7m", "late.rem.p7m.receipt.json"]
    assert "stays without a signature: The certificate of signing profile 'default' expired" in caplog.text


def test_a_receipt_waits_for_the_begin_of_the_certificate(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """BEY-21, BEY-03: a clock that was set back leaves the receipt owed, and nothing signed."""
    settle, served.service.receipts.settle = served.service.receipts.settle, lambda: 0
    served.drop("early.rem", b"content")
    served.run_until_idle()
    [profile] = served.service.profiles.all
    with monkeypatch.context() as patch:
        patch.setattr(writing, "utc_now", lambda: profile.certificate_not_before - datetime.timedelta(seconds=1))
        assert settle() == 1
    assert served.outputs() == ["early.rem.p7m"]
    assert settle() == 0
    assert served.output("early.rem.p7m.receipt.json.p7s").exists()


def test_a_full_disk_leaves_the_receipt_owed(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """BEY-03, BEY-22: a receipt that cannot be written is written later, with the signature it already has."""
    book = served.service.receipts
    settle, book.settle = book.settle, lambda: 0
    served.drop("report.rem", b"content")
    [job] = served.run_until_idle()

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr("bulksigner.pipeline.receipts.durable.write_new", refuse)
        assert settle() == 1
    owed = Receipts(served.service.store).of_job(job.id)
    assert owed is not None
    assert owed.signature is not None
    assert settle() == 0
    assert served.output("report.rem.p7m.receipt.json.p7s").read_bytes() == owed.signature


def test_a_thread_of_its_own_writes_the_receipts_of_a_running_service(served: Any) -> None:
    """BEY-03: what is handed over is written without anyone asking, at the latest when the service stops."""
    served.drop("report.rem", b"content")
    book = served.service.receipts
    settle, book.settle = book.settle, lambda: 0
    served.run_until_idle()
    book.settle = settle
    book.start()
    book.stop()
    assert served.output("report.rem.p7m.receipt.json").exists()


def test_a_deleted_job_takes_its_receipt_along(served: Any) -> None:
    """PIPE-101: both files go with the output; the chain keeps what was said."""
    served.drop("report.rem", b"content")
    [job] = served.run_until_idle()
    deleted = served.service.operations.deletion.delete(job.id, OPERATOR)
    assert served.outputs() == []
    assert sum(item.startswith("receipt ") for item in deleted.removed) == 2
    kept = Receipts(served.service.store).of_job(job.id)
    assert kept is not None
    assert kept.removed_at is not None


def test_a_receipt_that_somebody_edited_is_not_deleted(served: Any) -> None:
    """PIPE-101: only what was written is taken away."""
    served.drop("report.rem", b"content")
    [job] = served.run_until_idle()
    served.output("report.rem.p7m.receipt.json").write_bytes(b"mine now")
    served.service.operations.deletion.delete(job.id, OPERATOR)
    assert served.outputs() == ["report.rem.p7m.receipt.json"]


def test_a_receipt_is_taken_back_when_its_job_is_deleted_while_it_is_written(
    served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-101, BEY-03: whichever comes first, no file of a deleted job stays."""
    book = served.service.receipts
    settle, book.settle = book.settle, lambda: 0
    served.drop("report.rem", b"content")
    [job] = served.run_until_idle()
    promote = durable.promote

    def delete_first(source: Path, target: Path) -> None:
        monkeypatch.undo()
        served.service.operations.deletion.delete(job.id, OPERATOR)
        promote(source, target)

    monkeypatch.setattr("bulksigner.pipeline.receipts.durable.promote", delete_first)
    settle()
    assert served.outputs() == []


def test_clear_jobs_takes_every_receipt(served: Any) -> None:
    """PIPE-103: files go, and the next receipt follows on the chain as it was."""
    served.drop("report.rem", b"content")
    served.run_until_idle()
    cleared = served.service.operations.clearing.clear(OPERATOR)
    assert (cleared.files, cleared.items_failed) == (3, 0)
    assert served.outputs() == []
    served.drop("report.rem", b"other content")
    served.run_until_idle()
    assert read(served, "report.rem.p7m")["chain"]["number"] == 2


def test_clear_jobs_before_the_receipt_is_signed_leaves_no_fault(served: Any) -> None:
    """PIPE-103, BEY-03: what was cleared while it was owed is signed all the same, in the chain, and in no file."""
    settle, served.service.receipts.settle = served.service.receipts.settle, lambda: 0
    served.drop("owed.rem", b"content")
    served.run_until_idle()
    served.service.operations.clearing.clear(OPERATOR)
    for _ in range(2):
        walked = walk_chains(Receipts(served.service.store), Period())
        assert (walked.receipts, walked.faults, dict(walked.notes)) == (1, (), {Note.REMOVED: 1})
        assert settle() == 0
    assert served.outputs() == []
    [receipt] = Receipts(served.service.store).walk(served.service.owner.identity, 1, 1)
    assert receipt.signature is not None
    assert receipt.settled_at is not None
    assert Receipts(served.service.store).open_after(None) == []


def test_an_audit_accounts_for_receipts(served: Any) -> None:
    """BEY-50: a receipt in output/ is the product's own; a file that only looks like one is not."""
    served.drop("report.rem", b"content")
    served.run_until_idle()
    service = served.service
    audit = Audit(service.store, service.folders, service.roots)
    assert run_audit(audit, Period()).unaccounted == ()
    served.output("other.receipt.json").write_bytes(b"{}")
    assert [Path(one.path).name for one in run_audit(audit, Period()).unaccounted] == ["other.receipt.json"]
