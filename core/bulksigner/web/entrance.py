"""What every request passes before its route is looked at: host, client and scheme (CFG-27, CFG-29, CFG-34)."""

from __future__ import annotations

import re
import urllib.parse

import attrs
import falcon

from bulksigner.web.clients import ProxyTrust
from bulksigner.web.problems import InvalidRequest

__all__ = ["AllowedHosts", "Entrance"]

_HOST = re.compile(r"(?P<name>[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


@attrs.frozen
class AllowedHosts:
    """The values of `Host` that are answered: names, `*.name` for all below one, or `*` for any."""

    names: tuple[str, ...] = ("*",)

    @classmethod
    def of(cls, text: str) -> AllowedHosts:
        """Read the setting: names separated by commas."""
        return cls(tuple(name.strip().lower() for name in text.split(",") if name.strip()))

    def accepts(self, host: str) -> bool:
        """Tell whether a `Host`, with or without port, is one of them; what is no host never is."""
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match["name"].lower().rstrip(".")
        return any(
            known in ("*", name) or (known.startswith("*.") and name.endswith(known[1:])) for known in self.names
        )


@attrs.frozen
class Entrance:
    """Applied to each request once, before anything else."""

    hosts: AllowedHosts = attrs.Factory(AllowedHosts)
    trust: ProxyTrust = attrs.Factory(ProxyTrust)
    requires_https: bool = False

    def receive(self, request: falcon.Request) -> None:
        """Find out who asks; refuse a strange host, and send a client on plain HTTP to HTTPS where that is required."""
        peer = str(request.env.get("REMOTE_ADDR") or "")
        scheme = str(request.env.get("wsgi.url_scheme") or "http")
        forwarded = (request.get_header("X-Forwarded-For"), request.get_header("X-Forwarded-Proto"))
        request.context.client = client = self.trust.locate(peer, *forwarded, scheme)
        # HTTP/1.0 may come without; the server has refused such a request of HTTP/1.1.
        host = request.get_header("Host")
        if (host is not None or self.hosts.names != ("*",)) and not self.hosts.accepts(host or ""):
            raise InvalidRequest("Host", "is not a name of this service (AllowedHosts)")
        if self.requires_https and not client.is_secure:
            raise falcon.HTTPTemporaryRedirect(_secured(host, request))


def _secured(host: str | None, request: falcon.Request) -> str:
    match = _HOST.fullmatch(host or "")
    if match is None:
        raise InvalidRequest("Host", "is missing")
    # Quoted again: the server has decoded the path, and what it holds must not end the header.
    path = urllib.parse.quote(request.path, safe="/:@!$&'()*+,;=-._~")
    query = urllib.parse.quote(request.query_string, safe="/?:@!$&'()*+,;=-._~%")
    return f"https://{match['name']}{path}" + (f"?{query}" if query else "")
