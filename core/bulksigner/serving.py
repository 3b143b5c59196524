"""The HTTP server: binds before anything runs, serves once the rest is up (CLU-01 step 12, CFG-20)."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from waitress import wasyncore
from waitress.adjustments import Adjustments

from bulksigner.channels import Channel, ChannelRules, Listener, Patience
from bulksigner.contract.errors import StartRefused
from bulksigner.dispatching import Dispatcher
from bulksigner.settings.variables import ListenAddress
from bulksigner.web import limits
from bulksigner.web.app import create_app
from bulksigner.web.gate import gate_of
from bulksigner.web.services import WebServices

__all__ = ["HttpServer"]

log = logging.getLogger(__name__)

EXIT_ADDRESS = 71
BACKLOG = 1024
STOP_LIMIT_SECONDS = 5.0
MOST_CONNECTIONS = 1024


class HttpServer:
    """Waitress on sockets of our own, in one thread that looks at them and the threads that answer."""

    def __init__(
        self,
        addresses: Sequence[ListenAddress],
        *,
        patience: Patience = Patience(),  # noqa: B008 - frozen
        connection_limit: int | None = None,
    ) -> None:
        """Bind every address. Raises `StartRefused` (exit 71, OPS-58) naming the one that cannot be had."""
        self._sockets: list[socket.socket] = []
        self._dispatcher: Any = None
        self._give_up_waiting: Callable[[], None] | None = None
        self._patience = patience
        self._connection_limit = connection_limit or _connections_of_process()
        self._loop: dict[int, Any] = {}
        self._thread: threading.Thread | None = None
        self._is_ending = False
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
        # The limits in there that our own channels replace are set so that they never act first.
        settings = Adjustments(
            sockets=self._sockets,
            ident=None,
            # Proxies are judged by the app, in one place (CFG-29).
            clear_untrusted_proxy_headers=False,
            max_request_header_size=limits.MAX_HEADER_BYTES,
            connection_limit=2 * self._connection_limit,
        )
        settings.cleanup_interval = self._patience.look_seconds
        rules = ChannelRules(gate_of(services).judge, self._patience, self._connection_limit, services.spool)
        app = create_app(services)
        self._dispatcher = Dispatcher(threads)
        for bound in self._sockets:
            Listener(
                rules,
                app,
                self._loop,
                _sock=bound,
                dispatcher=self._dispatcher,
                adj=settings,
                sockinfo=(bound.family, bound.type, bound.proto, bound.getsockname()),
                bind_socket=False,
            )
        self._give_up_waiting = services.limits.close if services.limits is not None else None
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # Not select, which ends at the 1024th descriptor of the process.
        while not self._is_ending or any(isinstance(one, Channel) for one in self._loop.values()):
            wasyncore.loop(timeout=1, use_poll=True, map=self._loop, count=1)

    def stop(self) -> None:
        """Take no more requests, let those under way be answered, and free the addresses."""
        if self._dispatcher is not None and self._thread is not None:
            if self._give_up_waiting is not None:
                self._give_up_waiting()
            # A listening socket that is closed while another thread polls it stays open until that poll ends, so the
            # loop closes its own.
            trigger = self._listeners()[0].trigger
            self._run_in_loop(trigger, self._stop_listening)
            self._dispatcher.shutdown(timeout=STOP_LIMIT_SECONDS)
            self._run_in_loop(trigger, self._let_go)
            self._thread.join(STOP_LIMIT_SECONDS)
            if not self._thread.is_alive():
                # Only now: whoever pulls a trigger that the loop has closed writes into a stranger's file.
                for one in list(self._loop.values()):
                    one.close()
            self._dispatcher = None
        for bound in self._sockets:
            bound.close()

    def _listeners(self) -> list[Any]:
        return [one for one in self._loop.values() if isinstance(one, Listener)]

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
        self._is_ending = True
        for one in list(self._loop.values()):
            if isinstance(one, Channel):
                one.finish()


def _connections_of_process() -> int:
    """Return how many connections may be open: at most half of the files this process may have."""
    if sys.platform == "win32":
        # There is no poll there, and select looks at 512 sockets.
        return 400
    import resource

    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if open_files < 0 else max(min(MOST_CONNECTIONS, open_files // 2), 16)


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
