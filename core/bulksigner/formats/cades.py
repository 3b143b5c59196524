"""CAdES signatures: a CMS with the content inside (`.p7m`) or beside it (`.p7s`), as DER or PEM."""

from __future__ import annotations

import binascii
import datetime
import hashlib
from collections.abc import Callable
from typing import BinaryIO

from bulksigner.contract.certificate import Digest, OpenedKey
from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.signing import Measured
from bulksigner.formats import der
from bulksigner.formats.cms import DATA, Additions, SignedData, open_content
from bulksigner.formats.cms_proof import CmsProof, Finished
from bulksigner.formats.measuring import MeasuringWriter, Sink, read_blocks, require_same

__all__ = ["CadesSigner"]

_LINE_BYTES = 48
_LINE_CHARACTERS = 64


class CadesSigner:
    """Signs files of any kind as CAdES; content streams through, whatever its size (PERF-11)."""

    def __init__(
        self,
        key: OpenedKey,
        spec: SignatureSpec,
        *,
        detached: bool = False,
        pem: bool = False,
        additions: Additions | None = None,
        proof: CmsProof | None = None,
    ) -> None:
        self._key = key
        self._additions = additions
        self._proof = proof
        self._signed_data = SignedData(key, spec, with_signing_time=spec.cades_signing_time)
        self._detached = detached
        self._pem = pem

    def sign(self, source: BinaryIO, target: BinaryIO, *, expected: Measured, signed_at: datetime.datetime) -> Measured:
        """Write the signature of `source` to `target`; see `FileSigner.sign`."""
        measuring = MeasuringWriter(target)
        if self._pem:
            armor = _PemWriter(measuring, "PKCS7")
            self._write(source, armor, expected, signed_at)
            armor.finish()
        else:
            self._write(source, measuring, expected, signed_at)
        return measuring.measured

    def _write(self, source: BinaryIO, sink: Sink, expected: Measured, signed_at: datetime.datetime) -> None:
        if self._detached:
            attributes, signature, finished = self._sign_and_finish(source, expected, signed_at)
            sink.write(finished.layout.detached(attributes, signature, finished.unsigned))
        elif self._signed_data.signature_length_fixed and self._additions is None and self._proof is None:
            self._write_attached_at_once(source, sink, expected, signed_at)
        else:
            self._write_attached_after(source, sink, expected, signed_at)

    def _write_attached_at_once(
        self, source: BinaryIO, sink: Sink, expected: Measured, signed_at: datetime.datetime
    ) -> None:
        """Write the head from lengths known beforehand, then the content in the read that hashes it."""
        layout = self._signed_data
        attributes_length = len(layout.attributes(bytes(hashlib.new(layout.digest.value).digest_size), signed_at))
        sink.write(layout.before_content(expected.length, attributes_length, layout.signature_length))
        attributes, signature = self._sign_content(source, expected, signed_at, sink.write)
        sink.write(layout.tail(attributes, signature))

    def _write_attached_after(
        self, source: BinaryIO, sink: Sink, expected: Measured, signed_at: datetime.datetime
    ) -> None:
        """Sign first and read a second time, where a length that the head has is known only afterwards.

        The length of an ECDSA signature is, and that of what is added to a signature.
        """
        attributes, signature, finished = self._sign_and_finish(source, expected, signed_at)
        layout, unsigned = finished.layout, finished.unsigned
        sink.write(layout.before_content(expected.length, len(attributes), len(signature), len(unsigned)))
        _read_content(source, expected, Digest.SHA256, sink.write)
        sink.write(layout.tail(attributes, signature, unsigned))

    def _sign_and_finish(
        self, source: BinaryIO, expected: Measured, signed_at: datetime.datetime
    ) -> tuple[bytes, bytes, Finished]:
        """Sign the content, and make what is unsigned and the layout that holds it."""
        layout, proof = self._signed_data, self._proof
        if proof is None:
            attributes, signature = self._sign_content(source, expected, signed_at)
            unsigned = b"" if self._additions is None else self._additions.make(signature)
            return attributes, signature, Finished(layout, unsigned)
        content = None
        if proof.stamps_content:
            # Content that lies outside follows the empty encapContentInfo (RFC 5126 6.4.1).
            content = hashlib.sha256(der.sequence(DATA) if self._detached else open_content(expected.length))
        copy = None if content is None else content.update
        attributes, signature = self._sign_content(source, expected, signed_at, copy)
        finished = proof.complete(layout, attributes, signature, sha256=expected.sha256, content=content)
        return attributes, signature, finished

    def _sign_content(
        self,
        source: BinaryIO,
        expected: Measured,
        signed_at: datetime.datetime,
        copy: Callable[[bytes], object] | None = None,
    ) -> tuple[bytes, bytes]:
        digest = _read_content(source, expected, self._signed_data.digest, copy)
        attributes = self._signed_data.attributes(digest, signed_at)
        return attributes, self._key.sign(attributes, self._signed_data.digest)


def _read_content(
    source: BinaryIO, expected: Measured, digest: Digest, copy: Callable[[bytes], object] | None
) -> bytes:
    """Read the content once: hash it, copy it, hold it against what was staged; return its digest."""
    sha256 = hashlib.sha256()
    other = None if digest is Digest.SHA256 else hashlib.new(digest.value)
    length = 0
    for block in read_blocks(source):
        length += len(block)
        if length > expected.length:
            break
        sha256.update(block)
        if other is not None:
            other.update(block)
        if copy is not None:
            copy(block)
    require_same(Measured(length, sha256.digest()), expected)
    return sha256.digest() if other is None else other.digest()


class _PemWriter:
    """Writes DER as PEM with lines of 64 characters, without holding it (RFC 7468)."""

    def __init__(self, sink: Sink, label: str) -> None:
        self._sink = sink
        self._label = label
        self._rest = b""
        sink.write(f"-----BEGIN {label}-----\n".encode())

    def write(self, block: bytes) -> None:
        data = self._rest + block
        whole = len(data) - len(data) % _LINE_BYTES
        self._rest = data[whole:]
        if whole:
            self._write_lines(data[:whole])

    def finish(self) -> None:
        if self._rest:
            self._write_lines(self._rest)
        self._sink.write(f"-----END {self._label}-----\n".encode())

    def _write_lines(self, data: bytes) -> None:
        text = binascii.b2a_base64(data, newline=False)
        lines = [text[start : start + _LINE_CHARACTERS] for start in range(0, len(text), _LINE_CHARACTERS)]
        lines.append(b"")
        self._sink.write(b"\n".join(lines))
