"""The frame of the benchmark; its figures are for a quiet host and a person."""

import json

import pytest
from bench.__main__ import main, table, write_results
from bench.inputs import all_inputs
from bench.measure import Loop, run_interleaved


def test_inputs_have_the_sizes_of_the_sheet():
    """PERF-20: PDF of 30 KB, 300 KB and 5 MB in both forms, payment file 200 KB, XML 10 KB."""
    sizes = {made.name: len(made.content) for made in all_inputs()}
    for name, size_bytes in (("pdf-30k", 30_000), ("pdf-300k", 300_000), ("pdf-5m", 5_000_000)):
        assert sizes[name] == sizes[f"{name}-packed"] == size_bytes
    assert 200_000 <= sizes["payment-200k"] < 201_000
    assert 9_900 < sizes["xml-10k"] <= 10_000


def test_loops_of_one_line_run_in_turns():
    """Drift of the host touches every loop alike: warm-up, then round by round."""
    seen = []
    loops = [Loop("a", lambda: seen.append("a")), Loop("b", lambda: seen.append("b"))]
    results = run_interleaved("test", loops, rounds=2, count=3)
    assert "".join(seen) == "ab" + "aaabbb" * 2
    assert [result.repetitions for result in results] == [6, 6]
    assert all(result.best_per_second >= result.per_second > 0 for result in results)


def test_results_are_kept_with_the_facts_of_the_host(tmp_path):
    """A result can be read later: cores, versions and peak memory stand beside it."""
    results = run_interleaved("test", [Loop("a", int)], rounds=1, count=1)
    document = json.loads(write_results(tmp_path, ["test"], results).read_text(encoding="utf-8"))
    assert document["results"][0]["name"] == "a"
    assert document["host"]["libraries"]["cryptography"]
    assert document["peak_memory_mib"] > 0
    assert "a" in table(results).splitlines()[1]


@pytest.mark.parametrize(("arguments", "text"), [(["nothing"], "no such line"), (["--count", "0"], "at least 1")])
def test_bad_arguments_are_refused(arguments, text, capsys):
    """The refusal says what there is."""
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert text in capsys.readouterr().err
