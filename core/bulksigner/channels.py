"""One connection of a client as Waitress has it: what a head must look like, and how long a client may take.

Waitress reads whole bodies before a thread sees them and leaves what a thread has written to its own loop, so slow
clients hold connections, not threads. What it lacks is here: a pace below which a connection is cut off, room for a
newcomer when silent ones have taken all there is, a judgement of the head before a body is stored, and heads that two
servers could read in two ways are refused.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

import attrs
from waitress.buffers import OverflowableBuffer, TempfileBasedBuffer
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.receiver import ChunkedReceiver
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask
from waitress.utilities import BadRequest, Error, InternalServerError, RequestEntityTooLarge

from bulksigner.web import limits
from bulksigner.web.gate import BodyRule
from bulksigner.web.problems import answer_before_app

__all__ = ["Channel", "ChannelRules", "Listener", "Patience"]

log = logging.getLogger(__name__)

_VERSIONS = ("1.0", "1.1")
_MAX_CHUNK_LINE_BYTES = 1024
_DROP = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
"""Linger for no time: the connection ends with a reset."""


@attrs.frozen
class Patience:
    """How long a client may take, in seconds: for a head, between two signs of life, and beyond the slowest pace."""

    quiet_seconds: float = limits.READ_TIMEOUT_SECONDS
    slowest_bytes_per_second: int = 1024
    linger_seconds: float = 5.0
    """How long a refused client may go on sending, so that it reads its answer instead of a reset."""
    look_seconds: float = 1.0

    def is_over(self, now: float, *, began_at: float, moved_at: float, moved_bytes: int) -> bool:
        """Tell whether a transfer that began and last moved at these times has no claim to go on."""
        allowed = self.quiet_seconds + moved_bytes / self.slowest_bytes_per_second
        return now - moved_at > self.quiet_seconds or now - began_at > allowed


@attrs.frozen
class ChannelRules:
    """What every connection is held to; `spool` is the folder that takes bodies too large for memory."""

    judge: Callable[[str, str, Mapping[str, str]], BodyRule]
    patience: Patience
    connection_limit: int
    spool: Path | None = None


class _Refused(Error):  # type: ignore[misc]  # Waitress is not typed
    """A refusal with a code of ours."""

    def __init__(self, rule: BodyRule) -> None:
        super().__init__(f"the body is longer than {rule.limit_bytes} bytes")
        self.code, self.reason, self.problem = rule.status, rule.code, rule.code


class ProblemTask(ErrorTask):  # type: ignore[misc]  # Waitress is not typed
    """Answers what is refused before the app as the app would (API-05): too large, malformed, too long a head."""

    def execute(self) -> None:
        """Write the problem document and close once it is read."""
        error = self.request.error
        reason = f"{error.reason}: {error.body}"
        status, headers, body = answer_before_app(error.code, reason, code=getattr(error, "problem", None))
        self.status = status
        self.response_headers.extend(headers)
        self.set_close_on_finish()
        self.content_length = len(body)
        self.channel.lingers = True
        self.write(body)


class _SpoolFile(TempfileBasedBuffer):  # type: ignore[misc]  # Waitress is not typed
    """A file without a name, on the volume of the work folders: the usual place is memory on many hosts."""

    def __init__(self, folder: Path | None, from_buffer: Any) -> None:
        self._folder = folder
        super().__init__(from_buffer)

    def newfile(self) -> IO[bytes]:
        """Make the file."""
        return tempfile.TemporaryFile("w+b", dir=self._folder)


class _Spool(OverflowableBuffer):  # type: ignore[misc]  # Waitress is not typed
    buf: Any

    def __init__(self, overflow: int, folder: Path | None) -> None:
        super().__init__(overflow)
        self._folder = folder

    def _set_large_buffer(self) -> None:
        small = self.buf
        self.buf = _SpoolFile(self._folder, small)
        if hasattr(small, "close"):
            small.close()
        self.overflowed = True


@attrs.frozen
class _Cap:
    """All that the parser still asks of Waitress's settings once the head is read."""

    max_request_body_size: int


class Parser(HTTPRequestParser):  # type: ignore[misc]  # Waitress is not typed
    """Reads one request; a head with two meanings is refused, and a body is stored only as far as it may come."""

    adj: Any

    def __init__(self, rules: ChannelRules, adj: Any) -> None:
        super().__init__(adj)
        self._rules = rules
        self._rule: BodyRule | None = None

    def parse_header(self, head: bytes) -> None:
        """Read a whole head, and decide how much of a body may follow."""
        super().parse_header(head)
        _refuse_two_meanings(self, head)
        if self.body_rcv is None:
            return
        self.body_rcv.buf = _Spool(self.adj.inbuf_overflow, self._rules.spool)
        self._rule = self._rules.judge(self.command, self.path, self.headers)
        # Waitress refuses what reaches its limit, lines of chunks included; ours is of the body, and may be reached.
        limit = self._rule.limit_bytes
        self.adj = _Cap(2 * limit + limits.MAX_HEADER_BYTES if self.chunked else limit + 1)

    def received(self, data: bytes) -> int:
        """Take what has arrived and return how many bytes of it belong to this request."""
        try:
            consumed: int = super().received(data)
        except OSError as failure:
            log.error("A request could not be stored: %s", failure)
            consumed = len(data)
            self.error, self.completed = InternalServerError("the body could not be stored"), True
        self._measure_chunks()
        if self.error is not None:
            if isinstance(self.error, RequestEntityTooLarge) and self._rule is not None:
                self.error = _Refused(self._rule)
            # A client that waits to be told to go on is told no.
            self.expect_continue = False
            self.close()
        return consumed

    def close(self) -> None:
        """Let go of the body; bytes of one that is thrown away, for which the disk has no room, are no loss."""
        with contextlib.suppress(OSError):
            super().close()

    def _measure_chunks(self) -> None:
        body = self.body_rcv
        if self.error is not None or not isinstance(body, ChunkedReceiver) or self._rule is None:
            return
        if len(body.control_line) > _MAX_CHUNK_LINE_BYTES or len(body.trailer) > limits.MAX_HEADER_BYTES:
            self.error, self.completed = BadRequest("a chunk has too long a line"), True
        elif len(body) > self._rule.limit_bytes:
            self.error, self.completed = _Refused(self._rule), True


def _refuse_two_meanings(parser: Parser, head: bytes) -> None:
    """Refuse what a server in front may have read otherwise (RFC 9112 2.3, 3.2, 5.2 and 6.1)."""
    lines = head.split(b"\r\n")[1:]
    if any(line[:1] in (b" ", b"\t") for line in lines):
        raise ParsingError("A header is folded over several lines")
    fields = [line.partition(b":")[::2] for line in lines if line]
    hosts = [value for name, value in fields if name.lower() == b"host"]
    codings = [value.strip(b" \t").lower() for name, value in fields if name.lower() == b"transfer-encoding"]
    if parser.version not in _VERSIONS:
        raise ParsingError("The version of HTTP is neither 1.0 nor 1.1")
    if len(hosts) > 1 or (not hosts and parser.version == "1.1"):
        raise ParsingError("A request names its host once")
    if codings and (codings != [b"chunked"] or parser.version != "1.1" or "CONTENT_LENGTH" in parser.headers):
        raise ParsingError("The length of the body is told in two ways")
    if parser.proxy_netloc and parser.proxy_netloc.lower() != parser.headers.get("HOST", "").lower():
        raise ParsingError("The request line and the header Host name two hosts")


class Channel(HTTPChannel):  # type: ignore[misc]  # Waitress is not typed
    """A connection that knows since when it waits for its client."""

    error_task_class = ProblemTask
    request: Any

    def __init__(self, server: Listener, sock: socket.socket, addr: Any, adj: Any, map: Any = None) -> None:
        self.rules = server.rules
        self.parser_class = partial(Parser, server.rules)
        self.lingers = False
        self._lingers_until: float | None = None
        self._heard_at = self._began_at = self._sent_at = time.monotonic()
        self._sent_bytes = 0
        self._behind: tuple[float, int] | None = None
        """Since when there was always something to send, and what was sent before that."""
        super().__init__(server, sock, addr, adj, map=map)

    @property
    def silent_since(self) -> float | None:
        """Return since when nothing was asked for; None once a head is whole, until all of the answer is sent."""
        is_asking = self.request is not None and self.request.headers_finished
        if self.requests or self.total_outbufs_len or is_asking:
            return None
        return self._began_at if self.request is not None else self._heard_at

    def is_overdue(self, now: float) -> bool:
        """Tell whether the client was waited for long enough (SEC-64); the work of a thread takes what it takes."""
        if self._lingers_until is not None:
            return now > self._lingers_until
        patience = self.rules.patience
        if self.total_outbufs_len:
            if self._behind is None:
                self._behind, self._sent_at = (now, self._sent_bytes), now
            since, before = self._behind
            return patience.is_over(now, began_at=since, moved_at=self._sent_at, moved_bytes=self._sent_bytes - before)
        self._behind = None
        if self.requests:
            return False
        request = self.request
        if request is None:
            return now - self._heard_at > patience.quiet_seconds
        # A head has its time and no more: bytes of it buy none.
        read = request.body_bytes_received if request.headers_finished else 0
        return patience.is_over(now, began_at=self._began_at, moved_at=self._heard_at, moved_bytes=read)

    def received(self, data: bytes) -> bool:
        """Take what has arrived, and note when each request began."""
        now, before = time.monotonic(), self.request
        self._heard_at = now
        if before is None:
            self._began_at = now
        taken: bool = super().received(data)
        if self.request is not before:
            self._began_at = now
        return taken

    def send(self, data: bytes, do_close: bool = True) -> int:
        """Send what the client takes, and note how much that was."""
        count: int = super().send(data, do_close)
        if count:
            self._sent_bytes += count
            self._sent_at = time.monotonic()
        return count

    def service(self) -> None:
        """Answer one request; the client's time for the next begins after it."""
        super().service()
        self._heard_at = time.monotonic()

    def handle_read(self) -> None:
        """Read, or throw away what a refused client still sends."""
        if self._lingers_until is None:
            super().handle_read()
            return
        try:
            # Thrown away; at the end of what the client sends `recv` closes the connection.
            self.recv(self.adj.recv_bytes)
        except OSError:
            self.handle_close()

    def handle_write(self) -> None:
        """Write, and close half of the connection after a refusal."""
        waits = self.lingers and self._lingers_until is None and not self.requests
        if waits and self.connected and not self.will_close:
            self._flush_exception(self._flush_some)
            if self.connected and not self.will_close:
                if self.close_when_flushed and not self.total_outbufs_len:
                    self._linger()
                return
        super().handle_write()

    def handle_close(self) -> None:
        """Close, and let go of what had arrived of a request."""
        # Under way only: those that are complete belong to the thread that answers.
        request, self.request = self.request, None
        super().handle_close()
        if request is not None:
            request.close()

    def finish(self) -> None:
        """Close as soon as what is written has been sent; nobody is waited for any more."""
        self.lingers = False
        self.close_when_flushed = True

    def cut_off(self) -> None:
        """Close without another word; what was not sent is dropped, here and in the kernel."""
        if self.total_outbufs_len:
            with contextlib.suppress(OSError):
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DROP)
        self.handle_close()

    def _linger(self) -> None:
        self.close_when_flushed = False
        self._lingers_until = time.monotonic() + self.rules.patience.linger_seconds
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.will_close = True


class Listener(TcpWSGIServer):  # type: ignore[misc]  # Waitress is not typed
    """A listening socket; its connections share one loop, and one limit, with those of the others."""

    channel_class = Channel

    def __init__(self, rules: ChannelRules, *given: Any, **options: Any) -> None:
        self.rules = rules
        super().__init__(*given, **options)

    def handle_accept(self) -> None:
        """Take a newcomer in, in the place of a silent one if need be."""
        self._make_room()
        super().handle_accept()

    def maintenance(self, _: float) -> None:
        """Have the loop look for clients that take too long."""
        # Not here, where the loop collects what it will poll: a socket that is closed now would still be asked.
        self.trigger.pull_trigger(self._cut_off_overdue)

    def _cut_off_overdue(self) -> None:
        now = time.monotonic()
        for channel in list(self.active_channels.values()):
            if channel.is_overdue(now):
                # At once: a client that never reads would not let a last write end either.
                channel.cut_off()

    def _make_room(self) -> None:
        """Let the newcomer have the place of whoever has been silent the longest."""
        channels = [one for one in self._map.values() if isinstance(one, Channel)]
        if len(channels) < self.rules.connection_limit:
            return
        silent = [(since, one) for one in channels if (since := one.silent_since) is not None]
        if silent:
            min(silent, key=lambda pair: pair[0])[1].handle_close()
