"""A SoftHSM token of each test's own, and a driver around it that hangs, crashes, fails and counts on demand."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from bulksigner.contract.errors import BulkSignerError
from bulksigner.testing.certificates import Authority, Issued, KeyKind
from bulksigner.testing.fixtures import missing, require_tool
from bulksigner.testing.harness import Harness
from bulksigner_pkcs11.settings import DEFAULT_VARIABLE, Pkcs11Block
from bulksigner_pkcs11.source import Pkcs11Source

SOFTHSM = ("/usr/lib/softhsm/libsofthsm2.so", "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so")
LABEL, PIN, OFFICER_PIN = "company", "1234", "87654321"
KINDS = {"01": KeyKind.RSA_2048, "02": KeyKind.ECDSA_P256}
DRIVER = Path(__file__).parent / "driver.c"


def run(*command: str | Path) -> str:
    """Run a tool and return what it printed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"
    return done.stdout


def thumbprint_of(issued: Issued) -> str:
    return hashlib.sha1(issued.certificate_der).hexdigest()


@attrs.frozen
class Token:
    """A SoftHSM token, in a folder that can be taken away."""

    folder: Path
    module: str
    rsa: Issued
    ecdsa: Issued
    label: str = LABEL

    def block(self, **changes: object) -> Pkcs11Block:
        """Return settings for its RSA key."""
        return attrs.evolve(Pkcs11Block(self.module, thumbprint_of(self.rsa)), **changes)

    def take_away(self) -> None:
        """Take the token out of the host."""
        self.folder.rename(self.folder.with_name("away"))
        self.folder.mkdir()

    def bring_back(self) -> None:
        """Put the token back in."""
        self.folder.rmdir()
        self.folder.with_name("away").rename(self.folder)

    def change_pin(self, new: str) -> None:
        """Change the PIN, as a person would with the vendor's tool."""
        run("pkcs11-tool", "--module", self.module, "--token-label", LABEL, "--login", "--pin", PIN, "--change-pin",
            "--new-pin", new)  # fmt: skip

    def write_certificate(self, key_id: str, der: bytes) -> None:
        """Put one more certificate on the token."""
        write_certificate(self.module, self.label, key_id, der, self.folder.parent)

    def remove_certificate(self, key_id: str) -> None:
        """Take a certificate off the token."""
        run("pkcs11-tool", "--module", self.module, "--token-label", LABEL, "--login", "--pin", PIN, "--delete-object",
            "--type", "cert", "--id", key_id)  # fmt: skip

    def thumbprint_of(self, issued: Issued) -> str:
        """Return the thumbprint of a certificate."""
        return thumbprint_of(issued)

    def write_key(self, key_id: str, issued: Issued) -> None:
        """Put one more private key on the token."""
        write_key(self.label, key_id, issued, self.folder.parent)

    def write_guarded_key(self, key_id: str, issued: Issued) -> None:
        """Put a private key on the token that wants the PIN at every signature."""
        pem = issued.write_key_pem(self.folder.parent / f"guarded-{key_id}.pem")
        run("pkcs11-tool", "--module", self.module, "--token-label", LABEL, "--login", "--pin", PIN, "--write-object",
            pem, "--type", "privkey", "--id", key_id, "--always-auth")  # fmt: skip

    def add(self, label: str, issued: Issued) -> None:
        """Put a second token beside it, with the same PIN and one certificate and key."""
        make_token(label)
        write_identity(self.module, label, "01", issued, self.folder.parent)


def find_module() -> str:
    """Return the path of the SoftHSM library."""
    return next((path for path in SOFTHSM if Path(path).exists()), "") or missing("SoftHSM", "softhsm2")


def make_token(label: str) -> None:
    """Make an empty token in the folder of SOFTHSM2_CONF."""
    run("softhsm2-util", "--init-token", "--free", "--label", label, "--pin", PIN, "--so-pin", OFFICER_PIN)


def write_certificate(module: str, label: str, key_id: str, der: bytes, folder: Path) -> None:
    """Put a certificate on a token."""
    path = folder / f"{label}-{key_id}.der"
    path.write_bytes(der)
    run("pkcs11-tool", "--module", module, "--token-label", label, "--login", "--pin", PIN, "--write-object", path,
        "--type", "cert", "--id", key_id, "--label", key_id)  # fmt: skip


def write_key(label: str, key_id: str, issued: Issued, folder: Path) -> None:
    """Put a private key on a token."""
    pem = issued.write_key_pem(folder / f"{label}-{key_id}.pem")
    run("softhsm2-util", "--import", pem, "--token", label, "--label", key_id, "--id", key_id, "--pin", PIN)


def write_identity(module: str, label: str, key_id: str, issued: Issued, folder: Path) -> None:
    """Put a private key and its certificate on a token."""
    write_key(label, key_id, issued, folder)
    write_certificate(module, label, key_id, issued.certificate_der, folder)


def configure(folder: Path) -> Path:
    """Write the settings of SoftHSM for a folder of tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder.with_name("softhsm2.conf")
    path.write_text(f"directories.tokendir = {folder}\nobjectstore.backend = file\nlog.level = ERROR\n")
    return path


@pytest.fixture(scope="session")
def identities(authority: Authority) -> dict[str, Issued]:
    """One certificate for each kind of key, by its id on the token."""
    return {key_id: authority.issue(kind=kind) for key_id, kind in KINDS.items()}


@pytest.fixture(scope="session")
def prepared_tokens(identities: dict[str, Issued], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one token, to be copied: two keys with their certificates, and that of their issuer."""
    for tool, package in (("softhsm2-util", "softhsm2"), ("pkcs11-tool", "opensc")):
        require_tool(tool, package)
    module, folder = find_module(), tmp_path_factory.mktemp("softhsm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOFTHSM2_CONF", str(configure(folder / "tokens")))
        make_token(LABEL)
        for key_id, issued in identities.items():
            write_identity(module, LABEL, key_id, issued, folder)
        issuer = identities["01"].issuers[0].public_bytes(Encoding.DER)
        write_certificate(module, LABEL, "03", issuer, folder)
    return folder / "tokens"


@pytest.fixture
def token(
    prepared_tokens: Path, identities: dict[str, Issued], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Token:
    """A token of the test's own; its PIN is in the default variable."""
    folder = tmp_path / "softhsm" / "tokens"
    monkeypatch.setenv("SOFTHSM2_CONF", str(configure(folder)))
    shutil.copytree(prepared_tokens, folder, dirs_exist_ok=True)
    monkeypatch.setenv(DEFAULT_VARIABLE, PIN)
    return Token(folder, find_module(), identities["01"], identities["02"])


@attrs.frozen
class Around:
    """The driver around SoftHSM: what it does is asked for by files, and what it was called for is counted."""

    module: str
    folder: Path

    def ask(self, what: str, text: str = "") -> None:
        """Ask for one of the things that driver.c lists."""
        (self.folder / what).write_text(text)

    def take_back(self, what: str) -> None:
        """Ask for it no more."""
        (self.folder / what).unlink()

    def count(self, function: str) -> int:
        """Return how often a function was called."""
        return sum(line.split()[1] == function for line in self._calls())

    def processes(self) -> set[str]:
        """Return the processes that have made calls."""
        return {line.split()[0] for line in self._calls()}

    def _calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture(scope="session")
def built_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver of driver.c, compiled."""
    compiler = require_tool("gcc", "gcc")
    library = tmp_path_factory.mktemp("driver") / "driver.so"
    run(compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-o", library, DRIVER, "-ldl")
    return library


@pytest.fixture
def around(built_driver: Path, token: Token, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Around:
    """The driver around the test's token."""
    folder = tmp_path / "driver"
    folder.mkdir()
    monkeypatch.setenv("WRAPPED_MODULE", token.module)
    monkeypatch.setenv("DRIVER_FOLDER", str(folder))
    return Around(str(built_driver), folder)


class KeptNotes:
    """Notes in memory, as the store keeps them."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def read(self, name: str) -> str | None:
        return self.values.get(name)

    def swap(self, name: str, before: str | None, after: str | None) -> bool:
        if self.values.get(name) != before:
            return False
        if after is None:
            self.values.pop(name, None)
        else:
            self.values[name] = after
        return True


@pytest.fixture
def notes() -> KeptNotes:
    """Notes that outlive a source, as those of the database outlive a service."""
    return KeptNotes()


@pytest.fixture
def make_source(notes: KeptNotes) -> Iterator[Callable[..., Pkcs11Source]]:
    """Return a maker of sources, one for each life of a service; what they opened is closed afterwards."""
    made: list[Pkcs11Source] = []

    def make(call_limit_seconds: float = 30.0) -> Pkcs11Source:
        source = Pkcs11Source(call_limit_seconds)
        source.take_notes(notes)
        made.append(source)
        return source

    yield make
    for source in made:
        for driver in list(source._drivers.values()):
            driver.close()


@pytest.fixture
def source(make_source: Callable[..., Pkcs11Source]) -> Pkcs11Source:
    """A source with notes and the usual limit of a call."""
    return make_source()


@pytest.fixture
def refusal() -> Callable[[Pkcs11Source, Pkcs11Block], str]:
    """Return what opens a block that must not open, and gives the reason, which never holds the PIN."""

    def ask(source: Pkcs11Source, block: Pkcs11Block) -> str:
        with pytest.raises(BulkSignerError) as refused:
            source.open(block)
        pin = os.environ.get(block.pin_env_var)
        assert not pin or pin not in refused.value.message
        return refused.value.message

    return ask


@pytest.fixture
def chain(token: Any, tmp_path: Path) -> Path:
    """A folder with the issuers' certificates."""
    folder = tmp_path / "issuers"
    folder.mkdir()
    token.rsa.write_issuers_pem(folder / "issuers.pem")
    return folder


@pytest.fixture
def make_service(make_harness: Callable[..., Harness], token: Any, chain: Path) -> Callable[..., Harness]:
    """Return a maker of services whose profile `default` signs with the token through a given library."""

    def make(module: str | None = None, *, identity: Any = None, **choices: Any) -> Harness:
        certificate = "Signing:Profiles:0:Certificate"
        settings = {
            "Signing:Profiles:0:Policy": "B-B",
            f"{certificate}:Source": "Pkcs11",
            f"{certificate}:Pfx:Path": None,
            f"{certificate}:Pfx:Password": None,
            f"{certificate}:Pkcs11:ModulePath": module or token.module,
            f"{certificate}:Pkcs11:Thumbprint": token.thumbprint_of(identity or token.rsa),
            f"{certificate}:Pkcs11:ChainPath": str(chain),
            **choices.pop("settings", {}),
        }
        return make_harness(settings=settings, **choices)

    return make
