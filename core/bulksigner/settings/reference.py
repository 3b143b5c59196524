"""The settings reference, written from the schema itself so that it cannot go stale."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from bulksigner.contract.settings import Secret
from bulksigner.settings.grammar import name_type
from bulksigner.settings.reserved import RESERVED
from bulksigner.settings.schema import CollectedSchema, KeyRow
from bulksigner.settings.shapes import Kind, Member
from bulksigner.settings.variables import VARIABLES

__all__ = ["render_reference"]

_INTRODUCTION = """\
# Settings

This page is written by `bulksigner.settings.reference`; a test compares it with the code.

Settings are read once, at the start, from `settings.toml`, `settings.yaml` or `settings.json` in the content root, then
from the same names in the directory of `BULK_SIGNER_CONFIG_DIR`, then from the environment. `settings.Production.toml`
overrides `settings.toml`. The later source wins for each key; lists are merged by index. Keys match without regard to
case. Values mean what they say: nothing is evaluated. Every wrong setting is named in one refusal, exit code 78.

`[]` is an entry of a list, counted from 0. **Seed** keys are read on the first start only; then the database decides.
Secrets belong in the environment.
"""
_RESERVED = """
## Reserved names

These belong to features that this build does not have. Setting one is refused, except to the value shown, which asks
for what happens anyway. A name stands for everything below it.

"""


def render_reference(schema: CollectedSchema) -> str:
    """Render every key, every variable of the process and every reserved name as one Markdown page."""
    parts = [_INTRODUCTION]
    for section, rows in groupby(schema.rows(), key=lambda row: row.segments[0]):
        parts.append(f"\n## {section}\n\n")
        header = ("Key", "Type", "Default", "Variable", "Meaning")
        parts.extend(_table(header, (_describe(row) for row in rows)))
    parts.append("\n## Variables of the process\n\nThey have no key in files.\n\n")
    parts.extend(_table(("Variable", "Default", "Meaning"), VARIABLES))
    parts.append(_RESERVED)
    reserved = (
        (f"`{row.pattern}`" + (f" = `{row.only}`" if row.only else ""), row.feature, f"`{row.off}`" if row.off else "")
        for row in RESERVED
    )
    parts.extend(_table(("Name", "Belongs to", "Accepted"), reserved))
    return "".join(parts)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |\n"
    yield f"|{'---|' * len(header)}\n"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n"


def _describe(row: KeyRow) -> tuple[str, str, str, str, str]:
    member = row.member
    kind = name_type(member.item)
    if member.kind is Kind.SCALARS:
        kind = f"list of {kind}"
    if member.option.check is not None:
        kind += f", {member.option.check.expected}"
    marks = ("**Secret.** " if member.is_secret else "") + ("**Seed.** " if member.option.is_seed else "")
    variable = f"`{row.variable}`" if row.variable is not None else "files only"
    return f"`{row.path}`", kind, _show_default(member), variable, f"{marks}{member.option.help}"


def _show_default(member: Member) -> str:
    if member.option.required:
        return "required"
    default: Any = member.make_default()
    if member.kind is Kind.NAMED_SCALARS or default is None or default in ((), "") or isinstance(default, Secret):
        return "none"
    if isinstance(default, tuple):
        return " ".join(f"`{item}`" for item in default)
    if isinstance(default, enum.Enum):
        return f"`{default.value}`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


if __name__ == "__main__":
    print(render_reference(CollectedSchema()), end="")
