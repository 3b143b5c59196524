"""A server for a test, with short patience."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.web.served_web import Host, serving


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """Serve with four threads, the limits of the product, and a read timeout of one second."""
    with serving(tmp_path) as running:
        yield running
