from __future__ import annotations

from bulksigner.contract.storage import Entry
from bulksigner.intake.settled import Settled

FILE = Entry("a", 1, 1)


def due(settled: Settled, *entries: Entry, now: float = 0) -> list[str]:
    return [entry.name for entry in settled.sift(entries, now, lambda name: not name.startswith("."))]


def test_an_answer_holds_while_the_entry_is_the_same() -> None:
    """PIPE-44: no second query for a file that waits for a person; any change asks again."""
    settled = Settled()
    assert due(settled, FILE, Entry(".b", 1, 1)) == ["a"]
    settled.keep(FILE)
    assert due(settled, FILE) == []
    assert due(settled, Entry("a", 2, 1)) == ["a"]
    assert due(settled, FILE) == ["a"]


def test_the_answer_of_a_file_that_went_is_dropped() -> None:
    """PIPE-44: what has the name later is asked for anew."""
    settled = Settled()
    settled.keep(FILE)
    due(settled)
    assert due(settled, FILE) == ["a"]


def test_an_answer_may_end() -> None:
    """PIPE-45: an active path is asked again after a while, and the watcher knows when."""
    settled = Settled()
    settled.keep(FILE, until=10)
    settled.keep(Entry("b", 1, 1), until=20)
    assert settled.next_at == 10
    assert due(settled, FILE, Entry("b", 1, 1), now=9) == []
    assert due(settled, FILE, Entry("b", 1, 1), now=10) == ["a"]
    assert settled.next_at == 20


def test_forgetting_tells_whether_someone_waits() -> None:
    """PIPE-94: only an answer with an end calls for a look now."""
    settled = Settled()
    assert not settled.forget("a")
    settled.keep(FILE)
    assert not settled.forget("a")
    settled.keep(FILE, until=10)
    assert settled.forget("a")
    assert due(settled, FILE) == ["a"]


def test_news_during_an_answer_wins() -> None:
    """PIPE-44: a job that ends while its path is being asked about leaves no stale answer behind."""
    settled = Settled()
    with settled.answering([FILE]):
        assert settled.forget("a")
        settled.keep(FILE, until=30)
    assert due(settled, FILE) == ["a"]
    settled.keep(FILE)
    assert due(settled, FILE) == []
