"""What the models of all tables share."""

from __future__ import annotations

import peewee

__all__ = ["Row"]


class Row(peewee.Model):
    """A model without a database: statements are compiled for the store that runs them."""

    class Meta:
        legacy_table_names = False
