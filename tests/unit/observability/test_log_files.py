"""Log files turn, stay few, and outlive a full disk (STA-55 to STA-58, STA-103)."""

from __future__ import annotations

import datetime
import errno
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from bulksigner.contract.errors import StartRefused
from bulksigner.observability.log_files import LogFileHandler, LogFiles, prepare_log_files
from bulksigner.observability.logs import LineFormatter, Sinks, close_files, configure
from bulksigner.observability.redaction import Scrubber
from bulksigner.settings.log_files import RollingInterval


def instant(text: str) -> float:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC).timestamp()


@attrs.define
class Host:
    """One log folder with a clock that is set by hand; each handler is a process of its own."""

    folder: Path
    clock: float = instant("2026-08-12T12:00:00")
    handlers: list[LogFileHandler] = attrs.field(factory=list)

    def handler(
        self,
        rolling: RollingInterval = RollingInterval.DAY,
        *,
        limit: int = 65536,
        keep: int = 14,
        prunes: bool = True,
        write: Callable[[int, bytes], int] = os.write,
    ) -> LogFileHandler:
        files = LogFiles(self.folder / "bulksigner-.log", rolling, limit, keep, prunes)
        made = LogFileHandler(files, now=lambda: self.clock, write=write)
        made.setFormatter(logging.Formatter("%(message)s"))
        self.handlers.append(made)
        return made

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path / "logs")
    made.folder.mkdir()
    yield made
    for handler in made.handlers:
        handler.close()


def say(handler: LogFileHandler, message: str) -> None:
    handler.handle(logging.LogRecord("bulksigner.unit", logging.INFO, __file__, 1, message, (), None))


@pytest.mark.parametrize(
    ("rolling", "before", "after", "names"),
    [
        ("Day", "2026-08-12T23:59:59", "2026-08-13T00:00:00", ["20260812", "20260813"]),
        ("Hour", "2026-08-12T14:59:59", "2026-08-12T15:00:00", ["2026081214", "2026081215"]),
        ("Minute", "2026-08-12T14:09:59", "2026-08-12T14:10:00", ["202608121409", "202608121410"]),
        ("Infinite", "2026-08-12T23:59:59", "2036-08-13T00:00:00", [""]),
    ],
)
def test_periods_turn_in_utc(host: Host, monkeypatch: pytest.MonkeyPatch, rolling, before, after, names) -> None:
    """STA-55, CFG-142: the period stands before the extension, whatever the zone of the host."""
    monkeypatch.setenv("TZ", "America/Sao_Paulo")
    handler = host.handler(RollingInterval(rolling))
    for at in (before, after):
        host.clock = instant(at)
        say(handler, at)
    assert host.names() == [f"bulksigner-{name}.log" for name in names]
    assert "".join(host.text(name) for name in host.names()) == f"{before}\n{after}\n"


def test_a_full_file_goes_on_in_the_next_and_no_file_exceeds_the_limit(host: Host) -> None:
    """STA-55, CFG-143: `_001`, `_002`; each line is whole and in one file."""
    handler = host.handler(limit=65536)
    lines = [f"{number:04} " + "x" * 995 for number in range(150)]
    for line in lines:
        say(handler, line)
    assert host.names() == [
        "bulksigner-20260812.log",
        "bulksigner-20260812_001.log",
        "bulksigner-20260812_002.log",
    ]
    assert all((host.folder / name).stat().st_size <= 65536 for name in host.names())
    assert "".join(map(host.text, host.names())).splitlines() == lines


def test_a_line_longer_than_the_limit_is_written_all_the_same(host: Host) -> None:
    """STA-57: size limits files, it never costs a line."""
    handler = host.handler()
    for message in ("y" * 70_000, "after"):
        say(handler, message)
    assert [len(host.text(name)) for name in host.names()] == [70_001, 6]


def test_a_restart_goes_on_with_the_file_of_the_last_life(host: Host) -> None:
    """STA-55: below the limit it is continued, at the limit the next one begins."""
    for message in ("first life", "second life"):
        say(host.handler(), message)
    assert host.names() == ["bulksigner-20260812.log"]
    (host.folder / "bulksigner-20260812_007.log").write_text("z" * 65536)
    say(host.handler(), "third life")
    assert host.text("bulksigner-20260812_008.log") == "third life\n"


def test_the_last_number_takes_whatever_comes(host: Host) -> None:
    """STA-55: there is no `_1000`; lines go on rather than being lost."""
    (host.folder / "bulksigner-20260812_999.log").write_text("z" * 65536)
    say(host.handler(), "still here")
    assert host.text("bulksigner-20260812_999.log").endswith("zstill here\n")


def test_the_oldest_files_go_and_only_names_of_this_form(host: Host) -> None:
    """STA-56, STA-103: overflow files count, the one in use too; anything named otherwise stays."""
    foreign = ["bulksigner-.log", "bulksigner-20260101.log.gz", "bulksigner-2026080112.log", "other-20260101.log"]
    foreign += ["bulksigner-20261399.log", "bulksigner-20260101_1.log", "bulksigner-20260101_0001.log"]
    own = ["20260809", "20260809_001", "20260810", "20260811", "20260811_001", "20260811_002"]
    for name in [*foreign, *(f"bulksigner-{name}.log" for name in own)]:
        (host.folder / name).write_text("old\n")
    (host.folder / "bulksigner-20260102.log").mkdir()
    say(host.handler(keep=3), "today")
    left = set(host.names()) - set(foreign) - {"bulksigner-20260102.log"}
    assert left == {f"bulksigner-{name}.log" for name in ("20260811_001", "20260811_002", "20260812")}
    assert set(foreign) < set(host.names())


def test_files_go_at_every_roll(host: Host) -> None:
    """STA-56: a service that never restarts keeps no more than one that does."""
    handler = host.handler(RollingInterval.MINUTE, keep=2)
    for minute in range(5):
        host.clock = instant(f"2026-08-12T12:0{minute}:30")
        say(handler, "x")
    assert host.names() == ["bulksigner-202608121203.log", "bulksigner-202608121204.log"]


def test_a_file_that_cannot_be_deleted_is_told_once_a_day(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    """STA-56: one warning a day names it; lines are written meanwhile."""

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    handler = host.handler(RollingInterval.HOUR, keep=1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "unlink", refuse)
        for at in ("12T12", "12T13", "12T14", "13T00"):
            host.clock = instant(f"2026-08-{at}:00:00")
            say(handler, at)
    told = [record.getMessage() for record in caplog.records if "cannot be deleted" in record.getMessage()]
    assert len(told) == 2
    assert "bulksigner-2026081212.log cannot be deleted: Permission denied" in told[0]
    assert len(host.names()) == 4


def test_a_full_disk_drops_lines_counts_them_and_says_so_once_a_minute(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    """STA-57, STA-103: the caller never notices; the count is logged when lines can be written again."""
    is_full = True

    def write(descriptor: int, data: bytes) -> int:
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(descriptor, data)

    handler = host.handler(write=write)
    for second in (0, 30, 59, 60, 90):
        host.clock = instant("2026-08-12T12:00:00") + second
        say(handler, "secret words that must not reach stderr")
    told = capsys.readouterr().err.splitlines()
    assert [line.partition("Lost so far: ")[2][:2] for line in told] == ["1.", "4."]
    assert all("No space left on device" in line and "secret words" not in line for line in told)
    is_full = False
    for message in ("again", "and again"):
        say(handler, message)
    assert host.text("bulksigner-20260812.log").splitlines() == [
        "Log files can be written again; 5 lines were lost",
        "again",
        "and again",
    ]


def test_half_a_line_does_not_run_into_the_next(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """STA-57: a disk that fills in the middle of a line leaves that piece on a line of its own."""
    room = 4

    def write(descriptor: int, data: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = os.write(descriptor, data[:room])
        room -= written
        return written

    handler = host.handler(write=write)
    say(handler, "torn apart")
    room = 10_000
    say(handler, "whole")
    assert host.text("bulksigner-20260812.log").splitlines() == [
        "torn",
        "Log files can be written again; 1 lines were lost",
        "whole",
    ]
    assert "Lost so far: 1" in capsys.readouterr().err


def test_a_limit_of_the_system_is_met_like_a_full_disk(tmp_path: Path) -> None:
    """STA-57: a real write error, from the kernel, ends neither the process nor its other work."""
    script = f"""
import logging, resource, sys
from pathlib import Path
from bulksigner.observability.log_files import LogFiles
from bulksigner.observability.logs import Sinks, configure
from bulksigner.observability.redaction import Scrubber
from bulksigner.settings.log_files import RollingInterval
files = LogFiles(Path({str(tmp_path)!r}) / "bulksigner-.log", RollingInterval.INFINITE, 10**9, 14)
configure(logging.INFO, {{}}, Scrubber(), sinks=Sinks(console=False, files=files))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
for number in range(100):
    logging.getLogger("x").info("line %s", number)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
logging.getLogger("x").info("last")
print("worked on")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "worked on\n"
    assert "File too large" in done.stderr
    lines = (tmp_path / "bulksigner-.log").read_text().splitlines()
    written = sum(" line " in line for line in lines[:-2])
    lost = int(lines[-2].partition("; ")[2].split()[0])
    assert written <= 100 - lost <= written + 1
    assert lines[-1].endswith("[INF] last")


def test_a_folder_that_is_away_for_a_while_is_found_again(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """STA-57: the place is not made anew behind the operator's back, and is used as soon as it is there."""
    handler = host.handler()
    say(handler, "one")
    away = host.folder.rename(host.folder.with_name("away"))
    (away / "bulksigner-20260812.log").unlink()
    say(handler, "two")
    assert not host.folder.exists()
    away.rename(host.folder)
    say(handler, "three")
    assert host.text("bulksigner-20260812.log").endswith("three\n")
    assert "No such file or directory" in capsys.readouterr().err


def test_a_reader_and_a_second_writer_share_the_file(host: Host) -> None:
    """STA-57, STA-103: each line can be read at once, and worker processes append to the same files."""
    one, other = host.handler(), host.handler(prunes=False, keep=1)
    say(one, "a")
    with (host.folder / "bulksigner-20260812.log").open(encoding="utf-8") as reader:
        for handler, message in ((other, "b"), (one, "c")):
            reader.read()
            say(handler, message)
            assert reader.read() == f"{message}\n"
    for number in range(200):
        say((one, other)[number % 2], "x" * 999)
    assert host.names() == [f"bulksigner-20260812{part}.log" for part in ("", "_001", "_002", "_003")]
    assert all((host.folder / name).stat().st_size <= 65536 for name in host.names())


def test_lines_are_masked_and_levels_hold_for_every_sink(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CFG-145, CFG-146, SEC-57: one formatter and one minimum for files and console."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    files = LogFiles(tmp_path / "a-.log", RollingInterval.INFINITE, 10**6, 14)
    try:
        configure(logging.DEBUG, {}, Scrubber(["canary-secret-0042"]), sinks=Sinks(True, files, logging.INFO))
        logging.getLogger("bulksigner.unit").debug("hidden")
        logging.getLogger("bulksigner.unit").info("key canary-secret-0042 of %s", "someone@example.com")
        close_files()
        logging.getLogger("bulksigner.unit").info("after")
    finally:
        logging.captureWarnings(capture=False)
        root.handlers[:] = handlers
        root.setLevel(level)
    written = (tmp_path / "a-.log").read_text()
    assert written.partition("] ")[2] == "key *** of s***@example.com\n"
    assert capsys.readouterr().out.startswith(written)


def test_a_place_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    """OPS-59, CFG-141: exit 73 names the path and the hint for systemd; a good place is made, mode 0750."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StartRefused) as refused:
        prepare_log_files(LogFiles(tmp_path / "file" / "x-.log", RollingInterval.DAY, 65536, 14))
    assert refused.value.exit_code == 73
    assert str(tmp_path / "file") in refused.value.message
    assert "ReadWritePaths" in refused.value.message
    prepare_log_files(LogFiles(tmp_path / "new" / "logs" / "x-.log", RollingInterval.DAY, 65536, 14))
    assert (tmp_path / "new" / "logs").stat().st_mode & 0o027 == 0


def test_the_formatter_of_the_console_writes_the_files(host: Host) -> None:
    """STA-58: form of CFG-147, exceptions below the line, indented."""
    handler = host.handler()
    handler.setFormatter(LineFormatter(Scrubber()))
    try:
        raise ValueError("no")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, __file__, 1, "It failed", (), sys.exc_info())
    handler.handle(record)
    first, *others = host.text("bulksigner-20260812.log").splitlines()
    assert first.endswith("+00:00 [ERR] It failed")
    assert others[-1] == "    ValueError: no"
    assert all(line.startswith("    ") for line in others)
