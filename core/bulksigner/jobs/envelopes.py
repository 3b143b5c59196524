"""How many envelopes each key has written: random nonces bear so many (ENC-10), and a key without any is a new one."""

from __future__ import annotations

import logging
import threading

import peewee

from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import EnvelopeCountRow

__all__ = ["MANY_ENVELOPES", "count_envelope", "envelopes_written", "warn_of_key"]

log = logging.getLogger(__name__)

MANY_ENVELOPES = 1 << 31
"""Half of what one key may write, hence when to change it."""

_SHARDS = 16

_COUNT = Prepared(
    EnvelopeCountRow.insert(
        {
            EnvelopeCountRow.check_value: slot("check_value"),
            EnvelopeCountRow.shard: slot("shard"),
            EnvelopeCountRow.written: 1,
        }
    ).on_conflict(
        conflict_target=[EnvelopeCountRow.check_value, EnvelopeCountRow.shard],
        update={EnvelopeCountRow.written: EnvelopeCountRow.written + 1},
    )
)
_WRITTEN = Prepared(
    EnvelopeCountRow.select(peewee.fn.SUM(EnvelopeCountRow.written)).where(
        EnvelopeCountRow.check_value == slot("check_value")
    )
)
_WRITTEN_BY_ALL = Prepared(EnvelopeCountRow.select(peewee.fn.SUM(EnvelopeCountRow.written)))


def count_envelope(store: Store, check_value: str) -> None:
    """Count one more envelope of a key in the act under way."""
    # Connections of a server are threads of their own; in one row they would wait for each other's commits.
    store.execute(_COUNT, check_value=check_value, shard=threading.get_native_id() % _SHARDS)


def envelopes_written(store: Store, check_value: str) -> int:
    """Return how many envelopes a key has written."""
    rows = store.read(lambda: store.execute(_WRITTEN, check_value=check_value).rows)
    return int(rows[0][0] or 0)


def warn_of_key(store: Store, check_value: str) -> None:
    """Warn at a start of a key that has written much (ENC-10), and of one that is not the key of the files so far.

    The latter is how a password typed wrong would show, before anything is encrypted that nobody can open (ENC-35).
    """
    written = envelopes_written(store, check_value)
    if written > MANY_ENVELOPES:
        log.warning(
            "%d files were encrypted with this key, and more than %d are not safe. Change Encryption:Password soon, "
            "and keep the former one for the files that exist",
            written,
            2 * MANY_ENVELOPES,
        )
    elif not written:
        rows = store.read(lambda: store.execute(_WRITTEN_BY_ALL).rows)
        if others := int(rows[0][0] or 0):
            log.warning(
                "The key of encrypted outputs is new: password, salt or iterations are not those of the %d files "
                "encrypted so far. If that is not meant, stop the service and correct them; no file is encrypted anew",
                others,
            )
