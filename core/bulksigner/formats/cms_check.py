"""The check of a CMS file: attached or detached, DER or PEM, read once in blocks (BEY-01, PERF-04, PERF-11)."""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Iterator
from typing import BinaryIO

import attrs

from bulksigner.contract.signing import Measured
from bulksigner.formats.der_reader import INTEGER, OCTET_STRING, SEQUENCE, SET, Reader, decode_length
from bulksigner.formats.model import Checked, CheckFailed, Expectation
from bulksigner.formats.signer_check import DATA, SIGNED_DATA, check_signer, name_digest

__all__ = ["Head", "Stream", "check_cms", "read_head"]

_BLOCK_BYTES = 256 * 1024
_TAIL_LIMIT_BYTES = 4 * 1024 * 1024
_EVIDENCE_LIMIT_BYTES = 256 * 1024 * 1024
_VERSIONS, _VERSIONS_WITH_EVIDENCE = (1,), (1, 5)
_LINE_BYTES = 64 + 1
_BEGIN = b"-----BEGIN PKCS7-----\n"
_END = b"-----END PKCS7-----\n"


def check_cms(
    artifact: BinaryIO,
    expectation: Expectation,
    *,
    detached: bool = False,
    pem: bool = False,
    content: BinaryIO | None = None,
) -> Checked:
    """Check a CMS file read back from storage; raise `CheckFailed` with the first thing that is wrong.

    `content` is what a detached signature is of; a time stamp of the archive covers it.
    """
    raw = _MeasuredBlocks(artifact)
    stream = Stream(_decode_pem(raw) if pem else iter(raw))
    spec, original = expectation.spec, expectation.original
    is_proven = spec is not None and spec.is_proven
    head = read_head(stream, versions=_VERSIONS_WITH_EVIDENCE if is_proven else _VERSIONS)
    covered = hashlib.sha256(_open_content(head.content_length)) if is_proven else None
    if detached:
        if head.content_length is not None:
            raise CheckFailed("The signature has its content inside, where it should be detached.")
        if head.digest != "sha256":
            raise CheckFailed("A detached signature must use SHA-256 to be held against the original's SHA-256.")
        message_digest = original.sha256
        if covered is not None and content is not None:
            _hash_original(content, covered)
    else:
        message_digest = _check_content(stream, head, original, covered)
    tail = stream.take(head.end - stream.position, limit=_EVIDENCE_LIMIT_BYTES if is_proven else _TAIL_LIMIT_BYTES)
    stream.finish()
    proof = None
    if spec is not None and covered is not None:
        from bulksigner.formats.cms_proof_check import CmsProofCheck

        proof = CmsProofCheck(spec, expectation.judge_stamp, expectation.proof_judge, original.sha256, covered)
    facts = check_signer(
        tail,
        digest=head.digest,
        message_digest=message_digest,
        certificate=expectation.certificate,
        spec=spec,
        judge_stamp=expectation.judge_stamp,
        proof=proof,
    )
    return Checked(raw.measured, facts.algorithm, head.digest, facts.signing_time)


class _MeasuredBlocks:
    """The file in blocks, measured on the way past."""

    def __init__(self, artifact: BinaryIO) -> None:
        self._artifact = artifact
        self._hash = hashlib.sha256()
        self._length = 0

    def __iter__(self) -> Iterator[bytes]:
        self._artifact.seek(0)
        while block := self._artifact.read(_BLOCK_BYTES):
            self._hash.update(block)
            self._length += len(block)
            yield block

    @property
    def measured(self) -> Measured:
        return Measured(self._length, self._hash.digest())


class Stream:
    """Bytes that come in blocks, taken in pieces."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._block = b""
        self._offset = 0
        self.position = 0

    def pieces(self, length: int) -> Iterator[memoryview]:
        """Yield the next `length` bytes in the pieces in which they come."""
        while length:
            if self._offset == len(self._block):
                self._block, self._offset = next(self._blocks, b""), 0
                if not self._block:
                    raise CheckFailed(f"The signature is cut off at byte {self.position}.")
            piece = memoryview(self._block)[self._offset : self._offset + length]
            self._offset += len(piece)
            self.position += len(piece)
            length -= len(piece)
            yield piece

    def take(self, length: int, *, limit: int = _BLOCK_BYTES) -> bytes:
        """Take the next `length` bytes, which the file must not claim to be more than `limit`."""
        if not 0 <= length <= limit:
            raise CheckFailed(f"The CMS has a length at byte {self.position} that cannot be.")
        end = self._offset + length
        if end > len(self._block):
            return b"".join(self.pieces(length))
        taken = self._block[self._offset : end]
        self._offset = end
        self.position += length
        return taken

    def open(self, tag: int) -> int:
        """Take the tag and length of a constructed or long element; return where its content ends."""
        start = self.position
        if self.take(1)[0] != tag:
            raise CheckFailed(f"The CMS lacks the element with tag {tag:#04x} at its byte {start}.")
        octets = self.take(1)
        if octets[0] > 0x80:
            octets += self.take(octets[0] & 0x7F)
        length, _ = decode_length(octets, "CMS")
        return self.position + length

    def finish(self) -> None:
        """Require that nothing is left."""
        if self._offset != len(self._block) or next(self._blocks, b""):
            raise CheckFailed(f"The file goes on after the signature's end at byte {self.position}.")


@attrs.frozen
class Head:
    """What stands before the content: digest name, length of the content if it is inside, end of the whole."""

    digest: str
    content_length: int | None
    end: int


def read_head(stream: Stream, *, versions: tuple[int, ...] = _VERSIONS) -> Head:
    """Read a SignedData up to its content (RFC 5652 5.1), holding all lengths against each other."""
    end = stream.open(SEQUENCE)
    if stream.take(len(SIGNED_DATA)) != SIGNED_DATA:
        raise CheckFailed("The file is not a CMS SignedData.")
    if stream.open(0xA0) != end or stream.open(SEQUENCE) != end:
        raise CheckFailed("The lengths of the CMS contradict each other.")
    if stream.take(3) not in {bytes([INTEGER, 1, version]) for version in versions}:
        raise CheckFailed("The CMS has another version than 1.")
    algorithms = Reader(stream.take(stream.open(SET) - stream.position), "CMS digest algorithms")
    digest = name_digest(algorithms.take(SEQUENCE))
    algorithms.finish()
    encapsulated_end = stream.open(SEQUENCE)
    if stream.take(len(DATA)) != DATA:
        raise CheckFailed("The CMS contains another type of content than data.")
    if stream.position == encapsulated_end:
        return Head(digest, None, end)
    if stream.open(0xA0) != encapsulated_end or stream.open(OCTET_STRING) != encapsulated_end:
        raise CheckFailed("The lengths of the CMS content contradict each other.")
    return Head(digest, encapsulated_end - stream.position, end)


def _open_content(length: int | None) -> bytes:
    """Return all of an encapContentInfo before its content; `read_head` took it in this one form."""
    opening = DATA
    if length is not None:
        octets = _header(OCTET_STRING, length)
        wrapped = len(octets) + length
        opening = DATA + _header(0xA0, wrapped) + octets
    return _header(SEQUENCE, len(opening) + (length or 0)) + opening


def _header(tag: int, length: int) -> bytes:
    octets = b"" if length < 0x80 else length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 + len(octets) if octets else length]) + octets


def _hash_original(content: BinaryIO, covered: hashlib._Hash) -> None:
    content.seek(0)
    while block := content.read(_BLOCK_BYTES):
        covered.update(block)


def _check_content(stream: Stream, head: Head, original: Measured, covered: hashlib._Hash | None) -> bytes:
    """Hold the content against the original and return its digest."""
    if head.content_length is None:
        raise CheckFailed("The signature has no content inside.")
    if head.content_length != original.length:
        raise CheckFailed(f"The signed content has {head.content_length} bytes, the original {original.length}.")
    sha256 = hashlib.sha256()
    other = None if head.digest == "sha256" else hashlib.new(head.digest)
    for piece in stream.pieces(head.content_length):
        sha256.update(piece)
        if covered is not None:
            covered.update(piece)
        if other is not None:
            other.update(piece)
    if sha256.digest() != original.sha256:
        raise CheckFailed("The signed content is not the original: their SHA-256 differ.")
    return sha256.digest() if other is None else other.digest()


def _decode_pem(blocks: _MeasuredBlocks) -> Iterator[bytes]:
    """Decode one PEM text block by block; the two label lines and 64-character lines exactly (RFC 7468)."""
    text = b""
    began = False
    for block in blocks:
        text += block
        if not began:
            if len(text) < len(_BEGIN):
                continue
            if not text.startswith(_BEGIN):
                raise CheckFailed("The file is not PEM with the label PKCS7.")
            text, began = text[len(_BEGIN) :], True
        whole = max(0, len(text) - len(_END) - _LINE_BYTES) // _LINE_BYTES * _LINE_BYTES
        if whole:
            yield _decode_lines(text[:whole])
            text = text[whole:]
    if not began or not text.endswith(_END):
        raise CheckFailed("The PEM file does not end with its label.")
    yield _decode_lines(text[: -len(_END)])


def _decode_lines(text: bytes) -> bytes:
    """Decode lines of 64 characters, of which the last may be shorter."""
    whole = len(text) // _LINE_BYTES * _LINE_BYTES
    rest = text[whole:]
    digits = text.translate(None, b"\n")
    if (
        text[_LINE_BYTES - 1 : whole : _LINE_BYTES].strip(b"\n")
        or (rest and (len(rest) < 2 or rest[-1:] != b"\n"))
        or len(digits) != len(text) - whole // _LINE_BYTES - bool(rest)
    ):
        raise CheckFailed("The PEM file has lines of other lengths than 64 characters.")
    try:
        return binascii.a2b_base64(digits, strict_mode=True)
    except binascii.Error as error:
        raise CheckFailed(f"The PEM file is not base64: {error}.") from error
