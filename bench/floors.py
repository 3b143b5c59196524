"""Bare warm loops of others in one process, neither durable nor verified: what the end-to-end lines stand beside.

pyHanko and signxml are used as their documentation shows, and once more with everything held that can be held.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from asn1crypto import x509 as asn1_x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from lxml import etree
from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
from pyhanko.sign import signers
from pyhanko.sign.fields import SigSeedSubFilter
from pyhanko_certvalidator.registry import SimpleCertificateStore
from signxml.xades import XAdESSigner

from bench.inputs import Input, named_input, signing_leaf
from bench.measure import Loop, Result, run_interleaved

__all__ = ["cades_floors", "pades_floors", "run_floors", "xades_floors"]

_PASSWORD = "medida"
_CONTENTS_BYTES = 16_384


class _HeldSigner(signers.Signer):  # type: ignore[misc]  # pyHanko is not typed for mypy
    """pyHanko's signer over a key that is opened once, as its documentation lets one write it."""

    def __init__(self) -> None:
        leaf = signing_leaf()
        store = SimpleCertificateStore()
        store.register_multiple([asn1_x509.Certificate.load(issuer) for issuer in leaf.chain_der])
        super().__init__(signing_cert=asn1_x509.Certificate.load(leaf.certificate_der), cert_registry=store)
        if not isinstance(leaf.key, rsa.RSAPrivateKey):
            raise TypeError("the floors are measured with an RSA key")
        self._key = leaf.key

    async def async_sign_raw(self, data: bytes, digest_algorithm: str, dry_run: bool = False) -> bytes:
        if digest_algorithm != "sha256":
            raise ValueError(f"the floors sign with SHA-256, not {digest_algorithm}")
        if dry_run:
            return bytes(self._key.key_size // 8)
        return self._key.sign(data, padding.PKCS1v15(), hashes.SHA256())


def _documented_signer() -> signers.SimpleSigner:
    with tempfile.TemporaryDirectory() as folder:
        path = signing_leaf().write_pfx(Path(folder) / "leaf.pfx", _PASSWORD)
        return signers.SimpleSigner.load_pkcs12(path, passphrase=_PASSWORD.encode())


def _metadata() -> signers.PdfSignatureMetadata:
    return signers.PdfSignatureMetadata(
        field_name="Signature1", md_algorithm="sha256", subfilter=SigSeedSubFilter.PADES
    )


def pades_floors(input_name: str = "pdf-300k") -> list[Loop]:
    """Make the loops of pyHanko's `PdfSigner`: as documented, and with the key and one event loop held."""
    content = named_input(input_name).content
    documented, held = _documented_signer(), _HeldSigner()
    events = asyncio.new_event_loop()

    def as_documented() -> int:
        writer = IncrementalPdfFileWriter(io.BytesIO(content))
        return len(signers.PdfSigner(_metadata(), signer=documented).sign_pdf(writer).getvalue())

    def with_key_held() -> int:
        writer = IncrementalPdfFileWriter(io.BytesIO(content))
        signing = signers.PdfSigner(_metadata(), signer=held)
        signed = events.run_until_complete(signing.async_sign_pdf(writer, bytes_reserved=_CONTENTS_BYTES))
        return len(signed.getvalue())

    return [
        Loop(f"pyHanko PdfSigner as documented, {input_name}", as_documented, len(content)),
        Loop(f"pyHanko PdfSigner, key held, {input_name}", with_key_held, len(content)),
    ]


def cades_floors(input_name: str = "payment-200k") -> list[Loop]:
    """Make the loop of pyHanko's attached CAdES signature as documented."""
    content = named_input(input_name).content
    documented = _documented_signer()

    def as_documented() -> int:
        signing = documented.async_sign_general_data(content, "sha256", detached=False, use_cades=True)
        return len(asyncio.run(signing).dump())

    return [Loop(f"pyHanko CMS as documented, attached, {input_name}", as_documented, len(content))]


def xades_floors(input_name: str = "xml-10k") -> list[Loop]:
    """Make the loop of signxml's XAdES signature with key and certificates held as objects."""
    content, leaf = named_input(input_name).content, signing_leaf()
    chain = [leaf.certificate, *leaf.issuers[:-1]]
    signing = XAdESSigner()

    def with_objects_held() -> int:
        signed = signing.sign(etree.fromstring(content), key=leaf.key, cert=chain, always_add_key_value=False)
        return len(etree.tostring(signed))

    return [Loop(f"signxml XAdES, objects held, {input_name}", with_objects_held, len(content))]


def primitive_floors() -> list[Loop]:
    """Make the loops below which nothing goes: one RSA-2048 signature, and SHA-256 of one MiB."""
    leaf, mebibyte = signing_leaf(), bytes(2**20)
    key = leaf.key
    if not isinstance(key, rsa.RSAPrivateKey):
        raise TypeError("the floors are measured with an RSA key")
    sign = partial(key.sign, b"digest", padding.PKCS1v15(), hashes.SHA256())
    return [
        Loop("RSA-2048 signature, key held", sign),
        Loop("SHA-256 of 1 MiB", lambda: hashlib.sha256(mebibyte).digest(), len(mebibyte)),
    ]


def primitives_of(given: Input) -> Loop:
    """Make the loop of the two primitives that each signature of an input needs (PERF-33)."""
    key = signing_leaf().key
    if not isinstance(key, rsa.RSAPrivateKey):
        raise TypeError("the floors are measured with an RSA key")

    def both() -> None:
        hashlib.sha256(given.content).digest()
        key.sign(b"digest", padding.PKCS1v15(), hashes.SHA256())

    return Loop(f"RSA-2048 signature and SHA-256 of {given.name}", both, len(given.content))


def openssl_speed(seconds: int = 2) -> list[Result]:
    """Ask `openssl speed` for RSA-2048 signatures a second on one core; empty where openssl is missing."""
    openssl = shutil.which("openssl")
    if openssl is None:
        return []
    command = [openssl, "speed", "-seconds", str(seconds), "rsa2048"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"^rsa +2048 bits +[\d.]+s +[\d.]+s +([\d.]+)", done.stdout, re.MULTILINE)
    if found is None:
        return []
    rate = float(found[1])
    each = 1000 / rate
    note = "by CPU time, as openssl counts"
    return [Result("floors", "openssl speed rsa2048 sign", rate, rate, each, each, int(rate * seconds), note)]


def run_floors(count: int | None = None) -> list[Result]:
    """Measure every floor, interleaved; `count` repetitions a round, or as many as fit into a round."""
    loops: Sequence[Loop] = [*primitive_floors(), *pades_floors(), *cades_floors(), *xades_floors()]
    return [*run_interleaved("floors", loops, count=count), *openssl_speed()]
