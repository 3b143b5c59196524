"""How paths are compared, and what a wake signal promises."""

from __future__ import annotations

import datetime

import pytest

from bulksigner.jobs.model import path_key, utc_now
from bulksigner.jobs.queue import Wake


@pytest.mark.parametrize("spelled", ["/in/a.pdf", "/in//a.pdf", "/in/./a.pdf", "/in/b/../a.pdf"])
def test_spellings_of_one_path_have_one_key(spelled: str) -> None:
    """PIPE-02: the unique rule looks at the normalised path."""
    assert path_key(spelled) == path_key("/in/a.pdf")


def test_different_files_have_different_keys() -> None:
    """PIPE-02: what the file system keeps apart stays apart."""
    assert len({path_key(name) for name in ("/in/a.pdf", "/in/b.pdf", "input:in/a.pdf")}) == 3


def test_a_signal_given_early_is_not_lost() -> None:
    """PIPE-64: wake before wait counts once."""
    wake = Wake()
    wake.set()
    assert wake.take()
    assert not wake.take()


def test_stored_times_are_utc() -> None:
    """PIPE-05: the clock is aware and UTC."""
    assert utc_now().tzinfo is datetime.UTC
