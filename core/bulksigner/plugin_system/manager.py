"""Discovers, loads and isolates plugins (design: declared settings first, then providers)."""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Protocol

import attrs
import pluggy

from bulksigner.contract import hookspecs
from bulksigner.contract.errors import PluginFailed, ProviderError
from bulksigner.contract.observe import BannerRow
from bulksigner.contract.settings import Schema, Settings
from bulksigner.contract.signing import Format
from bulksigner.plugin_system import roles
from bulksigner.plugin_system.declarations import Declarations, is_off_by_default
from bulksigner.plugin_system.guard import ANYTHING, describe
from bulksigner.plugin_system.registry import DeclaredKeys, Provided, Registry, RegistryBuilder
from bulksigner.plugin_system.report import PluginRow, PluginState
from bulksigner.plugin_system.roles import Role

__all__ = ["BUILTINS", "Loadable", "PluginSet", "discover"]

_LOG = logging.getLogger("bulksigner.plugins")
_CHOOSE_FORMAT = "bulksigner_choose_format"
_FAILS_CLOSED = frozenset({roles.FILE_VALIDATOR.hook, roles.APPROVAL_RULE.hook})
_KNOWN_HOOKS = frozenset(name for name in vars(hookspecs) if name.startswith(f"{hookspecs.PROJECT}_"))


class Loadable(Protocol):
    """What `discover` needs of an entry point."""

    @property
    def name(self) -> str:
        """Return the plugin's name."""
        ...

    @property
    def value(self) -> str:
        """Return the dotted name of the module."""
        ...

    def load(self) -> Any:
        """Import the module."""
        ...


BUILTINS: tuple[Loadable, ...] = (
    importlib.metadata.EntryPoint("builtin", "bulksigner.builtin.plugin", hookspecs.PROJECT),
)


@attrs.define(eq=False)
class _Plugin:
    """One plugin on its way through loading."""

    name: str
    distribution: str
    version: str
    is_builtin: bool
    module: Any = None
    state: PluginState = PluginState.LOADED
    reason: str = ""
    hooks: frozenset[str] = frozenset()
    declared: Declarations | None = None
    provides: tuple[str, ...] = ()

    def fail(self, error: BaseException) -> None:
        """Record why the plugin is out; an error that a plugin raises on purpose means that it lacks something."""
        self.state = PluginState.BLOCKED if isinstance(error, ProviderError) else PluginState.FAILED
        self.reason = describe(error)
        self.provides = ()
        _LOG.error("Plugin %s is %s: %s", self.name, self.state.value, self.reason)

    def row(self) -> PluginRow:
        """Return the row of the report."""
        row = PluginRow(self.name, self.distribution, self.version, self.state, self.reason, self.provides)
        return attrs.evolve(row, stops_signing=row.is_lost and self._is_needed_by_all())

    def _is_needed_by_all(self) -> bool:
        """Tell whether each profile may rely on the plugin for a check, as far as its hooks and keys are known.

        A plugin that did not get as far as its hooks, or has one that nobody knows, may have been anything. One whose
        keys are all off by default is needed by the profiles that set them, and by no other.
        """
        if not self.hooks or self.hooks - _KNOWN_HOOKS:
            return True
        if not self.hooks & _FAILS_CLOSED:
            return False
        declared = self.declared.keys if self.declared is not None else []
        return not declared or any(not is_off_by_default(cls) for cls in declared)


class PluginSet:
    """The plugins of this process, called one at a time so that none can spoil another's turn."""

    def __init__(self, manager: pluggy.PluginManager, plugins: Sequence[_Plugin], warnings: Sequence[str]) -> None:
        self._manager = manager
        self._plugins = tuple(plugins)
        self._callers: dict[str, list[tuple[_Plugin, Callable[..., Any]]]] = {}
        self._logged: set[tuple[str, str]] = set()
        self.warnings = tuple(warnings)

    @property
    def rows(self) -> tuple[PluginRow, ...]:
        """Return one row for each plugin found, built-ins first, then by name."""
        return tuple(plugin.row() for plugin in self._plugins)

    def add_settings(self, schema: Schema) -> None:
        """Let each plugin declare its settings; one that fails leaves nothing in `schema`."""
        for plugin, call in self._turns("bulksigner_add_settings"):
            declared = Declarations()
            try:
                call(schema=declared)
                declared.join(schema)
            except BaseException as error:  # noqa: BLE001 - as in `_load`: the plugin alone is out
                self._drop(plugin, error)
            else:
                plugin.declared = declared

    def providers(self, settings: Settings, wanted: Collection[Role[Any]] = roles.ROLES) -> Registry:
        """Ask each plugin for its providers and return all of them by role and name."""
        builder, banner_rows = RegistryBuilder(), list[BannerRow]()
        for plugin in [plugin for plugin in self._plugins if plugin.state is PluginState.LOADED]:
            try:
                offered = [one for role in wanted for one in self._ask(plugin, role, settings)]
                rows = self._ask_for_rows(plugin, settings) if wanted is roles.ROLES else []
                builder.add(offered)
            except BaseException as error:  # noqa: BLE001 - as in `_load`: the plugin alone is out
                self._drop(plugin, error)
            else:
                plugin.provides = tuple(f"{one.role.title} {one.name}" for one in offered)
                banner_rows += rows
        return builder.build(
            self.rows, self._declared_keys(), banner_rows, self._declared_blocks(), self._find_unchecked()
        )

    def signing_providers(self, settings: Settings) -> Registry:
        """Return what a signing worker process needs: certificate sources and signing methods (PERF-06)."""
        return self.providers(settings, roles.SIGNING_ROLES)

    def notify(self, hook: str, *arguments: object) -> None:
        """Tell every plugin; what one raises is logged once for each plugin and hook, and goes no further."""
        named = dict(zip(getattr(self._manager.hook, hook).spec.argnames, arguments, strict=True))
        for plugin, call in self._turns(hook):
            try:
                call(**named)
            except ANYTHING as error:  # an onlooker must not stop the work it looks at
                self._log_once(plugin, hook, describe(error))

    def answers(self, hook: str) -> bool:
        """Tell whether any loaded plugin implements a hook."""
        return bool(self._turns(hook))

    def choose_format(self, name: str, head: bytes = b"") -> Format | None:
        """Ask for the format of a file, built-ins last; a plugin that fails is logged once and passed over."""
        for plugin, call in sorted(self._turns(_CHOOSE_FORMAT), key=lambda turn: turn[0].is_builtin):
            try:
                answer = call(name=name, head=head)
            except ANYTHING as error:  # the next plugin, at last the extension, still has an answer
                self._log_once(plugin, _CHOOSE_FORMAT, describe(error))
                continue
            if isinstance(answer, Format):
                return answer
            if answer is not None:
                self._log_once(plugin, _CHOOSE_FORMAT, f"returned {type(answer).__name__}, not a Format")
        return None

    def _turns(self, hook: str) -> list[tuple[_Plugin, Callable[..., Any]]]:
        """Return the loaded plugins that implement a hook, each with a caller for it alone."""
        turns = self._callers.get(hook)
        if turns is None:
            turns = []
            for plugin in self._plugins:
                if plugin.state is PluginState.LOADED and hook in plugin.hooks:
                    others = [other.module for other in self._plugins if other is not plugin and other.hooks]
                    turns.append((plugin, self._manager.subset_hook_caller(hook, others)))
            self._callers[hook] = turns
        return turns

    def _call(self, plugin: _Plugin, hook: str, **arguments: object) -> object:
        """Call a collecting hook of one plugin; None where it does not implement it."""
        for owner, call in self._turns(hook):
            if owner is plugin:
                answers = call(**arguments)
                return answers[0] if answers else None
        return None

    def _ask(self, plugin: _Plugin, role: Role[Any], settings: Settings) -> list[Provided]:
        answer = self._call(plugin, role.hook, settings=settings)
        return [Provided(plugin.name, role, one.name, one) for one in roles.check_answer(role, answer)]

    def _ask_for_rows(self, plugin: _Plugin, settings: Settings) -> list[BannerRow]:
        return roles.check_banner_rows(self._call(plugin, roles.BANNER_HOOK, settings=settings))

    def _drop(self, plugin: _Plugin, error: BaseException) -> None:
        plugin.fail(error)
        self._callers.clear()

    def _log_once(self, plugin: _Plugin, hook: str, reason: str) -> None:
        if (plugin.name, hook) not in self._logged:
            self._logged.add((plugin.name, hook))
            _LOG.warning("Plugin %s failed in %s: %s (logged once)", plugin.name, hook, reason)

    def _declared_keys(self) -> list[DeclaredKeys]:
        return [
            DeclaredKeys(plugin.name, cls, plugin.reason if plugin.state is not PluginState.LOADED else None)
            for plugin in self._plugins
            if plugin.declared is not None
            for cls in plugin.declared.keys
        ]

    def _declared_blocks(self) -> dict[str, type[Any]]:
        return {
            source.casefold(): cls
            for plugin in self._plugins
            if plugin.declared is not None
            for source, cls in plugin.declared.blocks
        }

    def _find_unchecked(self) -> str | None:
        """Name a lost plugin that checks or approves files, or may do so, while it is unknown who relies on it."""
        for row in self.rows:
            if row.stops_signing:
                return f"the plugin {row.name}, which may check or approve files, does not work: {row.advice}"
        return None


def _describe_distribution(entry_point: Loadable) -> tuple[str, str]:
    distribution = getattr(entry_point, "dist", None)
    if distribution is not None:
        return distribution.name, distribution.version
    try:
        return (hookspecs.PROJECT, importlib.metadata.version(hookspecs.PROJECT))
    except importlib.metadata.PackageNotFoundError:
        return (hookspecs.PROJECT, "")


def _missing_requirement(entry_point: Loadable, error: BaseException) -> str | None:
    """Name the package that a plugin needs and this host lacks; None when a module of its own is missing."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    needed = error.name.partition(".")[0]
    return needed if needed != entry_point.value.partition(".")[0] else None


def _register(manager: pluggy.PluginManager, plugin: _Plugin) -> None:
    """Register a module, after a look at what pluggy leaves unchecked: unknown hooks, wrappers, no hook at all."""
    marks = {name: manager.parse_hookimpl_opts(plugin.module, name) for name in dir(plugin.module)}
    implemented = {name: options for name, options in marks.items() if options is not None}
    plugin.hooks = frozenset(implemented)
    if not implemented:
        raise PluginFailed("implements no hook; its functions need the mark @hookimpl")
    for name, options in sorted(implemented.items()):
        if options["wrapper"] or options["hookwrapper"]:
            raise PluginFailed(f"wraps {name}; a plugin answers for itself only")
        if not hasattr(manager.hook, name) and not options["optionalhook"]:
            raise PluginFailed(f"implements {name}, and no such hook exists")
    manager.register(plugin.module, name=plugin.name)


def _load(manager: pluggy.PluginManager, entry_point: Loadable, plugin: _Plugin) -> None:
    try:
        plugin.module = entry_point.load()
        _register(manager, plugin)
    except BaseException as error:  # noqa: BLE001 - code of others runs at import; whatever it raises ends that plugin only
        if plugin.module is not None and manager.is_registered(plugin.module):
            manager.unregister(plugin.module)
        plugin.fail(error)
        needed = _missing_requirement(entry_point, error)
        if needed is not None:
            plugin.state = PluginState.BLOCKED
            plugin.reason = f"needs the Python package {needed}, which is not installed"


def discover(
    disabled: Collection[str] = (),
    *,
    entry_points: Iterable[Loadable] | None = None,
    builtins: Iterable[Loadable] = BUILTINS,
    only: Collection[str] | None = None,
) -> PluginSet:
    """Import and register the built-ins and every plugin of the entry-point group `bulksigner`, by name.

    Those in `disabled` are not imported (CFG-185). `only` leaves the others out altogether: a signing worker process
    loads `Registry.signing_plugins` and no more.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    if entry_points is None:
        entry_points = importlib.metadata.entry_points(group=hookspecs.PROJECT)
    found = [(one, True) for one in builtins]
    found += [(one, False) for one in sorted(entry_points, key=lambda one: (one.name, one.value))]
    off = {name.strip().casefold() for name in disabled if name.strip()}
    plugins: list[_Plugin] = []
    for entry_point, is_builtin in found:
        if only is not None and entry_point.name not in only:
            continue
        plugin = _Plugin(entry_point.name, *_describe_distribution(entry_point), is_builtin)
        if not is_builtin and plugin.name.casefold() in off:
            plugin.state, plugin.reason = PluginState.DISABLED, "listed in BULK_SIGNER_DISABLED_PLUGINS"
        elif any(plugin.name == other.name for other in plugins):
            plugin.fail(PluginFailed(f"the name {plugin.name} is taken by another installed plugin"))
        else:
            _load(manager, entry_point, plugin)
        plugins.append(plugin)
    known = {plugin.name.casefold() for plugin in plugins if not plugin.is_builtin}
    warnings = [
        f"BULK_SIGNER_DISABLED_PLUGINS names {name}, and no such plugin is installed"
        for name in sorted(off - known)
        if only is None
    ]
    return PluginSet(manager, plugins, warnings)
