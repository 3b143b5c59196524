"""The tables of receipts as peewee models; `migrations/` makes them."""

from __future__ import annotations

import peewee

from bulksigner.records.row import Row
from bulksigner.records.times import UtcField

__all__ = ["ReceiptHeadRow", "ReceiptRow"]


class ReceiptRow(Row):
    """One receipt (BEY-03), a link of the chain of its instance; `content` is the file as it is written.

    `signature` is base64, null before it is made and where there is none; `place` is the path of the file once it is
    known. A receipt is settled when its files are written, or will never be; `removed_at` says when they were taken
    away with their output.
    """

    instance = peewee.TextField()
    number = peewee.BigIntegerField()
    job_id = peewee.TextField()
    completed_at = UtcField()
    previous = peewee.TextField(null=True)
    sha256 = peewee.TextField()
    content = peewee.TextField()
    profile_name = peewee.TextField()
    output_path = peewee.TextField()
    signature = peewee.TextField(null=True)
    place = peewee.TextField(null=True)
    settled_at = UtcField(null=True)
    removed_at = UtcField(null=True)

    class Meta:
        table_name = "receipt"
        primary_key = peewee.CompositeKey("instance", "number")


class ReceiptHeadRow(Row):
    """The last link of the chain of an instance; whoever adds one holds the row until the commit."""

    instance = peewee.TextField(primary_key=True)
    number = peewee.BigIntegerField()
    sha256 = peewee.TextField(null=True)

    class Meta:
        table_name = "receipt_head"
