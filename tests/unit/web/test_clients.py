"""Whose address and scheme count, and which hosts are answered."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from falcon.testing import TestClient

from bulksigner.settings.hosting import ForwardedHeadersSettings
from bulksigner.web.clients import Client, ProxyTrust
from bulksigner.web.entrance import AllowedHosts, Entrance

Making = Callable[..., TestClient]
NEAR, FAR, CLIENT = "10.4.0.7", "10.4.0.8", "203.0.113.9"


def trust(**given: object) -> ProxyTrust:
    return ProxyTrust.of(ForwardedHeadersSettings(enabled=True, **given))


@pytest.mark.parametrize(
    ("given", "peer", "header", "found"),
    [
        ({"known_proxies": (NEAR,)}, NEAR, CLIENT, CLIENT),
        ({"known_proxies": (NEAR,)}, FAR, CLIENT, FAR),
        ({"known_proxies": (NEAR,)}, NEAR, f"1.2.3.4, {CLIENT}", CLIENT),
        ({"known_proxies": (NEAR,), "forward_limit": 5}, NEAR, f"1.2.3.4, {CLIENT}", CLIENT),
        ({"known_proxies": (NEAR, FAR)}, NEAR, f"{CLIENT}, {FAR}", FAR),
        ({"known_proxies": (NEAR, FAR), "forward_limit": 2}, NEAR, f"1.2.3.4, {CLIENT}, {FAR}", CLIENT),
        ({"known_networks": ("10.4.0.0/16",), "forward_limit": 2}, NEAR, f"{CLIENT}, {FAR}", CLIENT),
        ({"trust_any_proxy": True}, "198.51.100.1", f"1.2.3.4, {CLIENT}", CLIENT),
        ({"trust_any_proxy": True, "forward_limit": 9}, "198.51.100.1", CLIENT, CLIENT),
        ({"known_proxies": (NEAR,)}, NEAR, f"{CLIENT}:4711", CLIENT),
        ({"known_proxies": (NEAR,)}, NEAR, '"[2001:db8::1]:4711"', "2001:db8::1"),
        ({"known_proxies": (NEAR,)}, NEAR, "unknown", NEAR),
        ({"known_proxies": (NEAR,)}, NEAR, f"{CLIENT}, nonsense\x01", NEAR),
        ({"known_proxies": (NEAR,)}, NEAR, "", NEAR),
        ({"known_proxies": (NEAR,)}, NEAR, None, NEAR),
        ({"known_proxies": (NEAR,)}, f"::ffff:{NEAR}", CLIENT, CLIENT),
        ({"known_proxies": ("::1",)}, "::1", CLIENT, CLIENT),
        ({"known_proxies": (NEAR,)}, "127.0.0.1", CLIENT, "127.0.0.1"),
    ],
)
def test_an_address_counts_as_far_as_proxies_are_trusted(
    given: dict[str, object], peer: str, header: str | None, found: str
) -> None:
    """SEC-62, CFG-29 to CFG-33: from the right, at most so many, never past one that is not trusted."""
    assert trust(**given).locate(peer, header, None, "http").address == found


def test_without_trust_headers_are_not_read() -> None:
    """CFG-29, SEC-16: off is no processing at all."""
    for off in (ProxyTrust(), ProxyTrust.of(ForwardedHeadersSettings(known_proxies=(NEAR,)))):
        assert off.locate(NEAR, CLIENT, "https", "http") == Client(NEAR, "http")


@pytest.mark.parametrize(
    ("peer", "header", "scheme"),
    [
        (NEAR, "https", "https"),
        (NEAR, "HTTPS", "https"),
        (NEAR, "https, http", "http"),
        (NEAR, "ftp", "http"),
        (NEAR, "", "http"),
        (NEAR, None, "http"),
        (FAR, "https", "http"),
    ],
)
def test_the_scheme_comes_from_a_trusted_proxy_only(peer: str, header: str | None, scheme: str) -> None:
    """CFG-29: the entry of the nearest proxy."""
    assert trust(known_proxies=(NEAR,)).locate(peer, CLIENT, header, "http").scheme == scheme


def test_ipv6_clients_are_counted_by_their_network() -> None:
    """SEC-62: one host has a whole /64 to change its address in; IPv4 inside IPv6 is IPv4."""
    one, other, next_door = (Client(text).partition for text in ("2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"))
    assert one == other != next_door
    assert Client(CLIENT).partition == CLIENT
    assert Client("").partition == ""


@pytest.mark.parametrize(
    ("setting", "host", "accepted"),
    [
        ("*", "anything.example:8080", True),
        ("*", "[::1]:8080", True),
        ("*", "a b", False),
        ("*", "a/b", False),
        ("*", "user@host", False),
        ("*", "host\x00", False),
        ("*", "", False),
        ("*", "host:port", False),
        ("sign.example", "sign.example", True),
        ("sign.example", "SIGN.example.:443", True),
        ("sign.example", "sign.example.evil", False),
        ("sign.example", "evil-sign.example", False),
        ("a, sign.example", "sign.example", True),
        ("*.example", "a.b.example", True),
        ("*.example", "example", False),
        ("*.example", "evilexample", False),
        ("[::1]", "[::1]:80", True),
    ],
)
def test_a_host_is_one_of_the_names(setting: str, host: str, accepted: bool) -> None:
    """CFG-34: whatever the port and the case of letters, and never what is no host at all."""
    assert AllowedHosts.of(setting).accepts(host) is accepted


def test_a_strange_host_is_refused_on_every_route(make_client: Making) -> None:
    """CFG-34: 400 with `request.invalid`, before credentials are looked at, on health too."""
    client = make_client(entrance=Entrance(hosts=AllowedHosts.of("sign.example")))
    for path in ("/api/health", "/api/jobs", "/login", "/nowhere"):
        answer = client.simulate_get(path, headers={"Host": "evil.example"})
        assert (answer.status_code, answer.json["code"]) == (400, "request.invalid")
        assert "evil" not in answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.simulate_get("/api/health", headers={"Host": "sign.example:8080"}).status_code == 200


def test_plain_http_is_sent_to_https(make_client: Making) -> None:
    """CFG-27, SEC-39: 307 to the same place on every route, probes too; over HTTPS the answer says to stay."""
    entrance = Entrance(trust=trust(known_proxies=("127.0.0.1",)), requires_https=True)
    client = make_client(entrance=entrance)
    told = client.simulate_post("/api/rescan", query_string="folder=a%20b&x=%0d%0aSet-Cookie:%20a")
    assert told.status_code == 307
    assert told.headers["location"] == "https://falconframework.org/api/rescan?folder=a%20b&x=%0d%0aSet-Cookie:%20a"
    assert "strict-transport-security" not in told.headers
    assert client.simulate_get("/api/health").status_code == 307
    kept = client.simulate_get("/api/health", headers={"X-Forwarded-Proto": "https"}, remote_addr="127.0.0.1")
    assert kept.status_code == 200
    assert kept.headers["strict-transport-security"] == "max-age=31536000"


def test_a_redirect_to_https_cannot_be_bent(make_client: Making) -> None:
    """SEC-23: a path with line ends or slashes stays a path of the host that was asked."""
    client = make_client(entrance=Entrance(requires_https=True))
    answer = client.simulate_get("/%0d%0aSet-Cookie:%20a=b")
    assert answer.status_code == 307
    assert answer.headers["location"].startswith("https://falconframework.org/%0D%0ASet-Cookie")
    assert "set-cookie" not in answer.headers


def test_https_elsewhere_means_nothing_here(make_client: Making) -> None:
    """SEC-39: without `Hosting:RequireHttps` no browser is told to insist on HTTPS."""
    client = make_client(entrance=Entrance(trust=trust(trust_any_proxy=True)))
    answer = client.simulate_get("/api/health", headers={"X-Forwarded-Proto": "https"}, remote_addr="127.0.0.1")
    assert "strict-transport-security" not in answer.headers
