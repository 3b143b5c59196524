"""CNAB240 payment files (remessa) for test inputs: 240-byte records, segments A and B, sums that are right."""

from __future__ import annotations

import datetime
import random

from bulksigner.testing.certificates import AURORA, Company, cnpj, cpf
from bulksigner.testing.prose import PEOPLE, SUPPLIERS

__all__ = ["RECORD_BYTES", "cnab240_file"]

RECORD_BYTES = 240
_BANK = 1
_LAST = 9999


def _record(*fields: tuple[int, int, int | str]) -> str:
    """Lay out one record; positions are 1-based and inclusive, numbers zero-filled, text blank-filled."""
    line = [" "] * RECORD_BYTES
    for first, last, value in fields:
        width = last - first + 1
        text = f"{value:0{width}d}" if isinstance(value, int) else f"{value:{width}}"
        if len(text) != width:
            raise ValueError(f"positions {first}-{last}: {value!r} does not fit {width} characters")
        line[first - 1 : last] = text
    return "".join(line)


def _payer_fields(payer: Company) -> tuple[tuple[int, int, int | str], ...]:
    return (
        (18, 18, 2),
        (19, 32, payer.number),
        (33, 41, 123456),
        (42, 45, "0126"),
        (53, 57, 1234),
        (58, 58, "3"),
        (59, 70, 56789),
        (71, 71, "X"),
        (72, 72, "0"),
        (73, 102, payer.name[:30]),
    )


def _shares(total_centavos: int, payments: int, source: random.Random) -> list[int]:
    """Split a total into positive amounts that add up to it."""
    if total_centavos < payments:
        raise ValueError(f"{total_centavos} centavos cannot be split into {payments} payments")
    mean = total_centavos // payments
    amounts = [source.randrange(max(1, mean // 2), mean + 1) for _ in range(payments - 1)]
    return [*amounts, total_centavos - sum(amounts)]


def _payment(
    sequence: int, number: int, amount_centavos: int, paid_on: datetime.date, source: random.Random
) -> list[str]:
    is_company = source.random() < 0.5
    name = source.choice(SUPPLIERS if is_company else PEOPLE)
    base = f"{source.randrange(10**8):08d}"
    document = cnpj(base + "0001") if is_company else cpf("1" + base)
    start = ((1, 3, _BANK), (4, 7, 1), (8, 8, 3))
    credit = _record(
        *start,
        (9, 13, sequence % 100_000),
        (14, 14, "A"),
        (15, 17, 0),
        (18, 20, 18),
        (21, 23, source.choice((33, 104, 237, 341))),
        (24, 28, source.randrange(1, 10_000)),
        (29, 29, str(source.randrange(10))),
        (30, 41, source.randrange(10_000, 10_000_000)),
        (42, 42, str(source.randrange(10))),
        (44, 73, name),
        (74, 93, f"{number:06d}"),
        (94, 101, f"{paid_on:%d%m%Y}"),
        (102, 104, "BRL"),
        (105, 119, 0),
        (120, 134, amount_centavos),
        (155, 162, 0),
        (163, 177, 0),
        (220, 224, "00005"),
        (230, 230, 0),
        (231, 240, 0),
    )
    holder = _record(
        *start,
        (9, 13, (sequence + 1) % 100_000),
        (14, 14, "B"),
        (18, 18, 2 if is_company else 1),
        (19, 32, document.rjust(14, "0")),
        (33, 62, "AVENIDA IMAGINARIA"),
        (63, 67, 200),
        (83, 97, "CENTRO"),
        (98, 117, "CAMPINAS"),
        (118, 125, "13010000"),
        (126, 127, "SP"),
        (128, 135, 0),
        (136, 210, 0),
        (226, 226, 0),
        (227, 232, 0),
    )
    return [credit, holder]


def _header(payer: Company, made_on: datetime.date) -> str:
    return _record(
        (1, 3, _BANK),
        (4, 7, 0),
        (8, 8, 0),
        *_payer_fields(payer),
        (103, 132, "BANCO DO BRASIL S.A."),
        (143, 143, 1),
        (144, 151, f"{made_on:%d%m%Y}"),
        (152, 157, 103000),
        (158, 163, 1),
        (164, 166, 103),
        (167, 171, 0),
        (226, 230, 0),
        (231, 240, 0),
    )


def _batch_header(payer: Company) -> str:
    return _record(
        (1, 3, _BANK),
        (4, 7, 1),
        (8, 8, 1),
        (9, 9, "C"),
        (10, 11, 20),
        (12, 13, 41),
        (14, 16, 46),
        *_payer_fields(payer),
        (143, 172, "RUA DAS AMOSTRAS"),
        (173, 177, 100),
        (193, 212, "SAO PAULO"),
        (213, 220, "01001000"),
        (221, 222, "SP"),
        (231, 240, 0),
    )


def cnab240_file(
    *,
    payments: int = 3,
    total_centavos: int | None = None,
    size_bytes: int | None = None,
    paid_on: datetime.date = datetime.date(2031, 3, 10),
    payer: Company = AURORA,
    line_end: bytes = b"\r\n",
    seed: int = 0,
) -> bytes:
    """Build a payment file of TED credits (segments A and B); the same arguments give the same bytes.

    `size_bytes` takes as many payments as reach that size, whole records only. `total_centavos` is split over the
    payments. The records end in CRLF unless told otherwise (CNAB-02).
    """
    record_bytes = RECORD_BYTES + len(line_end)
    if size_bytes is not None:
        payments = max(1, -(-(size_bytes - 4 * record_bytes) // (2 * record_bytes)))
    source = random.Random(f"cnab240 {seed}")
    amounts = _shares(total_centavos if total_centavos is not None else 125_000 * payments, payments, source)
    records = [_header(payer, paid_on - datetime.timedelta(days=3)), _batch_header(payer)]
    for at, amount_centavos in enumerate(amounts):
        records += _payment(2 * at + 1, at + 1, amount_centavos, paid_on, source)
    in_batch = 2 * payments + 2
    records.append(
        _record(
            (1, 3, _BANK), (4, 7, 1), (8, 8, 5), (18, 23, in_batch), (24, 41, sum(amounts)), (42, 59, 0), (60, 65, 0),
            (231, 240, 0),
        )
    )  # fmt: skip
    records.append(_record((1, 3, _BANK), (4, 7, _LAST), (8, 8, 9), (18, 23, 1), (24, 29, in_batch + 2), (30, 35, 0)))
    return b"".join(record.encode("ascii") + line_end for record in records)
