"""`Signing:Profiles[]:CrossCheck`: the second engines of a profile, as they are written (CFG-198, BEY-02)."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import attrs

from bulksigner.contract.errors import BulkSignerError, join
from bulksigner.contract.signing import Format
from bulksigner.settings.findings import Findings
from bulksigner.settings.grammar import quote
from bulksigner.settings.signatures import PadesFilter
from bulksigner.settings.signing import ProfileSeed

__all__ = ["BUILT_IN", "EngineUnreadable", "SecondEngine", "check_engines", "find_absent_engine", "read_engine"]

BUILT_IN: Mapping[str, Format] = MappingProxyType(
    {"pdfsig": Format.PADES, "openssl cms": Format.CADES, "xmlsec1": Format.XADES}
)
"""The engines that go by name, and the format that each knows."""
_PLACEHOLDERS = ("file", "original", "format")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_WRITE = f"Write {', '.join(BUILT_IN)}, or the absolute path of a program and its arguments."
_MOST = 8
_LONGEST = 1000


class EngineUnreadable(BulkSignerError):
    """Refuse an entry: what it is, and what to write."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(join(problem, remedy))
        self.problem = problem
        self.remedy = remedy


@attrs.frozen
class SecondEngine:
    """One entry: a program, its arguments with placeholders, and the one format it is asked about, or None for all.

    An engine that goes by name has no arguments here; those depend on the file.
    """

    name: str
    program: str
    arguments: tuple[str, ...] = ()
    format: Format | None = None

    def locate(self) -> str | None:
        """Return the path of the program where it is here and may be run, or None."""
        if self.format is not None:
            return shutil.which(self.program)
        path = Path(self.program)
        return self.program if path.is_file() and os.access(path, os.X_OK) else None


def read_engine(text: str) -> SecondEngine:
    """Read one entry; raises `EngineUnreadable`."""
    folded = " ".join(text.casefold().split())
    if folded in BUILT_IN:
        return SecondEngine(folded, folded.partition(" ")[0], format=BUILT_IN[folded])
    if len(text) > _LONGEST or not text.isprintable():
        raise EngineUnreadable(f"is longer than {_LONGEST} characters, or has some that do not print.", _WRITE)
    try:
        program, *arguments = shlex.split(text) or [""]
    except ValueError as error:
        raise EngineUnreadable(f"is {quote(text)}, which cannot be read: {error}.", _WRITE) from None
    if not Path(program).is_absolute():
        raise EngineUnreadable(f"is {quote(text)}, which is no engine known by name.", _WRITE)
    named = {name for argument in arguments for name in _PLACEHOLDER.findall(argument)}
    strange = sorted(named.difference(_PLACEHOLDERS))
    if strange or "file" not in named:
        known = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
        found = f"has {{{strange[0]}}}" if strange else "has no {file} among its arguments"
        raise EngineUnreadable(f"is {quote(text)}, which {found}.", f"Use {known}; {{file}} is the signed file.")
    return SecondEngine(Path(program).name, program, tuple(arguments))


def find_absent_engine(texts: Iterable[str]) -> str | None:
    """Say which engine cannot be asked on this host, or None where all can."""
    for text in texts:
        try:
            engine = read_engine(text)
        except EngineUnreadable as error:
            return f"CrossCheck {error.message}"
        if engine.locate() is None:
            return (
                f"CrossCheck names {engine.name}, and {engine.program} is no program that this account may run "
                "here. Install it, or take the entry out."
            )
    return None


def check_engines(prefix: str, seed: ProfileSeed, findings: Findings) -> None:
    """Apply the rules on the second engines of one profile; whether they are here is seen later."""
    key = f"{prefix}CrossCheck"
    if seed.cross_check and not seed.verify:
        findings.refuse(
            key,
            "names engines, and Verify is false: there is no check of our own to compare with.",
            "Set Verify to true, or take the engines out.",
        )
    if len(seed.cross_check) > _MOST:
        findings.refuse(key, f"has {len(seed.cross_check)} entries.", f"Give at most {_MOST}.")
    for index, text in enumerate(seed.cross_check):
        place = f"{key}[{index}]"
        try:
            engine = read_engine(text)
        except EngineUnreadable as error:
            findings.refuse(place, error.problem, error.remedy)
            continue
        if engine.format is not None and seed.format not in (None, engine.format):
            findings.refuse(
                place,
                f"is {engine.name}, which knows {engine.format.value} alone, and Format is another.",
                "Take it out.",
            )
        elif engine.format is Format.PADES and _is_national(seed):
            findings.refuse(
                place,
                f"is {engine.name}, which cannot read the filter Pbad, and PDF signatures of this profile have it.",
                "Set Format to Pades and PadesFilter to Etsi, or take it out.",
            )


def _is_national(seed: ProfileSeed) -> bool:
    """Tell whether PDF signatures of a profile have the national filter (CFG-188)."""
    if seed.pades_filter is None:
        return seed.policy.startswith("AD-")
    return seed.pades_filter is PadesFilter.PBAD
