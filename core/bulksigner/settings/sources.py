"""Where settings come from: files, and our own reader of the process environment (CFG-01 to CFG-07)."""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import IO, Any

import attrs
import yaml
from dynaconf import LazySettings
from dynaconf.loaders.base import BaseLoader

from bulksigner.settings.findings import Findings
from bulksigner.settings.tree import Branch, Duplicate, Leaf, grow, merge, show_path

__all__ = ["LayeredFiles", "read_environment", "read_files"]

_STEM = "settings"
_MIGRATED_STEM = "appsettings"
_JSON_NOISE = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_JSON_TRAILING_COMMA = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[}\]])', re.DOTALL)


class _Malformed(Exception):
    """A file is not of its syntax; the text names a place in it and never quotes it (CFG-13)."""


@attrs.frozen
class LayeredFiles:
    """All settings files as one tree, and which they were, lowest first."""

    tree: Branch
    read: tuple[Path, ...]


def read_files(directories: Collection[Path], environment: str, findings: Findings) -> LayeredFiles:
    """Read and layer the settings files of the directories, lowest first (CFG-01, CFG-02)."""

    def warn_of_list(path: tuple[str, ...], under: Branch, over: Branch) -> None:
        findings.warn(
            f"The list {show_path(path)} is given by {under.origin} and by {over.origin}; the two are merged by index."
        )

    tree, read = Branch(), []
    for directory in directories:
        for path in _find_files(directory, environment, findings):
            layer = _read_file(path, findings)
            if layer is None:
                continue
            if path.name.casefold().startswith(_MIGRATED_STEM):
                findings.note(f"Settings are read from {path}, below any settings.* file of the same directory.")
            tree = merge(tree, layer, warn_of_list)
            read.append(path)
    return LayeredFiles(tree, tuple(read))


def _find_files(directory: Path, environment: str, findings: Findings) -> list[Path]:
    found: list[Path] = []
    try:
        entries = sorted(entry for entry in directory.iterdir() if entry.is_file())
    except OSError as error:
        findings.refuse("", f"cannot be listed ({error.strerror}).", "Name a readable directory.", str(directory))
        return found
    for stem, extensions in (
        (_MIGRATED_STEM, (".json",)),
        (f"{_MIGRATED_STEM}.{environment}", (".json",)),
        (_STEM, tuple(_READERS)),
        (f"{_STEM}.{environment}", tuple(_READERS)),
    ):
        same = [
            entry
            for entry in entries
            if entry.stem.casefold() == stem.casefold() and entry.suffix.casefold() in extensions
        ]
        if len(same) > 1:
            names = " and ".join(entry.name for entry in same)
            findings.refuse(
                "", f"holds {names}, which would be the same layer.", "Keep one of them (CFG-02).", str(directory)
            )
        else:
            found.extend(same)
    return found


def _read_file(path: Path, findings: Findings) -> Branch | None:
    suffix = path.suffix.casefold()
    reader = _read_commented_json if path.name.casefold().startswith(_MIGRATED_STEM) else _READERS[suffix]
    origin = str(path)
    try:
        parsed = _parse(path, reader)
        if parsed is None:
            return Branch(origin=origin)
        if not isinstance(parsed, dict):
            raise _Malformed("does not hold sections of keys at its top level.")
        grown = grow(parsed, origin)
    except OSError as error:
        findings.refuse("", f"cannot be read ({error.strerror}).", "Grant the service read access.", origin)
    except UnicodeDecodeError as error:
        findings.refuse("", f"is not UTF-8 at byte {error.start}.", "Save it as UTF-8.", origin)
    except RecursionError:
        findings.refuse("", "is nested too deeply.", "Settings need at most six levels.", origin)
    except _Malformed as error:
        findings.refuse("", str(error), "Correct the file; its content is not shown here.", origin)
    except Duplicate as error:
        findings.refuse(show_path(error.path), "is given twice in one file.", "Keep one of them.", origin)
    else:
        assert isinstance(grown, Branch)
        return grown
    return None


def _parse(path: Path, reader: Callable[[str], Any]) -> Any:
    # The library opens and parses. Its next step, `update`, would run `@int`, `@format` and `@jinja`, take
    # `dynaconf_merge` for an order and upper-case the sections, and no option turns all of that off: layering is ours
    # (CFG-07). For the same reason it gets our readers, which leave every value as written.
    with path.open("rb"):  # the library would turn a failure to open into a warning
        pass
    loader = BaseLoader(
        obj=LazySettings(core_loaders=[], loaders=[], settings_files=[], environments=False, load_dotenv=False),
        env="_envless",
        identifier=path.suffix,
        extensions=(path.suffix,),
        file_reader=lambda stream: reader(_decode(stream)),
        string_reader=reader,
        opener_params={"mode": "rb"},
    )
    return loader.get_source_data([str(path)]).get(str(path))


def _decode(stream: IO[bytes]) -> str:
    return stream.read().decode("utf-8-sig")


def _read_toml(text: str) -> Any:
    try:
        return _spell_dates(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line \d+, column \d+|end of document", str(error))
        raise _Malformed(f"is not valid TOML ({place.group() if place else 'place unknown'}).") from None


def _spell_dates(parsed: Any) -> Any:
    """Turn the dates and times of TOML back into text, as the other syntaxes and the environment have them."""
    if isinstance(parsed, dict):
        return {key: _spell_dates(value) for key, value in parsed.items()}
    if isinstance(parsed, list):
        return [_spell_dates(value) for value in parsed]
    return parsed.isoformat() if isinstance(parsed, datetime.date | datetime.time) else parsed


def _read_json(text: str) -> Any:
    def refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            raise _Malformed("has an object with the same key twice.")
        return made

    def refuse_constant(name: str) -> Any:
        raise _Malformed(f"holds {name}, which is not JSON.")

    try:
        return (
            json.loads(text, object_pairs_hook=refuse_twice, parse_constant=refuse_constant) if text.strip() else None
        )
    except json.JSONDecodeError as error:
        raise _Malformed(f"is not valid JSON (line {error.lineno}, column {error.colno}).") from None
    except ValueError:  # a number of thousands of digits
        raise _Malformed("holds a number that is too long.") from None


def _read_commented_json(text: str) -> Any:
    def blank(match: re.Match[str]) -> str:
        # Line breaks stay, so that the place named by a failure is the place in the file.
        return match.group() if match.group().startswith('"') else re.sub(r"[^\n]", " ", match.group())

    return _read_json(_JSON_TRAILING_COMMA.sub(blank, _JSON_NOISE.sub(blank, text)))


class _LiteralLoader(yaml.SafeLoader):
    """YAML whose plain scalars stay text, null excepted.

    YAML 1.1 would make `10:20:00` the number 37200, `no` a boolean, and `<<` an order to merge.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  the base class's name


_LiteralLoader.add_implicit_resolver(
    "tag:yaml.org,2002:null", re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]
)


def _read_yaml(text: str) -> Any:
    try:
        root = yaml.compose(text, Loader=_LiteralLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = "place unknown" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"
        raise _Malformed(f"is not valid YAML ({place}).") from None
    except yaml.YAMLError:
        raise _Malformed("is not valid YAML (it holds a character that YAML does not allow).") from None
    return None if root is None else _build(root, set())


def _build(node: yaml.Node, seen: set[int]) -> Any:
    line = node.start_mark.line + 1
    if id(node) in seen:
        raise _Malformed(f"uses an alias of what stands at line {line}; write the value out.")
    seen.add(id(node))
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    if isinstance(node, yaml.ScalarNode) and kind in ("str", "null"):
        # The pattern of null also matches a quoted empty text, whose tag is then already `str`.
        return None if kind == "null" else node.value
    if isinstance(node, yaml.SequenceNode) and kind == "seq":
        return [_build(item, seen) for item in node.value]
    if isinstance(node, yaml.MappingNode) and kind == "map":
        made: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _Malformed(f"has a key that is not a text (line {key.start_mark.line + 1}).")
            if key.value in made:
                raise _Malformed(f"has the same key twice (line {key.start_mark.line + 1}).")
            made[key.value] = _build(value, seen)
        return made
    raise _Malformed(f"has a tag at line {line}; values are read as they are written.")


_READERS: Mapping[str, Callable[[str], Any]] = {
    ".toml": _read_toml,
    ".yaml": _read_yaml,
    ".yml": _read_yaml,
    ".json": _read_json,
}


def read_environment(
    environ: Mapping[str, str], sections: Collection[str], scalars: Collection[str], findings: Findings
) -> Branch:
    """Read the variables whose first segment is one of `sections`, or that equal one of `scalars` (CFG-05, CFG-06).

    Both are case-folded. A variable that is only the name of a section is somebody else's and is left alone.
    """
    tree = Branch(origin="the environment")
    for name, value in environ.items():
        path = name.split("__")
        first = path[0].casefold()
        if (first in sections and len(path) > 1) or (first in scalars and len(path) == 1):
            try:
                tree.insert(path, Leaf(value, f"variable {name}"))
            except Duplicate as error:
                findings.refuse(
                    show_path(error.path),
                    f"is given by {' and by '.join(error.origins)}.",
                    "Names are read without regard to case: keep one of them.",
                )
    return tree
