"""What every plugin must do as a whole, as a test class to inherit from."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from bulksigner.boot import Foundation, lay_foundation
from bulksigner.plugin_system.report import PluginRow

__all__ = ["PluginContract"]

_EXAMPLE = re.compile(r"```toml\n(.*?)```", re.DOTALL)
_WATCHED_IMPORT = """
import sys

def forbid(event, _):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        raise SystemExit(f"{event} at import")

sys.addaudithook(forbid)
import %s
"""


class PluginContract:
    """A plugin: set `entry_point`, its name, and override `readme`."""

    entry_point: str

    @pytest.fixture
    def readme(self) -> Path:
        """Return the README, whose blocks of TOML are examples of settings."""
        raise NotImplementedError

    def test_its_entry_point_leads_to_hooks(self, tmp_path: Path) -> None:
        """Exactly one installed entry point has the name, and the plugin loads without a complaint."""
        assert isinstance(self._find().load(), ModuleType)
        row = self._row(self._lay(tmp_path))
        assert not row.is_lost, row.reason

    def test_the_examples_of_its_readme_bind(self, readme: Path, tmp_path: Path) -> None:
        """CFG-12: whoever copies an example gets a service that accepts its settings."""
        examples = _EXAMPLE.findall(readme.read_text(encoding="utf-8"))
        assert examples, f"{readme} has no example of settings in TOML"
        for example in examples:
            (tmp_path / "settings.toml").write_text(example, encoding="utf-8")
            self._lay(tmp_path)

    def test_importing_it_reaches_for_no_network(self) -> None:
        """What is installed and not used connects to nothing and resolves no name."""
        code = _WATCHED_IMPORT % self._find().value.partition(":")[0]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr

    def test_stopping_twice_is_harmless(self, tmp_path: Path) -> None:
        """A stop may follow a start that failed and has told the plugins already."""
        foundation = self._lay(tmp_path)
        for _ in range(2):
            foundation.plugins.notify("bulksigner_stopping")
        row = self._row(foundation)
        assert not row.is_lost, row.reason

    def _find(self) -> importlib.metadata.EntryPoint:
        [found] = importlib.metadata.entry_points(group="bulksigner", name=self.entry_point)
        return found

    def _lay(self, folder: Path) -> Foundation:
        environ = {
            "BULK_SIGNER_CONTENT_ROOT": str(folder),
            "BULK_SIGNER_ALLOW_ROOT": "1",
            "Auth__ApiKey": "a key for tests only",
            "Signing__ProfileSecretsKey": "a sealing key for tests, 32 long",
        }
        return lay_foundation(environ, folder)

    def _row(self, foundation: Foundation) -> PluginRow:
        [row] = [row for row in foundation.plugins.rows if row.name == self.entry_point]
        return row
