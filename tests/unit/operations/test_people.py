"""A reason is one clean line or none."""

from __future__ import annotations

import pytest

from bulksigner.contract.errors import Refusal
from bulksigner.operations.people import ReasonReader, as_sentence, with_reason


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ("", None),
        (" \t\r\n ", None),
        ("\x00\x1b", None),
        ("  year end ", "year end"),
        ("a\n b\x07c", "a b c"),
        ("\ud800x", "?x"),
        ("\U0001f4c4 ção", "\U0001f4c4 ção"),
    ],
)
def test_what_is_kept_of_a_reason(given: str | None, expected: str | None) -> None:
    """API-70, SEC-72: trimmed, on one line, storable in every database; blank is none."""
    assert ReasonReader(lambda text: text).read(given) == expected


def test_the_limit_counts_characters_after_trimming() -> None:
    """API-70: 512 are taken whole, 513 refused."""
    reader = ReasonReader(lambda text: text)
    assert reader.read(f" {'é' * 512} ") == "é" * 512
    with pytest.raises(Refusal) as caught:
        reader.read("é" * 513)
    assert caught.value.code == "validation.reason-too-long"


def test_a_reason_is_scrubbed() -> None:
    """SEC-57: before anything stores it."""
    assert ReasonReader(lambda text: text.replace("hush", "***")).read("it is hush") == "it is ***"


def test_a_reason_ends_like_a_sentence_once() -> None:
    """PIPE-68, PIPE-101: `Reason: <reason>.` without a doubled stop."""
    assert with_reason("Paused.", "year end") == "Paused. Reason: year end."
    assert with_reason("Paused.", "Really?") == "Paused. Reason: Really?"
    assert with_reason("Paused.", None) == "Paused."
    assert as_sentence("done.") == "done."
