"""Revoked tickets of browser sessions, in memory."""

from __future__ import annotations

import datetime

__all__ = ["RevokedTickets"]


class RevokedTickets:
    """What `RevokedSessions` keeps in the database."""

    def __init__(self) -> None:
        self.ids: set[str] = set()

    def revoke(self, ticket_id: str, until: datetime.datetime) -> None:
        self.ids.add(ticket_id)

    def is_revoked(self, ticket_id: str) -> bool:
        return ticket_id in self.ids
