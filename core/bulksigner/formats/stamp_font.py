"""The letters of a visible signature: Helvetica, or those of a file, embedded (ISO 32000-1 9.6).

Both are written by the WinAnsi encoding (Annex D), which has all letters of Portuguese.
"""

from __future__ import annotations

import errno
import hashlib
import io
import unicodedata
import zlib
from pathlib import Path
from typing import Any

import attrs
from pyhanko.pdf_utils import generic
from pyhanko.pdf_utils.generic import pdf_name

from bulksigner.contract.errors import PermanentFailure

__all__ = ["Typeface", "encode_text", "require_regular"]

_FIRST, _LAST = 32, 255
_NONSYMBOLIC = 32
_RESTRICTED = 0x0002
_MOST_BYTES = 32 * 1024 * 1024
# Widths of Helvetica for the characters 32 to 126, in thousandths of the size (Adobe's metrics).
_HELVETICA = (
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
    556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833,
    722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556,
    556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334,
    260, 334, 584,
)  # fmt: skip
_USUAL = 556
_TABLES = ("GlyphOrder", "head", "hhea", "maxp", "OS/2", "hmtx", "cmap", "loca", "glyf", "name", "post")


def encode_text(text: str) -> bytes:
    """Return a text in WinAnsi; a letter that it lacks loses its accents, or becomes a question mark."""
    return b"".join(_encode(character) for character in text)


def require_regular(path: Path) -> None:
    """Raise `OSError` for a pipe, which would never be read to its end, or a device, which has none."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is a pipe or a device, and no file")


def _encode(character: str) -> bytes:
    for candidate in (character, *unicodedata.normalize("NFKD", character)[:1]):
        if candidate.isprintable():
            try:
                encoded: bytes = candidate.encode("cp1252")
            except UnicodeEncodeError:
                continue
            return encoded
    return b"?"


def _helvetica_width(code: int) -> int:
    plain = unicodedata.normalize("NFKD", bytes([code]).decode("cp1252", "replace"))[0]
    index = ord(plain) - _FIRST
    return _HELVETICA[index] if 0 <= index < len(_HELVETICA) else _USUAL


@attrs.frozen
class Typeface:
    """A font: widths by WinAnsi code, and what is embedded of it, if it is."""

    name: str
    widths: tuple[int, ...] = attrs.field(repr=False)
    program: bytes | None = attrs.field(default=None, repr=False)
    length: int = 0
    metrics: tuple[int, ...] = ()
    """Bounding box, ascent, descent and height of capitals of an embedded font."""

    @classmethod
    def make(cls, path: Path | None, characters: bytes) -> Typeface:
        """Make the font that writes these characters; raises `PermanentFailure` for a file that is no use."""
        if path is None:
            return cls("Helvetica", tuple(map(_helvetica_width, range(_FIRST, _LAST + 1))))
        try:
            return cls._read(path, characters)
        except PermanentFailure:
            raise
        except OSError as error:
            problem = f"cannot be read: {error.strerror or error}"
        except Exception as error:  # noqa: BLE001 - fontTools lets through whatever a damaged file provokes
            problem = f"is no font that can be read ({type(error).__name__})"
        raise _refuse(path, f"{problem}. Give a TrueType file.")

    @classmethod
    def _read(cls, path: Path, characters: bytes) -> Typeface:
        from fontTools import subset
        from fontTools.ttLib import TTFont

        require_regular(path)
        if path.stat().st_size > _MOST_BYTES:
            raise _refuse(path, f"has more than {_MOST_BYTES} bytes.")
        font = TTFont(io.BytesIO(path.read_bytes()), recalcTimestamp=False)
        if "glyf" not in font:
            raise _refuse(path, "has no TrueType outlines; give a .ttf file.")
        if font["OS/2"].fsType & 0x000F == _RESTRICTED:
            raise _refuse(path, "may not be embedded by its licence; give another font.")
        wanted = sorted({*characters, ord(" ")})
        text = bytes(wanted).decode("cp1252", "replace")
        absent = sorted(character for character in text if ord(character) not in font.getBestCmap())
        if absent:
            raise _refuse(path, f"has no letters for {' '.join(absent)}; give another font, or another text.")
        options = subset.Options()
        options.hinting = False
        options.layout_features = []
        options.name_IDs = [1, 6]
        options.notdef_outline = True
        options.glyph_names = False
        options.drop_tables = [tag for tag in font.keys() if tag not in _TABLES]  # noqa: SIM118 - no mapping
        subsetter = subset.Subsetter(options)
        subsetter.populate(text=text)
        subsetter.subset(font)
        out = io.BytesIO()
        font.save(out, reorderTables=True)
        program = out.getvalue()
        scale = 1000 / font["head"].unitsPerEm
        cmap, advances = font.getBestCmap(), font["hmtx"]
        widths = dict.fromkeys(range(_FIRST, _LAST + 1), 0)
        for code, character in zip(wanted, text, strict=True):
            widths[code] = round(advances[cmap[ord(character)]][0] * scale)
        head, lines = font["head"], font["hhea"]
        capitals = getattr(font["OS/2"], "sCapHeight", 0) or lines.ascent
        box = (head.xMin, head.yMin, head.xMax, head.yMax, lines.ascent, lines.descent, capitals)
        digest = hashlib.sha256(program).digest()
        tag = "".join(chr(ord("A") + byte % 26) for byte in digest[:6])
        own = str(font["name"].getDebugName(6) or "Font").encode("ascii", "ignore").decode()
        name = "".join(character for character in own if character.isalnum() or character == "-") or "Font"
        return cls(
            f"{tag}+{name}",
            tuple(widths.values()),
            zlib.compress(program, 9),
            len(program),
            tuple(round(value * scale) for value in box),
        )

    @property
    def is_embedded(self) -> bool:
        """Tell whether the letters travel with the file, as PDF/A asks for."""
        return self.program is not None

    def measure(self, text: bytes) -> int:
        """Return the width of a text in thousandths of its size."""
        return sum(self.widths[code - _FIRST] for code in text if code >= _FIRST)

    def add_to(self, writer: Any) -> Any:
        """Add the font to a file and return its reference."""
        font = generic.DictionaryObject(
            {
                pdf_name("/Type"): pdf_name("/Font"),
                pdf_name("/Subtype"): pdf_name("/TrueType" if self.is_embedded else "/Type1"),
                pdf_name("/BaseFont"): pdf_name("/" + self.name),
                pdf_name("/Encoding"): pdf_name("/WinAnsiEncoding"),
            }
        )
        if self.program is not None:
            stream = generic.StreamObject(
                {
                    pdf_name("/Filter"): pdf_name("/FlateDecode"),
                    pdf_name("/Length1"): generic.NumberObject(self.length),
                },
                encoded_data=self.program,
            )
            *box, ascent, descent, capitals = self.metrics
            descriptor = generic.DictionaryObject(
                {
                    pdf_name("/Type"): pdf_name("/FontDescriptor"),
                    pdf_name("/FontName"): pdf_name("/" + self.name),
                    pdf_name("/Flags"): generic.NumberObject(_NONSYMBOLIC),
                    pdf_name("/FontBBox"): generic.ArrayObject(map(generic.NumberObject, box)),
                    pdf_name("/ItalicAngle"): generic.NumberObject(0),
                    pdf_name("/Ascent"): generic.NumberObject(ascent),
                    pdf_name("/Descent"): generic.NumberObject(descent),
                    pdf_name("/CapHeight"): generic.NumberObject(capitals),
                    pdf_name("/StemV"): generic.NumberObject(80),
                    pdf_name("/FontFile2"): writer.add_object(stream),
                }
            )
            font[pdf_name("/FirstChar")] = generic.NumberObject(_FIRST)
            font[pdf_name("/LastChar")] = generic.NumberObject(_LAST)
            font[pdf_name("/Widths")] = generic.ArrayObject(map(generic.NumberObject, self.widths))
            font[pdf_name("/FontDescriptor")] = writer.add_object(descriptor)
        return writer.add_object(font)


def _refuse(path: Path, problem: str) -> PermanentFailure:
    return PermanentFailure(f"the font of its visible signatures (Appearance:FontPath, {path}) {problem}")
