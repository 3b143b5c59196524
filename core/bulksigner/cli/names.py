"""`bulksigner names`: names that jobs removed by age left held (STA-68)."""

from __future__ import annotations

import getpass
import os

from bulksigner.boot import lay_foundation
from bulksigner.cli.desk import open_database
from bulksigner.jobs.model import utc_now
from bulksigner.jobs.names import Names

__all__ = ["release_name"]


def release_name(name: str, *, by: str | None) -> int:
    """Free one name, so that a file of this name is signed again; exit 1 when it is not held, or by a job in the list.

    A running service sees it at the next file.
    """
    foundation = lay_foundation(os.environ)
    with open_database(foundation) as store:
        holder = Names(store).release(name, by or f"{getpass.getuser()} (command line)", utc_now())
    print(f"Released '{name}'; job {holder.id} held it. A file of this name that is sent again is signed.")
    return 0
