"""The keys of `Logging:File`, and the places they may name."""

from __future__ import annotations

import logging

import pytest

from bulksigner.settings.log_files import MinimumLevel, RollingInterval


def test_defaults_keep_two_weeks_beside_the_data(host) -> None:
    """CFG-140 to CFG-146, STA-56: on, daily, 14 files of 50 MB, console as well, path under the content root."""
    given = host.load().core.logging.file
    assert (given.enabled, given.write_to_console) == (True, True)
    assert given.path == host.root / "data/logs/bulksigner-.log"
    assert (given.rolling_interval, given.file_size_limit_bytes) == (RollingInterval.DAY, 50_000_000)
    assert given.retained_file_count_limit == 14
    assert given.minimum_level.threshold == logging.INFO


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("FileSizeLimitBytes", ("65536", "10000000000"), ("65535", "10000000001")),
        ("RetainedFileCountLimit", ("1", "365"), ("0", "366")),
        ("RollingInterval", ("hour", "Infinite"), ("Week",)),
        ("MinimumLevel", ("verbose", "Fatal"), ("None", "Trace")),
        ("Path", ("/var/log/x/y-.log", "logs/z.txt"), ("", "azurefiles://account/share/x.log", "..")),
    ],
)
def test_values_are_limited(host, key, good, bad) -> None:
    """CFG-141 to CFG-145: each value outside is refused under its own key."""
    for value in good:
        host.load({f"Logging__File__{key}": value})
    for value in bad:
        assert set(host.refuse({f"Logging__File__{key}": value})) == {f"Logging:File:{key}"}


def test_levels_have_numbers() -> None:
    """CFG-145: least severe first."""
    assert [level.threshold for level in MinimumLevel] == [5, 10, 20, 30, 40, 50]


def test_one_local_sink_stays(host) -> None:
    """CFG-140, OPS-51: without files and console nobody sees a line; either alone is enough."""
    files, console = "Logging__File__Enabled", "Logging__File__WriteToConsole"
    assert set(host.refuse({files: "false", console: "false"})) == {"Logging:File:Enabled"}
    for key in (files, console):
        host.load({key: "false"})


@pytest.mark.parametrize("place", ["in", "in/deep", "data/output", "data/processing/x", "link/error"])
def test_files_stay_out_of_folders_that_are_worked_on(host, place) -> None:
    """CFG-141: a log file in an input folder would be taken in, one in a work root swept."""
    (host.root / "data").mkdir()
    (host.root / "link").symlink_to(host.root / "data")
    folder = {"Storage__Inputs__0__Name": "in", "Storage__Inputs__0__Path": "in"}
    variables = {**folder, "Logging__File__Path": f"{place}/x-.log"}
    assert set(host.refuse(variables)) == {"Logging:File:Path"}
    assert host.load({**variables, "Logging__File__Enabled": "false"}).warnings == ()
