"""Proxies, hosts, cookies and limits: what is taken, and what refuses the start."""

from __future__ import annotations

import pytest

FORWARDED = "Hosting__ForwardedHeaders__"


def test_the_defaults_trust_nobody(host) -> None:
    """CFG-27, CFG-29, CFG-34, CFG-36, CFG-134: no proxy, any host, limits on, and nothing is warned of."""
    core = host.load().core
    assert not core.hosting.forwarded_headers.enabled
    assert not core.hosting.require_https
    assert (core.allowed_hosts, core.auth.cookie_name, core.rate_limiting.enabled) == ("*", "lbs-auth", True)
    limits = core.rate_limiting
    assert [one.permits_per_window for one in (limits.upload, limits.actions, limits.export, limits.login)] == [
        30,
        60,
        10,
        10,
    ]
    assert host.load().warnings == ()


@pytest.mark.parametrize(
    ("variables", "key"),
    [
        ({"Enabled": "true"}, "Hosting:ForwardedHeaders:Enabled"),
        (
            {"Enabled": "true", "TrustAnyProxy": "true", "KnownProxies__0": "10.0.0.1"},
            "Hosting:ForwardedHeaders:TrustAnyProxy",
        ),
        ({"TrustAnyProxy": "true", "KnownNetworks__0": "10.0.0.0/8"}, "Hosting:ForwardedHeaders:TrustAnyProxy"),
        ({"KnownProxies__0": "proxy.example"}, "Hosting:ForwardedHeaders:KnownProxies[0]"),
        ({"KnownProxies__0": "10.0.0.1", "KnownProxies__1": "10.0.0.2:80"}, "Hosting:ForwardedHeaders:KnownProxies[1]"),
        ({"KnownProxies__0": "10.0.0.0/8"}, "Hosting:ForwardedHeaders:KnownProxies[0]"),
        ({"KnownNetworks__0": "10.4.0.7/16"}, "Hosting:ForwardedHeaders:KnownNetworks[0]"),
        ({"KnownNetworks__0": "10.4.0.7"}, "Hosting:ForwardedHeaders:KnownNetworks[0]"),
        ({"KnownNetworks__0": "ten/8"}, "Hosting:ForwardedHeaders:KnownNetworks[0]"),
        ({"ForwardLimit": "0"}, "Hosting:ForwardedHeaders:ForwardLimit"),
        ({"ForwardLimit": "17"}, "Hosting:ForwardedHeaders:ForwardLimit"),
    ],
)
def test_a_trust_that_is_wrong_or_missing_is_refused(host, variables, key) -> None:
    """CFG-29 to CFG-33: the key and the value are named."""
    refused = host.refuse({f"{FORWARDED}{name}": value for name, value in variables.items()})
    assert list(refused) == [key]
    if key.endswith("]"):
        assert list(variables.values())[-1] in refused[key].line()


def test_a_trust_that_is_right(host) -> None:
    """CFG-31, CFG-32: IPv4 and IPv6, addresses and networks together."""
    given = host.load(
        {
            f"{FORWARDED}Enabled": "true",
            f"{FORWARDED}KnownProxies__0": "10.0.0.1",
            f"{FORWARDED}KnownProxies__1": "::1",
            f"{FORWARDED}KnownNetworks__0": "2001:db8::/32",
            f"{FORWARDED}ForwardLimit": "16",
        }
    ).core.hosting.forwarded_headers
    assert given.known_proxies == ("10.0.0.1", "::1")
    assert given.known_networks == ("2001:db8::/32",)


def test_https_without_a_listener_is_warned_of(host) -> None:
    """CFG-27: the warning names the probes."""
    [warning] = host.load({"Hosting__RequireHttps": "true"}).warnings
    assert "/api/health" in warning
    assert "CFG-27" in warning


@pytest.mark.parametrize("value", ["a.example", "a.example, *.b.example", "*", "[::1]"])
def test_hosts_are_split_by_commas(host, value) -> None:
    """CFG-34, CFG-06: the one key that stands in no section."""
    assert host.load({"AllowedHosts": value}).core.allowed_hosts == value


@pytest.mark.parametrize("value", ["a.example:8080", "http://a.example", "a b", "a,,b", "*example"])
def test_what_is_no_host_is_refused(host, value) -> None:
    """CFG-34: a port or a scheme would match nothing for ever."""
    assert list(host.refuse({"AllowedHosts": value})) == ["AllowedHosts"]


@pytest.mark.parametrize("value", ["a b", "a;b", "a=b", "é", '"', "x" * 65])
def test_a_cookie_name_is_a_token(host, value) -> None:
    """CFG-36: anything else would break the header."""
    assert list(host.refuse({"Auth__CookieName": value})) == ["Auth:CookieName"]


@pytest.mark.parametrize(
    ("key", "value"), [("PermitsPerWindow", "0"), ("WindowSeconds", "0"), ("QueueLimit", "-1"), ("QueueLimit", "x")]
)
@pytest.mark.parametrize("name", ["Upload", "Actions", "Export", "Login"])
def test_a_limit_has_its_bounds(host, name, key, value) -> None:
    """CFG-135 to CFG-137: of every limit."""
    assert list(host.refuse({f"RateLimiting__{name}__{key}": value})) == [f"RateLimiting:{name}:{key}"]


def test_the_limit_of_approvals_waits_for_approvals(host) -> None:
    """API-15: refused, as it would have no effect."""
    assert list(host.refuse({"RateLimiting__Approval__PermitsPerWindow": "5"})) == [
        "RateLimiting:Approval:PermitsPerWindow"
    ]
