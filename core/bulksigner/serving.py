"""The HTTP server: binds before anything runs, serves once the rest is up (CLU-01 step 12, CFG-20)."""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

import waitress.server
from waitress.channel import HTTPChannel
from waitress.task import ErrorTask

from bulksigner.contract.errors import StartRefused
from bulksigner.dispatching import Dispatcher
from bulksigner.settings.variables import ListenAddress
from bulksigner.web import limits
from bulksigner.web.app import create_app
from bulksigner.web.problems import answer_before_app
from bulksigner.web.services import WebServices

__all__ = ["HttpServer"]

log = logging.getLogger(__name__)

EXIT_ADDRESS = 71
BACKLOG = 1024
STOP_LIMIT_SECONDS = 5.0


class _ProblemTask(ErrorTask):  # type: ignore[misc]  # Waitress is not typed
    """Answers what Waitress refuses by itself as the app would (API-05): too large, malformed, too long a head."""

    def execute(self) -> None:
        error = self.request.error
        status, headers, body = answer_before_app(error.code, f"{error.reason}: {error.body}")
        self.status = status
        self.response_headers.extend(headers)
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class _Channel(HTTPChannel):  # type: ignore[misc]  # Waitress is not typed
    error_task_class = _ProblemTask


class HttpServer:
    """Waitress on sockets of our own, in one thread that looks at them and the threads that answer."""

    def __init__(self, addresses: Sequence[ListenAddress]) -> None:
        """Bind every address. Raises `StartRefused` (exit 71, OPS-58) naming the one that cannot be had."""
        self._sockets: list[socket.socket] = []
        self._server: Any = None
        self._loop: dict[int, Any] = {}
        self._thread: threading.Thread | None = None
        try:
            for address in addresses:
                self._sockets.append(_bind(address))
        except StartRefused:
            self.stop()
            raise

    @property
    def addresses(self) -> tuple[str, ...]:
        """Return the addresses as URLs, with the ports that were really bound."""
        return tuple(_url(bound) for bound in self._sockets)

    def start(self, services: WebServices, *, threads: int) -> None:
        """Begin to answer."""
        self._server = waitress.server.create_server(
            create_app(services),
            map=self._loop,
            sockets=self._sockets,
            _dispatcher=Dispatcher(threads),
            ident=None,
            clear_untrusted_proxy_headers=True,
            max_request_header_size=limits.MAX_HEADER_BYTES,
            max_request_body_size=max(services.max_upload_bytes, limits.MAX_BODY_BYTES),
            channel_timeout=limits.READ_TIMEOUT_SECONDS,
            connection_limit=BACKLOG,
        )
        for listener in self._listeners():
            listener.channel_class = _Channel
        self._thread = threading.Thread(target=self._server.run, name="http", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take no more requests, let those under way be answered, and free the addresses."""
        if self._server is not None and self._thread is not None:
            # A listening socket that is closed while another thread polls it stays open until that poll ends, so the
            # loop closes its own.
            trigger = self._listeners()[0].trigger
            self._run_in_loop(trigger, self._stop_listening)
            self._server.task_dispatcher.shutdown(timeout=STOP_LIMIT_SECONDS)
            self._run_in_loop(trigger, self._let_go)
            self._thread.join(STOP_LIMIT_SECONDS)
            self._server = None
        for bound in self._sockets:
            bound.close()

    def _listeners(self) -> list[Any]:
        return [one for one in self._loop.values() if hasattr(one, "channel_class")]

    def _run_in_loop(self, trigger: Any, act: Callable[[], None]) -> None:
        is_done = threading.Event()

        def run() -> None:
            act()
            is_done.set()

        trigger.pull_trigger(run)
        is_done.wait(STOP_LIMIT_SECONDS)

    def _stop_listening(self) -> None:
        for listener in self._listeners():
            listener.del_channel()
            listener.socket.close()

    def _let_go(self) -> None:
        for one in list(self._loop.values()):
            if isinstance(one, HTTPChannel):
                one.close_when_flushed = True
            else:
                one.close()


def _bind(address: ListenAddress) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _refusal(address, error) from error
    try:
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if os.name == "posix":
            # On Windows the option would let two processes listen on one address.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(place)
        # Here already: with the option above only a socket that listens has the address to itself.
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise _refusal(address, error) from error
    return bound


def _refusal(address: ListenAddress, error: OSError) -> StartRefused:
    reason = "it is in use by another process" if error.errno == errno.EADDRINUSE else str(error.strerror or error)
    return StartRefused(
        f"http://{address.host}:{address.port} cannot be listened on: {reason}. "
        "Choose another address with BULK_SIGNER_URLS, such as http://127.0.0.1:8081.",
        exit_code=EXIT_ADDRESS,
    )


def _url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
