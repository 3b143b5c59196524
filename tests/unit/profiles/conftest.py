"""A database in a file, plugins that open fakes, and settings as the binder gives them."""

from __future__ import annotations

import datetime
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from bulksigner.contract.certificate import Digest, KeyAlgorithm
from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.hookspecs import hookimpl
from bulksigner.contract.settings import Secret, option
from bulksigner.plugin_system.manager import discover
from bulksigner.plugin_system.registry import Registry
from bulksigner.profiles import seal
from bulksigner.profiles.deployment import deployment_salt
from bulksigner.profiles.seal import Sealer
from bulksigner.profiles.store import ProfileStore
from bulksigner.records.migrate import migrate
from bulksigner.records.sqlite import open_sqlite
from bulksigner.records.store import Store
from bulksigner.settings.schema import CollectedSchema

NOW = datetime.datetime(2026, 3, 2, 12, tzinfo=datetime.UTC)
NOT_AFTER = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)


@attrs.frozen
class FileBlock:
    """The block of the fake source `Pfx`."""

    path: str = option()
    password: Secret = option(Secret(""))


@attrs.frozen
class CheckKeys:
    """Profile keys of a fake validator plugin."""

    check_card: bool = option(False)
    check_depth: int = option(3)


class Key:
    """An opened key with a real certificate."""

    algorithm = KeyAlgorithm.ECDSA
    chain = ()

    def __init__(self, certificate: bytes) -> None:
        self.certificate = certificate
        self.closed = 0

    def sign(self, data: bytes, digest: Digest) -> bytes:
        return b""

    def sign_digest(self, value: bytes, digest: Digest) -> bytes:
        return b""

    def close(self) -> None:
        self.closed += 1
        if self.closed > 1:
            raise RuntimeError("closed twice")


class Source:
    """Opens `good`; refuses, breaks or lies for other paths."""

    name = "Pfx"
    concurrent = True
    portable = True

    def __init__(self, certificate: bytes) -> None:
        self.certificate = certificate
        self.blocks: list[Any] = []

    def locator(self, block: Any) -> str:
        return str(block.path)

    def open(self, block: Any) -> Any:
        self.blocks.append(block)
        answers: dict[str, Callable[[], Any]] = {
            "/broken": lambda: 1 / 0,
            "/nothing": lambda: None,
            "/garbage": lambda: Key(b"no certificate"),
        }
        if block.path == "/missing":
            raise PermanentFailure("PFX file /missing: no such file")
        return answers.get(block.path, lambda: Key(self.certificate))()


class Method:
    """A signing method that signs nothing."""

    def __init__(self, name: str, needs_certificate: bool) -> None:
        self.name, self.needs_certificate = name, needs_certificate

    def sign(self, request: Any) -> Any:
        raise NotImplementedError

    poll = withdraw = sign

    def settle(self, job_id: str) -> Any:
        raise NotImplementedError


@pytest.fixture(scope="session")
def certificate() -> bytes:
    """A self-signed certificate, DER, valid until `NOT_AFTER`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOT_AFTER)
        .sign(key, SHA256())
    )
    return made.public_bytes(Encoding.DER)


@pytest.fixture
def source(certificate: bytes) -> Source:
    """The certificate source of the fake plugin."""
    return Source(certificate)


@pytest.fixture
def registry(source: Source) -> Registry:
    """The providers of a fake plugin `local_pfx` with the methods `Local` and `Remote`."""
    module = types.ModuleType("fake_pfx")

    @hookimpl
    def bulksigner_add_settings(schema: Any) -> None:
        schema.certificate_block("Pfx", FileBlock)
        schema.profile_keys(CheckKeys)

    @hookimpl
    def bulksigner_certificate_sources(settings: Any) -> Any:
        return [source]

    @hookimpl
    def bulksigner_signing_methods(settings: Any) -> Any:
        return [Method("Local", True), Method("Remote", False)]

    for hook in (bulksigner_add_settings, bulksigner_certificate_sources, bulksigner_signing_methods):
        setattr(module, hook.__name__, hook)
    entry_point = types.SimpleNamespace(name="local_pfx", value="fake_pfx.plugin", load=lambda: module)
    found = discover(entry_points=[entry_point], builtins=())
    found.add_settings(CollectedSchema())
    return found.providers({})  # type: ignore[arg-type]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Store]:
    """An empty database of this build's schema."""
    store = open_sqlite(tmp_path / "db" / "test.db")
    migrate(store)
    yield store
    store.close()


@pytest.fixture
def profiles(database: Store) -> ProfileStore:
    """The empty profile table."""
    return ProfileStore(database)


@pytest.fixture
def clock() -> Callable[[], datetime.datetime]:
    """A clock that stands still."""
    return lambda: NOW


@pytest.fixture
def sealer_with(database: Store, clock: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Sealer]:
    """Make a sealer of this deployment for a value of `Signing:ProfileSecretsKey`; few rounds, for speed."""
    monkeypatch.setattr(seal, "_ITERATIONS", 1000)
    return lambda key: Sealer(Secret(key), lambda: deployment_salt(database, clock))


@pytest.fixture
def classes() -> Any:
    """Hand out the fakes' classes; test modules cannot import this one."""
    return types.SimpleNamespace(FileBlock=FileBlock, CheckKeys=CheckKeys, Key=Key, now=NOW, not_after=NOT_AFTER)


@pytest.fixture
def core_with(classes: Any) -> Callable[..., Any]:
    """Make the part of the settings that profiles read."""

    def make(*seeds: Any, certificate: Any = None, folders: Any = (), encrypts: bool = False) -> Any:
        return types.SimpleNamespace(
            signing=types.SimpleNamespace(profiles=seeds, certificate=certificate),
            storage=types.SimpleNamespace(inputs=tuple(folders)),
            encryption=types.SimpleNamespace(enabled=encrypts),
        )

    return make
