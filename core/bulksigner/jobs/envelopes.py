"""How many envelopes each key has written: random nonces bear so many and no more (ENC-10)."""

from __future__ import annotations

import threading

import peewee

from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import EnvelopeCountRow

__all__ = ["MANY_ENVELOPES", "count_envelope", "envelopes_written"]

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


def count_envelope(store: Store, check_value: str) -> None:
    """Count one more envelope of a key in the act under way."""
    # Connections of a server are threads of their own; in one row they would wait for each other's commits.
    store.execute(_COUNT, check_value=check_value, shard=threading.get_native_id() % _SHARDS)


def envelopes_written(store: Store, check_value: str) -> int:
    """Return how many envelopes a key has written."""
    rows = store.read(lambda: store.execute(_WRITTEN, check_value=check_value).rows)
    return int(rows[0][0] or 0)
