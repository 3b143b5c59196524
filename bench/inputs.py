"""The inputs of the benchmark, made anew and alike in every run (PERF section 3)."""

from __future__ import annotations

import functools

import attrs

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.signing import Format
from bulksigner.formats.policies import read_key, shipped_policies
from bulksigner.testing.certificates import Issued, KeyKind, make_authority
from bulksigner.testing.files import CrossReference, cnab240_file, pdf_file, xml_file

__all__ = ["Input", "all_inputs", "default_spec", "named_input", "signing_leaf"]


# name, bytes, pages, least number of objects
_PDF_SIZES = (("pdf-30k", 30_000, 2, 0), ("pdf-300k", 300_000, 10, 200), ("pdf-5m", 5_000_000, 50, 2_000))


@attrs.frozen
class Input:
    """One kind of input: `name` in tables, `suffix` of its files, and its bytes."""

    name: str
    suffix: str
    content: bytes


@functools.cache
def all_inputs() -> tuple[Input, ...]:
    """Build every input: PDF in three sizes and both forms, payment file 200 KB, XML 10 KB."""
    made = []
    for kind, suffix in ((CrossReference.CLASSIC, ""), (CrossReference.STREAM, "-packed")):
        for name, size_bytes, pages, objects in _PDF_SIZES:
            content = pdf_file(pages=pages, size_bytes=size_bytes, object_count=objects, cross_reference=kind)
            made.append(Input(f"{name}{suffix}", ".pdf", content))
    made.append(Input("pdf-10000-objects", ".pdf", pdf_file(pages=50, object_count=10_000)))
    made.append(Input("payment-200k", ".rem", cnab240_file(size_bytes=200_000)))
    made.append(Input("xml-10k", ".xml", xml_file(size_bytes=10_000)))
    return tuple(made)


def named_input(name: str) -> Input:
    """Return one input by its name."""
    return next(made for made in all_inputs() if made.name == name)


@functools.cache
def signing_leaf(kind: KeyKind = KeyKind.RSA_2048) -> Issued:
    """Issue the leaf that signs, under a root and an intermediate with RSA-2048 keys."""
    return make_authority("Medida").issue(kind=kind)


def default_spec(format: Format, key: OpenedKey) -> SignatureSpec:
    """Return what a profile that says nothing of policies signs: the newest AD-RB that the key can have."""
    return shipped_policies().usable(format, "AD-RB", None, read_key(key))[0].spec(etsi_filter=False)
