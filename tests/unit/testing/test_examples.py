import io

from lxml import etree
from pyhanko.pdf_utils.reader import PdfFileReader

from bulksigner.testing.examples import main, write_examples


def test_the_examples_are_a_contract_an_invoice_and_a_payment_file(tmp_path):
    """DEP-62: real files, one for each format, made anew each time."""
    written = {path.name: path.read_bytes() for path in write_examples(tmp_path / "files")}
    assert set(written) == {"contrato.pdf", "nota-fiscal.xml", "pagamentos.rem", "declaracao.txt"}
    assert PdfFileReader(io.BytesIO(written["contrato.pdf"])).root["/Pages"]["/Count"] == 5
    assert etree.fromstring(written["nota-fiscal.xml"]).tag.endswith("NFe")
    assert {len(record) for record in written["pagamentos.rem"].splitlines()} == {240}


def test_the_command_wants_one_folder(tmp_path, capsys):
    """Bad arguments are refused with the usage; good ones print each path."""
    assert main([]) == 2
    assert "usage:" in capsys.readouterr().err
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("\n") == 4
