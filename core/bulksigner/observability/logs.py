"""Log lines: one event, one line, redacted on the way out (CFG-147, SEC-55, SEC-56).

Modules log through `logging.getLogger("bulksigner.<package>")` and give properties as `extra=facts(job_id=...)`.
"""

from __future__ import annotations

import contextvars
import datetime
import enum
import functools
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, TextIO

import attrs

from bulksigner.contract.settings import Secret
from bulksigner.observability.log_files import LogFileHandler, LogFiles
from bulksigner.observability.redaction import MASK, Scrubber, is_sensitive

__all__ = ["CONTEXT", "LineFormatter", "Sinks", "close_files", "configure", "escape", "facts"]

TRACE = 5
CONTEXT: contextvars.ContextVar[Mapping[str, object]] = contextvars.ContextVar("bulksigner.log_context")
"""Properties added to every line of what is under way, such as the ids of a request (API-03)."""

_ABBREVIATIONS = {
    TRACE: "VRB",
    logging.DEBUG: "DBG",
    logging.INFO: "INF",
    logging.WARNING: "WRN",
    logging.ERROR: "ERR",
    logging.CRITICAL: "FTL",
}
_FLOORS = {"waitress": logging.WARNING, "peewee": logging.WARNING}


def facts(**properties: object) -> dict[str, object]:
    """Return the `extra` of a log call that shows `properties` behind the message, in PascalCase."""
    return {"facts": properties}


def escape(text: str) -> str:
    """Write whatever could break a line or turn its direction as `\\u....`, so that a name cannot forge a line."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    return f"\\u{ord(character):04x}"


@functools.lru_cache(maxsize=1024)
def _property_name(name: str) -> str:
    pascal = "".join(part[:1].upper() + part[1:] for part in name.split("_")) if name.isidentifier() else name
    return escape(pascal)


def _quote(text: str) -> str:
    return escape(encode_basestring(text))


def _render(value: object) -> str:
    if isinstance(value, str):
        return _quote(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, Secret):
        return f'"{MASK}"'
    if isinstance(value, enum.Enum):
        return _render(value.value)
    if isinstance(value, datetime.datetime):
        return f'"{value.isoformat()}"'
    if isinstance(value, Mapping):
        return _render_all(value)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return f"[{', '.join(_render(item) for item in value)}]"
    # Bytes could be content or key material (SEC-61): only their number is told.
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f'"{len(value)} bytes"'
    return _quote(str(value))


def _render_all(properties: Mapping[Any, object]) -> str:
    shown = (
        f'{_property_name(str(name))}: "{MASK}"'
        if is_sensitive(str(name))
        else f"{_property_name(str(name))}: {_render(value)}"
        for name, value in properties.items()
    )
    return f"{{{', '.join(shown)}}}"


class LineFormatter(logging.Formatter):
    """Renders a record as the line of CFG-147 and scrubs it; whatever it says, no second line can look like one."""

    def __init__(self, scrubber: Scrubber) -> None:
        super().__init__()
        self._scrubber = scrubber
        self._second = (-1, "")
        self._latest: tuple[logging.LogRecord | None, str] = (None, "")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end; below it those of a traceback, each indented by four blanks (STA-58).

        The handlers ask one after the other for the same record; it is rendered once.
        """
        known, line = self._latest
        if known is not record:
            line = self._line(record)
            # One with an error is let go of, and with it all that the error holds.
            self._latest = (None if record.exc_info else record, line)
        return line

    def _line(self, record: logging.LogRecord) -> str:
        properties: dict[str, object] = dict(getattr(record, "facts", ()))
        context = CONTEXT.get(None)
        if context:
            properties.update(context)
        level = _ABBREVIATIONS.get(record.levelno) or record.levelname[:3].upper()
        line = f"{self._time(record.created)} [{level}] {escape(_message(record))}"
        if properties:
            line = f"{line}  {_render_all(properties)}"
        if record.exc_info:
            line = "\n    ".join((line, *map(escape, self.formatException(record.exc_info).splitlines())))
        return self._scrubber.scrub(line)

    def _time(self, created: float) -> str:
        microseconds = int(created * 1_000_000)
        second, fraction = divmod(microseconds, 1_000_000)
        known, text = self._second
        if known != second:
            text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            self._second = (second, text)
        return f"{text}.{fraction:06d}+00:00"


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError) as wrong:
        return f"{record.msg} [arguments do not fit the message: {wrong}]"


class _LineHandler(logging.StreamHandler[TextIO]):
    """Writes lines to one stream; what cannot be written is dropped rather than shown unredacted on stderr."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.dropped_count = 0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802 - the name is logging's
        self.dropped_count += 1


@attrs.frozen
class Sinks:
    """Where lines go: standard output, files, or both; nothing below `minimum` (of `logging`) goes anywhere."""

    console: bool = True
    files: LogFiles | None = None
    minimum: int = logging.NOTSET


def configure(
    level: int,
    levels: Mapping[str, int],
    scrubber: Scrubber,
    *,
    sinks: Sinks = Sinks(),
    stream: TextIO | None = None,
) -> None:
    """Send every log line to `sinks` in the format of CFG-147; calling again replaces the former set-up.

    `level` and `levels`, by logger, are numbers of `logging`; `levels` may lower the built-in floor `Warning` of the
    HTTP server and the database library (CFG-139). `stream` stands in for standard output.
    """
    root = logging.getLogger()
    for former in [handler for handler in root.handlers if isinstance(handler, _LineHandler)]:
        root.removeHandler(former)
    close_files()
    logging.addLevelName(TRACE, "TRACE")
    handlers: list[logging.Handler] = []
    if sinks.console:
        handlers.append(_LineHandler(sys.stdout if stream is None else stream))
    if sinks.files is not None:
        handlers.append(LogFileHandler(sinks.files))
    formatter = LineFormatter(scrubber)
    for handler in handlers:
        handler.setFormatter(formatter)
        handler.setLevel(sinks.minimum)
        root.addHandler(handler)
    root.setLevel(level)
    for name, floor in _FLOORS.items():
        logging.getLogger(name).setLevel(max(floor, level))
    for name, own in levels.items():
        logging.getLogger(name).setLevel(own)
    logging.captureWarnings(capture=True)


def close_files() -> None:
    """Write no more lines to files, and let go of the one that is open."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, LogFileHandler)]:
        root.removeHandler(handler)
        handler.close()
