"""Finds the one element of an XML file that a signature names by its `Id`; refuses what leaves a doubt (BEY-12)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lxml import etree

from bulksigner.formats.model import FormatRefused
from bulksigner.formats.xmldsig import DS, carriers_of_ids

__all__ = ["find_named", "find_of_family"]

_OF_FAMILY = re.compile(r"(?:inf|evt)[A-Z]\w*")
"""Names of elements that the NF-e family has signed: infNFe, infCTe, infMDFe, infEvento, infDPS, evtAdmissao."""

_IDENTIFIERS = ("Id", "ID", "id")
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,254}", re.ASCII)
_SHOWN = 5


def find_named(root: etree._Element, name: str) -> tuple[etree._Element, str]:
    """Find the one element of a local name, in whatever namespace, and its `Id`, `ID` or `id`, which it alone has."""
    found = list(root.iter(f"{{*}}{name}"))
    if not found:
        raise FormatRefused(
            f"The document has no element {name}, which the profile signs.",
            place=f"{root.sourceline}:1",
            remedy="Hand in a document that has it, or change Xml:SignElement of the profile.",
        )
    if len(found) > 1:
        raise FormatRefused(
            f"The document has {len(found)} elements {name} (lines {_list_lines(found)}), and a signature is of one.",
            place=f"{found[1].sourceline}:1",
            remedy="Hand in one at a time.",
        )
    element, place = found[0], f"{found[0].sourceline}:1"
    given = {kind: str(element.get(kind)) for kind in _IDENTIFIERS if element.get(kind) is not None}
    if len(given) != 1:
        problem = f"has {', '.join(given)} at once" if given else "has no Id, ID or id that a signature can name"
        raise FormatRefused(
            f"Refused at {place}: the element {name} {problem}.", place=place, remedy="Give it one of them."
        )
    (identifier,) = given.values()
    _require_name(element, identifier)
    others = [one for one in carriers_of_ids(root)[identifier] if one is not element]
    if others:
        raise FormatRefused(
            f"Refused at {place}: the Id {identifier[:100]!r} of the element {name} is that of another element, at "
            f"line {others[0].sourceline}, too.",
            place=place,
            remedy="Give each its own.",
        )
    return element, identifier


def find_of_family(root: etree._Element) -> tuple[etree._Element, int]:
    """Find the outermost element that the NF-e family has signed, and its number in document order."""
    found: list[tuple[etree._Element, int]] = []
    lines: dict[str, object] = {}
    for ordinal, element in enumerate(root.iter(etree.Element)):
        for identifier in {element.get(name) for name in _IDENTIFIERS} - {None}:
            if str(identifier) in lines:
                raise FormatRefused(
                    f"Refused at {element.sourceline}:1: the Id {str(identifier)[:100]!r} is that of another element, "
                    f"at line {lines[str(identifier)]}, too."
                )
            lines[str(identifier)] = element.sourceline
        if element.get("Id") is None or not _OF_FAMILY.fullmatch(etree.QName(element).localname):
            continue
        if not found or all(ancestor is not found[-1][0] for ancestor in element.iterancestors()):
            found.append((element, ordinal))
    if not found:
        raise FormatRefused(
            "The document has no element with an Id that documents of the NF-e family have signed, such as infNFe or "
            "infEvento; sign it as XAdES."
        )
    if len(found) > 1:
        told = _list_lines([element for element, _ in found])
        raise FormatRefused(f"The document has {len(found)} elements to sign (lines {told}); hand in one at a time.")
    element, ordinal = found[0]
    if element is root:
        raise FormatRefused("The element to sign is the document's root; a signature cannot stand beside it.")
    _require_name(element, element.get("Id", ""))
    if not len(element) and not element.text:
        raise FormatRefused(f"Refused at {element.sourceline}:1: the element to sign is empty.")
    after = element.getnext()
    if after is not None and after.tag == f"{{{DS}}}Signature":
        raise FormatRefused(f"Refused at {after.sourceline}:1: the element to sign has a signature already.")
    return element, ordinal


def _require_name(element: etree._Element, identifier: str) -> None:
    if _NAME.fullmatch(identifier) is None:
        raise FormatRefused(
            f"Refused at {element.sourceline}:1: the Id of the element to sign is not a name.",
            place=f"{element.sourceline}:1",
            remedy="Begin it with a letter or _, followed by letters, digits, '.', '-' or '_'.",
        )


def _list_lines(elements: Sequence[etree._Element]) -> str:
    return ", ".join(str(one.sourceline) for one in elements[:_SHOWN])
