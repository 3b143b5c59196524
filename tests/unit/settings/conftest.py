"""A host of settings files and variables that load, or are refused."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest

from bulksigner.contract.errors import ConfigurationRefused, Failure
from bulksigner.contract.settings import Secret, option
from bulksigner.settings.load import LoadedSettings, load
from bulksigner.settings.schema import CollectedSchema
from bulksigner.settings.variables import HostVariables

API_KEY = "an-api-key-of-the-tests"


@attrs.frozen
class PfxBlock:
    """A block such as a certificate plugin declares."""

    path: str = option("", help="The file.")
    password: Secret = option(Secret(""), help="Its password.")


@attrs.define
class Host:
    """A content root; `variables` are those of the process besides the API key."""

    root: Path
    schema: CollectedSchema = attrs.Factory(CollectedSchema)

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def load(self, variables: Mapping[str, str] | None = None) -> LoadedSettings:
        environ = {"Auth__ApiKey": API_KEY, **(variables or {})}
        return load(self.schema, HostVariables.read(environ, self.root), environ)

    def refuse(self, variables: Mapping[str, str] | None = None) -> dict[str, Failure]:
        with pytest.raises(ConfigurationRefused) as caught:
            self.load(variables)
        failures = caught.value.failures
        keyed = {failure.key or failure.origin: failure for failure in failures}
        assert len(keyed) == len(failures)
        return keyed


@pytest.fixture
def host(tmp_path: Path) -> Host:
    made = Host(tmp_path / "host")
    made.root.mkdir()
    return made


@pytest.fixture
def pfx_host(host: Host) -> Host:
    host.schema.certificate_block("Pfx", PfxBlock)
    return host
