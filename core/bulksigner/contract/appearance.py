"""How a signature is shown on a page of a PDF, as a profile chooses it; settings, so that one class says it all."""

from __future__ import annotations

import enum
import re
import zoneinfo
from pathlib import Path

import attrs

from bulksigner.contract.settings import Check, option

__all__ = ["Appearance", "Corner", "read_length"]

DEFAULT_TEXT = r"Assinado digitalmente por {name}\nCPF {cpf}\nCNPJ {cnpj}\n{date}\n{reason}\n{location}"
_NAMES = frozenset({"name", "cpf", "cnpj", "date", "reason", "location"})
_LENGTH = re.compile(r"(\d{1,4}(?:\.\d{1,2})?) ?(mm|pt)?", re.IGNORECASE)
_MILLIMETRE = 72 / 25.4
_LONGEST = 1000


class Corner(enum.Enum):
    """From where a position is counted, as the page is seen."""

    TOP_LEFT = "TopLeft"
    TOP_RIGHT = "TopRight"
    BOTTOM_LEFT = "BottomLeft"
    BOTTOM_RIGHT = "BottomRight"


def read_length(text: str) -> float:
    """Return a length in points; raises `ValueError` for what is none."""
    match = _LENGTH.fullmatch(text)
    if match is None:
        raise ValueError("no length")
    return float(match[1]) * (_MILLIMETRE if (match[2] or "").casefold() == "mm" else 1)


def _is_size(text: str) -> bool:
    return _LENGTH.fullmatch(text) is not None and read_length(text) >= 1


def _is_win_ansi(text: str) -> bool:
    try:
        text.encode("cp1252")
    except UnicodeEncodeError:
        return False
    return len(text) <= _LONGEST


def _is_template(text: str) -> bool:
    return _is_win_ansi(text) and set(re.findall(r"\{([^{}]*)\}", text)) <= _NAMES


def _is_zone(text: str) -> bool:
    try:
        zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


_LENGTHS = Check(lambda text: _LENGTH.fullmatch(text) is not None, "a length such as 10mm or 28.5pt")
_SIZES = Check(_is_size, "a length of 1pt or more, such as 70mm or 200pt")
_WORDS = Check(_is_win_ansi, f"up to {_LONGEST} characters of Western European languages")
_FILE = Check(lambda path: path is None or path.is_absolute(), "an absolute path")


@attrs.frozen
class Appearance:
    """`Signing:Profiles[]:Appearance`."""

    enabled: bool = option(False, help="Show signatures on a page of the PDF; `Pades` only.", is_seed=True)
    page: str = option(
        "Last",
        help="Page: `First`, `Last` or its number.",
        check=Check(
            lambda text: re.fullmatch(r"first|last|[1-9]\d{0,4}", text, re.IGNORECASE) is not None,
            "First, Last or a number from 1",
        ),
        is_seed=True,
    )
    corner: Corner = option(
        Corner.BOTTOM_RIGHT, help="Corner of the page, as it is seen, from which the place is counted.", is_seed=True
    )
    offset_x: str = option(
        "10mm", help="Distance from the corner's side, in `mm` or `pt`.", check=_LENGTHS, is_seed=True
    )
    offset_y: str = option(
        "10mm", help="Distance from the corner's top or bottom, in `mm` or `pt`.", check=_LENGTHS, is_seed=True
    )
    width: str = option("70mm", help="Width, in `mm` or `pt`.", check=_SIZES, is_seed=True)
    height: str = option("25mm", help="Height, in `mm` or `pt`.", check=_SIZES, is_seed=True)
    text: str = option(
        DEFAULT_TEXT,
        help=r"What is written, `\n` between lines: `{name}`, `{cpf}`, `{cnpj}`, `{date}`, `{reason}`, `{location}`. "
        "A line whose names all stand for nothing is left out. Empty: the image alone.",
        check=Check(
            _is_template,
            f"up to {_LONGEST} characters of Western European languages, with no other names in braces than "
            + ", ".join(sorted(_NAMES)),
        ),
        is_seed=True,
    )
    reason: str = option("", help="Why it is signed; `/Reason` of the signature too.", check=_WORDS, is_seed=True)
    location: str = option("", help="Where it is signed; `/Location` of the signature too.", check=_WORDS, is_seed=True)
    time_zone: str = option(
        "America/Sao_Paulo",
        help="Time zone of `{date}`.",
        check=Check(_is_zone, "a time zone that this host knows, such as America/Sao_Paulo or UTC"),
        is_seed=True,
    )
    show_full_cpf: bool = option(
        False, help="Write all digits of `{cpf}`; otherwise all but the check digits are masked.", is_seed=True
    )
    field: str = option(
        "",
        help="Name of an empty signature field; a file that has it is signed there, whatever the place above.",
        check=_WORDS,
        is_seed=True,
    )
    image_path: Path | None = option(
        None, help="PNG or JPEG file, shown left of the text; an absolute path.", check=_FILE, is_seed=True
    )
    font_path: Path | None = option(
        None,
        help="TrueType file (`.ttf`) whose letters are embedded, as PDF/A asks for; an absolute path. Without it "
        "Helvetica, which readers bring along.",
        check=_FILE,
        is_seed=True,
    )
