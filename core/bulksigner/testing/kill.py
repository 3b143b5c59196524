"""Kill the process at a durable step: the steps are the public functions of `records` and `files` (BEY-51).

`durable_steps` enumerates them from the code, so a new step joins the crash suite by existing. `watch` wraps them;
each call is reported before and after it happens. A plan in the environment variable of `PLAN_VARIABLE` makes a
process kill itself at one such moment, in signing worker processes too.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import pkgutil
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

__all__ = ["PLAN_VARIABLE", "KillPoint", "Moment", "child_environment", "durable_steps", "follow_plan", "watch"]

PLAN_VARIABLE = "BULKSIGNER_TESTING_KILL"
_PACKAGES = ("bulksigner.files", "bulksigner.records")
_SITE_CUSTOMIZE = "from bulksigner.testing import kill\n\nkill.follow_plan()\n"


@attrs.frozen
class Moment:
    """A call of a durable step: which, the how-maniest of this process, and whether it has happened yet."""

    step: str
    number: int
    side: str


@attrs.frozen
class KillPoint:
    """The moment at which a process kills itself."""

    moment: Moment

    def text(self) -> str:
        """Render the point for the environment and for the name of a test."""
        return f"{self.moment.step}#{self.moment.number}:{self.moment.side}"

    @classmethod
    def parse(cls, text: str) -> KillPoint:
        """Read what `text` wrote."""
        step, _, rest = text.partition("#")
        number, _, side = rest.partition(":")
        return cls(Moment(step, int(number), side))


def durable_steps() -> Mapping[str, tuple[object, str]]:
    """Enumerate the steps: dotted name -> (the module or class that holds the function, its name there)."""
    steps: dict[str, tuple[object, str]] = {}
    for module in _modules():
        short = module.__name__.removeprefix("bulksigner.")
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
                continue
            if inspect.isfunction(value):
                steps[f"{short}.{name}"] = (module, name)
            elif inspect.isclass(value) and not issubclass(value, BaseException):
                for method in _own_methods(value):
                    steps[f"{short}.{name}.{method}"] = (value, method)
    return steps


def watch(observe: Callable[[Moment], None]) -> None:
    """Wrap every durable step of this process so that `observe` sees each call before and after it happens."""
    guard = threading.Lock()
    calls: Counter[str] = Counter()
    for step, (holder, name) in durable_steps().items():
        original = inspect.getattr_static(holder, name)
        is_static = isinstance(original, staticmethod)
        function = original.__func__ if is_static else original
        wrapped = _wrap(step, function, observe, calls, guard)
        setattr(holder, name, staticmethod(wrapped) if is_static else wrapped)
        if isinstance(holder, ModuleType):
            _replace_imported(function, wrapped)


def follow_plan() -> None:
    """Kill this process at the moment the environment names; without a plan, do nothing."""
    text = os.environ.get(PLAN_VARIABLE)
    if not text:
        return
    point = KillPoint.parse(text)

    def observe(moment: Moment) -> None:
        if moment == point.moment:
            os.kill(os.getpid(), signal.SIGKILL)

    watch(observe)


def child_environment(point: KillPoint, folder: Path) -> dict[str, str]:
    """Return the environment with which a service and its worker processes follow the plan."""
    (folder / "sitecustomize.py").write_text(_SITE_CUSTOMIZE, encoding="utf-8")
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    return {**os.environ, PLAN_VARIABLE: point.text(), "PYTHONPATH": path}


def _wrap(
    step: str,
    function: Callable[..., Any],
    observe: Callable[[Moment], None],
    calls: Counter[str],
    guard: threading.Lock,
) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        with guard:
            calls[step] += 1
            number = calls[step]
        observe(Moment(step, number, "before"))
        result = function(*arguments, **named)
        observe(Moment(step, number, "after"))
        return result

    return wrapper


def _modules() -> Iterator[ModuleType]:
    for package_name in _PACKAGES:
        package = importlib.import_module(package_name)
        yield package
        for found in pkgutil.iter_modules(package.__path__, package_name + "."):
            if not found.ispkg:
                yield importlib.import_module(found.name)


def _own_methods(cls: type) -> Iterator[str]:
    for name, value in vars(cls).items():
        function = value.__func__ if isinstance(value, staticmethod) else value
        if not name.startswith("_") and inspect.isfunction(function) and not inspect.isgeneratorfunction(function):
            yield name


def _replace_imported(original: object, wrapped: object) -> None:
    """Replace the function where other modules imported it by name before it was wrapped."""
    for module in list(sys.modules.values()):
        if not getattr(module, "__name__", "").startswith("bulksigner"):
            continue
        for name, value in list(vars(module).items()):
            if value is original:
                setattr(module, name, wrapped)
