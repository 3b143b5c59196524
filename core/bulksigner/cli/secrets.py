"""`bulksigner secrets check`: which stored secrets open with the present key, without any value (OPS-206, SEC-53)."""

from __future__ import annotations

import os
from collections.abc import Iterator

from bulksigner.cli.desk import open_desk
from bulksigner.contract.errors import PermanentFailure
from bulksigner.profiles.model import StoredProfile
from bulksigner.profiles.seal import PDF_PASSWORD, key_of

__all__ = ["check_secrets"]

EXIT_CHECK_FAILED = 1


def check_secrets() -> int:
    """Try every sealed value; exit 1 when one does not open."""
    with open_desk(os.environ) as desk:
        found = [entry for profile in desk.profiles.all() for entry in _list_sealed(profile)]
        is_sound = True
        for profile, key, field, envelope in found:
            name = f"{profile.name}  {key}"
            try:
                desk.sealer.open(profile.id, field, envelope)
            except PermanentFailure as error:
                is_sound = False
                print(f"FAIL  {name}  {error.message}")
            else:
                print(f"ok    {name}")
    if not found:
        print("No profile has a stored secret.")
    return 0 if is_sound else EXIT_CHECK_FAILED


def _list_sealed(profile: StoredProfile) -> Iterator[tuple[StoredProfile, str, str, bytes]]:
    """Yield each sealed value with the key that it is set by, and the field that it is sealed for."""
    for field in sorted(profile.sealed):
        yield profile, f"Certificate:{profile.certificate_source}:{key_of(field)}", field, profile.sealed[field]
    for index, envelope in enumerate(profile.pdf_passwords):
        yield profile, f"{PDF_PASSWORD}:{index}", PDF_PASSWORD, envelope
