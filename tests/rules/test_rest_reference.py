"""The reference pages of routes and codes show every row of their tables."""

from __future__ import annotations

from bulksigner.contract.codes import CODES
from bulksigner.web.reference import codes_page, routes_page
from bulksigner.web.routes import ROUTES


def test_every_row_is_on_its_page() -> None:
    """API-76: no route and no code is missing from its page, whatever the page looks like."""
    routes, codes = routes_page("note"), codes_page("note")
    assert all(f"`{route.method} {route.path}`" in routes for route in ROUTES)
    assert all(f"| `{code}` |" in codes for code in CODES)
    assert "| `job.path-too-long` | 400, 409 |" in codes
    assert "| `sign.failed` | — |" in codes
