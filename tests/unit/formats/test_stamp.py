"""Visible signatures: where they are, what they say, and that no other signature minds (ICP-26, BEY-11)."""

from __future__ import annotations

import datetime
import io
import itertools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.fields import MDPPerm, SigFieldSpec

from bulksigner.contract.appearance import Appearance, Corner
from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import PdfChoice
from bulksigner.formats.model import FormatRefused, PdfRules
from bulksigner.formats.pades import PadesSigner, look_at_pdf
from bulksigner.formats.spec import BASELINE_B
from bulksigner.formats.stamp import Stamp
from bulksigner.testing.certificates import make_authority
from bulksigner.testing.pdf_corpus import AWKWARD, protect
from bulksigner.testing.pdf_sample import PdfSample

FONT = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")
needs_font = pytest.mark.skipif(not FONT.exists(), reason="fonts-dejavu-core is not installed")
DPI = 72
WORDS = "Aprovação à mão: ÁÉÍÓÚ âêô ãõ ç ü"


@pytest.fixture
def red(tmp_path: Path) -> Path:
    """A square that is red all over, of one pixel in fifty."""
    path = tmp_path / "red.png"
    Image.new("RGB", (50, 50), "red").save(path)
    return path


@pytest.fixture
def shown(rsa_key: Any, sign: Any) -> Callable[..., bytes]:
    """Sign with an appearance of these keys."""

    def run(content: bytes, *, passwords: tuple[str, ...] = (), **keys: Any) -> bytes:
        looks = Appearance(enabled=True, **{"text": "Assinado", **keys})
        choice = PdfChoice(tuple(map(Secret, passwords)), looks)
        return sign(PadesSigner(rsa_key, BASELINE_B, rules=PdfRules(choice=choice)), content)

    return run


@pytest.fixture
def render(run: Any, tmp_path: Path) -> Callable[..., Image.Image]:
    """Draw the crop box of a page with poppler, one pixel a point."""
    numbers = itertools.count()

    def draw(content: bytes, page: int = 1, password: str = "") -> Image.Image:
        path = tmp_path / f"drawn{next(numbers)}.pdf"
        path.write_bytes(content)
        asked = ("-upw", password) if password else ()
        target = path.with_suffix("")
        run("pdftoppm", "-cropbox", *asked, "-r", DPI, "-f", page, "-l", page, "-singlefile", "-png", path, target)
        with Image.open(path.with_suffix(".png")) as found:
            return found.convert("RGB")

    return draw


def changed(before: Image.Image, after: Image.Image) -> tuple[int, int, int, int]:
    """Return the box of all pixels that differ: left, top, right, bottom."""
    assert before.size == after.size
    box = ImageChops.difference(before, after).getbbox()
    assert box is not None
    return box


def make_page(entries: bytes) -> bytes:
    """Return a file of one page whose entries are these."""
    media = b"" if b"/MediaBox" in entries else b"/MediaBox [0 0 595 842] "
    content = re.sub(rb"/MediaBox ?\[[^\]]*\]", media + entries, AWKWARD["table"].make(), count=1)
    assert entries in content
    return rebuilt(content)


def rebuilt(content: bytes) -> bytes:
    """Write a changed file anew, so that its offsets are right."""
    from pyhanko.pdf_utils.writer import copy_into_new_writer

    out = io.BytesIO()
    objects = {int(found[1]): found[2] for found in re.finditer(rb"(\d+) 0 obj\s(.*?)\sendobj", content, re.DOTALL)}
    body = bytearray(b"%PDF-1.7\n")
    places = {}
    for number, text in objects.items():
        places[number] = len(body)
        body += b"%d 0 obj\n%b\nendobj\n" % (number, text)
    start, size = len(body), max(objects) + 1
    body += b"xref\n0 %d\n0000000000 65535 f \n" % size
    for number in range(1, size):
        body += b"%010d 00000 n \n" % places[number] if number in places else b"0000000000 65535 f \n"
    body += b"trailer\n<</Size %d /Root 1 0 R /ID [<11> <22>]>>\nstartxref\n%d\n%%%%EOF\n" % (size, start)
    writer = copy_into_new_writer(PdfFileReader(io.BytesIO(bytes(body))))
    writer.write(out)
    return out.getvalue()


PAGES = {
    "plain": b"",
    "odd box": b"/CropBox [100 150 400 650]",
    "turned once": b"/Rotate 90",
    "turned twice": b"/Rotate 180",
    "turned three times": b"/Rotate 270",
    "turned back": b"/Rotate -90",
    "odd box, turned once": b"/CropBox [100 150 400 650] /Rotate 90",
    "odd box, turned three times": b"/CropBox [100 150 400 650] /Rotate 270",
    "below nothing": b"/MediaBox [-200 -100 395 742]",
    "below nothing, turned once": b"/MediaBox [-200 -100 395 742] /Rotate 90",
}


@pytest.mark.parametrize("corner", Corner)
@pytest.mark.parametrize("page", PAGES)
def test_it_is_where_it_should_be(page: str, corner: Corner, shown: Any, render: Any, red: Path, accept: Any) -> None:
    """Issue 5: upright in its corner of the page as it is seen, turned or cut; no pixel outside changes."""
    content = make_page(PAGES[page])
    keys = {"width": "100pt", "height": "40pt", "offset_x": "30pt", "offset_y": "20pt"}
    artifact = shown(content, corner=corner, image_path=red, **keys)
    before, after = render(content), render(artifact)
    left, top, right, bottom = changed(before, after)
    width, height = after.size
    x = width - 130 if "Right" in corner.value else 30
    y = height - 60 if "Bottom" in corner.value else 20
    assert x - 1 <= left
    assert right <= x + 101
    assert y - 1 <= top
    assert bottom <= y + 41
    # Image left, text right of it: upright, and neither lost nor squeezed.
    assert after.getpixel((x + 15, y + 20)) == (255, 0, 0)
    assert right > x + 60
    assert bottom - top > 25
    accept(content, artifact)


@pytest.mark.parametrize("font", [None, pytest.param(FONT, marks=needs_font)])
def test_letters_with_accents_are_read_back(font: Path | None, shown: Any, run: Any, tmp_path: Path) -> None:
    """Issue 5: all of Portuguese, by Helvetica and by a font that is embedded as a subset."""
    path = tmp_path / "signed.pdf"
    path.write_bytes(
        shown(
            PdfSample().build(), text=r"{reason}\n{location}\n{cnpj}", reason=WORDS, location="São João", font_path=font
        )
    )
    assert WORDS in re.sub(r"\s+", " ", run("pdftotext", path, "-"))
    *_, last = run("pdffonts", path).strip().splitlines()
    assert ("WinAnsi" in last) is True
    assert (" yes yes " in last) is (font is not None)
    assert path.stat().st_size < 40_000 + len(PdfSample().build())
    entries = PdfFileReader(io.BytesIO(path.read_bytes())).embedded_signatures[0].sig_object
    assert (entries["/Reason"], entries["/Location"]) == (WORDS, "São João")


def test_the_holder_is_named_and_the_cpf_masked() -> None:
    """ICP-26: a name without its number, a CPF of which the check digits alone are shown unless all are asked for."""
    from cryptography.hazmat.primitives.serialization import Encoding

    certificate = make_authority().issue().certificate.public_bytes(Encoding.DER)
    masked = Stamp.make(Appearance(enabled=True), certificate).values
    full = Stamp.make(Appearance(enabled=True, show_full_cpf=True), certificate).values
    assert re.fullmatch(r"\*{3}\.\*{3}\.\*{3}-\d\d", masked["cpf"])
    assert re.fullmatch(r"\d{11}", full["cpf"])
    assert full["cpf"].endswith(masked["cpf"][-2:])
    assert masked["name"]
    assert not re.search(r"\d{5}", masked["name"])


def test_the_time_is_that_of_the_zone(shown: Any, rsa_key: Any, run: Any, tmp_path: Path) -> None:
    """Issue 5: the moment of signing, in the zone of the profile; lines that say nothing are left out."""
    stamp = Stamp.make(Appearance(enabled=True, text=r"{date}\nCNPJ {cnpj}", time_zone="America/Manaus"), None)
    path = tmp_path / "signed.pdf"
    path.write_bytes(shown(PdfSample().build(), text=r"{date}\nCNPJ {cnpj}", time_zone="America/Manaus"))
    text = run("pdftotext", path, "-")
    assert "CNPJ" not in text
    found = re.search(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d -04:00", text)
    assert found is not None
    signed = PdfFileReader(io.BytesIO(path.read_bytes())).embedded_signatures[0].self_reported_timestamp
    assert signed is not None
    told = datetime.datetime.strptime(found[0], "%d/%m/%Y %H:%M:%S %z")
    assert told == signed
    assert stamp.zone.key == "America/Manaus"  # type: ignore[attr-defined]


def test_signatures_do_not_lie_over_each_other(shown: Any, accept: Any) -> None:
    """Issue 5: the next free place in the row, then the next row; refused where the page is full; all stay valid."""
    content = PdfSample().build()
    once = shown(content)
    twice = shown(once)
    accept(once, twice, signatures=2)
    thrice = shown(shown(twice))
    fields = PdfFileReader(io.BytesIO(thrice)).root["/AcroForm"]["/Fields"]
    boxes = [tuple(float(side) for side in field.get_object()["/Rect"]) for field in fields]
    assert len(set(boxes)) == 4
    for one, other in itertools.combinations(boxes, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    with pytest.raises(FormatRefused, match="no room") as refused:
        shown(shown(content, width="190mm", height="260mm"), width="190mm", height="260mm")
    assert refused.value.place == "page 1"


def filled_page(page: bytes, taken: bytes) -> bytes:
    """Build a file whose page has these entries, and an empty signature field of this rectangle."""
    field = b"<</Type /Annot /Subtype /Widget /FT /Sig /T (Taken) /Rect [%b]>>" % taken
    page = b"<</Type /Page /Parent 2 0 R /Annots [8 0 R] %b>>" % page
    return PdfSample(catalog=b"/AcroForm <</Fields [8 0 R]>>", objects={8: field, 10: page}).build()


def test_a_page_beyond_measure_is_not_searched_without_end(shown: Any) -> None:
    """SEC-70: a file may call its page as large as it likes; a place in its row 1330 is not found, and that is said."""
    content = filled_page(b"/MediaBox [0 0 100000 100000]", b"0 0 100000 99820")
    with pytest.raises(FormatRefused, match="no room"):
        shown(content)


def test_a_unit_that_is_none_counts_as_one(shown: Any) -> None:
    """Issue 5: a negative /UserUnit turns no rectangle around, so that the next signature keeps clear of others."""
    box = b"/MediaBox [0 0 595 842]"
    plain, turned = (shown(filled_page(box + unit, b"300 10 500 200")) for unit in (b"", b" /UserUnit -1"))
    rectangles = [
        [float(side) for side in PdfFileReader(io.BytesIO(content)).root["/AcroForm"]["/Fields"][1]["/Rect"]]
        for content in (plain, turned)
    ]
    assert rectangles[0] == rectangles[1]


def test_the_page_is_chosen(shown: Any, render: Any) -> None:
    """Issue 5: first, last or a number; a number that the file has not is refused."""
    content = three_pages()
    count = int(PdfFileReader(io.BytesIO(content)).root["/Pages"]["/Count"])
    for wanted, page in (("First", 1), ("last", count), ("2", 2)):
        artifact = shown(content, page=wanted)
        differing = [number for number in range(1, count + 1) if render(content, number) != render(artifact, number)]
        assert differing == [page]
    with pytest.raises(FormatRefused, match=f"has {count} page"):
        shown(content, page=str(count + 1))


def three_pages() -> bytes:
    pages = b"".join(
        b"%d 0 obj\n<</Type /Page /Parent 2 0 R /MediaBox [0 0 400 400]>>\nendobj\n" % number for number in (3, 4, 5)
    )
    return rebuilt(
        b"1 0 obj\n<</Type /Catalog /Pages 2 0 R>>\nendobj\n"
        b"2 0 obj\n<</Type /Pages /Count 3 /Kids [3 0 R 4 0 R 5 0 R]>>\nendobj\n" + pages
    )


BOX = (60, 500, 260, 560)


def test_an_empty_field_is_used(shown: Any, accept: Any, render: Any, sign_by_other: Any) -> None:
    """Issue 5: a field of the configured name has its own rectangle; signed before, the next goes to the corner."""
    content = with_field(PdfSample().build())
    once = shown(content, field="Assinatura")
    accept(content, once)
    left, top, right, bottom = changed(render(content), render(once))
    height = render(once).size[1]
    assert left >= 59
    assert right <= 261
    assert height - 561 <= top
    assert bottom <= height - 499
    names = [one.field_name for one in PdfFileReader(io.BytesIO(once)).embedded_signatures]
    assert names == ["Assinatura"]
    accept(once, shown(once, field="Assinatura"), signatures=2)


def with_field(content: bytes) -> bytes:
    from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
    from pyhanko.sign.fields import append_signature_field

    writer = IncrementalPdfFileWriter(io.BytesIO(content))
    append_signature_field(writer, SigFieldSpec("Assinatura", box=BOX))
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


@pytest.mark.parametrize("level", [MDPPerm.FILL_FORMS, MDPPerm.ANNOTATE])
def test_a_certified_file_is_signed_in_its_field_only(
    level: MDPPerm, shown: Any, accept: Any, sign_by_other: Any, rsa_key: Any
) -> None:
    """BEY-11: levels 2 and 3 allow a field to be filled, and no new one that is seen; the certification stays valid."""
    certified = sign_by_other(with_field(PdfSample().build()), certify=True, docmdp_permissions=level)
    calls = rsa_key.calls
    with pytest.raises(FormatRefused, match="certified") as refused:
        shown(certified)
    assert refused.value.place == "catalog, /Perms /DocMDP"
    assert rsa_key.calls == calls
    accept(certified, shown(certified, field="Assinatura"), signatures=2)


@pytest.mark.parametrize("part", ["PDF/A-1b", "PDF/A-2b", "PDF/A-3b"])
def test_a_claim_of_pdf_a_needs_a_font(part: str, shown: Any, red: Path, run: Any, tmp_path: Path) -> None:
    """BEY-11: letters that are not embedded would break the claim; an image needs none, and nothing is see-through."""
    content = AWKWARD[part].make()
    with pytest.raises(FormatRefused, match="embedded letters"):
        shown(content)
    if FONT.exists():
        path = tmp_path / "signed.pdf"
        path.write_bytes(shown(content, font_path=FONT, image_path=red))
        assert all(" yes yes " in line for line in run("pdffonts", path).splitlines()[2:] if "DejaVu" in line)
        assert b"/SMask" not in path.read_bytes()
    assert b"/CalRGB" in shown(content, text="", image_path=red)


@pytest.mark.parametrize("kind", ["rc4-128", "aes-128", "aes-256"])
def test_a_protected_file_shows_it_too(kind: str, shown: Any, accept: Any, render: Any, run: Any, red: Path) -> None:
    """BEY-11: drawn and read by others with the password, and encrypted without it."""
    content = protect(PdfSample().build(), kind, user="aberta")
    artifact = shown(content, passwords=("aberta",), reason="Segredo", text="{reason}", image_path=red)
    accept(content, artifact, password="aberta")
    changed(render(content, password="aberta"), render(artifact, password="aberta"))
    assert b"Segredo" not in artifact


def test_it_is_foretold(shown: Any, measure: Any) -> None:
    """BEY-10: a look finds what signing would, without a key."""
    content = AWKWARD["PDF/A-2b"].make()
    rules = PdfRules(choice=PdfChoice((), Appearance(enabled=True)))
    with pytest.raises(FormatRefused, match="embedded letters"):
        look_at_pdf(io.BytesIO(content), measure(content), rules)
    plain = PdfSample().build()
    assert look_at_pdf(io.BytesIO(plain), measure(plain), rules) == ()


def test_the_same_comes_of_the_same(shown: Any) -> None:
    """Issue 5: two files signed alike differ in time, signature and identity alone."""
    content = PdfSample().build()
    one, other = shown(content, text="Assinado"), shown(content, text="Assinado")
    volatile = re.compile(rb"/Contents <[0-9a-f]+>|/M \([^)]*\)|/ID ?\[[^\]]*\]")
    assert volatile.sub(b"", one) == volatile.sub(b"", other)


@pytest.mark.parametrize("key", ["image_path", "font_path"])
@pytest.mark.parametrize("content", [None, b"", b"\x89PNG\r\n\x1a\nIHDR", b"\0\1\0\0" + b"\xff" * 64])
def test_files_of_no_use_are_refused(key: str, content: bytes | None, tmp_path: Path) -> None:
    """Issue 5: absent, empty, cut off or damaged: said with the key and the file, never by a stack trace."""
    path = tmp_path / "given"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PermanentFailure, match=f"{key.split('_')[0].capitalize()}Path, {path}"):
        Stamp.make(Appearance(enabled=True, **{key: path}), None)


@pytest.mark.parametrize("key", ["image_path", "font_path"])
def test_pipes_and_devices_are_not_read(key: str, tmp_path: Path) -> None:
    """Issue 5: one would be waited for, the other has no end; whoever may set a profile stops no service by them."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (Path("/dev/null"), pipe):
        with pytest.raises(PermanentFailure, match="pipe or a device"):
            Stamp.make(Appearance(enabled=True, **{key: path}), None)
