"""Facts that every instance of a deployment shares, each recorded once."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Callable

from bulksigner.records.errors import UniqueViolation
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import DeploymentRow

__all__ = ["deployment_salt", "read_fact", "record_fact"]

_SALT = "profile-sealing-salt"
_SALT_BYTES = 32
_READ = Prepared(DeploymentRow.select(DeploymentRow.value).where(DeploymentRow.name == slot("name")))
_RECORD = Prepared(
    DeploymentRow.insert(
        {
            DeploymentRow.name: slot("name"),
            DeploymentRow.value: slot("value"),
            DeploymentRow.recorded_at: slot("recorded_at"),
        }
    )
)


def read_fact(store: Store, name: str) -> str | None:
    """Return a fact, inside `write`, `read` or `reading`; None when it was never recorded."""
    rows = store.execute(_READ, name=name).rows
    return str(rows[0][0]) if rows else None


def record_fact(store: Store, name: str, value: str, at: datetime.datetime) -> None:
    """Record a fact in the act under way; raises `UniqueViolation` when it is there already."""
    store.execute(_RECORD, name=name, value=value, recorded_at=at)


def deployment_salt(store: Store, clock: Callable[[], datetime.datetime]) -> bytes:
    """Return the salt of the sealing key, 32 bytes, made by whichever instance needs it first (SEC-48)."""
    known = store.read(lambda: read_fact(store, _SALT))
    if known is None:
        made = secrets.token_bytes(_SALT_BYTES).hex()

        def act() -> str:
            record_fact(store, _SALT, made, clock())
            return made

        try:
            known = store.write(act, settle=lambda: read_fact(store, _SALT))
        except UniqueViolation:
            known = store.read(lambda: read_fact(store, _SALT)) or made
    return bytes.fromhex(known)
