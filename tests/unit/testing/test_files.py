import datetime
import io

import pytest
from lxml import etree
from pyhanko.pdf_utils.reader import PdfFileReader

from bulksigner.testing.files import CrossReference, cnab240_file, pdf_file, text_file, xml_file

NFE = "{http://www.portalfiscal.inf.br/nfe}"
BUILDERS = [pdf_file, xml_file, cnab240_file, text_file]


@pytest.mark.parametrize("build", BUILDERS)
def test_the_same_arguments_give_the_same_bytes(build):
    """A failing test can be repeated: bytes depend on the arguments alone, and on the seed."""
    assert build(seed=7) == build(seed=7)
    assert build(seed=7) != build(seed=8)


@pytest.mark.parametrize("kind", CrossReference)
@pytest.mark.parametrize("pages", [1, 3, 120])
def test_a_pdf_has_the_pages_asked_for(kind, pages):
    """Both kinds of cross-reference are read by pyHanko without its lenient mode."""
    reader = PdfFileReader(io.BytesIO(pdf_file(pages=pages, cross_reference=kind)), strict=True)
    assert reader.root["/Pages"]["/Count"] == pages
    assert b"Tj" in reader.root["/Pages"]["/Kids"][pages - 1]["/Contents"].data


@pytest.mark.parametrize("kind", CrossReference)
def test_a_pdf_uses_the_cross_reference_asked_for(kind):
    """ISO 32000-1, 7.5.8: streams replace table and trailer."""
    content = pdf_file(cross_reference=kind)
    assert (b"\ntrailer\n" in content) is (kind is CrossReference.CLASSIC)
    assert (b"/ObjStm" in content) is (kind is CrossReference.STREAM)


@pytest.mark.parametrize("kind", CrossReference)
@pytest.mark.parametrize("size_bytes", [30_000, 30_001, 300_000])
def test_a_pdf_meets_its_size_exactly(kind, size_bytes):
    """PERF section 3 names sizes; the benchmark's files have them to the byte, and are sound."""
    content = pdf_file(pages=2, size_bytes=size_bytes, cross_reference=kind)
    assert len(content) == size_bytes
    assert PdfFileReader(io.BytesIO(content), strict=True).root["/Pages"]["/Count"] == 2


def test_a_pdf_refuses_a_size_below_its_pages():
    """The error says how many bytes the pages need."""
    with pytest.raises(ValueError, match="3 pages need"):
        pdf_file(pages=3, size_bytes=500)


@pytest.mark.parametrize("kind", CrossReference)
def test_a_pdf_has_the_objects_asked_for(kind):
    """PERF section 1: the number of objects counts more than the size, so it can be chosen."""
    reader = PdfFileReader(io.BytesIO(pdf_file(object_count=1_000, cross_reference=kind)), strict=True)
    assert int(reader.trailer["/Size"]) >= 1_000
    assert reader.root["/TestObjects"][500]["/Number"] == 500


def test_paragraphs_are_laid_out_on_as_many_pages_as_they_need():
    """Given text is not cut off."""
    paragraphs = [f"Parágrafo {number} (com parênteses e \\)." for number in range(100)]
    reader = PdfFileReader(io.BytesIO(pdf_file(paragraphs=paragraphs)), strict=True)
    pages = reader.root["/Pages"]["/Kids"]
    assert len(pages) > 1
    assert b"Par\xe1grafo 99 \\(com par\xeanteses e \\\\\\)." in pages[len(pages) - 1]["/Contents"].data


@pytest.mark.parametrize("encoding", ["UTF-8", "ISO-8859-1", "UTF-16", "windows-1252"])
def test_an_invoice_is_written_in_its_encoding(encoding):
    """The declaration tells the truth and accents survive."""
    root = etree.fromstring(xml_file(encoding=encoding))
    assert root.getroottree().docinfo.encoding == encoding
    assert root.findtext(f".//{NFE}xMun") == "São Paulo"


def test_an_invoice_has_the_shape_of_an_nf_e():
    """ICP section 4: `Id` is `NFe` and 44 digits, no white space between tags, and the total adds up."""
    content = xml_file(items=5)
    root = etree.fromstring(content)
    identity = root.find(f"{NFE}infNFe").get("Id")
    assert identity.startswith("NFe")
    assert len(identity) == 47
    assert identity[3:].isdigit()
    assert b"> <" not in content
    assert b">\n<" not in content
    cents = [round(float(node.text) * 100) for node in root.iter(f"{NFE}vProd")]
    assert len(cents) == 5
    assert sum(cents) == round(float(root.findtext(f".//{NFE}vNF")) * 100)


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16"])
def test_an_invoice_comes_close_to_its_size(encoding):
    """PERF section 3: 10 KB means 10 KB."""
    content = xml_file(size_bytes=10_000, encoding=encoding)
    assert 10_000 - 83 < len(content) <= 10_000
    with pytest.raises(ValueError, match="3 items need"):
        xml_file(size_bytes=100)


def test_a_byte_order_mark_and_no_declaration():
    """UTF-8 may start with its mark and say nothing."""
    content = xml_file(byte_order_mark=True, declaration=False)
    assert content.startswith(b"\xef\xbb\xbf<NFe")
    assert etree.fromstring(content).tag == f"{NFE}NFe"


@pytest.mark.parametrize(("payments", "line_end"), [(1, b"\r\n"), (3, b"\n"), (400, b"\r\n")])
def test_a_payment_file_counts_and_adds_up(payments, line_end):
    """CNAB-01, CNAB-06: 240 bytes a record, the order of types, counters and total that agree."""
    records = cnab240_file(payments=payments, line_end=line_end, total_centavos=10_000_000).split(line_end)
    assert records.pop() == b""
    assert {len(record) for record in records} == {240}
    assert {record[:3] for record in records} == {b"001"}
    assert bytes(record[7] for record in records) == b"01" + b"3" * (2 * payments) + b"59"
    details = records[2:-2]
    assert [int(record[8:13]) for record in details] == list(range(1, 2 * payments + 1))
    assert bytes(record[13] for record in details) == b"AB" * payments
    amounts = [int(record[119:134]) for record in details[::2]]
    assert min(amounts) > 0
    assert sum(amounts) == 10_000_000 == int(records[-2][23:41])
    assert int(records[-2][17:23]) == 2 * payments + 2
    assert int(records[-1][23:29]) == len(records)
    assert int(records[-1][17:23]) == 1


def test_a_payment_file_carries_its_date_and_reaches_its_size():
    """Date at 94-101; the size is reached with whole records."""
    content = cnab240_file(size_bytes=200_000, paid_on=datetime.date(2030, 12, 24))
    assert 200_000 <= len(content) < 200_000 + 2 * 242
    assert content.split(b"\r\n")[2][93:101] == b"24122030"


def test_a_payment_file_refuses_a_total_without_a_centavo_each():
    """No payment of zero is written."""
    with pytest.raises(ValueError, match="cannot be split"):
        cnab240_file(payments=5, total_centavos=4)


def test_text_is_cut_at_a_character():
    """The text decodes and is at most three bytes short."""
    for size_bytes in range(100, 160):
        content = text_file(size_bytes=size_bytes)
        assert size_bytes - 3 <= len(content) <= size_bytes
        content.decode()
