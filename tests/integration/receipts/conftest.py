"""A service that writes receipts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(params=["sqlite", "postgresql"])
def served(request: pytest.FixtureRequest, make_harness: Callable[..., Any]) -> Iterator[Any]:
    """A service that writes receipts, stepped by hand, on either engine."""
    settings = {"Receipts:Enabled": True}
    if request.param == "sqlite":
        yield make_harness(settings=settings)
        return
    server = request.getfixturevalue("postgres_server")
    name = server.create_database()
    harness = make_harness(settings=settings, database_url=server.url_of(name))
    yield harness
    harness.close()
    server.drop_database(name)
