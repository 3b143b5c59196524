"""A plugin that cannot be loaded is a row with a reason; the rest loads (CFG-16, CFG-185)."""

from __future__ import annotations

import importlib
import logging
import types
from typing import Any

import attrs
import pytest

from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.hookspecs import hookimpl
from bulksigner.contract.settings import Secret, option
from bulksigner.contract.signing import Format
from bulksigner.plugin_system.manager import discover
from bulksigner.plugin_system.report import PluginState
from bulksigner.settings.schema import CollectedSchema


@attrs.frozen
class _Section:
    depth: int = option(1)


@attrs.frozen
class _Other:
    depth: int = option(2)


@attrs.frozen
class _Block:
    pin: Secret = option(Secret(""))


@attrs.frozen
class _Keys:
    check_card: bool = option(False)


def bulksigner_stopping() -> None:
    """Stand for the one hook of a sound plugin."""


def raising(error: BaseException) -> Any:
    """Return an import that ends in `error`."""

    def importing() -> Any:
        raise error

    return importing


def _states(found: Any) -> dict[str, PluginState]:
    return {row.name: row.state for row in found.rows}


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad"),
        SyntaxError("bad"),
        ImportError("no symbol"),
        SystemExit(3),
        KeyboardInterrupt(),
        RecursionError(),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_ends_an_import_ends_that_plugin_only(error: BaseException, load: Any, plugin: Any) -> None:
    """DSH-87: an import that raises, or calls for an exit, is a failed row; the others load."""
    found = load(plugin("broken", importing=raising(error)), plugin("sound", bulksigner_stopping))
    assert _states(found) == {"broken": PluginState.FAILED, "sound": PluginState.LOADED}
    assert type(error).__name__ in found.rows[0].reason


@pytest.mark.parametrize("hook", ["bulksigner_add_settings", "bulksigner_signing_methods"])
def test_an_interrupt_that_a_hook_raises_ends_that_plugin_only(hook: str, load: Any, plugin: Any) -> None:
    """CFG-16: as at import, the plugin is named and the start goes on."""

    def bulksigner_add_settings(schema: Any) -> None:
        raise KeyboardInterrupt

    def bulksigner_signing_methods(settings: Any) -> None:
        raise KeyboardInterrupt

    chosen = {one.__name__: one for one in (bulksigner_add_settings, bulksigner_signing_methods)}[hook]
    found = load(plugin("odd", chosen), plugin("sound", bulksigner_stopping))
    found.add_settings(CollectedSchema())
    found.providers({})
    assert _states(found) == {"odd": PluginState.FAILED, "sound": PluginState.LOADED}
    assert found.rows[0].reason == "KeyboardInterrupt"


def test_a_plugin_without_its_driver_is_blocked(load: Any, plugin: Any) -> None:
    """DEP-06: a missing dependency is told apart from a broken plugin and named."""
    found = load(plugin("pkcs11", importing=lambda: importlib.import_module("a_driver_nobody_has.api")))
    assert found.rows[0].state is PluginState.BLOCKED
    assert "a_driver_nobody_has" in found.rows[0].reason
    own = load(plugin("gone", importing=raising(ModuleNotFoundError("gone", name="a_plugin.settings"))))
    assert own.rows[0].state is PluginState.FAILED
    nameless = load(plugin("odd", importing=raising(ModuleNotFoundError("odd"))))
    assert nameless.rows[0].state is PluginState.FAILED


def test_an_unknown_hook_fails_the_plugin(load: Any, plugin: Any) -> None:
    """CFG-16: a misspelt hook would otherwise never be called."""

    def bulksigner_certificate_source(settings: Any) -> None:
        """Lack the plural."""

    found = load(plugin("typo", bulksigner_certificate_source), plugin("sound", bulksigner_stopping))
    assert _states(found) == {"typo": PluginState.FAILED, "sound": PluginState.LOADED}
    assert "bulksigner_certificate_source" in found.rows[1].reason


def test_a_hook_marked_optional_may_be_newer_than_this_core(load: Any) -> None:
    """A plugin may implement a hook that only later releases have."""
    module = types.ModuleType("forward")

    @hookimpl(optionalhook=True)
    def bulksigner_not_yet_there() -> None:
        """Wait for a later release."""

    module.bulksigner_not_yet_there = bulksigner_not_yet_there  # type: ignore[attr-defined]
    found = discover(entry_points=[_Fixed("forward", module)], builtins=())
    assert _states(found) == {"forward": PluginState.LOADED}


class _Fixed:
    value = "fixed.plugin"

    def __init__(self, name: str, module: Any) -> None:
        self.name, self._module = name, module

    def load(self) -> Any:
        return self._module


def test_an_unknown_argument_fails_the_plugin(load: Any, plugin: Any) -> None:
    """CFG-16: an argument the hook does not have."""

    def bulksigner_job_changed(change: Any, job: Any) -> None:
        """Ask for too much."""

    found = load(plugin("greedy", bulksigner_job_changed), plugin("sound", bulksigner_stopping))
    assert _states(found) == {"greedy": PluginState.FAILED, "sound": PluginState.LOADED}
    assert "job" in found.rows[0].reason
    found.notify("bulksigner_stopping")


def test_a_module_without_marked_hooks_fails(load: Any, plugin: Any) -> None:
    """An author who forgot the mark is told so."""
    found = load(plugin("unmarked"))
    assert "@hookimpl" in found.rows[0].reason


def test_a_wrapper_around_others_is_refused(load: Any) -> None:
    """No plugin gets between the core and another plugin."""
    module = types.ModuleType("wrapping")

    @hookimpl(wrapper=True)
    def bulksigner_choose_format(name: str) -> Any:
        """Overrule everybody."""
        yield
        return Format.XADES

    module.bulksigner_choose_format = bulksigner_choose_format  # type: ignore[attr-defined]
    found = discover(entry_points=[_Fixed("wrapping", module)], builtins=())
    assert "wraps" in found.rows[0].reason


def test_a_disabled_plugin_is_not_imported(load: Any, plugin: Any) -> None:
    """CFG-185: the suspect is kept out altogether; an unknown name is a warning."""
    suspect = plugin("suspect", bulksigner_stopping)
    found = load(suspect, disabled=[" Suspect ", "nobody", ""])
    assert not suspect.was_imported
    assert _states(found) == {"suspect": PluginState.DISABLED}
    assert [warning for warning in found.warnings if "nobody" in warning] == list(found.warnings)


def test_two_distributions_with_one_plugin_name(load: Any, plugin: Any) -> None:
    """DEP-04: the first keeps the name, the second is a failed row and not imported."""
    second = plugin("twin", bulksigner_stopping)
    second.value = "b_plugin.plugin"
    found = load(plugin("twin", bulksigner_stopping), second)
    assert [row.state for row in found.rows] == [PluginState.LOADED, PluginState.FAILED]
    assert not second.was_imported


def test_plugins_load_by_name_and_builtins_first(load: Any, plugin: Any) -> None:
    """The order of loading does not depend on the order of installing."""
    names = [plugin(name, bulksigner_stopping) for name in ("zebra", "apple")]
    found = load(*names, builtins=[plugin("core", bulksigner_stopping)])
    assert [row.name for row in found.rows] == ["core", "apple", "zebra"]


def test_a_worker_process_imports_only_what_it_needs(load: Any, plugin: Any) -> None:
    """PERF-06: a signing worker leaves the other plugins alone."""
    needed, other = plugin("needed", bulksigner_stopping), plugin("other", bulksigner_stopping)
    found = load(needed, other, only={"needed"}, disabled=["absent"])
    assert not other.was_imported
    assert _states(found) == {"needed": PluginState.LOADED}
    assert found.warnings == ()


def test_the_installed_plugins_are_found_with_distribution_and_version() -> None:
    """DEP-04: without a list of its own, discovery reads the entry points of this environment."""
    found = discover(only={"builtin"})
    (row,) = found.rows
    assert (row.name, row.distribution, row.state) == ("builtin", "bulksigner", PluginState.LOADED)


def test_the_distribution_of_an_entry_point_is_reported(load: Any, plugin: Any) -> None:
    """DEP-04: name and version come from the distribution."""
    offered = plugin("dated", bulksigner_stopping)
    fixed = _Fixed("dated", offered.load())
    fixed.dist = types.SimpleNamespace(name="bulksigner-dated", version="2.1")  # type: ignore[attr-defined]
    (row,) = discover(entry_points=[fixed], builtins=()).rows
    assert (row.distribution, row.version) == ("bulksigner-dated", "2.1")


def test_a_plugin_that_fails_halfway_declares_nothing(load: Any, plugin: Any) -> None:
    """CFG-16: what a failed plugin declared before it failed is not in the schema."""

    def bulksigner_add_settings(schema: Any) -> None:
        schema.section("Half", _Section)
        raise RuntimeError("and then")

    schema = CollectedSchema()
    found = load(plugin("half", bulksigner_add_settings), plugin("sound", bulksigner_stopping))
    found.add_settings(schema)
    assert _states(found) == {"half": PluginState.FAILED, "sound": PluginState.LOADED}
    assert schema.sections == {}


def test_a_declaration_that_collides_fails_the_later_plugin(load: Any, plugin: Any) -> None:
    """CFG-16: the first plugin keeps its section, the second leaves nothing behind."""

    def first() -> Any:
        def bulksigner_add_settings(schema: Any) -> None:
            schema.section("Shared", _Section)
            schema.certificate_block("Card", _Block)
            schema.profile_keys(_Keys)
            schema.error_code("card.gone", None, "The card is gone")

        return bulksigner_add_settings

    def second() -> Any:
        def bulksigner_add_settings(schema: Any) -> None:
            schema.error_code("other.code", 409, "Something")
            schema.section("Shared", _Other)

        return bulksigner_add_settings

    schema = CollectedSchema()
    found = load(plugin("a", first()), plugin("b", second()))
    found.add_settings(schema)
    assert _states(found) == {"a": PluginState.LOADED, "b": PluginState.FAILED}
    assert schema.sections == {"Shared": _Section}
    assert schema.blocks == {"Card": _Block}
    assert schema.extras == [_Keys]
    assert list(schema.codes) == ["card.gone"]


def test_what_a_plugin_says_on_purpose_blocks_it(load: Any, plugin: Any) -> None:
    """A plugin that names what the host lacks is not broken."""

    def bulksigner_signing_methods(settings: Any) -> None:
        raise PermanentFailure("needs Windows")

    found = load(plugin("windows_store", bulksigner_signing_methods))
    registry = found.providers({})  # type: ignore[arg-type]
    assert (registry.rows[0].state, registry.rows[0].reason) == (PluginState.BLOCKED, "needs Windows")


def test_a_watcher_that_raises_is_logged_once(load: Any, plugin: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The transition stands, every other plugin hears of it, and the log is not flooded."""
    heard: list[object] = []

    def failing() -> Any:
        def bulksigner_job_changed(change: Any) -> None:
            raise SystemExit(1)

        return bulksigner_job_changed

    def listening() -> Any:
        def bulksigner_job_changed(change: Any) -> None:
            heard.append(change)

        return bulksigner_job_changed

    found = load(plugin("a", failing()), plugin("b", listening()))
    with caplog.at_level(logging.WARNING, logger="bulksigner.plugins"):
        found.notify("bulksigner_job_changed", "first")
        found.notify("bulksigner_job_changed", "second")
    assert heard == ["first", "second"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_the_first_format_counts_and_builtins_answer_last(load: Any, plugin: Any) -> None:
    """PIPE-38: a plugin can overrule the extension, the built-ins cannot overrule a plugin."""

    def answering(value: object) -> Any:
        def bulksigner_choose_format(name: str, head: bytes) -> Any:
            if isinstance(value, Exception):
                raise value
            return value

        return bulksigner_choose_format

    core = plugin("core", answering(Format.CADES))
    assert load(plugin("a", answering(Format.XADES)), builtins=[core]).choose_format("x") is Format.XADES
    silent = [plugin("a", answering(None)), plugin("b", answering("Xades")), plugin("c", answering(ValueError("no")))]
    assert load(*silent, builtins=[core]).choose_format("x") is Format.CADES
    assert load(plugin("a", answering(None))).choose_format("x") is None
