"""Invented Portuguese text for test files: contract clauses, people, goods."""

from __future__ import annotations

import random
from collections.abc import Iterator

__all__ = ["GOODS", "PEOPLE", "SUPPLIERS", "contract_clauses"]

PEOPLE = (
    "MARIA EXEMPLO DA SILVA",
    "JOAO MODELO PEREIRA",
    "ANA FICTICIA DOS SANTOS",
    "RUI INVENTADO COSTA",
    "LIA PROVA DE SOUZA",
)
SUPPLIERS = (
    "METALURGICA IMAGINARIA SA",
    "PAPELARIA MODELO LTDA ME",
    "TRANSPORTES ROTA DE PROVA LTDA",
)
GOODS = (
    "Parafuso sextavado de aço 8 mm",
    "Papel A4 75 g, resma de 500 folhas",
    "Café torrado e moído, pacote de 500 g",
    "Cabo de rede categoria 6, rolo de 305 m",
    "Luva de proteção, par",
)

_TITLES = (
    "DO OBJETO",
    "DAS OBRIGAÇÕES DA CONTRATADA",
    "DO PREÇO E DA FORMA DE PAGAMENTO",
    "DO PRAZO DE VIGÊNCIA",
    "DA CONFIDENCIALIDADE",
    "DA PROTEÇÃO DE DADOS PESSOAIS",
    "DA RESCISÃO",
    "DAS COMUNICAÇÕES ENTRE AS PARTES",
    "DO FORO",
)
_SUBJECTS = ("A CONTRATADA", "A CONTRATANTE", "Cada uma das partes", "O representante legal indicado neste instrumento")
_DUTIES = (
    "compromete-se a executar os serviços descritos no anexo técnico",
    "deverá manter registro de todas as entregas realizadas no período",
    "responderá pelos danos que seus empregados ou prepostos causarem",
    "guardará sigilo sobre as informações a que tiver acesso",
    "comunicará por escrito qualquer fato que impeça o cumprimento do contrato",
    "conservará os documentos fiscais e os respectivos comprovantes de pagamento",
)
_TERMS = (
    "no prazo de {days} dias contados do recebimento da notificação",
    "até o {day}º dia útil do mês seguinte ao da prestação",
    "pelo período de {years} anos após o encerramento da relação contratual",
    "sob pena de multa de {percent}% sobre o valor mensal",
)
_ENDS = (
    "sem prejuízo das demais sanções previstas na legislação aplicável.",
    "salvo motivo de força maior devidamente comprovado.",
    "observadas as condições estabelecidas nos anexos, que integram este instrumento.",
    "independentemente de interpelação judicial ou extrajudicial.",
)


def contract_clauses(seed: int) -> Iterator[str]:
    """Yield headings and paragraphs of a contract without end; the same seed gives the same text."""
    source = random.Random(f"clauses {seed}")
    number = 0
    while True:
        number += 1
        yield f"CLÁUSULA {number}ª: {_TITLES[(number - 1) % len(_TITLES)]}"
        for part in range(1, 3 + source.randrange(2)):
            sentences = []
            for _ in range(2 + source.randrange(2)):
                term = source.choice(_TERMS).format(
                    days=5 * source.randrange(1, 13),
                    day=source.randrange(2, 11),
                    years=source.randrange(2, 6),
                    percent=source.randrange(1, 11),
                )
                sentences.append(f"{source.choice(_SUBJECTS)} {source.choice(_DUTIES)} {term}, {source.choice(_ENDS)}")
            yield f"{number}.{part}. {' '.join(sentences)}"
