"""Builders of test inputs, one function for each kind of file; the same arguments give the same bytes."""

from __future__ import annotations

import codecs
import random
from decimal import Decimal
from xml.sax.saxutils import escape

from bulksigner.testing.certificates import AURORA, cnpj
from bulksigner.testing.payment_files import cnab240_file
from bulksigner.testing.pdf_files import CrossReference, pdf_file
from bulksigner.testing.prose import GOODS, SUPPLIERS, contract_clauses

__all__ = ["CrossReference", "cnab240_file", "pdf_file", "text_file", "xml_file"]

NFE_NAMESPACE = "http://www.portalfiscal.inf.br/nfe"
_FREE_TEXT = "Mercadoria destinada à industrialização. "


def text_file(*, size_bytes: int = 2_000, encoding: str = "utf-8", seed: int = 0) -> bytes:
    """Build plain Portuguese text, cut at `size_bytes` (at a character, so up to three bytes short)."""
    clauses = contract_clauses(seed)
    out = b""
    while len(out) < size_bytes:
        out += f"{next(clauses)}\n".encode(encoding)
    return out[:size_bytes].decode(encoding, errors="ignore").encode(encoding)


def _access_key(number: int) -> str:
    """Make the 44 digits that name an invoice, check digit included."""
    body = f"352603{AURORA.number}55001{number:09d}1{number % 10**8:08d}"
    total = sum(int(digit) * (2 + place % 8) for place, digit in enumerate(reversed(body)))
    check = 11 - total % 11
    return body + str(0 if check > 9 else check)


def _party(tag: str, name: str, number: str) -> str:
    return (
        f"<{tag}><CNPJ>{number}</CNPJ><xNome>{escape(name)}</xNome><ender{tag.capitalize()}>"
        "<xLgr>Rua das Amostras</xLgr><nro>100</nro><xBairro>Centro</xBairro><cMun>3550308</cMun>"
        f"<xMun>São Paulo</xMun><UF>SP</UF><CEP>01001000</CEP></ender{tag.capitalize()}></{tag}>"
    )


def _item(number: int, source: random.Random) -> tuple[str, Decimal]:
    quantity, price = source.randrange(1, 500), Decimal(source.randrange(50, 90_000)) / 100
    worth = quantity * price
    text = (
        f'<det nItem="{number}"><prod><cProd>{source.randrange(10**6):06d}</cProd>'
        f"<xProd>{escape(source.choice(GOODS))}</xProd><NCM>{source.randrange(10**8):08d}</NCM><CFOP>5102</CFOP>"
        f"<uCom>UN</uCom><qCom>{quantity}.0000</qCom><vUnCom>{price:.2f}</vUnCom><vProd>{worth:.2f}</vProd></prod></det>"
    )
    return text, worth


def xml_file(
    *,
    items: int = 3,
    encoding: str = "UTF-8",
    byte_order_mark: bool = False,
    declaration: bool = True,
    size_bytes: int | None = None,
    seed: int = 0,
) -> bytes:
    """Build an electronic invoice in the shape of an NF-e, without white space between its tags.

    `encoding` is both written in the declaration and used; UTF-16 without an explicit order always carries its mark.
    `size_bytes` is met by free text, to within one repetition of it (82 bytes at most); raises `ValueError` when the
    items alone are larger.
    """
    source = random.Random(f"invoice {seed}")
    number = source.randrange(1, 10**9)
    drawn = [_item(at, source) for at in range(1, items + 1)]
    total = sum((worth for _, worth in drawn), Decimal(0))
    head = f'<?xml version="1.0" encoding="{encoding}"?>' if declaration else ""
    recipient = _party("dest", source.choice(SUPPLIERS), cnpj("114447770001"))
    before = (
        f'{head}<NFe xmlns="{NFE_NAMESPACE}"><infNFe versao="4.00" Id="NFe{_access_key(number)}">'
        f"<ide><cUF>35</cUF><natOp>Venda de mercadoria</natOp><mod>55</mod><serie>1</serie><nNF>{number}</nNF>"
        f"<dhEmi>2026-03-02T09:00:00-03:00</dhEmi></ide>{_party('emit', AURORA.name, AURORA.number)}{recipient}"
        f"{''.join(text for text, _ in drawn)}<total><ICMSTot><vNF>{total:.2f}</vNF></ICMSTot></total>"
        "<infAdic><infCpl>"
    )
    after = "</infCpl></infAdic></infNFe></NFe>"
    mark = codecs.BOM_UTF8 if byte_order_mark and encoding.upper() == "UTF-8" else b""
    repeats = 1
    if size_bytes is not None:
        step = len((_FREE_TEXT * 2).encode(encoding)) - len(_FREE_TEXT.encode(encoding))
        least = len(mark + (before + after).encode(encoding))
        repeats = (size_bytes - least) // step
        if repeats < 0:
            raise ValueError(f"{items} items need {least} bytes, {size_bytes} were asked for")
    return mark + (before + _FREE_TEXT * repeats + after).encode(encoding)
