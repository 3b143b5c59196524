"""How an error reads."""

from __future__ import annotations

import pytest

from bulksigner.contract.errors import Failure, join


@pytest.mark.parametrize(
    ("problem", "remedy", "told"),
    [
        ("holds an X", "Take it out.", "holds an X. Take it out."),
        ("holds an X.", "Take it out.", "holds an X. Take it out."),
        (" holds an X ", "", "holds an X"),
        ("", "Take it out.", "Take it out."),
    ],
)
def test_problem_and_remedy_are_two_sentences(problem: str, remedy: str, told: str) -> None:
    """BEY-60, CFG-12: whether or not the author of the problem, who may be a plugin's, ended it."""
    assert join(problem, remedy) == told
    assert Failure("A:B", problem, remedy).line() == f"A:B (variable A__B): {told}"
