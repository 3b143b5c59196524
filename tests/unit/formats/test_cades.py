"""CAdES files, verified by OpenSSL, and what the signer refuses."""

from __future__ import annotations

import datetime
import hashlib
import io
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.contract.certificate import Digest
from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.signing import Format, Measured
from bulksigner.formats.cades import CadesSigner
from bulksigner.formats.dispatch import check
from bulksigner.formats.model import ContentChanged, Expectation
from bulksigner.formats.spec import BASELINE_B

SHA512 = attrs.evolve(BASELINE_B, name="B-B SHA-512", digest=Digest.SHA512)
CONTENT = bytes(range(256)) * 3 + b"\r\nno end of line"


@pytest.mark.parametrize("pem", [False, True], ids=["der", "pem"])
@pytest.mark.parametrize("detached", [False, True], ids=["attached", "detached"])
@pytest.mark.parametrize("spec", [BASELINE_B, SHA512], ids=lambda spec: spec.name)
def test_openssl_accepts_the_signature(
    any_key: Any,
    spec: Any,
    detached: bool,
    pem: bool,
    sign: Any,
    run: Any,
    tmp_path: Path,
    pem_of: Callable[[bytes], bytes],
) -> None:
    """BEY-02: OpenSSL verifies chain, signature and CAdES attribute, and hands the content back unchanged."""
    signature, root, content, found = (tmp_path / name for name in ("signature", "root.pem", "content", "found"))
    signature.write_bytes(sign(CadesSigner(any_key, spec, detached=detached, pem=pem), CONTENT))
    root.write_bytes(pem_of(any_key.chain[1]))
    content.write_bytes(CONTENT)
    beside = ("-content", content) if detached else ()
    form = "PEM" if pem else "DER"
    output = run(
        *("openssl", "cms", "-verify", "-cades", "-binary", "-purpose", "any", "-inform", form),
        *("-in", signature, "-CAfile", root, "-out", found, *beside),
    )
    assert "CAdES Verification successful" in output
    assert found.read_bytes() == CONTENT


@pytest.mark.parametrize("length", [0, 1, 46, 47, 48, 49, 127, 128, 255, 256, 65535, 65536, 262144, 262145, 700000])
@pytest.mark.parametrize("pem", [False, True], ids=["der", "pem"])
def test_every_length_of_content_is_laid_out(any_key: Any, sign: Any, measure: Any, length: int, pem: bool) -> None:
    """PERF-11: lengths at the borders of DER, base64 lines and blocks give a file that passes the check."""
    content = bytes(length)
    artifact = sign(CadesSigner(any_key, BASELINE_B, pem=pem), content)
    expectation = Expectation(Format.CADES, any_key.certificate, measure(content))
    assert check(io.BytesIO(artifact), expectation, pem=pem).measured == measure(artifact)


def test_pem_has_lines_of_64_characters(rsa_key: Any, sign: Any) -> None:
    """ICP-40: the text is RFC 7468 with the label PKCS7, and holds the bytes of the DER form."""
    from asn1crypto import pem as asn1_pem

    text = sign(CadesSigner(rsa_key, BASELINE_B, pem=True), CONTENT)
    lines = text.decode("ascii").split("\n")
    assert lines[0] == "-----BEGIN PKCS7-----"
    assert lines[-2:] == ["-----END PKCS7-----", ""]
    assert {len(line) for line in lines[1:-3]} == {64}
    assert asn1_pem.unarmor(text) == ("PKCS7", {}, sign(CadesSigner(rsa_key, BASELINE_B), CONTENT))


@pytest.mark.parametrize("detached", [False, True], ids=["attached", "detached"])
@pytest.mark.parametrize("found", [CONTENT[:-1], CONTENT + b"x", b"y" + CONTENT[1:], b""], ids=["-", "+", "=", "0"])
def test_changed_content_is_not_signed(
    any_key: Any, measure: Any, signed_at: datetime.datetime, detached: bool, found: bytes
) -> None:
    """PIPE-77: bytes other than the staged ones never meet the key."""
    signer = CadesSigner(any_key, BASELINE_B, detached=detached)
    with pytest.raises(ContentChanged, match="not signed"):
        signer.sign(io.BytesIO(found), io.BytesIO(), expected=measure(CONTENT), signed_at=signed_at)
    assert any_key.calls == 0


def test_content_that_changes_between_the_reads_is_not_written(
    ecdsa_key: Any, measure: Any, signed_at: datetime.datetime
) -> None:
    """PIPE-77: the second read, which ECDSA needs, is held against the staged bytes as well."""

    class Changing(io.BytesIO):
        def seek(self, position: int, whence: int = 0) -> int:
            if ecdsa_key.calls:
                self.getbuffer()[0] ^= 1
            return super().seek(position, whence)

    with pytest.raises(ContentChanged):
        CadesSigner(ecdsa_key, BASELINE_B).sign(
            Changing(CONTENT), io.BytesIO(), expected=measure(CONTENT), signed_at=signed_at
        )


def test_source_is_read_from_its_start(rsa_key: Any, sign: Any, measure: Any, signed_at: datetime.datetime) -> None:
    """PIPE-77: where the file stands does not matter."""
    source, target = io.BytesIO(CONTENT), io.BytesIO()
    source.seek(100)
    signer = CadesSigner(rsa_key, BASELINE_B)
    signer.sign(source, target, expected=measure(CONTENT), signed_at=signed_at)
    assert target.getvalue() == sign(signer, CONTENT)


def test_failure_of_the_key_is_passed_on(rsa_key: Any, measure: Any, signed_at: datetime.datetime) -> None:
    """ICP-43: what the certificate source says reaches the operator in its own words."""

    class Broken:
        certificate, chain, algorithm = rsa_key.certificate, rsa_key.chain, rsa_key.algorithm

        def sign(self, data: bytes, digest: Digest) -> bytes:
            raise PermanentFailure("The token was removed.")

    with pytest.raises(PermanentFailure, match="token was removed"):
        CadesSigner(Broken(), BASELINE_B).sign(  # type: ignore[arg-type]
            io.BytesIO(CONTENT), io.BytesIO(), expected=measure(CONTENT), signed_at=signed_at
        )


class Zeros(io.RawIOBase):
    """A file of zeros that takes no memory."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, position: int, whence: int = 0) -> int:
        self.position = position
        return position

    def read(self, size: int = -1) -> bytes:
        block = bytes(min(size, self.length - self.position))
        self.position += len(block)
        return block


class Nowhere(io.RawIOBase):
    """A file that forgets what is written."""

    def write(self, block: Any) -> int:
        return len(block)


@pytest.mark.parametrize("pem", [False, True], ids=["der", "pem"])
def test_large_content_streams(any_key: Any, signed_at: datetime.datetime, pem: bool) -> None:
    """PERF-11: memory does not grow with the content."""
    length = 8 * 1024 * 1024
    expected = Measured(length, hashlib.sha256(bytes(length)).digest())
    signer = CadesSigner(any_key, BASELINE_B, pem=pem)
    tracemalloc.start()
    try:
        measured = signer.sign(Zeros(length), Nowhere(), expected=expected, signed_at=signed_at)  # type: ignore[arg-type]
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert measured.length > length
    assert peak_bytes < 4 * 1024 * 1024
