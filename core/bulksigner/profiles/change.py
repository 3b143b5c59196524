"""What a person may ask of a profile, and how it is refused: everything that is wrong at once."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import attrs

from bulksigner.contract.errors import Refusal
from bulksigner.contract.settings import Secret

__all__ = ["KEEP", "Keep", "Objection", "ProfileChange", "ProfileRefused"]


class Keep(enum.Enum):
    """Stands for the input folder that a profile has already, whichever that is."""

    KEEP = "keep"


KEEP = Keep.KEEP


@attrs.frozen
class ProfileChange:
    """One wish: keys as `Signing:Profiles[]` spells them, such as `Verify` or `Certificate:Pfx:Path`.

    A value of None takes a key back to its default, with all keys below it. An empty secret removes the stored one.
    `reopens` has running services open the certificate again although nothing about it changed, for a file that was
    replaced in its place. `read_version` is the row version the wish was made on; without it the present one counts.
    """

    values: Mapping[str, str | None] = attrs.field(factory=dict)
    secrets: Mapping[str, Secret] = attrs.field(factory=dict)
    folder: str | Keep | None = KEEP
    reopens: bool = False
    read_version: int | None = None


@attrs.frozen
class Objection:
    """One reason against a save: its code, the key it is about, and a sentence that says what to do."""

    code: str
    key: str
    text: str

    def line(self) -> str:
        """Render the objection as a line of a refusal."""
        return f"{self.key}: {self.text}" if self.key else self.text


class ProfileRefused(Refusal):
    """Refuse a save with every objection; nothing was stored. The code is that of the first one."""

    def __init__(self, profile: str, objections: Sequence[Objection]) -> None:
        lines = "\n".join(f"  {objection.line()} [{objection.code}]" for objection in objections)
        super().__init__(f"Profile '{profile}' was not saved.\n{lines}", code=objections[0].code)
        self.objections = tuple(objections)
