"""The tutorial's plugin, taken from the page as a reader would, works."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from bulksigner.contract.signing import Format, Measured
from bulksigner.contract.validation import StagedFile
from bulksigner.plugin_system.manager import discover
from bulksigner.plugin_system.report import PluginState
from bulksigner.settings.schema import BoundSettings

PAGE = Path(__file__).resolve().parents[3] / "docs/tutorial/first-plugin.md"
BLOCK = re.compile(r"File `([^`]+)`:\n\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The package as the page has it."""
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert [name for name, _ in blocks] == ["pyproject.toml", "bulksigner_drafts/plugin.py", "tests/test_drafts.py"]
    for name, text in blocks:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "bulksigner_drafts" / "__init__.py").touch()
    return tmp_path


def declared(package: Path) -> list[importlib.metadata.EntryPoint]:
    """Return the entry points that the package declares."""
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points = project["entry-points"]["bulksigner"].items()
    return [importlib.metadata.EntryPoint(name, value, "bulksigner") for name, value in points]


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no module of the package behind for the next test."""
    for name in ("bulksigner_drafts", "bulksigner_drafts.plugin"):
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]  # so that it is taken back at the end
        del sys.modules[name]


def test_the_plugin_of_the_page_loads_and_refuses_a_draft(package: Path, forgotten: None, monkeypatch: Any) -> None:
    """BEY-10, PIPE-75: by its entry point, with the row and the text that the page shows."""
    monkeypatch.syspath_prepend(package)
    registry = discover(entry_points=declared(package)).providers(BoundSettings({}))
    [row] = [row for row in registry.rows if row.name == "drafts"]
    assert (row.state, row.provides) == (PluginState.LOADED, ("file validator drafts",))
    draft = package / "draft"
    draft.write_bytes(b"RASCUNHO\n")
    [validator] = registry.validators
    [finding] = validator.check(StagedFile(draft, "contract.txt", Format.CADES, Measured(9, b""))).findings
    text = PAGE.read_text(encoding="utf-8")
    assert f"`{finding.code}`" in text
    assert f"`{finding.place}: {finding.text} {finding.remedy}`" in text


def test_the_plugin_of_the_page_broken_as_it_says_stops_signing(
    package: Path, forgotten: None, monkeypatch: Any
) -> None:
    """CFG-16: and switching it off by name is the way out."""
    plugin = package / "bulksigner_drafts/plugin.py"
    plugin.write_text("import nothing_of_that_name\n" + plugin.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.syspath_prepend(package)
    points = declared(package)
    assert "nothing_of_that_name" in (discover(entry_points=points).providers(BoundSettings({})).unmet({}) or "")
    assert discover(["drafts"], entry_points=points).providers(BoundSettings({})).unmet({}) is None


def test_the_tests_of_the_page_pass(package: Path) -> None:
    """BEY-10: those of the contract class and the one of its own, in a run of their own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), *filter(None, sys.path)])}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
