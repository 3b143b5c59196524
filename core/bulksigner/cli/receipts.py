"""`bulksigner receipts verify`: walk the chains of receipts (BEY-03)."""

from __future__ import annotations

import json
import os

from bulksigner.audit.accounts import Period
from bulksigner.audit.receipt_chain import Note, Walked, walk_chains
from bulksigner.boot import lay_foundation
from bulksigner.cli.accounts import read_time
from bulksigner.cli.desk import open_database
from bulksigner.jobs.receipts import Receipts

__all__ = ["verify_receipts"]

EXIT_FAULT = 1
_NOTES = {
    Note.WAITING: "still being signed or written",
    Note.UNSIGNED: "without a signature of its own",
    Note.REMOVED: "taken away with its output",
}


def verify_receipts(*, start: str | None, end: str | None, as_json: bool) -> int:
    """Verify the receipts of a period, or all; 0 when each is as it was written, else 1."""
    period = Period(read_time("--from", start), read_time("--to", end))
    foundation = lay_foundation(os.environ)
    with open_database(foundation) as store:
        walked = walk_chains(Receipts(store), period)
    print(json.dumps(_document(walked), indent=2) if as_json else "\n".join(_lines(walked)))
    return EXIT_FAULT if walked.faults else 0


def _lines(walked: Walked) -> list[str]:
    lines = [f"Receipts looked at: {walked.receipts}"]
    lines += [f"  {count} {_NOTES[note]}" for note, count in sorted(walked.notes.items(), key=lambda one: one[0].value)]
    for fault in walked.faults:
        at = f"receipt {fault.number} of {fault.instance}"
        lines.append(f"{fault.kind.value.upper():<8}  {at}: {fault.subject}: {fault.reason}")
    if not walked.faults:
        lines.append("Every receipt is as it was written.")
    return lines


def _document(walked: Walked) -> dict[str, object]:
    return {
        "receipts": walked.receipts,
        **{note.value: walked.notes[note] for note in Note},
        "faults": [
            {
                "kind": fault.kind.value,
                "instance": fault.instance,
                "number": fault.number,
                "subject": fault.subject,
                "reason": fault.reason,
            }
            for fault in walked.faults
        ],
    }
