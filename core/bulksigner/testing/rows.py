"""A stored profile and the birth of a job, whole, for tests that care about one or two of their fields."""

from __future__ import annotations

from typing import Any

from bulksigner.contract.signing import Format
from bulksigner.jobs.model import Birth, JobSource
from bulksigner.profiles.model import StoredProfile

__all__ = ["new_birth", "stored_profile"]


def stored_profile(name: str = "default", **fields: Any) -> StoredProfile:
    """Return a profile of a PKCS#12 file that signs here and checks what it signed; any field can be given."""
    usual: dict[str, Any] = {
        "id": name,
        "name": name,
        "enabled": True,
        "format": None,
        "method": "Local",
        "verify": True,
        "preserve_file_extension": False,
        "save_as_pem": False,
        "certificate_source": "Pfx",
        "certificate_block": {},
        "sealed": {},
        "extras": {},
        "input_folder": None,
    }
    return StoredProfile(**usual | fields)


def new_birth(name: str = "report.pdf", **fields: Any) -> Birth:
    """Return the birth of a job for a file that was found in the folder `in`; any field can be given."""
    usual: dict[str, Any] = {
        "file_name": name,
        "original_path": f"/in/{name}",
        "input_folder": "in",
        "profile_name": "default",
        "format": Format.PADES,
        "source": JobSource.WATCHER,
        "message": "Queued from watched folder in",
    }
    return Birth(**usual | fields)
