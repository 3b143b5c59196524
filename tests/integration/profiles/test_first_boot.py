"""From settings to a signature by the real plugin: seed, seal, open, and sign here and in a worker process."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.contract.errors import ConfigurationRefused
from bulksigner.contract.signing import Format, Measured
from bulksigner.formats.model import Expectation
from bulksigner.pipeline.engine import InProcessEngine, ask
from bulksigner.pipeline.engine_pool import ProcessEngine
from bulksigner.pipeline.engine_worker import WorkerBoot
from bulksigner.pipeline.tasks import CheckTask, SignTask
from bulksigner.plugin_system.manager import discover
from bulksigner.plugin_system.registry import Registry
from bulksigner.plugin_system.report import PluginState
from bulksigner.profiles.deployment import deployment_salt
from bulksigner.profiles.opened import OpenedProfiles, open_profiles
from bulksigner.profiles.seal import Sealer
from bulksigner.profiles.seed import SeedReport, seed_profiles
from bulksigner.profiles.store import ProfileStore
from bulksigner.records.migrate import migrate
from bulksigner.records.sqlite import open_sqlite
from bulksigner.settings.load import LoadedSettings, load
from bulksigner.settings.schema import CollectedSchema
from bulksigner.settings.variables import HostVariables
from bulksigner.testing.certificates import Issued, make_authority

PASSWORD = "senha de teste é longa"
CONTENT = b"a payment order"


def now() -> datetime.datetime:
    """Return the present time."""
    return datetime.datetime.now(datetime.UTC)


@pytest.fixture(scope="module")
def issued() -> Issued:
    """A throw-away certificate of Brazilian shape."""
    return make_authority().issue()


@pytest.fixture
def plugin_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the plugin known as an installed distribution, in this process and in those it spawns."""
    package = Path(__file__).resolve().parents[3] / "plugins/local_pfx"
    metadata = tmp_path / "site" / "bulksigner_local_pfx-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: bulksigner-local-pfx\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text("[bulksigner]\nlocal_pfx = bulksigner_local_pfx.plugin\n")
    monkeypatch.syspath_prepend(package)
    monkeypatch.syspath_prepend(metadata.parent)


@attrs.frozen
class Boot:
    """What the start of the service has made when the profiles are open."""

    loaded: LoadedSettings
    registry: Registry
    report: SeedReport
    opened: OpenedProfiles


@pytest.fixture
def boot(plugin_path: None, tmp_path: Path, issued: Issued) -> Iterator[Any]:
    """Start as `app` does, up to the opened profiles; once more on the same database when called again."""
    store = open_sqlite(tmp_path / "db" / "service.db")
    migrate(store)
    pfx = issued.write_pfx(tmp_path / "company.pfx", PASSWORD)

    def start(**variables: str) -> Boot:
        plugins, schema = discover(), CollectedSchema()
        plugins.add_settings(schema)
        environ = {
            "Auth__ApiKey": "an api key of some length",
            "Signing__Certificate__Pfx__Path": str(pfx),
            "Signing__Certificate__Pfx__Password": PASSWORD,
            "Signing__ProfileSecretsKey": "k" * 40,
            **variables,
        }
        loaded = load(schema, HostVariables(content_root=tmp_path), environ)
        registry = plugins.providers(loaded.plugins)
        profiles = ProfileStore(store)
        sealer = Sealer(loaded.core.signing.profile_secrets_key, lambda: deployment_salt(store, now))
        report = seed_profiles(profiles, loaded.core, sealer, now)
        return Boot(loaded, registry, report, open_profiles(profiles, registry, sealer))

    yield start
    store.close()


def test_the_first_boot_makes_default_and_later_boots_find_it(boot: Any, issued: Issued) -> None:
    """CFG-83, CFG-81, PIPE-57: seeded once, its key open, the synthesised folder bound; then the database counts."""
    first = boot()
    assert {"builtin", "local_pfx"} <= {row.name for row in first.registry.rows if row.state is PluginState.LOADED}
    assert (first.report.profiles, first.report.bound) == (("default",), {"default": "default"})
    second = boot(Signing__Certificate__Pfx__Path="/elsewhere.pfx")
    assert len(second.report.warnings) == 1
    for started in (first, second):
        profile = started.opened.bound("default")
        assert profile.degraded is None
        assert profile.key.certificate == issued.certificate_der
        assert profile.locator.endswith("company.pfx")


def test_a_lost_key_is_told(boot: Any) -> None:
    """CFG-66: absent refuses the start, wrong degrades the profile."""
    boot()
    with pytest.raises(ConfigurationRefused, match="Signing__ProfileSecretsKey"):
        boot(Signing__ProfileSecretsKey="")
    wrong = boot(Signing__ProfileSecretsKey="w" * 40)
    assert "Signing:ProfileSecretsKey" in wrong.opened.get("default").degraded


@pytest.mark.parametrize("in_processes", [False, True], ids=["here", "worker"])
def test_the_opened_profile_signs(in_processes: bool, boot: Any, tmp_path: Path) -> None:
    """PERF-06, PIPE-79: the reference alone lets a spawned process open the key; the result verifies."""
    started = boot()
    profile = started.opened.get("default")
    engine: Any = InProcessEngine(started.registry)
    if in_processes:
        engine = ProcessEngine(WorkerBoot(started.registry.signing_plugins, started.loaded.plugins), 1, engine)
    try:
        engine.open(profile.key_reference, profile.key)
        staged, target = tmp_path / "staged.rem", tmp_path / "signed.p7m"
        staged.write_bytes(CONTENT)
        measured = Measured(len(CONTENT), hashlib.sha256(CONTENT).digest())
        task = SignTask("job", "Local", profile.name, "a.rem", Format.CADES, staged, measured, target, now(), {})
        signed = ask(engine, task)
        expectation = Expectation(Format.CADES, profile.key.certificate, measured)
        checked = ask(engine, CheckTask(target, expectation, pem=False))
    finally:
        engine.close()
    assert checked.measured == signed
    assert signed.length == target.stat().st_size
