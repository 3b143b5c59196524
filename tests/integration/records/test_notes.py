"""The notes of plugins, alike on both engines."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from bulksigner.contract.notes import Notes
from bulksigner.jobs.model import utc_now
from bulksigner.records.engines import Store
from bulksigner.records.notes import StoredNotes


@pytest.fixture
def notes(store: Store) -> Notes:
    """The notes of one plugin."""
    return StoredNotes(store, utc_now, "card")


def test_a_note_is_added_changed_and_removed(store: Store, notes: Notes) -> None:
    """BEY-31: what was noted is there for a later life; the notes of another plugin are its own."""
    assert notes.read("pin") is None
    assert notes.swap("pin", None, "one")
    assert notes.swap("pin", "one", "two")
    again = StoredNotes(store, utc_now, "card")
    assert again.read("pin") == "two"
    assert StoredNotes(store, utc_now, "other").read("pin") is None
    assert again.swap("pin", "two", None)
    assert notes.read("pin") is None


def test_a_swap_of_what_is_not_there_changes_nothing(notes: Notes) -> None:
    """BEY-31: of two that act on the same sight the second is told so."""
    assert not notes.swap("pin", "one", "two")
    assert not notes.swap("pin", "one", None)
    assert notes.swap("pin", None, None)
    assert notes.swap("pin", None, "one")
    assert not notes.swap("pin", None, "other")
    assert not notes.swap("pin", None, None)
    assert not notes.swap("pin", "other", "two")
    assert notes.read("pin") == "one"


def test_of_many_that_add_one_does(notes: Notes) -> None:
    """BEY-31: a value is tried by one process, whichever comes first."""
    start, done = threading.Barrier(8), list[bool]()

    def add(number: int) -> None:
        start.wait()
        done.append(notes.swap("pin", None, str(number)))

    threads = [threading.Thread(target=partial(add, number)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [False] * 7 + [True]
