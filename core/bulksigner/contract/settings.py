"""How a plugin declares typed settings; the core binds and validates them with its own (CFG-16).

A class of settings is a frozen attrs class whose attributes are made by `option`. The key of an attribute is its
name in PascalCase (`poll_interval_seconds` is `PollIntervalSeconds`) unless `key` says otherwise; keys match
without regard to case (CFG-04). Supported types: `str`, `int`, `bool`, `Secret`, an `enum.Enum`, `datetime.timedelta`
(CFG-09), `X | None`, `tuple[str, ...]`, a nested class of settings, and `tuple[NestedClass, ...]`. An empty text
stands for None where `X` is not `str`, so that a later source can take a default away (CFG-11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

import attrs

__all__ = [
    "OPTION",
    "Check",
    "Option",
    "Schema",
    "Secret",
    "Settings",
    "at_least",
    "between",
    "key_name",
    "matches_length",
    "option",
]

OPTION = "bulksigner.option"
T = TypeVar("T")


@attrs.frozen(repr=False, eq=True)
class Secret:
    """A text that never shows itself: `repr` and `str` are `***` (CFG-17)."""

    _value: str

    def reveal(self) -> str:
        """Return the text itself, for the one place that needs it."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__


@attrs.frozen
class Check:
    """A rule on one value: the test, and what an acceptable value looks like (shown in refusal and reference)."""

    accepts: Callable[[Any], bool]
    expected: str


def between(lowest: int, highest: int) -> Check:
    """Accept whole numbers from `lowest` to `highest`, both included."""
    return Check(lambda value: lowest <= value <= highest, f"{lowest} to {highest}")


def at_least(lowest: int) -> Check:
    """Accept whole numbers from `lowest` up, within what the database can store."""
    return Check(lambda value: lowest <= value < 2**63, f"{lowest} or more")


def matches_length(shortest: int) -> Check:
    """Accept texts and secrets of at least `shortest` characters."""
    return Check(
        lambda value: len(value.reveal() if isinstance(value, Secret) else value) >= shortest,
        f"at least {shortest} characters",
    )


@attrs.frozen
class Option:
    """What `option` keeps beside the attrs attribute, for binding, refusals and the settings reference."""

    help: str
    check: Check | None
    key: str | None
    required: bool
    in_environment: bool
    is_seed: bool


def option(
    default: Any = attrs.NOTHING,
    *,
    help: str = "",
    check: Check | None = None,
    key: str | None = None,
    in_environment: bool = True,
    is_seed: bool = False,
) -> Any:
    """Declare one key of a settings class.

    Without `default` the key is required. `is_seed` marks keys that are read on the first boot only (flag F).
    A mutable default is given as `attrs.Factory`.
    """
    required = default is attrs.NOTHING
    kept = Option(help, check, key, required, in_environment, is_seed)
    return attrs.field(default=default, metadata={OPTION: kept})


def key_name(attribute: attrs.Attribute[Any]) -> str:
    """Return the settings key of an attribute: `Option.key`, or its name in PascalCase."""
    kept: Option | None = attribute.metadata.get(OPTION)
    if kept is not None and kept.key is not None:
        return kept.key
    return "".join(part.capitalize() for part in attribute.name.split("_"))


class Settings(Protocol):
    """The bound settings a plugin is given: its own classes, each mapped to its value.

    A section that is absent has its defaults, or is None where a required key leaves it without.
    """

    def __getitem__(self, section: type[T]) -> T: ...

    def __contains__(self, section: object) -> bool: ...

    def __iter__(self) -> Iterator[type[Any]]: ...


class Schema(Protocol):
    """Collects what plugins declare, before anything is bound (`bulksigner_add_settings`)."""

    def section(self, path: str, cls: type[Any]) -> None:
        """Declare a section such as `Cnab240`; `cls` is a frozen attrs class made with `option`."""
        ...

    def certificate_block(self, source: str, cls: type[Any]) -> None:
        """Declare the block `<Certificate>:<source>` of a certificate source; `Secret` attributes are stored sealed."""
        ...

    def profile_keys(self, cls: type[Any]) -> None:
        """Declare further keys of `Signing:Profiles[]`; they are stored with the profile."""
        ...

    def error_code(self, code: str, status: int | None, title: str) -> None:
        """Declare an error code of the plugin (API-76)."""
        ...
