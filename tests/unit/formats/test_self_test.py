"""The self-test of the formats: its verdict follows what signing and checking really do."""

from __future__ import annotations

from typing import Any

import pytest

from bulksigner.contract.signing import Format
from bulksigner.formats import dispatch
from bulksigner.formats.model import CheckFailed
from bulksigner.formats.self_test import find_fault


def test_every_format_works_here() -> None:
    """API-82: no fault on a sound host."""
    assert find_fault(tuple(Format)) is None


@pytest.mark.parametrize(
    ("broken", "error", "told"),
    [
        ("check", CheckFailed("The digest is wrong."), "Cades: CheckFailed: The digest is wrong."),
        ("signer_for", ImportError("libxml2"), "Cades: ImportError: libxml2"),
    ],
)
def test_a_fault_names_format_and_reason(monkeypatch: Any, broken: str, error: Exception, told: str) -> None:
    """API-82: the first fault is the verdict."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(dispatch, broken, fail)
    assert find_fault((Format.CADES, Format.PADES)) == told
    assert find_fault(()) is None
