"""CPU time of signing and of the check after it, in memory: without a policy, and with the one of national law."""

from __future__ import annotations

import datetime
import hashlib
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.inputs import default_spec, named_input, signing_leaf
from bench.measure import Loop, Result, run_interleaved
from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Format, Measured
from bulksigner.formats.dispatch import check, signer_for
from bulksigner.formats.model import Expectation
from bulksigner.formats.spec import BASELINE_B
from bulksigner_local_pfx.settings import PfxBlock
from bulksigner_local_pfx.source import PfxSource

__all__ = ["run_costs"]

_INPUTS = {Format.PADES: "pdf-300k", Format.CADES: "payment-200k", Format.XADES: "xml-10k"}
_PASSWORD = "medida"


def run_costs(count: int | None) -> list[Result]:
    """Measure each format with a held key; the pre-flight is part of signing (BEY-10), files and journal are not."""
    key = _open_key()
    loops = [
        loop for kind in Format for spec in (BASELINE_B, default_spec(kind, key)) for loop in _loops(kind, key, spec)
    ]
    return run_interleaved("costs", loops, rounds=9, round_seconds=0.2, count=count)


def _open_key() -> OpenedKey:
    with tempfile.TemporaryDirectory() as folder:
        path = signing_leaf().write_pfx(Path(folder) / "leaf.pfx", _PASSWORD)
        return PfxSource().open(PfxBlock(str(path), Secret(_PASSWORD)))


def _loops(format: Format, key: OpenedKey, spec: SignatureSpec) -> Iterator[Loop]:
    given = named_input(_INPUTS[format])
    content, signed_at = given.content, datetime.datetime.now(datetime.UTC)
    original = Measured(len(content), hashlib.sha256(content).digest())
    signer, expectation = signer_for(format, key, spec), Expectation(format, key.certificate, original, spec)

    def sign() -> bytes:
        target = io.BytesIO()
        signer.sign(io.BytesIO(content), target, expected=original, signed_at=signed_at)
        return target.getvalue()

    artifact = sign()
    yield Loop(f"{given.name} signed, {spec.name}", sign, len(content))
    yield Loop(f"{given.name} checked, {spec.name}", lambda: check(io.BytesIO(artifact), expectation), len(content))
