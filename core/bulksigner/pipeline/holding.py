"""Short holds on an input: taken, used, and let go whatever happens (PIPE-91)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from bulksigner.contract.errors import HeldElsewhere
from bulksigner.contract.storage import Folder, Hold, NearFolder
from bulksigner.plugin_system.guard import ANYTHING, describe

__all__ = ["held", "near"]

log = logging.getLogger(__name__)


@contextmanager
def held(folder: Folder, name: str, *, waits_seconds: Sequence[float] = ()) -> Iterator[None]:
    """Hold a file while the block runs; each wait allows one more try. Raises `HeldElsewhere` after the last."""
    hold = _take(folder, name, waits_seconds)
    try:
        yield
    finally:
        try:
            hold.release()
        except ANYTHING as error:  # the work under the hold is done, and its outcome stands
            log.warning("The hold on %s was not released: %s", name, describe(error))


def near(folder: Folder) -> NearFolder | None:
    """Return a folder that the engine may copy from and remove from, or None where that could wait for others."""
    # By the one attribute: asking whether it is a `NearFolder` costs more than copying a small file.
    return cast("NearFolder", folder) if getattr(folder, "is_near", False) else None


def _take(folder: Folder, name: str, waits_seconds: Sequence[float]) -> Hold:
    for wait_seconds in waits_seconds:
        try:
            return folder.hold(name)
        except HeldElsewhere:
            time.sleep(wait_seconds)
    return folder.hold(name)
