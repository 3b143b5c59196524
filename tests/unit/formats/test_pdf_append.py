"""The own append path: what takes it, that both paths add the same, and that it signs nothing that was refused."""

from __future__ import annotations

import ast
import datetime
import inspect
import io
import random
import re
from types import ModuleType
from typing import Any

import attrs
import pytest
from pyhanko.pdf_utils import generic
from pyhanko.pdf_utils.reader import PdfFileReader

from bulksigner.contract.signing import Format
from bulksigner.formats import pades_check, pdf_append, pdf_base, pdf_reader, pdf_sections, pdf_syntax, pdf_tokens
from bulksigner.formats.model import FormatRefused, PdfRules
from bulksigner.formats.pades import PadesSigner
from bulksigner.formats.pdf_append import append_ordinary
from bulksigner.formats.pdf_base import Base
from bulksigner.formats.pdf_tokens import Unusual
from bulksigner.formats.pdf_update import EmptySignature, append_signature
from bulksigner.formats.policies import shipped_policies
from bulksigner.formats.spec import BASELINE_B
from bulksigner.testing.pdf_corpus import AWKWARD
from bulksigner.testing.pdf_sample import PdfSample, stream_object

EMPTY = EmptySignature(
    field_name="Signature12ab",
    filter="Adobe.PPKLite",
    sub_filter="ETSI.CAdES.detached",
    signed_at=datetime.datetime(2026, 3, 4, 5, 6, 7, tzinfo=datetime.UTC),
    reserved_bytes=20,
)
XMP = b"/Type /Metadata /Subtype /XML"
ORDINARY = {
    "table",
    "streams",
    "streams of 600 objects",
    "linearized",
    "a table over streams",
    "PDF 1.0",
    "PDF 2.0",
    "no identity",
    "line ends CR",
    "line ends CRLF",
    "free entries",
    "entry of an object at byte 0",
    "entry of an object beyond 4 GiB",
    "indirect /Length",
    "inherited page entries",
    "10,000 pages",
    "rotated page",
    "annotations in an indirect array",
    "annotations in an object stream",
    "empty form",
    "signature field that waits",
    "size too large",
}
MORE = {
    "form with a field": PdfSample(
        catalog=b"/AcroForm <</Fields [8 0 R] /DA (/F 0 Tf)>>", objects={8: b"<</FT /Tx /T (amount) /V (10)>>"}
    ),
    "form and fields of their own": PdfSample(
        catalog=b"/AcroForm 7 0 R",
        objects={7: b"<</Fields 8 0 R /SigFlags 1>>", 8: b"[9 0 R]", 9: b"<</FT /Tx /T (amount)>>"},
        layout="streams",
    ),
    "another extension": PdfSample(catalog=b"/Extensions <</ADBE <</BaseVersion /1.7 /ExtensionLevel 3>>>>"),
    "version in the catalog": PdfSample(version="1.4", catalog=b"/Version /1.6"),
    "metadata": PdfSample(catalog=b"/Metadata 8 0 R", objects={8: stream_object(b"<x:xmpmeta/>", XMP, pack=True)}),
    "note about itself": PdfSample(trailer=b"/Info 8 0 R", objects={8: b"<</Title (a \\(b\\) c)>>"}),
    "last line without an end": PdfSample(end=b"%%EOF"),
}


FILES = {name: AWKWARD[name].make for name in sorted(ORDINARY)} | {name: file.build for name, file in MORE.items()}


def test_what_is_unusual_is_left_as_it_came() -> None:
    """PERF-03: the common case alone takes the own path; a refusal never does."""
    taken = set()
    for name, awkward in AWKWARD.items():
        content = awkward.make()
        document = io.BytesIO(content)
        if append_ordinary(document, EMPTY) is None:
            assert document.getvalue() == content, name
        else:
            assert awkward.refusal is None, name
            taken.add(name)
    assert taken == ORDINARY


def plain(value: Any, *, depth: int = 0) -> Any:
    """Follow references, so that numbers of objects do not count; what leads back up is left out."""
    value = value.get_object() if isinstance(value, generic.IndirectObject) else value
    if depth > 12:
        return "..."
    if isinstance(value, generic.DictionaryObject):
        return {key: plain(value.raw_get(key), depth=depth + 1) for key in value if key not in ("/Parent", "/P")}
    if isinstance(value, list):
        return [plain(value.raw_get(at), depth=depth + 1) for at in range(len(value))]
    return value


@pytest.mark.parametrize("name", FILES)
def test_both_paths_add_the_same(name: str) -> None:
    """PERF-03: catalog, form, first page and signature dictionary are equal but for what both draw or place anew."""
    content = FILES[name]()
    outcomes = []
    for append in (append_ordinary, lambda *given: append_signature(*given, PdfRules())):
        document = io.BytesIO(content)
        place = append(document, EMPTY)
        assert place is not None
        reader = PdfFileReader(document, strict=True)
        entries = dict(reader.root["/AcroForm"]["/Fields"][-1]["/V"])
        length, (start, end) = len(document.getvalue()), place
        assert entries.pop("/ByteRange") == [0, start, end, length - end]
        assert document.getvalue()[start:end] == b"<" + b"00" * EMPTY.reserved_bytes + b">"
        del entries["/Contents"]
        root = plain(reader.root)
        form = root["/AcroForm"]
        for field in form["/Fields"]:
            field.pop("/V", None)
        page = reader.root["/Pages"]
        while "/Kids" in page:
            page = page["/Kids"][0]
        page = plain(page)
        for annotation in page["/Annots"]:
            annotation.pop("/V", None)
        del root["/Pages"]
        trailer = reader.trailer_view
        identity = trailer["/ID"][0] if b"/ID" in content else None
        outcomes.append((entries, root, page, reader.has_xref_stream, identity, plain(trailer.get("/Info"))))
    assert outcomes[0] == outcomes[1]


def test_unusual_forms_are_left_to_pyhanko() -> None:
    """BEY-11: locks, permissions and what draws fields anew are looked at by the path that knows of them."""
    lock = b"<</Type /SigFieldLock /Action /All>>"
    fields = {
        "lock": b"<</FT /Sig /T (a) /Lock %b>>" % lock,
        "reference": b"<</FT /Sig /T (a) /V 9 0 R>>",
        "inside": b"<</FT /Sig /T (a) /V <</Type /Sig>>>>",
        "children": b"<</FT /Tx /T (a) /Kids [9 0 R]>>",
        "parent": b"<</FT /Tx /T (a) /Parent 9 0 R>>",
    }
    for name, field in fields.items():
        objects = {8: field, 9: b"<</Type /Sig /Reference [<</TransformMethod /FieldMDP>>]>>"}
        content = PdfSample(catalog=b"/AcroForm <</Fields [8 0 R]>>", objects=objects).build()
        assert append_ordinary(io.BytesIO(content), EMPTY) is None, name
    page_alone = PdfSample(objects={2: b"<</Type /Page /Count 1 /Kids [10 0 R]>>"}).build()
    assert append_ordinary(io.BytesIO(page_alone), EMPTY) is None
    for catalog in (b"/Perms <<>>", b"/AcroForm <</Fields [] /XFA []>>", b"/AcroForm <</NeedAppearances true>>"):
        assert append_ordinary(io.BytesIO(PdfSample(catalog=catalog).build()), EMPTY) is None, catalog


def test_an_object_that_was_free_is_not_used_again() -> None:
    """BEY-11: pyHanko refuses such an update, so the own path must not extend it."""
    base = PdfSample().build()
    row = re.findall(rb"\n(\d{10}) 00000 n", base)[2]
    content = base.replace(row + b" 00000 n", b"0000000000 00000 f")
    start, previous = len(content), int(re.findall(rb"startxref\n(\d+)", base)[0])
    update = b"xref\n3 1\n%b 00000 n \ntrailer\n<</Size 12 /Root 1 0 R /Prev %d>>\nstartxref\n%d\n%%%%EOF\n"
    content += update % (row, previous, start)
    with pytest.raises(FormatRefused, match="reused later"):
        append_signature(io.BytesIO(content), EMPTY, PdfRules())
    assert append_ordinary(io.BytesIO(content), EMPTY) is None


def test_a_cross_reference_in_thousands_of_pieces_costs_nothing() -> None:
    """SEC-70: runs are looked through one by one, so there is a limit to them."""
    rows = b"\0" * 7 * 20_000
    index = b" ".join(b"%d 1" % number for number in range(0, 40_000, 2))
    entries = b"/Type /XRef /Size 40000 /W [1 4 2] /Root 1 0 R /Index [%b]" % index
    content = b"%%PDF-1.7\n1 0 obj\n%b\nendobj\nstartxref\n9\n%%%%EOF\n" % stream_object(rows, entries, pack=True)
    with pytest.raises(Unusual, match="cross-reference stream"):
        Base(memoryview(content))


@pytest.mark.filterwarnings("ignore")
def test_nothing_is_signed_that_pyhanko_refuses() -> None:
    """PERF-03, BEY-11: of ordinary files with a few bytes changed, what the own path takes pyHanko takes, too."""
    draw = random.Random(20260304)
    bases = [AWKWARD[name].make() for name in sorted(ORDINARY - {"10,000 pages", "streams of 600 objects"})]
    bases += [sample.build() for sample in MORE.values()]
    parts = [
        b"0",
        b"9",
        b"/",
        b" ",
        b"\n",
        b"<<",
        b">>",
        b"[",
        b"]",
        b"(",
        b")",
        b"%",
        b"\0",
        b"null",
        b"f",
        b"n",
        b"#",
    ]
    taken = 0
    for _ in range(1500):
        content = bytearray(draw.choice(bases))
        at, part = draw.randrange(len(content)), draw.choice(parts)
        content[at : at + draw.choice((0, len(part)))] = part
        if append_ordinary(io.BytesIO(content), EMPTY) is None:
            continue
        taken += 1
        try:
            append_signature(io.BytesIO(content), EMPTY, PdfRules())
        except FormatRefused as refused:
            pytest.fail(f"{refused.message}\n{bytes(content)!r}")
    assert taken > 100


def test_the_own_path_knows_all_of_an_empty_signature() -> None:
    """PERF-03: what a later feature adds to a signature must not be lost; one with an appearance does not come here."""
    known = {name for name, member in vars(pdf_append.Empty).items() if isinstance(member, property)}
    assert known | {"stamp"} == {field.name for field in attrs.fields(EmptySignature)}


def test_a_name_that_needs_escapes_is_left_to_pyhanko() -> None:
    """PERF-03: names are written as they are."""
    for change in ({"filter": "A b"}, {"sub_filter": "A#b"}, {"field_name": "a)b"}):
        assert append_ordinary(io.BytesIO(PdfSample().build()), attrs.evolve(EMPTY, **change)) is None


def test_the_common_case_does_without_pyhanko(
    rsa_key: Any, sign: Any, pdf_sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PERF-03: signed once, and once more on top, under each filter, pyHanko reads and writes nothing."""
    from bulksigner.formats import pdf_update

    monkeypatch.setattr(pdf_update, "PdfFileReader", lambda *_, **__: pytest.fail("pyHanko was asked"))
    row = shipped_policies().versions(Format.PADES, "AD-RB")[0]
    for spec in (BASELINE_B, row.spec(etsi_filter=True), row.spec(etsi_filter=False)):
        signer = PadesSigner(rsa_key, spec)
        for layout in ("classic", "streams"):
            sign(signer, sign(signer, pdf_sample(layout=layout).build()))


def imports_of(module: ModuleType) -> set[str]:
    tree = ast.parse(inspect.getsource(module))
    return {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_the_check_shares_no_reader_with_it() -> None:
    """PERF-04: what reads the file for signing and what reads it for the check are written apart."""
    names = {module.__name__ for module in (pdf_base, pdf_tokens, pdf_append)}
    for module in (pades_check, pdf_reader, pdf_sections, pdf_syntax):
        assert names.isdisjoint(imports_of(module))
    of_the_check = {module.__name__ for module in (pades_check, pdf_reader, pdf_sections, pdf_syntax)}
    for module in (pdf_base, pdf_tokens):
        assert of_the_check.isdisjoint(imports_of(module))
