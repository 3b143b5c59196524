"""Imports that import-linter cannot judge: those of plugins, and of built-in providers, by an allowed list."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PLUGIN_MAY = ("bulksigner", "bulksigner.contract")
PLUGIN_TESTS_MAY = (*PLUGIN_MAY, "bulksigner.testing")
BUILTIN_MAY = ("bulksigner.builtin", "bulksigner.contract", "bulksigner.files", "bulksigner.formats")


def imported(source: str) -> Iterator[str]:
    """Yield the dotted name of every module that the source imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            # `from bulksigner import settings` names a module, `from bulksigner import Secret` a re-export.
            yield from (f"{node.module}.{alias.name}" if alias.name.islower() else node.module for alias in node.names)


def forbidden(source: str, allowed: tuple[str, ...], own: str) -> list[str]:
    """List the imports of our packages that are neither allowed nor the plugin's own."""

    def is_allowed(name: str) -> bool:
        if name == own or name.startswith(f"{own}."):
            return True
        return any(
            name == place or (name.startswith(f"{place}.") and place != "bulksigner")
            for place in (*allowed, *(f"bulksigner.{export}" for export in ("hookimpl", "option")))
        )

    ours = (name for name in imported(source) if name.split(".")[0].startswith("bulksigner"))
    return [name for name in ours if not is_allowed(name)]


def test_plugins_import_only_the_contract(root: Path):
    """Design, section 3: a plugin sees `bulksigner`, `bulksigner.contract` and itself; its tests also the test kit."""
    wrong = {}
    for folder in sorted(root.glob("plugins/*/")):
        own = f"bulksigner_{folder.name}"
        for path in [*folder.glob(f"{own}/**/*.py"), *folder.glob("tests/**/*.py")]:
            allowed = PLUGIN_TESTS_MAY if path.is_relative_to(folder / "tests") else PLUGIN_MAY
            if found := forbidden(path.read_text(encoding="utf-8"), allowed, own):
                wrong[str(path.relative_to(root))] = found
    assert not wrong


def test_built_in_providers_live_by_the_rule_of_plugins(root: Path):
    """Design, section 3: `builtin` has no private way in; formats and files are all it sees beside the contract."""
    wrong = {}
    for path in root.glob("core/bulksigner/builtin/**/*.py"):
        if found := forbidden(path.read_text(encoding="utf-8"), BUILTIN_MAY, "bulksigner.builtin"):
            wrong[str(path.relative_to(root))] = found
    assert not wrong


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from bulksigner.contract.errors import ProviderError", []),
        ("from bulksigner import Secret, hookimpl", []),
        ("import bulksigner_own.source", []),
        ("from bulksigner.jobs.store import Jobs", ["bulksigner.jobs.store"]),
        ("from bulksigner import settings", ["bulksigner.settings"]),
        ("def f():\n    import bulksigner_other", ["bulksigner_other"]),
    ],
)
def test_the_rule_tells_allowed_from_forbidden(source, found):
    """The rules above can fail."""
    assert forbidden(source, PLUGIN_MAY, "bulksigner_own") == found
