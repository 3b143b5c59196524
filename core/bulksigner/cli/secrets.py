"""`bulksigner secrets check`: which stored secrets open with the present key, without any value (OPS-206, SEC-53)."""

from __future__ import annotations

import os

from bulksigner.cli.desk import open_desk
from bulksigner.contract.errors import PermanentFailure
from bulksigner.profiles.seal import key_of

__all__ = ["check_secrets"]

EXIT_CHECK_FAILED = 1


def check_secrets() -> int:
    """Try every sealed value; exit 1 when one does not open."""
    with open_desk(os.environ) as desk:
        found = [(profile, field) for profile in desk.profiles.all() for field in sorted(profile.sealed)]
        is_sound = True
        for profile, field in found:
            name = f"{profile.name}  Certificate:{profile.certificate_source}:{key_of(field)}"
            try:
                desk.sealer.open(profile.id, field, profile.sealed[field])
            except PermanentFailure as error:
                is_sound = False
                print(f"FAIL  {name}  {error.message}")
            else:
                print(f"ok    {name}")
    if not found:
        print("No profile has a stored secret.")
    return 0 if is_sound else EXIT_CHECK_FAILED
