"""What a visible signature looks like: text, image and font, made ready once for all files of a signer."""

from __future__ import annotations

import datetime
import re
import zlib
import zoneinfo
from pathlib import Path
from typing import Any

import attrs
from cryptography import x509
from cryptography.x509.oid import NameOID
from pyhanko.pdf_utils import generic
from pyhanko.pdf_utils.generic import pdf_name

from bulksigner.contract.appearance import Appearance, read_length
from bulksigner.contract.errors import PermanentFailure
from bulksigner.formats.icp_brasil import read_holder
from bulksigner.formats.stamp_font import Typeface, encode_text, require_regular

__all__ = ["Stamp"]

_DATE = "%d/%m/%Y %H:%M:%S"
_DATE_CHARACTERS = b"0123456789/:+- "
_NAMED = re.compile(r"\{(\w+)\}")
_NUMBER_BEHIND_NAME = re.compile(r":[0-9A-Z./-]{11,18}$")
_LARGEST_SIZE, _SMALLEST_SIZE, _STEP = 12.0, 3.0, 0.25
_LEADING, _MARGIN, _IMAGE_SHARE = 1.2, 2.0, 0.35
_MOST_IMAGE_BYTES, _MOST_PIXELS = 8 * 1024 * 1024, 4_000_000
# Colours by themselves: PDF/A has no others where a file names no profile of its own (ISO 19005-2 6.2.4).
_WHITE, _GAMMA = (0.9505, 1.0, 1.089), (2.2, 2.2, 2.2)
_PRIMARIES = (0.4124, 0.2126, 0.0193, 0.3576, 0.7152, 0.1192, 0.1805, 0.0722, 0.9505)


@attrs.frozen
class _Image:
    width: int
    height: int
    packed: bytes = attrs.field(repr=False)

    @classmethod
    def read(cls, path: Path) -> _Image:
        """Read a PNG or JPEG file, laid on white; raises `PermanentFailure`."""
        from PIL import Image

        try:
            require_regular(path)
            if path.stat().st_size > _MOST_IMAGE_BYTES:
                raise _refuse(path, f"has more than {_MOST_IMAGE_BYTES} bytes; give a smaller one.")
            with Image.open(path, formats=("PNG", "JPEG")) as found:
                if found.width * found.height > _MOST_PIXELS:
                    raise _refuse(path, f"has more than {_MOST_PIXELS} pixels; give a smaller one.")
                layered = found.convert("RGBA")
        except PermanentFailure:
            raise
        except Exception as error:
            # Pillow lets through whatever a damaged file provokes.
            reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
            raise _refuse(path, f"cannot be read as PNG or JPEG ({reason}).") from error
        white = Image.new("RGBA", layered.size, "white")
        content = Image.alpha_composite(white, layered).convert("RGB").tobytes()
        return cls(*layered.size, zlib.compress(content, 9))

    def add_to(self, writer: Any) -> Any:
        return writer.add_object(
            generic.StreamObject(
                {
                    pdf_name("/Type"): pdf_name("/XObject"),
                    pdf_name("/Subtype"): pdf_name("/Image"),
                    pdf_name("/Width"): generic.NumberObject(self.width),
                    pdf_name("/Height"): generic.NumberObject(self.height),
                    pdf_name("/BitsPerComponent"): generic.NumberObject(8),
                    pdf_name("/ColorSpace"): _colour_space(),
                    pdf_name("/Filter"): pdf_name("/FlateDecode"),
                },
                encoded_data=self.packed,
            )
        )


def _refuse(path: Path, problem: str) -> PermanentFailure:
    return PermanentFailure(f"the image of its visible signatures (Appearance:ImagePath, {path}) {problem}")


def _numbers(values: tuple[float, ...]) -> Any:
    return generic.ArrayObject(generic.FloatObject(value) for value in values)


def _colour_space() -> Any:
    white, gamma, matrix = map(_numbers, (_WHITE, _GAMMA, _PRIMARIES))
    entries = {pdf_name("/WhitePoint"): white, pdf_name("/Gamma"): gamma, pdf_name("/Matrix"): matrix}
    return generic.ArrayObject([pdf_name("/CalRGB"), generic.DictionaryObject(entries)])


@attrs.frozen
class Stamp:
    """An appearance made ready for one signer; only the time differs from file to file."""

    choice: Appearance
    values: dict[str, str]
    font: Typeface
    image: _Image | None
    zone: datetime.tzinfo

    @classmethod
    def make(cls, choice: Appearance, certificate: bytes | None) -> Stamp:
        """Read the files and the holder's name; raises `PermanentFailure` where a file is no use.

        Without a certificate, as a file is looked at before it is signed, nobody is named.
        """
        values = {"name": "", "cpf": "", "cnpj": "", "reason": choice.reason, "location": choice.location}
        if certificate is not None:
            holder = read_holder(certificate)
            values["cpf"] = holder.cpf if choice.show_full_cpf else holder.shown_cpf
            values["cnpj"] = holder.shown_cnpj
            values["name"] = _read_name(certificate)
            if holder.cpf and not choice.show_full_cpf:
                values["name"] = values["name"].replace(holder.cpf, holder.shown_cpf)
        lines = list(_fill(choice.text, values | {"date": "0"}))
        font = Typeface.make(choice.font_path, b"".join([*lines, _DATE_CHARACTERS]))
        image = None if choice.image_path is None else _Image.read(choice.image_path)
        return cls(choice, values, font, image, zoneinfo.ZoneInfo(choice.time_zone))

    @property
    def needs_font(self) -> bool:
        """Tell whether text is written in letters that do not travel with the file."""
        return bool(self.choice.text) and not self.font.is_embedded

    @property
    def size(self) -> tuple[float, float]:
        """Return width and height in points, where no field has its own."""
        return read_length(self.choice.width), read_length(self.choice.height)

    def draw(self, writer: Any, width: float, height: float, rotation: int, at: datetime.datetime) -> Any:
        """Add the appearance to a file and return its reference; `rotation` is that of the page, in degrees."""
        local = at.astimezone(self.zone)
        zone = local.strftime("%z")
        lines = list(_fill(self.choice.text, self.values | {"date": f"{local:{_DATE}} {zone[:3]}:{zone[3:5]}"}))
        resources = generic.DictionaryObject()
        left, content = _MARGIN, []
        if self.image is not None:
            room = width - 2 * _MARGIN if not lines else width * _IMAGE_SHARE - _MARGIN
            content.append(_draw_image(self.image, left, room, height))
            images = {pdf_name("/I"): self.image.add_to(writer)}
            resources[pdf_name("/XObject")] = generic.DictionaryObject(images)
            left += room + _MARGIN
        if lines:
            content.append(self._draw_text(lines, left, width - left - _MARGIN, height))
            resources[pdf_name("/Font")] = generic.DictionaryObject({pdf_name("/F"): self.font.add_to(writer)})
            colours = {pdf_name("/C"): _colour_space()}
            resources[pdf_name("/ColorSpace")] = generic.DictionaryObject(colours)
        return writer.add_object(
            generic.StreamObject(
                {
                    pdf_name("/Type"): pdf_name("/XObject"),
                    pdf_name("/Subtype"): pdf_name("/Form"),
                    pdf_name("/BBox"): _numbers((0, 0, round(width, 2), round(height, 2))),
                    pdf_name("/Matrix"): generic.ArrayObject(map(generic.NumberObject, _TURNS[rotation])),
                    pdf_name("/Resources"): resources,
                },
                stream_data="\n".join(content).encode("ascii"),
            )
        )

    def _draw_text(self, lines: list[bytes], left: float, width: float, height: float) -> str:
        """Write the lines as large as they fit, broken between words, in the middle of the height."""
        size, given = _LARGEST_SIZE, lines
        while True:
            lines = [part for line in given for part in self._break_line(line, width * 1000 / size)]
            fits = size * _LEADING * len(lines) <= height - 2 * _MARGIN
            if size <= _SMALLEST_SIZE or (fits and max(map(self.font.measure, lines)) * size <= width * 1000):
                break
            size -= _STEP
        top = (height + size * _LEADING * len(lines)) / 2 - size
        shown = "\n".join(f"<{line.hex()}> Tj T*" for line in lines)
        return (
            f"q /C cs 0 0 0 sc BT /F {size:.2f} Tf {size * _LEADING:.2f} TL "
            f"1 0 0 1 {left:.2f} {top:.2f} Tm\n{shown}\nET Q"
        )

    def _break_line(self, line: bytes, width: float) -> list[bytes]:
        """Break a line where it is wider than `width`, in thousandths of its size; a word stays whole."""
        parts = [b""]
        for word in line.split(b" "):
            longer = parts[-1] + b" " + word if parts[-1] else word
            if parts[-1] and self.font.measure(longer) > width:
                parts.append(word)
            else:
                parts[-1] = longer
        return parts


# A page turned clockwise shows upright what is turned against it.
_TURNS = {0: (1, 0, 0, 1, 0, 0), 90: (0, 1, -1, 0, 0, 0), 180: (-1, 0, 0, -1, 0, 0), 270: (0, -1, 1, 0, 0, 0)}


def _draw_image(image: _Image, left: float, room: float, height: float) -> str:
    scale = min(room / image.width, (height - 2 * _MARGIN) / image.height)
    width, tall = image.width * scale, image.height * scale
    return f"q {width:.2f} 0 0 {tall:.2f} {left + (room - width) / 2:.2f} {(height - tall) / 2:.2f} cm /I Do Q"


def _fill(template: str, values: dict[str, str]) -> list[bytes]:
    """Return the lines of a text; one whose names all stand for nothing is left out."""
    lines = []
    for line in template.replace(r"\n", "\n").splitlines():
        names = _NAMED.findall(line)
        if not names or any(values[name] for name in names):
            lines.append(encode_text(_NAMED.sub(lambda match: values[match[1]], line)))
    return lines


def _read_name(certificate: bytes) -> str:
    """Return the subject's common name, without the number that ICP-Brasil puts behind it."""
    names = x509.load_der_x509_certificate(certificate).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return _NUMBER_BEHIND_NAME.sub("", str(names[0].value)) if names else ""
