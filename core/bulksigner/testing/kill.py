"""Kill the process at a durable step, or fill its volume, and note what happened in which order (BEY-51, BEY-22).

The steps are the public functions of `records` and `files`, enumerated from the code, so that a new one joins the
crash suite by existing; beside them, the system calls that change files, and each use of a key. Every call is a
`Moment` before and after it happens. A `Plan` says at which moment a process dies, and what it notes; signing worker
processes follow the plan of their environment.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
import os
import pkgutil
import signal
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

from bulksigner.contract.certificate import Digest, KeyAlgorithm, OpenedKey
from bulksigner.pipeline import tasks

__all__ = [
    "DIED",
    "KEY",
    "PLAN_VARIABLE",
    "Moment",
    "Plan",
    "child_environment",
    "durable_steps",
    "fill_volume",
    "follow",
    "follow_plan",
]

PLAN_VARIABLE = "BULKSIGNER_TESTING_KILL"
KEY = "key.sign"
"""The step that is a use of a private key; its subject is the SHA-256 of what it signs."""

DIED = "died"
"""The file in a plan's folder that says that its moment came."""

_PACKAGES = ("bulksigner.files", "bulksigner.records")
_PURE = frozenset(
    {
        "files.names",
        "files.volumes",
        "records.errors",
        "records.prepared",
        "records.receipt_tables",
        "records.row",
        "records.tables",
        "records.times",
    }
)
"""Modules that neither read nor write."""

_SYSTEM_CALLS = ("fsync", "link", "mkdir", "open", "rename", "replace", "rmdir", "unlink")
_NEWEST = """
    SELECT status, CASE WHEN sign_call_started_at IS NOT NULL THEN 'signing' END,
    CASE WHEN output_path IS NOT NULL AND output_sha256 IS NOT NULL THEN 'output' END
    FROM job ORDER BY created_at DESC LIMIT 1"""
_SITE_CUSTOMIZE = "from bulksigner.testing import kill\n\nkill.follow_plan()\n"
# What this module itself writes is no moment.
_open = os.open
Observe = Callable[["Moment"], None]


@attrs.frozen
class Moment:
    """A call of a step: which, the how-maniest of this process, and whether it has happened yet.

    `subject` is what the call is about, where that is known: a path, or the digest of what a key signs. `recorded` is
    what the database had committed of the newest job then, where a plan asks for it: status, `signing`, `output`.
    """

    step: str
    number: int
    side: str
    subject: str = attrs.field(default="", eq=False)
    recorded: str = attrs.field(default="", eq=False)

    def text(self) -> str:
        """Render the moment, for the environment and for the names of tests."""
        return f"{self.step}#{self.number}:{self.side}"

    @classmethod
    def parse(cls, text: str) -> Moment:
        """Read what `text` wrote."""
        step, _, rest = text.partition("#")
        number, _, side = rest.partition(":")
        return cls(step, int(number), side)


@attrs.frozen
class Plan:
    """What a process under test does to itself.

    `folder` is where the plan's notes are and below which system calls count. `dies_at` is followed once, whatever
    processes share the plan; with `kills_parent` a worker ends the service instead of itself, and goes on after
    `pause_seconds`. With `filler` it does not die then, and fills the volume of that file instead. `database` is an
    SQLite file to look into at each traced moment.
    """

    folder: Path
    dies_at: Moment | None = None
    kills_parent: bool = False
    pause_seconds: float = 0.0
    is_traced: bool = False
    database: Path | None = None
    filler: Path | None = None

    @property
    def uses(self) -> Path:
        """Return the file with a line for each use of a key, on disk before the use."""
        return self.folder / "key-uses"

    @property
    def trace(self) -> Path:
        """Return the file with a line of JSON for each moment: text, subject, recorded."""
        return self.folder / "trace"

    def text(self) -> str:
        """Render the plan for the environment."""
        values = attrs.asdict(self, recurse=False)
        values |= {"folder": str(self.folder), "dies_at": self.dies_at and self.dies_at.text(), "database": None}
        values["filler"] = self.filler and str(self.filler)
        return json.dumps(values)

    @classmethod
    def parse(cls, text: str) -> Plan:
        """Read what `text` wrote."""
        values = json.loads(text)
        dies_at = values["dies_at"]
        values |= {"folder": Path(values["folder"]), "dies_at": Moment.parse(dies_at) if dies_at else None}
        values["filler"] = Path(values["filler"]) if values["filler"] else None
        return cls(**values)


def fill_volume(filler: Path) -> None:
    """Write to a file until its volume has no space left."""
    descriptor = _open(filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while os.write(descriptor, bytes(size)):
                    pass
    finally:
        os.close(descriptor)


def durable_steps() -> Mapping[str, tuple[object, str]]:
    """Enumerate the steps: dotted name -> (the module or class that holds the function, its name there)."""
    steps: dict[str, tuple[object, str]] = {}
    for module in _modules():
        short = module.__name__.removeprefix("bulksigner.")
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
                continue
            if _is_step(value):
                steps[f"{short}.{name}"] = (module, name)
            elif inspect.isclass(value) and not issubclass(value, BaseException):
                for method in _own_methods(value):
                    steps[f"{short}.{name}.{method}"] = (value, method)
    return steps


def watch(observe: Observe, *, below: Path | None = None) -> None:
    """Wrap the steps of this process, once and for good, so that `observe` sees each call before and after it.

    System calls count when they change something below the folder `below`.
    """
    turns = _Turns(observe)
    for step, (holder, name) in durable_steps().items():
        original = inspect.getattr_static(holder, name)
        is_static = isinstance(original, staticmethod)
        function = original.__func__ if is_static else original
        wrapped = _wrap(turns, step, function)
        setattr(holder, name, staticmethod(wrapped) if is_static else wrapped)
        if isinstance(holder, ModuleType):
            _replace_imported(function, wrapped)
    _watch_keys(turns)
    if below is not None:
        for name in _SYSTEM_CALLS:
            setattr(os, name, _wrap_call(turns, name, getattr(os, name), below))


def follow(plan: Plan) -> None:
    """Have this process follow a plan: die where it says, and note each use of a key before it happens."""
    guard = threading.Lock()

    def observe(moment: Moment) -> None:
        if moment == plan.dies_at:
            _die(plan)
        with guard:
            if moment.step == KEY and moment.side == "before":
                _note(plan.uses, moment.subject)
            if plan.is_traced:
                _note(plan.trace, json.dumps([moment.text(), moment.subject, _look(plan.database)]))

    watch(observe, below=plan.folder)


def follow_plan() -> None:
    """Follow the plan that the environment names; without one, do nothing."""
    text = os.environ.get(PLAN_VARIABLE)
    if text:
        follow(Plan.parse(text))


def child_environment(plan: Plan) -> dict[str, str]:
    """Return the environment in which Python processes, signing workers above all, follow the plan by themselves."""
    (plan.folder / "sitecustomize.py").write_text(_SITE_CUSTOMIZE, encoding="utf-8")
    path = os.pathsep.join([str(plan.folder), *filter(None, sys.path)])
    return {PLAN_VARIABLE: plan.text(), "PYTHONPATH": path}


class _Turns:
    """Counts the calls of each step and reports them."""

    def __init__(self, observe: Observe) -> None:
        self._observe = observe
        self._calls: Counter[str] = Counter()
        self._guard = threading.Lock()

    def take(self, step: str, subject: str, act: Callable[[], Any]) -> Any:
        with self._guard:
            self._calls[step] += 1
            number = self._calls[step]
        self._observe(Moment(step, number, "before", subject))
        value = act()
        self._observe(Moment(step, number, "after", subject))
        return self._each(step, value) if inspect.isgenerator(value) else value

    def _each(self, step: str, items: Iterator[Any]) -> Iterator[Any]:
        """Report each item as a call: what is done with one happens before the next."""
        for item in items:
            yield self.take(f"{step}.item", "", functools.partial(_same, item))


@attrs.frozen
class _WatchedKey:
    """A key whose every use is a moment; an `OpenedKey`."""

    _key: OpenedKey
    _turns: _Turns
    _subject: str

    @property
    def certificate(self) -> bytes:
        return self._key.certificate

    @property
    def chain(self) -> tuple[bytes, ...]:
        return self._key.chain

    @property
    def algorithm(self) -> KeyAlgorithm:
        return self._key.algorithm

    def sign(self, data: bytes, digest: Digest) -> bytes:
        signature: bytes = self._turns.take(KEY, self._subject, lambda: self._key.sign(data, digest))
        return signature

    def sign_digest(self, value: bytes, digest: Digest) -> bytes:
        signature: bytes = self._turns.take(KEY, self._subject, lambda: self._key.sign_digest(value, digest))
        return signature

    def close(self) -> None:
        self._key.close()


def _watch_keys(turns: _Turns) -> None:
    original = tasks.sign_here

    @functools.wraps(original)
    def sign_here(task: Any, method: Any, key: OpenedKey, *more: Any) -> Any:
        return original(task, method, _WatchedKey(key, turns, task.measured.sha256.hex()), *more)

    vars(tasks)["sign_here"] = sign_here


def _wrap(turns: _Turns, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        paths = (str(argument) for argument in arguments if isinstance(argument, Path))
        return turns.take(step, next(paths, ""), lambda: function(*arguments, **named))

    return wrapper


def _wrap_call(turns: _Turns, name: str, call: Callable[..., Any], below: Path) -> Callable[..., Any]:
    inside = str(below) + os.sep

    @functools.wraps(call)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        subject = _subject_of(name, arguments)
        if not subject.startswith(inside):
            return call(*arguments, **named)
        return turns.take(f"os.{name}", subject, lambda: call(*arguments, **named))

    return wrapper


def _subject_of(name: str, arguments: tuple[Any, ...]) -> str:
    """Return the path a system call changes; empty for one that only opens for reading."""
    if name == "fsync":
        return str(Path(f"/proc/self/fd/{arguments[0]}").readlink())
    if name == "open" and not arguments[1] & os.O_CREAT:
        return ""
    return os.fsdecode(arguments[0])


def _die(plan: Plan) -> None:
    try:
        os.close(_open(plan.folder / DIED, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return
    if plan.filler is not None:
        fill_volume(plan.filler)
        return
    os.kill(os.getppid() if plan.kills_parent else os.getpid(), signal.SIGKILL)
    time.sleep(plan.pause_seconds)


def _look(database: Path | None) -> str:
    """Read, on a connection of its own, what a process that starts now would find recorded."""
    if database is None or not database.exists():
        return ""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        row = connection.execute(_NEWEST).fetchone()
    return " ".join(filter(None, row)) if row else ""


def _note(path: Path, line: str) -> None:
    descriptor = _open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def _same(item: object) -> object:
    return item


def _modules() -> Iterator[ModuleType]:
    for package_name in _PACKAGES:
        package = importlib.import_module(package_name)
        for found in pkgutil.iter_modules(package.__path__, package_name + "."):
            if not found.ispkg and found.name.removeprefix("bulksigner.") not in _PURE:
                yield importlib.import_module(found.name)


def _is_step(value: object) -> bool:
    # A generator's call does nothing yet, and a decorated context manager is one.
    return inspect.isfunction(value) and not inspect.isgeneratorfunction(inspect.unwrap(value))


def _own_methods(cls: type) -> Iterator[str]:
    for name, value in vars(cls).items():
        function = value.__func__ if isinstance(value, staticmethod) else value
        is_abstract = getattr(function, "__isabstractmethod__", False)
        if not name.startswith("_") and _is_step(function) and not is_abstract:
            yield name


def _replace_imported(original: object, wrapped: object) -> None:
    """Replace the function where other modules imported it by name before it was wrapped."""
    for module in list(sys.modules.values()):
        if not getattr(module, "__name__", "").startswith("bulksigner"):
            continue
        for name, value in list(vars(module).items()):
            if value is original:
                setattr(module, name, wrapped)
