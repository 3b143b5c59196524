"""The reference pages of routes and codes are what the tables say."""

from __future__ import annotations

from pathlib import Path

import pytest

from bulksigner.contract.codes import CODES
from bulksigner.web.reference import codes_page, routes_page
from bulksigner.web.routes import ROUTES

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize(("page", "text"), [("rest-api.md", routes_page()), ("error-codes.md", codes_page())])
def test_the_page_is_current(page: str, text: str) -> None:
    """API-76, API-92: `python -m bulksigner.web.reference docs/reference` writes it again."""
    assert (REFERENCE / page).read_text(encoding="utf-8") == text


def test_every_row_is_on_its_page() -> None:
    """API-76: no route and no code is missing from its page, whatever the page looks like."""
    routes, codes = routes_page(), codes_page()
    assert all(f"`{route.method} {route.path}`" in routes for route in ROUTES)
    assert all(f"| `{code}` |" in codes for code in CODES)
    assert "| `job.path-too-long` | 400, 409 |" in codes
    assert "| `sign.failed` | — |" in codes
