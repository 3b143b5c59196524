"""Who is at the other end, and over which scheme: the socket's peer, or what trusted proxies tell (SEC-62, CFG-29)."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import attrs

from bulksigner.settings.hosting import ForwardedHeadersSettings

__all__ = ["Client", "ProxyTrust"]

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_PREFIX_V6 = 64


@attrs.frozen
class Client:
    """The address and the scheme a request counts for."""

    address: str
    scheme: str = "http"

    @property
    def is_secure(self) -> bool:
        """Tell whether the client itself speaks HTTPS."""
        return self.scheme == "https"

    @property
    def partition(self) -> str:
        """Return what limits count by: an IPv4 address, or the /64 of an IPv6 one, as one host may use all of it."""
        address = _read(self.address)
        if isinstance(address, ipaddress.IPv6Address):
            return str(ipaddress.IPv6Network((int(address), _PREFIX_V6), strict=False))
        return self.address


@attrs.frozen
class ProxyTrust:
    """The proxies that are believed, and how many of them stand in a row; without any, headers are not read at all."""

    networks: Sequence[_Network] = ()
    trusts_any: bool = False
    hop_limit: int = 1

    @classmethod
    def of(cls, given: ForwardedHeadersSettings) -> ProxyTrust:
        """Return the trust that the settings ask for."""
        if not given.enabled:
            return cls()
        networks = [ipaddress.ip_network(text) for text in (*given.known_proxies, *given.known_networks)]
        return cls(tuple(networks), given.trust_any_proxy, given.forward_limit)

    def locate(self, peer: str, forwarded_for: str | None, forwarded_proto: str | None, scheme: str) -> Client:
        """Walk from the peer to the right-most address that no trusted proxy vouches beyond (SEC-16)."""
        current = _read(peer)
        if current is None:
            return Client(peer, scheme)
        hops, schemes = _entries(forwarded_for), _entries(forwarded_proto)
        for _ in range(self.hop_limit):
            if not self._trusts(current):
                break
            if schemes and (told := schemes.pop().lower()) in ("http", "https"):
                scheme = told
            before = _read(hops.pop()) if hops else None
            if before is None:
                break
            current = before
        return Client(str(current), scheme)

    def _trusts(self, address: _Address) -> bool:
        return self.trusts_any or any(address in network for network in self.networks)


def _entries(header: str | None) -> list[str]:
    return [part.strip() for part in (header or "").split(",")] if header else []


def _read(text: str) -> _Address | None:
    """Read an address, with a port or in brackets as proxies write it; an IPv4 one inside IPv6 is that IPv4 one."""
    host = text.strip().strip('"')
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
