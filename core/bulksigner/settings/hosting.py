"""`Hosting` and the sections on who may call how often (CFG-27 to CFG-34, CFG-134 to CFG-137)."""

from __future__ import annotations

import ipaddress

import attrs

from bulksigner.contract.settings import at_least, between, option
from bulksigner.settings.findings import Findings
from bulksigner.settings.grammar import quote

__all__ = [
    "ForwardedHeadersSettings",
    "HostingSettings",
    "RateLimitingSettings",
    "WindowSettings",
    "check_hosting",
]

_FORWARDED = "Hosting:ForwardedHeaders"


@attrs.frozen
class ForwardedHeadersSettings:
    """`Hosting:ForwardedHeaders`."""

    enabled: bool = option(
        False, help="Take address and scheme of the client from `X-Forwarded-For` and `X-Forwarded-Proto`."
    )
    trust_any_proxy: bool = option(False, help="Believe whoever is in front; for platforms without a fixed address.")
    known_proxies: tuple[str, ...] = option((), help="Addresses of the proxies that are believed; loopback too.")
    known_networks: tuple[str, ...] = option((), help="Networks of the proxies that are believed, as `10.4.0.0/16`.")
    forward_limit: int = option(
        1, help="How many proxies in a row are believed, from the nearest.", check=between(1, 16)
    )


@attrs.frozen
class HostingSettings:
    """`Hosting`."""

    forwarded_headers: ForwardedHeadersSettings = option()
    threads: int = option(
        8, help="Threads that answer HTTP, uploads at most three in four; health has its own.", check=between(1, 64)
    )
    require_https: bool = option(
        False, help="Send clients on plain HTTP to HTTPS (307), probes too, and tell browsers to stay there."
    )


@attrs.frozen
class WindowSettings:
    """One limit: so many requests of one address in a window that begins with the first of them."""

    permits_per_window: int = option(60, help="Requests of one address in a window.", check=at_least(1))
    window_seconds: int = option(60, help="Length of a window.", check=at_least(1))
    queue_limit: int = option(
        0,
        help="Requests over the limit that wait for the next window, in at most half of `Hosting:Threads`.",
        check=at_least(0),
    )


@attrs.frozen
class _Of30(WindowSettings):
    permits_per_window: int = option(30, help="Requests of one address in a window.", check=at_least(1))


@attrs.frozen
class _Of10(WindowSettings):
    permits_per_window: int = option(10, help="Requests of one address in a window.", check=at_least(1))


@attrs.frozen
class RateLimitingSettings:
    """`RateLimiting`."""

    upload: _Of30 = option()
    actions: WindowSettings = option()
    export: _Of10 = option()
    login: _Of10 = option()
    enabled: bool = option(True, help="Limit how often one address may call.")


def check_hosting(given: HostingSettings, findings: Findings) -> None:
    """Apply the rules on proxies, and warn where HTTPS is asked for and nothing here speaks it."""
    forwarded = given.forwarded_headers
    lists = {"KnownProxies": forwarded.known_proxies, "KnownNetworks": forwarded.known_networks}
    if forwarded.trust_any_proxy and any(lists.values()):
        findings.refuse(
            f"{_FORWARDED}:TrustAnyProxy",
            "is true beside a list of proxies, which would be ignored.",
            "Keep the list, or TrustAnyProxy, and remove the other.",
        )
    if forwarded.enabled and not forwarded.trust_any_proxy and not any(lists.values()):
        findings.refuse(
            f"{_FORWARDED}:Enabled",
            "is true, and no proxy is trusted.",
            f"Name the proxies in {_FORWARDED}:KnownProxies or {_FORWARDED}:KnownNetworks.",
        )
    for index, text in enumerate(forwarded.known_proxies):
        if not _is(ipaddress.ip_address, text):
            findings.refuse(
                f"{_FORWARDED}:KnownProxies[{index}]",
                f"is {quote(text)}, which is not a bare IP address.",
                "Give an address such as 10.4.0.7, without port and without prefix.",
            )
    for index, text in enumerate(forwarded.known_networks):
        if "/" not in text or not _is(ipaddress.ip_network, text):
            findings.refuse(
                f"{_FORWARDED}:KnownNetworks[{index}]",
                f"is {quote(text)}, which is not a network, or has host bits below its prefix.",
                "Give a network such as 10.4.0.0/16.",
            )
    if given.require_https:
        findings.warn(
            "Hosting:RequireHttps is on, and this service listens on plain HTTP only: whoever does not come through a "
            "proxy that speaks HTTPS and sends X-Forwarded-Proto is redirected, and so are /api/health and /api/ready "
            "for probes that come directly (CFG-27)."
        )


def _is(read: object, text: str) -> bool:
    try:
        read(text)  # type: ignore[operator]
    except ValueError:
        return False
    return True
