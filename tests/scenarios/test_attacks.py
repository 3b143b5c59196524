"""The attack list, against a real served process: each attempt and its outcome."""

from __future__ import annotations

import html
import re
import socket
import stat
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from bulksigner.testing.certificates import Issued
from bulksigner.testing.pdf_files import pdf_file
from bulksigner.testing.served import API_KEY, ServedService
from bulksigner.web.guards import Policy
from bulksigner.web.routes import ROUTES

LOGINS = 30
JOB = "0f8fad5b-d9cb-469f-a165-70867728950e"


@pytest.fixture(scope="module")
def service(leaf: Issued, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedService]:
    """One service for all attacks, with every guard on; only the limits that a test run itself would meet are wide."""
    root = tmp_path_factory.mktemp("attacked")
    (root / "inbox").mkdir()
    settings = {
        "AllowedHosts": "127.0.0.1,h,sign.example",
        "RateLimiting:Enabled": "true",
        "RateLimiting:Upload:PermitsPerWindow": 10_000,
        "RateLimiting:Actions:PermitsPerWindow": 10_000,
        "RateLimiting:Login:PermitsPerWindow": LOGINS,
        "Storage:Inputs:0:Name": "inbox",
        "Storage:Inputs:0:Path": root / "inbox",
        "Storage:Inputs:0:Profile": "default",
        "Signing:Profiles:0:Name": "default",
        "Signing:Profiles:0:ValidateCertificate": "false",
        "Signing:Profiles:0:Certificate:Source": "Pfx",
        "Signing:Profiles:0:Certificate:Pfx:Path": leaf.write_pfx(root / "certificate.pfx", "senha de teste"),
        "Signing:Profiles:0:Certificate:Pfx:Password": "senha de teste",
    }
    served = ServedService(root / "service", settings)
    served.start()
    try:
        yield served
    finally:
        served.kill()


@contextmanager
def browser(service: ServedService) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=30) as client:
        yield client


def token_of(page: str) -> str:
    match = re.search(r'name="csrfToken" value="([^"]+)"', page)
    assert match is not None
    return html.unescape(match[1])


def sign_in(client: httpx.Client, key: str = API_KEY) -> httpx.Response:
    token = token_of(client.get("/login").text)
    return client.post("/api/auth/login", data={"csrfToken": token, "ApiKey": key, "ReturnUrl": "//evil.example"})


def raw(service: ServedService, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", service.port), timeout=20) as connection:
        connection.sendall(request)
        answer = b""
        while chunk := connection.recv(65_536):
            answer += chunk
    return answer


def test_no_route_is_reached_without_credentials(service: ServedService) -> None:
    """API-11, SEC-24: 401 on every operator route, whatever a stranger shows; the table has no other policy."""
    strange = [
        {},
        {"X-API-Key": ""},
        {"X-API-Key": API_KEY[:-1]},
        {"X-Api_Key": API_KEY},
        {"Authorization": f"Bearer {API_KEY}"},
        {"Cookie": "lbs-auth=AQAAAAA; lbs-csrf=x"},
        {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-User": "operator"},
    ]
    with browser(service) as client:
        for row in ROUTES:
            for headers in strange:
                answer = client.request(row.method, row.path.replace("{id}", JOB), headers=headers)
                if row.policy is Policy.ANONYMOUS:
                    assert answer.status_code in (row.status, 403), row.path
                else:
                    assert (answer.status_code, answer.json()["code"]) == (401, "auth.invalid-credentials"), row.path
                assert "server" not in answer.headers


NAMES = [
    ("../../../../etc/passwd.pdf", "passwd.pdf"),
    ("..\\..\\windows\\win.pdf", "win.pdf"),
    ("/absolute/path.pdf", "path.pdf"),
    ("C:\\x\\drive.pdf", "drive.pdf"),
    ("a\u202efdp.exe.pdf", "afdp.exe.pdf"),
    ("zero\u0000byte.pdf", "zerobyte.pdf"),
    ("line%0d%0aend.pdf", "line%0d%0aend.pdf"),
    ("caf\u0065\u0301.pdf", "café.pdf"),
    ("a<b>c|d?.pdf", "a_b_c_d_.pdf"),
    ("<script>alert(1)<script>.pdf", "_script_alert(1)_script_.pdf"),
    ("...pdf", None),
    ("..", None),
    ("CON.pdf", None),
    ("x" * 300 + ".pdf", None),
    ("name.tmp", None),
    (".hidden.pdf", None),
    ("$(touch x)`id`.pdf", "$(touch x)`id`.pdf"),
]


def upload_raw(client: httpx.Client, name: str, content: bytes) -> httpx.Response:
    """Send a form whose file has exactly this name, as a client of bad will does."""
    boundary = "the-boundary"
    disposition = f'form-data; name="file"; filename="{name.replace(chr(34), "%22")}"'.encode()
    escaped = disposition.replace(b"\\", b"\\\\")
    head = b"--" + boundary.encode() + b"\r\nContent-Disposition: " + escaped + b"\r\n\r\n"
    return client.post(
        "/api/files",
        content=head + content + f"\r\n--{boundary}--\r\n".encode(),
        headers={"Content-Type": f"multipart/form-data; boundary={boundary}"},
    )


def test_names_stay_names(service: ServedService) -> None:
    """SEC-10, SEC-65, SEC-67: no name leads out of the folders, and what cannot be cleaned leaves nothing behind."""
    content = pdf_file()
    with service.client() as client:
        for given, kept in NAMES:
            answer = upload_raw(client, given, content)
            if kept is None:
                assert answer.status_code == 400, given
                assert answer.json()["code"] in ("upload.invalid-name", "request.invalid"), given
            else:
                assert (answer.status_code, answer.json()["fileName"]) == (202, kept), given
                path = Path(answer.json()["originalPath"])
                assert path.parent == service.root.parent / "inbox"
                assert re.fullmatch(r"[0-9a-f-]{36}\.pdf", path.name)
    assert not [path for path in service.root.parent.rglob("*") if path.name in ("passwd.pdf", "win.pdf", "x", "id")]
    assert list((service.data / "landing").iterdir()) == []


def test_lines_cannot_be_forged(service: ServedService) -> None:
    """SEC-11: what a client sends never begins a line of the log, nor ends a header of an answer."""
    with service.client() as client:
        paths = ["/api/jobs/%0d%0aSet-Cookie:%20forged=1%0d%0a", "/%0aFORGED%20line", "/api/%1b%5b2JFORGED"]
        for path in paths:
            answer = client.get(path)
            assert answer.status_code == 404
            assert "set-cookie" not in answer.headers
        client.post("/api/pipeline/pause", json={"reason": "x\r\nFORGED reason\u2028FORGED"})
        client.post("/api/pipeline/resume")
        upload_raw(client, "a\rFORGED.pdf", pdf_file())
        client.get(
            "/api/jobs", params={"status": "x\nFORGED"}, headers={"traceparent": "FORGED", "User-Agent": "FORGED"}
        )
    with browser(service) as client:
        sign_in(client, "FORGED\r\nFORGED")
    log = service.log.read_bytes().decode(errors="replace")
    assert not re.search(r"(?m)^FORGED", log)
    assert "\x1b" not in log
    assert "\u2028FORGED" not in log


def test_hosts_and_redirects(service: ServedService) -> None:
    """CFG-34, SEC-23: a strange host is 400 everywhere, and no form or link sends a browser elsewhere."""
    for host in (b"evil.example", b"sign.example.evil.example", b"sign.example@evil", b"sign.example, evil.example"):
        for path in (b"/api/health", b"/login", b"/api/jobs"):
            answer = raw(service, b"GET " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 400")
            assert b"evil" not in answer
    with browser(service) as client:
        assert sign_in(client).headers["location"] == "/"
        for wanted in ("https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example"):
            assert client.get("/login", params={"returnUrl": wanted}).headers["location"] == "/"


def test_a_session_is_forged_fixed_and_replayed_in_vain(service: ServedService) -> None:
    """SEC-21, SEC-22, SEC-34, SEC-35: CSRF, fixation, and replay after signing out, which a restart does not forget."""
    with browser(service) as client, browser(service) as attacker:
        sign_in(attacker)
        planted = attacker.cookies["lbs-auth"]
        client.cookies.set("lbs-auth", planted, domain="127.0.0.1")
        token = token_of(attacker.get("/access-denied").text)
        client.post("/api/auth/login", data={"csrfToken": token, "ApiKey": API_KEY})
        assert attacker.get("/api/whoami").status_code == 401
    with browser(service) as client:
        sign_in(client)
        cookie = client.cookies["lbs-auth"]
        token = client.get("/api/whoami").json()["csrfToken"]
        assert client.post("/api/rescan").status_code == 403
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
            answer = client.post("/api/rescan", headers=headers | {"X-CSRF-Token": token})
            assert (answer.status_code, answer.json()["code"]) == (403, "auth.csrf")
        assert client.post("/api/rescan", headers={"X-CSRF-Token": token, "Origin": service.url}).status_code == 200
        assert client.post("/api/auth/logout", data={"csrfToken": token}).status_code == 302
        replay = {"Cookie": f"lbs-auth={cookie}"}
        assert httpx.get(f"{service.url}/api/jobs", headers=replay).status_code == 401
        sign_in(client)
        kept = {"Cookie": f"lbs-auth={client.cookies['lbs-auth']}"}
    service.stop()
    service.start()
    assert httpx.get(f"{service.url}/api/jobs", headers=replay).status_code == 401
    assert httpx.get(f"{service.url}/api/jobs", headers=kept).status_code == 200
    if sys.platform != "win32":
        keys = service.data / "keys"
        modes = {stat.S_IMODE(path.stat().st_mode) for path in keys.iterdir()}
        assert (stat.S_IMODE(keys.stat().st_mode), modes) == (0o700, {0o600})


def test_slow_and_silent_clients_hold_up_nobody(service: ServedService) -> None:
    """SEC-64: hundreds that say nothing and dozens that dribble, while uploads and probes go on."""
    silent = [socket.create_connection(("127.0.0.1", service.port), timeout=20) for _ in range(300)]
    slow = [socket.create_connection(("127.0.0.1", service.port), timeout=20) for _ in range(40)]
    try:
        head = f"POST /api/files HTTP/1.1\r\nHost: h\r\nX-API-Key: {API_KEY}\r\nContent-Length: 90000\r\n\r\n"
        for connection in slow:
            connection.sendall(head.encode() + b"x" * 10)
        done: list[int] = []

        def work(number: int) -> None:
            with service.client() as client:
                done.append(upload_raw(client, f"file-{number}.pdf", pdf_file()).status_code)
                done.append(client.get("/api/health").status_code)

        workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(30)
        assert sorted(done) == [200] * 8 + [202] * 8
    finally:
        for connection in (*silent, *slow):
            connection.close()


def test_a_request_is_not_smuggled_past_a_key(service: ServedService) -> None:
    """SEC-64: two lengths, one connection: what hides in the body is never carried out."""
    hidden = f"POST /api/pipeline/pause HTTP/1.1\r\nHost: h\r\nX-API-Key: {API_KEY}\r\n\r\n".encode()
    for lengths in (b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding: xchunked\r\n"):
        answer = raw(service, b"POST /api/auth/logout HTTP/1.1\r\nHost: h\r\n" + lengths + b"\r\n0\r\n\r\n" + hidden)
        assert answer.count(b"HTTP/1.1") + answer.count(b"HTTP/1.0") == 1
    with service.client() as client:
        assert client.get("/api/pipeline/state").json()["paused"] is False
    assert urllib.parse.quote(API_KEY) not in service.log.read_text(encoding="utf-8", errors="replace")


def test_keys_are_not_guessed_by_the_hundred(service: ServedService) -> None:
    """API-17, SEC-13, SEC-16: a window of sign-ins ends in 429, whatever address the client makes up."""
    with browser(service) as client:
        form = {"csrfToken": token_of(client.get("/login").text), "ApiKey": "guess"}
        answers = [
            client.post("/api/auth/login", data=form, headers={"X-Forwarded-For": f"10.0.0.{number}"})
            for number in range(LOGINS + 1)
        ]
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {302, 429}
    assert statuses == sorted(statuses)
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
    assert answers[-1].json()["code"] == "rate-limited"
