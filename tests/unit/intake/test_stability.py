from __future__ import annotations

from bulksigner.contract.storage import Entry
from bulksigner.intake.stability import Stability


def names(entries: list[Entry]) -> list[str]:
    return [entry.name for entry in entries]


def test_a_file_is_stable_after_equal_samples_in_a_row() -> None:
    """PIPE-43: three equal samples, an interval apart; a sample in between counts for nothing."""
    stability = Stability(3, 0.5, 60)
    file = Entry("a", 10, 1)
    seen = [names(stability.observe([file], now).stable) for now in (0.0, 0.1, 0.2, 0.5, 0.6, 1.0)]
    assert seen == [[], [], [], [], [], ["a"]]
    assert len(stability) == 0


def test_one_sample_may_be_enough() -> None:
    """PIPE-43, CFG-125: one required sample takes a file at first sight."""
    assert names(Stability(1, 0.5, 60).observe([Entry("a", 0, 1)], 0).stable) == ["a"]


def test_any_change_starts_the_count_again() -> None:
    """PIPE-43: size or time, also between two samples, also back to what it was."""
    stability = Stability(2, 1, 60)
    steps = [(0.0, Entry("a", 1, 1)), (1.0, Entry("a", 2, 1)), (1.5, Entry("a", 2, 2)), (2.0, Entry("a", 2, 2))]
    steps += [(2.4, Entry("a", 2, 1)), (2.6, Entry("a", 2, 2)), (3.5, Entry("a", 2, 2)), (3.6, Entry("a", 2, 2))]
    seen = [names(stability.observe([file], now).stable) for now, file in steps]
    assert seen == [[], [], [], [], [], [], [], ["a"]]


def test_a_file_that_goes_is_forgotten() -> None:
    """PIPE-43: one that comes back is new."""
    stability = Stability(2, 1, 60)
    file = Entry("a", 1, 1)
    stability.observe([file], 0)
    stability.observe([], 1)
    assert names(stability.observe([file], 2).stable) == []
    assert names(stability.observe([file], 3).stable) == ["a"]


def test_a_file_that_never_stands_still_times_out() -> None:
    """PIPE-43: counted from its first sight, whatever it did since."""
    stability = Stability(2, 1, 5)
    timed_out = [names(stability.observe([Entry("a", now, 1)], now).timed_out) for now in range(7)]
    assert timed_out == [[], [], [], [], [], ["a"], []]


def test_files_are_judged_one_by_one() -> None:
    """PIPE-43: any number may be on its way."""
    stability = Stability(2, 1, 60)
    stability.observe([Entry("a", 1, 1), Entry("b", 1, 1)], 0)
    assert names(stability.observe([Entry("a", 1, 1), Entry("b", 2, 1), Entry("c", 1, 1)], 1).stable) == ["a"]
    assert names(stability.observe([Entry("b", 2, 1), Entry("c", 1, 1)], 2).stable) == ["b", "c"]


def test_each_file_is_due_an_interval_after_its_own_sample() -> None:
    """PERF-10: one that came between two looks does not wait for the pace of the first, nor the first for it."""
    stability = Stability(2, 0.5, 60)
    first, second = Entry("a", 1, 1), Entry("b", 1, 1)
    assert stability.next_at is None
    stability.observe([first], 0.0)
    assert stability.next_at == 0.5
    stability.observe([first, second], 0.125)
    assert stability.next_at == 0.5
    assert names(stability.observe([first, second], 0.5).stable) == ["a"]
    assert stability.next_at == 0.625
    assert names(stability.observe([second], 0.625).stable) == ["b"]
    assert stability.next_at is None
