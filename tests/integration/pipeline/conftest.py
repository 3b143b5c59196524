"""A plugin with keys that hang, die, refuse and stay at home, installed for this process and those it spawns."""

from __future__ import annotations

import datetime
import hashlib
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Format, Measured
from bulksigner.formats.model import Checked, Expectation
from bulksigner.pipeline.engine import Engine, ask
from bulksigner.pipeline.tasks import CheckTask, SignTask
from bulksigner.plugin_system.manager import PluginSet, discover
from bulksigner.plugin_system.registry import Registry
from bulksigner.profiles.model import KeyReference
from bulksigner.settings.schema import BoundSettings

PLUGIN = '''
import os, time
from pathlib import Path

import attrs
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.x509 import load_der_x509_certificate

from bulksigner.contract.certificate import KeyAlgorithm
from bulksigner.contract.hookspecs import hookimpl
from bulksigner.contract.settings import Secret


@attrs.frozen
class Block:
    certificate: bytes
    chain: tuple
    key: Secret
    home: str
    owner: int
    extra: object = None


class MoodyKey:
    """Does what the file `mood` says, after it told in `entered` which process it is in."""

    algorithm = KeyAlgorithm.RSA

    def __init__(self, block):
        self.certificate, self.chain, self._home = block.certificate, block.chain, Path(block.home)
        self._key = serialization.load_pem_private_key(block.key.reveal().encode(), None)

    def sign(self, data, digest):
        mood = (self._home / "mood").read_text()
        (self._home / "entered").write_text(str(os.getpid()))
        if mood == "hang":
            time.sleep(3600)
        if mood == "slow":
            time.sleep(1)
        if mood == "die":
            os._exit(9)
        if mood == "raise":
            raise KeyError("a bug of the plugin")
        if mood == "exit":
            raise SystemExit(4)
        chosen = {"sha256": hashes.SHA256(), "sha512": hashes.SHA512()}[digest.value]
        return self._key.sign(data, padding.PKCS1v15(), chosen)

    def sign_digest(self, value, digest):
        raise NotImplementedError

    def close(self):
        pass


class Deadly:
    def __fspath__(self):
        os._exit(9)


@attrs.frozen
class Source:
    name: str
    portable: bool
    only_at_home: bool = False
    concurrent = True

    def locator(self, block):
        return "moody"

    def open(self, block):
        if self.only_at_home and os.getpid() != block.owner:
            raise RuntimeError("no token in this process")
        if (Path(block.home) / "away").exists():
            raise OSError("the share is away")
        replaced = Path(block.home) / "replaced"
        if replaced.exists():
            block = attrs.evolve(block, certificate=replaced.read_bytes())
        return MoodyKey(block)


@hookimpl
def bulksigner_certificate_sources(settings):
    return [Source("Moody", True), Source("Share", True), Source("Home", False), Source("Token", True, True)]
'''
METADATA = "Metadata-Version: 2.1\nName: moody-keys\nVersion: 1.0\n"


def measure(content: bytes) -> Measured:
    return Measured(len(content), hashlib.sha256(content).digest())


@attrs.define
class Keys:
    """The plugin, its settings, and the file that sets the mood of its keys."""

    plugins: PluginSet
    settings: Any
    registry: Registry
    issued: Any
    home: Path
    site: Path

    def set_mood(self, mood: str) -> None:
        (self.home / "entered").unlink(missing_ok=True)
        (self.home / "mood").write_text(mood)

    @property
    def entered(self) -> int | None:
        """Return the process that the last use of a key began in."""
        try:
            return int((self.home / "entered").read_text())
        except (FileNotFoundError, ValueError):
            return None

    def reference(self, source: str = "Moody", owner: int = 0, extra: object = None) -> KeyReference:
        from moody_keys import Block  # type: ignore[import-not-found]

        pem = self.home / "key.pem"
        self.issued.write_key_pem(pem)
        block = Block(
            self.issued.certificate_der, self.issued.chain_der, Secret(pem.read_text()), str(self.home), owner, extra
        )
        return KeyReference(source, source, block, self.registry.certificate_source(source).portable)

    @property
    def deadly(self) -> Any:
        """Return a path that ends the process that opens it."""
        from moody_keys import Deadly

        return Deadly()

    def open(self, engine: Engine, reference: KeyReference) -> None:
        """Open the key here, as the boot does, and make it known to the engine."""
        engine.open(reference, self.registry.certificate_source(reference.source).open(reference.block))


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaf: Any) -> Keys:
    """The plugin, discovered."""
    site = tmp_path / "site"
    metadata = site / "moody_keys-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "moody_keys.py").write_text(PLUGIN)
    (metadata / "METADATA").write_text(METADATA)
    (metadata / "entry_points.txt").write_text("[bulksigner]\nmoody_keys = moody_keys\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "moody_keys", raising=False)
    plugins, settings = discover(), BoundSettings({})
    home = tmp_path / "home"
    home.mkdir()
    found = Keys(plugins, settings, plugins.providers(settings), leaf, home, site)
    found.set_mood("fine")
    return found


@pytest.fixture
def new_task(tmp_path: Path) -> Callable[..., SignTask]:
    """Stage one file and return the task to sign it."""

    def make(reference: KeyReference, content: bytes = b"content", format: Format = Format.CADES) -> SignTask:
        folder = tmp_path / uuid.uuid4().hex
        folder.mkdir()
        staged = folder / "staged"
        staged.write_bytes(content)
        return SignTask(
            job_id=folder.name,
            method="Local",
            profile=reference.profile,
            file_name="staged",
            format=format,
            staged=staged,
            measured=measure(content),
            target=folder / "target",
            signed_at=datetime.datetime.now(datetime.UTC),
            options={},
        )

    return make


@pytest.fixture
def sign(new_task: Callable[..., SignTask]) -> Callable[..., tuple[SignTask, Measured]]:
    """Sign one file through an engine; returns the task and what the engine measured."""

    def act(
        engine: Engine, reference: KeyReference, content: bytes = b"content", format: Format = Format.CADES
    ) -> tuple[SignTask, Measured]:
        task = new_task(reference, content, format)
        return task, ask(engine, task)

    return act


@pytest.fixture
def check() -> Callable[[Engine, SignTask, bytes], Checked]:
    """Check what a task made, through an engine."""

    def act(engine: Engine, task: SignTask, certificate: bytes) -> Checked:
        return ask(engine, CheckTask(task.target, Expectation(task.format, certificate, task.measured), pem=False))

    return act
