"""Private names inside an input folder: what is being removed, and what is only half there.

Both begin with `PRIVATE_PREFIX` and are never candidates, whatever the ignore lists say. A removal carries a digest of
the content it was decided for, so that after a kill the rule of `settle_leftovers` needs no database: content that
matches was signed and delivered, and the removal is finished; anything else is an input, and gets its name back, and so
does what a program still writes to.
"""

from __future__ import annotations

import base64
import itertools
import os
import uuid
from pathlib import Path

from bulksigner.contract.errors import BulkSignerError
from bulksigner.contract.storage import Fingerprint
from bulksigner.files import durable
from bulksigner.files.names import NAME_LIMIT_BYTES, child_of
from bulksigner.files.volumes import is_on_this_host
from bulksigner.files.writers import is_open_for_writing

__all__ = ["PRIVATE_PREFIX", "arriving_path", "put_back", "removing_path", "settle_leftovers"]

PRIVATE_PREFIX = ".bulksigner-"
_REMOVING = f"{PRIVATE_PREFIX}removing-"
_ARRIVING = f"{PRIVATE_PREFIX}arriving-"
_TAG_CHARACTERS = 24


def removing_path(folder: Path, name: str, expected: Fingerprint) -> Path | None:
    """Return the private path for a file about to be removed; None when its name leaves no room for one."""
    private = f"{_REMOVING}{_tag(expected.sha256)}-{name}"
    return folder / private if len(os.fsencode(private)) <= NAME_LIMIT_BYTES else None


def arriving_path(folder: Path) -> Path:
    """Return a new private path for a file that is being completed before it gets its name."""
    return folder / f"{_ARRIVING}{uuid.uuid4().hex}"


def put_back(aside: Path, path: Path) -> Path:
    """Give a file that was set aside its name again, or one beside it when a newer file has it; return where it is."""
    for number in itertools.count(1):
        place = path if number == 1 else path.with_name(f"{path.stem} ({number}){path.suffix}")
        try:
            durable.promote(aside, place)
        except FileExistsError:
            # Both names may be one file: a kill fell between the two halves of an earlier promotion.
            if place.lstat().st_ino != aside.lstat().st_ino:
                continue
            durable.remove_file(aside)
        return place
    raise AssertionError("the numbers do not end")


def settle_leftovers(folder: Path) -> list[str]:
    """Finish or undo what a killed process left, and say what was done, one sentence each.

    Only for the process that works on the folder alone: at start, before anything looks at it.
    """
    try:
        with os.scandir(folder) as found:
            names = [entry.name for entry in found if entry.name.startswith((_REMOVING, _ARRIVING))]
    except FileNotFoundError:
        return []
    return [_settle(folder / name) for name in names]


def _settle(aside: Path) -> str:
    # Anyone may drop a file of such a name; it must not keep the service from starting.
    try:
        return _finish_or_undo(aside)
    except (OSError, BulkSignerError) as error:
        return f"Left {aside} alone: {error}"


def _finish_or_undo(aside: Path) -> str:
    if aside.name.startswith(_ARRIVING):
        durable.remove_file(aside)
        return f"Removed {aside}: an upload that was never completed."
    tag, name = aside.name[len(_REMOVING) :][:_TAG_CHARACTERS], aside.name[len(_REMOVING) + _TAG_CHARACTERS + 1 :]
    is_written = is_on_this_host(aside) and is_open_for_writing(aside)
    if not is_written and _tag(durable.measure(aside).sha256) == tag:
        durable.remove_file(aside)
        return f"Removed {aside}: the input {name} was signed and delivered before the service ended."
    place = put_back(aside, child_of(aside.parent, name))
    why = "a program has it open for writing" if is_written else "it arrived while an earlier input was being removed"
    return f"Put {place} back: {why}."


def _tag(sha256: bytes) -> str:
    return base64.urlsafe_b64encode(sha256[:18]).decode("ascii")
