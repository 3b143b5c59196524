"""The ledger of a wild producer knows what could be seen, and no more."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from bulksigner.testing.producer import Fate, Ledger, Version, WildProducer, base_name

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the producer locks and replaces files as POSIX does")

LIMIT_SECONDS = 30.0


def test_a_whole_content_is_published_as_it_is() -> None:
    """BEY-51: neither its beginning nor another name's content counts; twice published is twice."""
    ledger = Ledger()
    ledger.add(Version("a.txt", b"whole"))
    assert ledger.publications("a.txt", b"whole") == 1
    assert ledger.publications("a (2).txt", b"whole") == 1
    assert ledger.publications("a.txt", b"who") == 0
    assert ledger.publications("b.txt", b"whole") == 0
    ledger.add(Version("a.txt", b"whole"))
    assert ledger.publications("a.txt", b"whole") == 2


def test_every_beginning_of_a_stream_is_published() -> None:
    """PIPE-43: what is written in place can be seen half."""
    ledger = Ledger(streams={"a.txt": [b"stream"]})
    seen = {
        content: ledger.publications("a.txt", content) for content in (b"", b"str", b"stream", b"streams", b"tream")
    }
    assert seen == {b"": 1, b"str": 1, b"stream": 1, b"streams": 0, b"tream": 0}


@pytest.mark.parametrize(("new", "old"), [(b"NEW", b"older"), (b"NEWER", b"old"), (b"NEW", b"old"), (b"abN", b"abold")])
def test_what_is_gone_over_is_new_before_old(new: bytes, old: bytes) -> None:
    """PIPE-74: a beginning of the new one with the rest of the old one, and no other mixture."""
    ledger = Ledger(gone_over={"a.txt": [(new, old)]})
    for written in range(len(new) + 1):
        assert ledger.publications("a.txt", new[:written] + old[written:]) == 1
    for torn in (old[:2] + b"?" + old[3:], old[:1] + new[1:], new + b"?", old[:-1]):
        if torn not in {new[:written] + old[written:] for written in range(len(new) + 1)}:
            assert ledger.publications("a.txt", torn) == 0


def test_a_file_that_is_written_in_place_held_more_than_its_last_content() -> None:
    """PIPE-92: what it held on the way, back to its first content; another file of that name held none of it."""
    first = Version("a.txt", b"first")
    last = Version("a.txt", b"last one", Version("a.txt", b"second", first))
    assert all(map(last.held_before, (b"first", b"second", b"las", b"secst", b"lacond")))
    assert not last.held_before(b"third")
    assert not Version("a.txt", b"last one").held_before(b"las")


def test_a_number_of_the_service_is_no_part_of_a_name() -> None:
    """PIPE-92: what is put back beside a newer file is still known."""
    assert [base_name(name) for name in ("a.txt", "a (2).txt", "a (2)", "a (x).txt")] == [
        "a.txt",
        "a.txt",
        "a (2)",
        "a (x).txt",
    ]


def test_a_producer_left_alone_loses_nothing(tmp_path: Path) -> None:
    """BEY-51: every file is what its ledger says, and what it says is left is there."""
    producer = WildProducer(tmp_path, seed=1)
    producer.start()
    deadline = time.monotonic() + LIMIT_SECONDS
    while sum(producer.acts.values()) < 100:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    producer.stop()
    versions = [version for given in producer.ledger.versions.values() for version in given]
    left = {version.name: version.content for version in versions if version.fate is Fate.LEFT}
    assert left == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert all(producer.ledger.publications(name, content) for name, content in left.items())
    assert not any(version.fate is Fate.FOUND_GONE for version in versions)
