"""The committed settings reference is the one the code would write now."""

from __future__ import annotations

from pathlib import Path

import pytest

from bulksigner.settings.reference import render_reference
from bulksigner.settings.schema import CollectedSchema

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "settings.md"


def test_page_is_current() -> None:
    """CFG-16: the page lists the keys that bind; `python -m bulksigner.settings.reference` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == render_reference(CollectedSchema())


@pytest.mark.parametrize("row", list(CollectedSchema().rows()), ids=lambda row: row.path)
def test_every_key_is_explained(row) -> None:
    """CFG-16: a key without a meaning is not documented."""
    assert row.member.option.help.endswith(".")
    assert len(row.member.option.help) > 12
