"""`bulksigner receipts verify` names the first gap, edit or missing file, and nothing where all is well."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
from typing import Any

import pytest

from bulksigner.audit.accounts import Period
from bulksigner.audit.receipt_chain import FaultKind, Note, Walked, walk_chains
from bulksigner.cli import main
from bulksigner.jobs.receipts import Receipts
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.receipt_tables import ReceiptHeadRow, ReceiptRow
from bulksigner.testing.harness import OPERATOR

EVER = Period()
_EDIT = Prepared(
    ReceiptRow.update({ReceiptRow.content: slot("content"), ReceiptRow.sha256: slot("sha256")}).where(
        ReceiptRow.number == slot("number")
    )
)
_SIGN = Prepared(ReceiptRow.update({ReceiptRow.signature: slot("text")}).where(ReceiptRow.number == slot("number")))
_PLACE = Prepared(ReceiptRow.update({ReceiptRow.place: slot("place")}).where(ReceiptRow.number == slot("number")))
_AT = Prepared(ReceiptRow.update({ReceiptRow.completed_at: slot("at")}).where(ReceiptRow.number == slot("number")))
_NAMED = Prepared(ReceiptRow.update({ReceiptRow.profile_name: slot("name")}).where(ReceiptRow.number == slot("number")))
_END = Prepared(ReceiptHeadRow.update({ReceiptHeadRow.number: slot("number"), ReceiptHeadRow.sha256: slot("sha256")}))
_FORGET = Prepared(ReceiptHeadRow.delete())
_DELETE = Prepared(ReceiptRow.delete().where(ReceiptRow.number == slot("number")))
_FOLLOW = Prepared(ReceiptRow.update({ReceiptRow.previous: slot("sha256")}).where(ReceiptRow.number == slot("number")))
_HEAD = Prepared(ReceiptHeadRow.update({ReceiptHeadRow.sha256: slot("sha256")}))


@pytest.fixture
def worked(served: Any) -> Any:
    """A service with three receipts, on either engine."""
    for name in ("a.rem", "b.rem", "c.rem"):
        served.drop(name, name.encode())
        served.run_until_idle()
    return served


def walk(harness: Any, period: Period = EVER) -> Walked:
    return walk_chains(Receipts(harness.service.store), period)


def faults(harness: Any, period: Period = EVER) -> list[tuple[FaultKind, int]]:
    return [(fault.kind, fault.number) for fault in walk(harness, period).faults]


def execute(harness: Any, prepared: Prepared, **values: object) -> None:
    store = harness.service.store
    store.write(lambda: store.execute(prepared, **values))


def content(harness: Any, number: int) -> str:
    receipts = Receipts(harness.service.store)
    [head] = receipts.heads()
    [receipt] = receipts.walk(head.instance, number, number)
    return receipt.content.decode()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_chain_that_nobody_touched_is_whole(worked: Any) -> None:
    """BEY-03: every row, signature and file is looked at, and fits."""
    walked = walk(worked)
    assert (walked.receipts, walked.faults, dict(walked.notes)) == (3, (), {})


@pytest.mark.parametrize("suffix", ["", ".p7s"])
def test_an_edited_file_is_named(worked: Any, suffix: str) -> None:
    """BEY-03: one byte is enough, of either file."""
    path = worked.output(f"b.rem.p7m.receipt.json{suffix}")
    path.write_bytes(path.read_bytes()[:-1] + b" ")
    [fault] = walk(worked).faults
    assert (fault.kind, fault.number, fault.subject) == (FaultKind.EDIT, 2, str(path))


@pytest.mark.parametrize("suffix", ["", ".p7s"])
def test_a_missing_file_is_named(worked: Any, suffix: str) -> None:
    """BEY-03: a receipt, or its signature, that is gone."""
    path = worked.output(f"b.rem.p7m.receipt.json{suffix}")
    path.unlink()
    [fault] = walk(worked).faults
    assert (fault.kind, fault.number, fault.subject) == (FaultKind.MISSING, 2, str(path))


def test_only_the_first_fault_is_named(worked: Any) -> None:
    """BEY-03: what follows a broken link proves nothing."""
    worked.output("b.rem.p7m.receipt.json").unlink()
    worked.output("c.rem.p7m.receipt.json").unlink()
    assert faults(worked) == [(FaultKind.MISSING, 2)]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_row_that_is_gone_is_a_gap(worked: Any, number: int) -> None:
    """BEY-03: the first, one amid the others, and the last."""
    execute(worked, _DELETE, number=number)
    assert faults(worked) == [(FaultKind.GAP, number)]


def test_a_row_whose_content_was_edited_is_named(worked: Any) -> None:
    """BEY-03: the content no longer has the SHA-256 it was stored with."""
    edited = content(worked, 2).replace("b.rem", "x.rem")
    execute(worked, _EDIT, number=2, content=edited, sha256=digest(content(worked, 2)))
    assert faults(worked) == [(FaultKind.EDIT, 2)]


def test_a_row_that_was_replaced_with_its_digest_is_named_by_its_signature(worked: Any) -> None:
    """BEY-03: whoever can write to the database, and makes every digest anew, still has no key."""
    edited = content(worked, 3).replace('"c.rem"', '"x.rem"')
    execute(worked, _EDIT, number=3, content=edited, sha256=digest(edited))
    execute(worked, _HEAD, sha256=digest(edited))
    [fault] = walk(worked).faults
    assert (fault.kind, fault.number) == (FaultKind.EDIT, 3)
    assert "signature does not hold" in fault.reason


def test_a_signature_by_another_is_named(worked: Any, authority: Any) -> None:
    """BEY-03: a CMS is no signature of the receipt unless it is by the certificate that the receipt names."""
    execute(worked, _SIGN, number=2, text=base64.b64encode(b"no CMS").decode())
    [fault] = walk(worked).faults
    assert (fault.kind, fault.number) == (FaultKind.EDIT, 2)
    assert "no CMS" in fault.reason


def test_a_receipt_that_does_not_follow_is_named(worked: Any) -> None:
    """BEY-03: a forked chain, whose second branch was put in the place of the first; without a signature to hold."""
    other = json.loads(content(worked, 2))
    other["input"]["name"] = "x.rem"
    text = json.dumps(other, indent=2) + "\n"
    execute(worked, _EDIT, number=2, content=text, sha256=digest(text))
    execute(worked, _SIGN, number=2, text=None)
    worked.output("b.rem.p7m.receipt.json").write_text(text)
    [fault] = walk(worked).faults
    assert (fault.kind, fault.number) == (FaultKind.EDIT, 3)
    assert "does not follow" in fault.reason


def test_a_last_receipt_that_lost_its_signature_is_named(worked: Any) -> None:
    """BEY-03: nothing follows that would vouch for it, so it may say anything."""
    edited = content(worked, 3).replace('"c.rem"', '"x.rem"')
    execute(worked, _EDIT, number=3, content=edited, sha256=digest(edited))
    execute(worked, _HEAD, sha256=digest(edited))
    execute(worked, _SIGN, number=3, text=None)
    worked.output("c.rem.p7m.receipt.json").write_text(edited)
    [fault] = walk(worked).faults
    assert (fault.kind, fault.number) == (FaultKind.EDIT, 3)
    assert "no signed receipt follows" in fault.reason


def test_a_receipt_whose_key_is_gone_is_vouched_for_by_the_next(worked: Any, authority: Any) -> None:
    """BEY-03: the certificate was replaced before the receipt was signed; it is written without a signature."""
    worked.service.receipts.settle = lambda: 0
    worked.drop("d.rem", b"d")
    worked.run_until_idle()
    worked.close()
    authority.issue().write_pfx(worked.folder / "certificate.pfx", "senha de teste")
    worked.run_until_idle()
    assert worked.output("d.rem.p7m.receipt.json").exists()
    assert not worked.output("d.rem.p7m.receipt.json.p7s").exists()
    assert faults(worked) == [(FaultKind.EDIT, 4)]
    worked.drop("e.rem", b"e")
    worked.run_until_idle()
    walked = walk(worked)
    assert (walked.receipts, walked.faults, dict(walked.notes)) == (5, (), {Note.UNSIGNED: 1})


def test_a_place_in_the_chain_that_was_changed_is_named(worked: Any) -> None:
    """BEY-03: the columns of a row say nothing that its content does not."""
    execute(worked, _FOLLOW, number=3, sha256="0" * 64)
    assert faults(worked) == [(FaultKind.EDIT, 3)]


def test_an_end_that_was_turned_back_or_forgotten_is_named(worked: Any) -> None:
    """BEY-03: the chain does not end before its last row, whatever its head says, and is seen without one, too."""
    first = digest(content(worked, 1))
    execute(worked, _END, number=1, sha256=first)
    assert faults(worked) == [(FaultKind.EDIT, 2)]
    execute(worked, _END, number=0, sha256=None)
    assert faults(worked) == [(FaultKind.EDIT, 1)]
    execute(worked, _FORGET)
    assert faults(worked) == [(FaultKind.EDIT, 1)]
    later = Period(worked.jobs()[-1].completed_at + datetime.timedelta(days=1), None)
    assert faults(worked, later) == [(FaultKind.EDIT, 1)]


@pytest.mark.parametrize(
    ("prepared", "values"),
    [
        (_PLACE, {"place": None}),
        (_PLACE, {"place": ""}),
        (_AT, {"at": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)}),
        (_NAMED, {"name": "another"}),
    ],
)
def test_a_column_beside_the_content_that_was_changed_is_named(
    worked: Any, prepared: Prepared, values: dict[str, object]
) -> None:
    """BEY-03: a row that hides where its files are, or which period it belongs to, is an edit, and never a stack."""
    execute(worked, prepared, number=2, **values)
    assert faults(worked) == [(FaultKind.EDIT, 2)]


def test_a_period_is_walked_with_its_first_link(worked: Any) -> None:
    """BEY-03: `--from` and `--to` go by when a job was completed; the link to the receipt before is looked at too."""
    jobs = worked.jobs()
    worked.output("a.rem.p7m.receipt.json").unlink()
    late = Period(jobs[1].completed_at, None)
    assert (walk(worked, late).receipts, faults(worked, late)) == (2, [])
    assert faults(worked, Period(None, jobs[1].completed_at)) == [(FaultKind.MISSING, 1)]
    assert walk(worked, Period(None, jobs[0].completed_at)).receipts == 0
    execute(worked, _DELETE, number=1)
    assert faults(worked, late) == [(FaultKind.GAP, 1)]


def test_a_period_shows_what_was_cut_out_of_it(worked: Any) -> None:
    """BEY-03: rows that are gone at the end of a period, or all of them, are missed by the period they were in."""
    jobs = worked.jobs()
    upto, since = Period(None, jobs[2].completed_at), Period(jobs[2].completed_at, None)
    only = Period(jobs[1].completed_at, jobs[2].completed_at)
    before = Period(None, jobs[0].completed_at)
    assert [faults(worked, period) for period in (upto, since, only, before)] == [[], [], [], []]
    execute(worked, _DELETE, number=3)
    assert faults(worked, since) == faults(worked, Period(jobs[1].completed_at, None)) == [(FaultKind.GAP, 3)]
    execute(worked, _DELETE, number=2)
    assert faults(worked, upto) == faults(worked, only) == [(FaultKind.GAP, 2)]
    assert faults(worked, before) == []


def test_a_deleted_job_leaves_no_fault(worked: Any) -> None:
    """PIPE-101, PIPE-103: files that were taken away on purpose are noted, and the chain is whole."""
    worked.service.operations.deletion.delete(worked.jobs()[1].id, OPERATOR)
    walked = walk(worked)
    assert (walked.faults, walked.notes[Note.REMOVED]) == ((), 1)
    worked.service.operations.clearing.clear(OPERATOR)
    walked = walk(worked)
    assert (walked.receipts, walked.faults, walked.notes[Note.REMOVED]) == (3, (), 3)


def test_a_receipt_that_is_still_to_be_written_is_no_fault(worked: Any) -> None:
    """BEY-03: the command may be run beside a service at work."""
    worked.service.receipts.settle = lambda: 0
    worked.drop("d.rem", b"d")
    worked.run_until_idle()
    walked = walk(worked)
    assert (walked.receipts, walked.faults, walked.notes[Note.WAITING]) == (4, (), 1)


def test_the_command_says_so_and_ends_with_it(
    worked: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-250: 0 for a whole chain, 1 for one with a fault, as text and as JSON."""
    for name, value in worked.environ.items():
        monkeypatch.setenv(name, value)
    assert main(["receipts", "verify"]) == 0
    assert capsys.readouterr().out == "Receipts looked at: 3\nEvery receipt is as it was written.\n"
    path = worked.output("b.rem.p7m.receipt.json")
    path.unlink()
    assert main(["receipts", "verify", "--from", "2020-01-01"]) == 1
    instance = worked.service.owner.identity
    assert f"MISSING   receipt 2 of {instance}: {path}: the file is not there" in capsys.readouterr().out
    assert main(["receipts", "verify", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["faults"] == [
        {
            "kind": "missing",
            "instance": instance,
            "number": 2,
            "subject": str(path),
            "reason": "the file is not there",
        }
    ]
    assert main(["receipts", "verify", "--to", "yesterday"]) == 1
    assert "--to yesterday is no date" in capsys.readouterr().err
