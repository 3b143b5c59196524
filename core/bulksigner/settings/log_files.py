"""`Logging:File`: where log lines go and how long files are kept (CFG-140 to CFG-146)."""

from __future__ import annotations

import enum
import logging
from pathlib import Path

import attrs

from bulksigner.contract.settings import Check, between, option

__all__ = ["LogFileSettings", "MinimumLevel", "RollingInterval"]

_NAMES_A_FILE = Check(lambda path: path.name not in ("", "..") and "\0" not in str(path), "the path of a file")


class RollingInterval(enum.Enum):
    """How long one log file is written to; periods turn in UTC (CFG-142)."""

    DAY = "Day"
    HOUR = "Hour"
    MINUTE = "Minute"
    INFINITE = "Infinite"


class MinimumLevel(enum.Enum):
    """The least severe level that any sink gets (CFG-145)."""

    VERBOSE = "Verbose"
    DEBUG = "Debug"
    INFORMATION = "Information"
    WARNING = "Warning"
    ERROR = "Error"
    FATAL = "Fatal"

    @property
    def threshold(self) -> int:
        """Return the level number of `logging`; `Verbose` is 5."""
        return {
            MinimumLevel.VERBOSE: 5,
            MinimumLevel.DEBUG: logging.DEBUG,
            MinimumLevel.INFORMATION: logging.INFO,
            MinimumLevel.WARNING: logging.WARNING,
            MinimumLevel.ERROR: logging.ERROR,
            MinimumLevel.FATAL: logging.CRITICAL,
        }[self]


@attrs.frozen
class LogFileSettings:
    """`Logging:File`."""

    enabled: bool = option(True, help="Write log lines to files.")
    path: Path = option(
        Path("data/logs/bulksigner-.log"),
        help="Template of the files' names: the period goes before the extension. Always on this host; a relative path "
        "is under the content root.",
        check=_NAMES_A_FILE,
    )
    rolling_interval: RollingInterval = option(RollingInterval.DAY, help="When a new file begins, in UTC.")
    file_size_limit_bytes: int = option(
        50_000_000, help="Size at which the period goes on in a further file.", check=between(65536, 10_000_000_000)
    )
    retained_file_count_limit: int = option(
        14, help="Files that are kept, the one being written included; older ones are deleted.", check=between(1, 365)
    )
    minimum_level: MinimumLevel = option(
        MinimumLevel.INFORMATION,
        help="Least severe level that reaches files and console, whatever `Logging:LogLevel` lets through.",
    )
    write_to_console: bool = option(True, help="Write log lines to standard output.")
