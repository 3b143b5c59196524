"""Every secret of the settings is planted, everything that can go wrong is made to, and no secret shows (SEC-60).

The secrets are those that the schema of the settings declares as such, so a key of a new feature joins by itself.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import sqlite3
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest

from bulksigner.plugin_system.manager import discover
from bulksigner.settings.schema import CollectedSchema, KeyRow
from bulksigner.testing.certificates import Authority
from bulksigner.testing.files import pdf_file
from bulksigner.testing.postgres import PostgresServer
from bulksigner.testing.served import ServedService

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them")

PATIENCE_SECONDS = 60.0
LEAKY = """
import os
import threading

from bulksigner.contract.errors import StepFailed
from bulksigner.contract.hookspecs import hookimpl
from bulksigner.contract.observe import BannerRow, ReadinessRow

SECRET = os.environ["Auth__ApiKey"]


class Leaky:
    name = "Leaky"
    needs_certificate = True

    def sign(self, request):
        if request.file_name.startswith("abort"):
            os.abort()
        if request.file_name.startswith("expected"):
            raise StepFailed("the remote side refused the key " + SECRET)
        raise RuntimeError("connecting with " + SECRET)

    poll = withdraw = settle = sign


class Check:
    name = "leaky"
    gating = False

    def run(self):
        return ReadinessRow("leaky", False, False, "tried with " + SECRET)


class Broken:
    name = "broken"
    gating = False

    def run(self):
        raise RuntimeError("tried with " + SECRET)


@hookimpl
def bulksigner_signing_methods(settings):
    return [Leaky()]


@hookimpl
def bulksigner_readiness_checks(settings):
    return [Check(), Broken()]


@hookimpl
def bulksigner_banner_rows(settings):
    return [BannerRow("leaky", SECRET)]


def fail():
    raise RuntimeError("in a thread with " + SECRET)


@hookimpl
def bulksigner_job_changed(change):
    threading.Thread(target=fail, name="leaky").start()
    raise RuntimeError("hearing of a job with " + SECRET)


@hookimpl
def bulksigner_stopping():
    raise RuntimeError("stopping with " + SECRET)
"""


@attrs.define
class Aviary:
    """The canaries by name, everything that was seen of the product, and where its files are."""

    root: Path
    environment: dict[str, str]
    canaries: dict[str, str] = attrs.field(factory=dict)
    seen: list[tuple[str, bytes]] = attrs.field(factory=list)

    def hatch(self, name: str) -> str:
        """Return a new secret, of letters that look different in a URL, in JSON and in base64."""
        number = len(self.canaries)
        self.canaries[name] = f"Canary+{number:02}/of&the=mine~{os.urandom(6).hex()}"
        return self.canaries[name]

    def note(self, where: str, what: str | bytes) -> None:
        """Keep something the product showed."""
        self.seen.append((where, what if isinstance(what, bytes) else what.encode("utf-8", "surrogateescape")))

    def run(self, service: ServedService, *arguments: str, **variables: str) -> int:
        """Run a command of the product and keep what it printed."""
        own = attrs.evolve(service, environment={**service.environment, **variables})
        ended = own.run(*arguments)
        self.note(f"output of {' '.join(arguments)}", ended.stdout + ended.stderr)
        return ended.returncode

    def findings(self) -> list[str]:
        """Name every place where a canary is, in any of its shapes."""
        places = [*self.seen, *((str(path), path.read_bytes()) for path in self._files())]
        return [
            f"{name} as {shape!r} in {where}: …{text[max(0, at - 60) : at + len(shape) + 20]!r}…"
            for where, text in places
            for name, canary in self.canaries.items()
            for shape in shapes_of(canary)
            if (at := text.find(shape)) >= 0
        ]

    def _files(self) -> Iterator[Path]:
        yield from (path for path in self.root.rglob("*") if path.is_file())


def shapes_of(secret: str) -> set[bytes]:
    """Return the shapes a secret may leave in: as it is, in a URL, in JSON, and in base64 at each alignment."""
    raw = secret.encode()
    shapes = {raw, urllib.parse.quote(secret, safe="").encode(), urllib.parse.quote(secret).encode()}
    shapes |= {urllib.parse.quote_plus(secret).encode(), secret.replace("/", "\\/").encode()}
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + raw)[4:-4]
        shapes |= {encoded, encoded.replace(b"+", b"-").replace(b"/", b"_")}
    return shapes


def secret_rows() -> list[KeyRow]:
    """Return the keys that hold secrets, of the core and of every installed plugin."""
    schema = CollectedSchema()
    discover([]).add_settings(schema)
    return [row for row in schema.rows() if row.member.is_secret]


@pytest.fixture
def aviary(tmp_path: Path, authority: Authority) -> Aviary:
    """Plant a canary in each secret key, with what a key needs to be accepted."""
    site = tmp_path / "site"
    metadata = site / "bulksigner_leaky-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "leaky_plugin.py").write_text(LEAKY)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: bulksigner-leaky\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[bulksigner]\nleaky = leaky_plugin\n")
    root = tmp_path / "place"
    root.mkdir()
    aviary = Aviary(root, {"PYTHONPATH": os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])})
    for row in secret_rows():
        assert row.variable is not None, f"{row.path} has no variable; plant its canary in a file here"
        if row.path != "ConnectionStrings:Default":
            aviary.environment[row.variable] = aviary.hatch(row.path)
    aviary.environment["BULK_SIGNER_PKCS11_PIN"] = aviary.hatch("the PIN of a token")
    aviary.environment["SECOND_SLOT"] = aviary.hatch("the PIN in a variable that a profile names")
    password = aviary.canaries["Signing:Profiles[]:Certificate:Pfx:Password"]
    authority.issue().write_pfx(tmp_path / "good.pfx", password)
    authority.issue().write_pfx(tmp_path / "other.pfx", aviary.hatch("typed"))
    return aviary


def settings_of(tmp_path: Path, **more: object) -> dict[str, object]:
    """Return the settings beside the secrets: a profile that signs, one with a wrong password, one that breaks."""
    profiles = {"default": "good.pfx", "wrong": "other.pfx", "leaky": "good.pfx"}
    (tmp_path / "inbox").mkdir(exist_ok=True)
    settings: dict[str, object] = {
        "Storage:Inputs:0:Name": "inbox",
        "Storage:Inputs:0:Path": tmp_path / "inbox",
        "Signing:Certificate:Pfx:Path": tmp_path / "good.pfx",
        "Signing:Engine": "Processes",
        "Signing:Timestamps:0:Url": "http://127.0.0.1:9/stamps",
        "Signing:Timestamps:0:User": "signer",
        "Signing:EngineWorkers": 1,
        "Pipeline:MaxConcurrency": 2,
        "Pipeline:PollIntervalSeconds": 1,
        "Pipeline:ShutdownGraceSeconds": 1,
        "Upload:MaxBytes": 65536,
        "Logging:LogLevel:Default": "Debug",
        "Logging:File:MinimumLevel": "Debug",
        "Logging:File:Path": tmp_path / "place" / "data" / "logs" / "service-.log",
    }
    for number, (name, file) in enumerate(profiles.items()):
        settings[f"Signing:Profiles:{number}:Name"] = name
        settings[f"Signing:Profiles:{number}:Format"] = "Pades"
        settings[f"Signing:Profiles:{number}:ValidateCertificate"] = "false"
        settings[f"Signing:Profiles:{number}:Certificate:Pfx:Path"] = tmp_path / file
    settings["Signing:Profiles:2:Method"] = "Leaky"
    token = {"ModulePath": tmp_path / "none.so", "Thumbprint": "0" * 40, "PinEnvVar": "SECOND_SLOT"}
    settings |= {f"Signing:Profiles:3:Certificate:Pkcs11:{key}": value for key, value in token.items()}
    profile = {"Name": "token", "Format": "Pades", "ValidateCertificate": "false", "Certificate:Source": "Pkcs11"}
    settings |= {f"Signing:Profiles:3:{key}": value for key, value in profile.items()}
    return settings | {key.replace("__", ":"): value for key, value in more.items()}


@pytest.fixture
def service(aviary: Aviary, tmp_path: Path) -> Iterator[ServedService]:
    """A service in full voice: development answers, debug lines, every secret planted."""
    password = aviary.canaries["Signing:Profiles[]:Certificate:Pfx:Password"]
    wrong = aviary.hatch("a password that does not open its file")
    # The settings of the kit itself give way to the canaries.
    settings = {
        row.path: aviary.environment[row.variable] for row in secret_rows() if row.variable in aviary.environment
    }
    plain = {key: value for key, value in settings.items() if "[]" not in key}
    environment = {
        **aviary.environment,
        "BULK_SIGNER_ENVIRONMENT": "Development",
        "Signing__Profiles__1__Certificate__Pfx__Password": wrong,
        "Signing__Profiles__2__Certificate__Pfx__Password": password,
    }
    served = ServedService(aviary.root, {**settings_of(tmp_path), **plain}, environment)
    try:
        yield served
    finally:
        if served.process is not None:
            served.kill()


def client_of(aviary: Aviary, service: ServedService, key: str | None = None) -> httpx.Client:
    """Return a client whose every answer is kept, head and body."""

    def keep(answer: httpx.Response) -> None:
        answer.read()
        aviary.note(f"answer to {answer.request.method} {answer.request.url.path[:40]}", str(answer.headers.raw))
        aviary.note(f"answer to {answer.request.method} {answer.request.url.path[:40]}", answer.content)

    key = aviary.canaries["Auth:ApiKey"] if key is None else key
    return httpx.Client(base_url=service.url, headers={"X-API-Key": key}, timeout=60, event_hooks={"response": [keep]})


def wait_for(what: Callable[[], Any], service: ServedService) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not what():
        assert time.monotonic() < deadline, service.last_lines()
        assert service.process is not None
        assert service.process.poll() is None, service.last_lines()
        time.sleep(0.05)


def family_of(pid: int) -> list[int]:
    """Return a process and all below it."""
    family = [pid]
    for member in family:
        for task in Path(f"/proc/{member}/task").iterdir():
            family += [int(child) for child in (task / "children").read_text().split()]
    return family


def texts_of(database: Path) -> Iterator[tuple[str, str]]:
    """Yield every text of every table, with its place."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                yield from ((f"table {table}", value) for value in row if isinstance(value, str))


@pytest.mark.slow
def test_no_secret_shows_whatever_goes_wrong(aviary: Aviary, service: ServedService, tmp_path: Path) -> None:
    """SEC-51, SEC-55 to SEC-60: logs, console, events, answers, database, metrics, command lines, files, core files."""
    service.start(wait=False)
    assert service.process is not None
    pid = service.process.pid
    statuses: dict[str, Any] = {}
    with client_of(aviary, service) as client:

        def is_up() -> bool:
            with contextlib.suppress(httpx.TransportError):
                return client.get("/api/ready").status_code == 200
            return False

        wait_for(is_up, service)

        def upload(name: str, content: bytes, **query: str) -> httpx.Response:
            return client.post("/api/files", files={"file": (name, content)}, params=query)

        def ended(name: str) -> bool:
            page = client.get("/api/jobs", params={"pageSize": 200}).json()["items"]
            statuses.update({job["fileName"]: job for job in page})
            return statuses.get(name, {}).get("status") in ("Completed", "Failed")

        sent = {
            "good.pdf": {},
            "broken.pdf": {},
            "degraded.pdf": {"profile": "wrong"},
            "leaky.pdf": {"profile": "leaky"},
            "expected.pdf": {"profile": "leaky"},
            "abort.pdf": {"profile": "leaky"},
        }
        for name, query in sent.items():
            content = b"%PDF-1.4 broken" if name == "broken.pdf" else pdf_file()
            assert upload(name, content, **query).status_code == 202, service.last_lines()
            wait_for(lambda name=name: ended(name), service)
        assert {name: job["status"] for name, job in statuses.items()} == {
            name: "Completed" if name == "good.pdf" else "Failed" for name in sent
        }
        assert "***" in statuses["expected.pdf"]["errorMessage"]
        for job in statuses.values():
            client.get(f"/api/jobs/{job['id']}")

        # Secrets that people type where they do not belong.
        key, pin = aviary.canaries["Auth:ApiKey"], aviary.canaries["the PIN of a token"]
        assert client.post("/api/pipeline/pause", json={"reason": f"the PIN is {pin}"}).status_code == 200
        assert upload("token.pdf", pdf_file(), profile="token").status_code == 202
        client.get(f"/api/profiles/{urllib.parse.quote(aviary.canaries['the PIN in a variable that a profile names'])}")
        waiting = upload("waiting.pdf", pdf_file()).json()["jobId"]
        client.post(f"/api/jobs/{waiting}/cancel", json={"reason": f"key {urllib.parse.quote(key, safe='')}"})
        client.post("/api/pipeline/resume", json={"reason": base64.b64encode(f"a:{key}".encode()).decode()})
        # Requests that are refused.
        for path in (
            f"/api/nothing/{urllib.parse.quote(key, safe='')}",
            f"/approvals/link/{urllib.parse.quote(key, safe='')}",
            f"/api/jobs?status={urllib.parse.quote(key, safe='')}",
            f"/api/events?from={urllib.parse.quote(key, safe='')}",
        ):
            assert client.get(path).status_code in (400, 404)
        assert upload("large.pdf", b"x" * 70000).status_code == 413
        assert upload("any.pdf", pdf_file(), profile=key).status_code == 400
        assert client.post("/api/pipeline/pause", content=f'{{"reason": "{key}"').status_code == 400
        with client_of(aviary, service, key="wrong") as stranger:
            assert stranger.get("/api/jobs").status_code == 401
        # A password typed while the service runs, right and wrong, and a worker that is killed.
        for variable in (aviary.hatch("typed wrongly"), aviary.canaries["typed"]):
            arguments = ("profiles", "set", "wrong", "--secret-env", "Certificate:Pfx:Password=TYPED")
            assert aviary.run(service, *arguments, TYPED=variable) in (0, 1)
        before = family_of(pid)
        [worker] = [one for one in before if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]
        os.kill(worker, signal.SIGABRT)
        wait_for(lambda: set(family_of(pid)) - set(before), service)
        for member in family_of(pid):
            aviary.note(f"command line of {member}", Path(f"/proc/{member}/cmdline").read_bytes())
        for path in ("ready", "ready/details", "metrics", "events?pageSize=200", "events/types", "folders", "health"):
            assert client.get(f"/api/{path}").status_code == 200
    for arguments in (("check",), ("plugins",), ("secrets", "check"), ("profiles", "test", "wrong")):
        aviary.run(service, *arguments)
    assert service.stop() == 0
    log = service.log.read_text()
    for told in (
        "The thread leaky died",
        "A signing worker process was lost",
        "connecting with ***",
        "leaky             = ***",
    ):
        assert told in log, log[-3000:]
    for where, text in texts_of(service.data / "db" / "bulksigner.db"):
        aviary.note(where, text)
    assert not [path for path in tmp_path.rglob("core*") if path.is_file()]
    assert aviary.findings() == []


BAD_FORMS: Mapping[str, Callable[[str, str], Mapping[str, str]]] = {
    "an entry of a list": lambda variable, canary: {f"{variable}__0": canary},
    "a section": lambda variable, canary: {f"{variable}__Value": canary},
    "a name close to it": lambda variable, canary: {f"{variable[:-1]}": canary, variable: "short"},
    "a token's PIN": lambda _, canary: {"Signing__Profiles__0__Certificate__Pkcs11__Pin": canary},
    "a word where a number belongs": lambda variable, canary: {variable: canary, "Hosting__Threads": "many"},
}


@pytest.mark.parametrize("form", BAD_FORMS)
def test_no_secret_shows_in_a_refusal(aviary: Aviary, tmp_path: Path, form: str) -> None:
    """CFG-13, CFG-76, SEC-60: each secret key written wrongly is refused or warned of without its value."""
    given: dict[str, str] = {}
    for row in secret_rows():
        assert row.variable is not None
        given |= BAD_FORMS[form](row.variable, aviary.hatch(f"{row.path}, {form}"))
    service = ServedService(aviary.root, settings_of(tmp_path), aviary.environment | given)
    code = aviary.run(service, "check")
    text = aviary.seen[-1][1].decode()
    assert code == 78, text
    assert "The settings were refused" in text
    assert aviary.findings() == []


@pytest.mark.parametrize(
    "form",
    [
        "postgresql://svc:{quoted}@127.0.0.1:9/none?connect_timeout=1",
        "postgresql://svc:{raw}@127.0.0.1:9/none",
        "Host=127.0.0.1;Username=svc;Password={raw};Database=none",
        "postgresql://127.0.0.1:9/none?password={quoted}&user=svc",
    ],
)
def test_no_secret_shows_when_the_database_is_away(aviary: Aviary, tmp_path: Path, form: str) -> None:
    """OPS-155, CFG-13, SEC-60: a password inside of a connection string, well written or not."""
    canary = aviary.hatch("the password of the database")
    url = form.format(raw=canary, quoted=urllib.parse.quote(canary, safe=""))
    settings = settings_of(tmp_path, **{"Database:Provider": "PostgreSql", "ConnectionStrings:Default": url})
    service = ServedService(aviary.root, settings, aviary.environment)
    assert aviary.run(service, "check") in (1, 78)
    assert aviary.run(service, "serve") in (75, 78)
    assert "database" in aviary.seen[-1][1].decode().lower()
    assert aviary.findings() == []


def test_no_secret_shows_when_a_running_service_loses_its_database(
    aviary: Aviary, service: ServedService, postgres_server: PostgresServer
) -> None:
    """OPS-156, SEC-60: connections break, then the database itself is gone; what fails meanwhile tells no password."""
    password = urllib.parse.quote(aviary.hatch("the password of the database"), safe="")
    name = postgres_server.create_database()
    url = postgres_server.url_of(name).replace("@", f":{password}@", 1)
    settings = {**service.settings, "Database:Provider": "PostgreSql", "ConnectionStrings:Default": url}
    served = attrs.evolve(service, settings=settings)
    served.start()
    try:
        with client_of(aviary, served) as client:
            assert client.get("/api/jobs").status_code == 200
            postgres_server.drop_database(name)
            for path in ("ready", "ready/details", "jobs", "metrics", "events", "pipeline/state", "folders"):
                client.get(f"/api/{path}")
            assert client.get("/api/ready").status_code == 503
            assert client.post("/api/files", files={"file": ("a.pdf", pdf_file())}).status_code == 500
            wait_for(lambda: "Nothing can be claimed" in served.log.read_text(), served)
        aviary.run(served, "check")
    finally:
        # How a service without its database stops is told elsewhere, and takes its time.
        served.kill()
        postgres_server.drop_database(name)
    assert aviary.findings() == []


def test_the_canaries_are_found_where_they_are(aviary: Aviary) -> None:
    """SEC-60: the search itself works, in every shape, for every secret key of the schema."""
    paths = {row.path for row in secret_rows()}
    assert {"Auth:ApiKey", "ConnectionStrings:Default", "Signing:ProfileSecretsKey"} < paths
    assert paths - set(aviary.canaries) == {"ConnectionStrings:Default"}
    for number, canary in enumerate(aviary.canaries.values()):
        (aviary.root / f"{number}.bin").write_bytes(b"x" + base64.b64encode(b"yz" + canary.encode()))
        aviary.note("url", f"?a={urllib.parse.quote_plus(canary)}")
        aviary.note("json", json.dumps({"a": canary}))
    found = "\n".join(aviary.findings())
    for name in aviary.canaries:
        assert sum(f"{name} as " in line for line in found.splitlines()) >= 3
