"""The check of what stands unsigned in a CMS signature that proves itself later (RFC 5126 6, EN 319 122-1 5.5)."""

from __future__ import annotations

import hashlib

import attrs

from bulksigner.contract.errors import BulkSignerError
from bulksigner.contract.policy import Proof, SignatureSpec
from bulksigner.contract.signing import ValidationData
from bulksigner.formats.der_reader import (
    INTEGER,
    OBJECT_IDENTIFIER,
    OCTET_STRING,
    SEQUENCE,
    SET,
    Element,
    Reader,
    dotted,
)
from bulksigner.formats.evidence_check import check_evidence, check_sound
from bulksigner.formats.model import CheckFailed, Hashed, JudgeStamp, ProofJudge
from bulksigner.formats.stamp_check import UNSIGNED, check_token

__all__ = ["CmsProofCheck"]

_STAMP = "1.2.840.113549.1.9.16.2.14"
_CERTIFICATE_REFERENCES = "1.2.840.113549.1.9.16.2.21"
_REVOCATION_REFERENCES = "1.2.840.113549.1.9.16.2.22"
_CERTIFICATE_VALUES = "1.2.840.113549.1.9.16.2.23"
_REVOCATION_VALUES = "1.2.840.113549.1.9.16.2.24"
_REFERENCES_STAMP = "1.2.840.113549.1.9.16.2.25"
_ARCHIVE_STAMP = "1.2.840.113549.1.9.16.2.48"
_ARCHIVE_STAMP_V3 = "0.4.0.1733.2.4"
_INDEX_V3 = "0.4.0.19122.1.5"
_SHA256 = bytes.fromhex("300b0609608648016503040201")
_DATA = bytes.fromhex("06092a864886f70d010701")
_OCSP_RESPONSE = bytes.fromhex("06082b06010505071002")
_BASIC_RESPONSE = bytes.fromhex("06092b0601050507300101")
_WHAT = "unsigned attribute"


@attrs.frozen
class _Parts:
    """What of a SignedData the unsigned attributes are about, as it stands in the file."""

    certificate: bytes
    certificates: Element
    infos: Element | None
    fields: tuple[Element, ...]
    """The members of the SignerInfo before its unsigned attributes; the last is the signature value."""

    @property
    def value(self) -> bytes:
        return self.fields[-1].content


@attrs.frozen
class CmsProofCheck:
    """Checks the unsigned attributes of one signature against its level."""

    spec: SignatureSpec
    judge_stamp: JudgeStamp | None
    proof_judge: ProofJudge | None
    sha256: bytes
    """Of the content."""
    content: hashlib._Hash
    """The running SHA-256 of the encapContentInfo, and of the content after it where that lies outside."""

    def check(
        self,
        signer: Reader,
        *,
        certificate: bytes,
        certificates: Element,
        infos: Element | None,
        fields: tuple[Element, ...],
    ) -> None:
        """Take the unsigned attributes of a signer and check each; raise `CheckFailed` with the first defect."""
        if self.proof_judge is None:
            raise CheckFailed("The signature proves itself, and nothing here tells who is trusted (Signing:Trust).")
        if not signer.next_is(UNSIGNED):
            raise CheckFailed(f"The signature has nothing unsigned, and {self.spec.name} asks for what proves it.")
        unsigned, parts = signer.take(UNSIGNED), _Parts(certificate, certificates, infos, fields)
        if self.spec.required_unsigned:
            self._check_policy(parts, _read(unsigned, frozenset(self.spec.required_unsigned)), unsigned)
        else:
            self._check_baseline(parts, unsigned)

    def _check_baseline(self, parts: _Parts, unsigned: Element) -> None:
        asked = {_STAMP, _ARCHIVE_STAMP_V3} if self.spec.proof is Proof.ARCHIVE else {_STAMP}
        found = _read(unsigned, frozenset(asked))
        token = found[_STAMP].value.encoded
        self._check_token(token, parts.value)
        data = _read_evidence(parts)
        check_evidence((parts.certificate, self._open(token)[0]), data)
        self._judge(parts.certificate, [token], data)
        if self.spec.proof is Proof.ARCHIVE:
            archive = found[_ARCHIVE_STAMP_V3].value.encoded
            index = _read_index(archive)
            _check_index(index, parts, [found[_STAMP]])
            covered = _DATA + self.sha256 + b"".join(one.encoded for one in parts.fields) + index.encoded
            self._check_token(archive, covered)

    def _check_policy(self, parts: _Parts, found: dict[str, _Attribute], unsigned: Element) -> None:
        if parts.infos is not None:
            raise CheckFailed("The CMS has revocation data beside its certificates, where its attributes hold it.")
        tokens = []
        inside = tuple(one.encoded for one in parts.certificates.reader("CMS certificates").take_all())
        if _STAMP in found:
            tokens.append((found[_STAMP].value.encoded, parts.value))
        references = [found[kind] for kind in (_CERTIFICATE_REFERENCES, _REVOCATION_REFERENCES) if kind in found]
        if _REFERENCES_STAMP in found:
            before = [found[_STAMP], *references] if _STAMP in found else references
            covered = parts.value + b"".join(one.kind + one.values for one in before)
            tokens.append((found[_REFERENCES_STAMP].value.encoded, covered))
        for token, covered in tokens:
            self._check_token(token, covered)
        made = [token for token, _ in tokens]
        if _ARCHIVE_STAMP in found:
            archive = found[_ARCHIVE_STAMP].value.encoded
            self._check_token(archive, self._archived(parts, found, unsigned))
            made.append(archive)
        if _CERTIFICATE_VALUES in found and _REVOCATION_VALUES in found:
            data = _read_values(found[_CERTIFICATE_VALUES].value, found[_REVOCATION_VALUES].value)
            check_evidence((parts.certificate,), data)
            self._judge(parts.certificate, [], data)
            self._judge_stamps(made)
            _check_revocation_references(found, data)
            chain = data.certificates
        else:
            chain = self._chain(parts.certificate, inside)
            if _REVOCATION_REFERENCES in found:
                _list_revocation_references(found[_REVOCATION_REFERENCES].value, len(chain))
        if chain[:1] != (parts.certificate,) or not set(inside) <= set(chain):
            raise CheckFailed("The certificates in the signature are not those of the chain of its signer.")
        if _CERTIFICATE_REFERENCES in found:
            _check_certificate_references(found[_CERTIFICATE_REFERENCES].value, chain[1:])

    def _check_token(self, token: bytes, covered: bytes | Hashed) -> None:
        check_token(token, covered, self.spec, self.judge_stamp)
        service, others = self._open(token)
        check_sound((service, *others), self._chain(service, others))

    def _archived(self, parts: _Parts, found: dict[str, _Attribute], unsigned: Element) -> Hashed:
        """Hash what the archive's time stamp covers: all of the SignedData but itself (RFC 5126 6.4.1)."""
        archive = found[_ARCHIVE_STAMP].encoded
        rest = unsigned.content.replace(archive, b"", 1)
        hashed = self.content.copy()
        for encoded in (parts.certificates.encoded, *(one.encoded for one in parts.fields), _wrap(UNSIGNED, rest)):
            hashed.update(encoded)
        return Hashed("sha256", hashed.digest())

    def _open(self, token: bytes) -> tuple[bytes, tuple[bytes, ...]]:
        assert self.proof_judge is not None
        try:
            return self.proof_judge.list_certificates(token)
        except BulkSignerError as error:
            raise CheckFailed(f"A time stamp of the signature cannot be read: {error.message}") from error

    def _chain(self, certificate: bytes, others: tuple[bytes, ...]) -> tuple[bytes, ...]:
        assert self.proof_judge is not None
        try:
            return (certificate, *self.proof_judge.list_issuers(certificate, others))
        except BulkSignerError as error:
            raise CheckFailed(f"A chain of the signature does not count: {error.message}") from error

    def _judge(self, certificate: bytes, tokens: list[bytes], data: ValidationData) -> None:
        assert self.proof_judge is not None
        try:
            self.proof_judge.judge_signer(certificate, data)
            for token in tokens:
                self.proof_judge.judge_stamp(token, data)
        except BulkSignerError as error:
            raise CheckFailed(f"What should prove the signature does not: {error.message}") from error

    def _judge_stamps(self, tokens: list[bytes]) -> None:
        """Judge each service by the values inside one of its tokens."""
        assert self.proof_judge is not None
        proven: dict[bytes, ValidationData] = {}
        try:
            for token in tokens:
                service = self._open(token)[0]
                inside = _read_token_values(token)
                if inside is not None:
                    check_evidence((service,), inside)
                    proven[service] = inside
                if service not in proven:
                    raise CheckFailed("A time stamp of the signature holds nothing that proves its service.")
                self.proof_judge.judge_stamp(token, proven[service])
        except CheckFailed:
            raise
        except BulkSignerError as error:
            raise CheckFailed(f"What should prove a time stamp does not: {error.message}") from error


@attrs.frozen
class _Attribute:
    """One unsigned attribute: its whole encoding, its type, the SET of its values, and the only one of them."""

    encoded: bytes
    kind: bytes
    values: bytes
    value: Element


def _read(unsigned: Element, asked: frozenset[str] | None) -> dict[str, _Attribute]:
    """Read attributes, which must be exactly those asked for, each once, with one value, in DER order."""
    members = unsigned.reader("unsigned attributes").take_all()
    encodings = [member.encoded for member in members]
    if encodings != sorted(encodings):
        raise CheckFailed("The unsigned attributes are not in DER order.")
    found: dict[str, _Attribute] = {}
    for member in members:
        attribute = Reader(member.encoded, _WHAT).take(SEQUENCE).reader(_WHAT)
        kind = attribute.take(OBJECT_IDENTIFIER)
        values = attribute.take(SET)
        attribute.finish()
        inside = values.reader(_WHAT)
        value = inside.take(SEQUENCE)
        inside.finish()
        name = dotted(kind)
        if name in found or (asked is not None and name not in asked):
            raise CheckFailed(f"The signature has the unsigned attribute {name} twice, or against its level.")
        found[name] = _Attribute(member.encoded, kind.encoded, values.encoded, value)
    missing = sorted((asked or frozenset()) - set(found))
    if missing:
        raise CheckFailed(f"The signature lacks the unsigned attribute {missing[0]}, which its level asks for.")
    return found


def _read_evidence(parts: _Parts) -> ValidationData:
    """Read certificates and revocation infos of a SignedData (RFC 5652 10.2, RFC 5940)."""
    certificates = tuple(one.encoded for one in parts.certificates.reader("CMS certificates").take_all())
    lists, answers = [], []
    for info in [] if parts.infos is None else parts.infos.reader("CMS revocation infos").take_all():
        if info.tag == SEQUENCE:
            lists.append(info.encoded)
            continue
        other = info.reader("CMS revocation info")
        if info.tag != 0xA1 or other.take(OBJECT_IDENTIFIER).encoded != _OCSP_RESPONSE:
            raise CheckFailed("The CMS has revocation data that is neither a list nor an answer of OCSP.")
        answers.append(other.take(SEQUENCE).encoded)
        other.finish()
    return ValidationData(certificates, tuple(lists), tuple(answers))


def _read_values(certificates: Element, revocations: Element) -> ValidationData:
    values = revocations.reader("revocation values")
    lists: list[Element] = []
    answers: list[Element] = []
    for tag, group in ((0xA0, lists), (0xA1, answers)):
        if values.next_is(tag):
            wrapped = values.take(tag).reader("revocation values")
            group += wrapped.take(SEQUENCE).reader("revocation values").take_all()
            wrapped.finish()
    values.finish()
    return ValidationData(
        tuple(one.encoded for one in certificates.reader("certificate values").take_all()),
        tuple(one.encoded for one in lists),
        tuple(_wrap_answer(one.encoded) for one in answers),
    )


def _token_unsigned(token: bytes) -> dict[str, _Attribute]:
    signed = Reader(token, "time stamp").take(SEQUENCE).reader("time stamp")
    signed.take(OBJECT_IDENTIFIER)
    members = signed.take(0xA0).reader("time stamp").take(SEQUENCE).reader("time stamp").take_all()
    signer = members[-1].reader("time stamp").take(SEQUENCE).reader("time stamp").take_all()
    return _read(signer[-1], None) if signer[-1].tag == UNSIGNED else {}


def _read_token_values(token: bytes) -> ValidationData | None:
    found = _token_unsigned(token)
    if _CERTIFICATE_VALUES not in found or _REVOCATION_VALUES not in found:
        return None
    return _read_values(found[_CERTIFICATE_VALUES].value, found[_REVOCATION_VALUES].value)


def _read_index(token: bytes) -> Element:
    found = _token_unsigned(token)
    if _INDEX_V3 not in found:
        raise CheckFailed("The time stamp of the archive has no index of what it covers.")
    return found[_INDEX_V3].value


def _check_index(index: Element, parts: _Parts, attributes: list[_Attribute]) -> None:
    """Require that the index names all certificates, revocation data and attributes, and nothing else (5.5.2)."""
    reader = index.reader("index of the archive")
    if reader.take(SEQUENCE).encoded != _SHA256:
        raise CheckFailed("The index of the archive's time stamp is not by SHA-256.")
    infos = [] if parts.infos is None else parts.infos.reader("CMS revocation infos").take_all()
    for expected in (
        [one.encoded for one in parts.certificates.reader("CMS certificates").take_all()],
        [one.encoded for one in infos],
        [one.kind + one.value.encoded for one in attributes],
    ):
        named = [one.content for one in reader.take(SEQUENCE).reader("index of the archive").take_all()]
        if sorted(named) != sorted(hashlib.sha256(one).digest() for one in expected):
            raise CheckFailed("The index of the archive's time stamp names something else than the signature holds.")
    reader.finish()


def _check_certificate_references(references: Element, issuers: tuple[bytes, ...]) -> None:
    named = references.reader("certificate references").take_all()
    if len(named) != len(issuers):
        raise CheckFailed("The references name another number of certificates than the chain of the signer has.")
    for reference, issuer in zip(named, issuers, strict=True):
        parts = reference.reader("certificate reference")
        digest = _read_hash(parts.take(SEQUENCE))
        serial = parts.take(SEQUENCE).reader("certificate reference")
        serial.take(SEQUENCE)
        number = serial.take(INTEGER).encoded
        parts.finish()
        if digest != hashlib.sha256(issuer).digest() or number not in issuer:
            raise CheckFailed("A reference names another certificate than that of the chain of the signer.")


def _check_revocation_references(found: dict[str, _Attribute], data: ValidationData) -> None:
    """Require that lists and answers are those that the references name, all of them."""
    if _REVOCATION_REFERENCES not in found:
        return
    named = _list_revocation_references(found[_REVOCATION_REFERENCES].value, len(data.certificates))
    values = {hashlib.sha256(one).digest() for one in (*data.lists, *map(_un_wrap_answer, data.answers))}
    if named != values:
        raise CheckFailed("The references name other revocation data than the signature holds.")


def _list_revocation_references(references: Element, count: int) -> set[bytes]:
    entries = references.reader("revocation references").take_all()
    if len(entries) != count:
        raise CheckFailed("The references to revocation data are not one for each certificate of the chain.")
    named = set()
    for entry in entries:
        reader = entry.reader("revocation reference")
        for tag in (0xA0, 0xA1):
            if not reader.next_is(tag):
                continue
            wrapped = reader.take(tag).reader("revocation reference").take(SEQUENCE).reader("revocation reference")
            for one in wrapped.take(SEQUENCE).reader("revocation reference").take_all():
                parts = one.reader("revocation reference").take_all()
                if len(parts) != 2:
                    raise CheckFailed("A reference to revocation data lacks its digest or its name.")
                named.add(_read_hash(parts[0] if tag == 0xA0 else parts[1]))
        reader.finish()
    return named


def _read_hash(hashed: Element) -> bytes:
    reader = hashed.reader("digest of a reference")
    if reader.take(SEQUENCE).encoded != _SHA256:
        raise CheckFailed("A reference of the signature is not by SHA-256.")
    digest = reader.take(OCTET_STRING).content
    reader.finish()
    return digest


def _wrap_answer(basic: bytes) -> bytes:
    """Return the OCSPResponse around a BasicOCSPResponse (RFC 6960 4.2.1)."""
    inner = _wrap(SEQUENCE, _BASIC_RESPONSE + _wrap(OCTET_STRING, basic))
    return _wrap(SEQUENCE, b"\x0a\x01\x00" + _wrap(0xA0, inner))


def _un_wrap_answer(answer: bytes) -> bytes:
    outer = Reader(answer, "answer").take(SEQUENCE).reader("answer")
    outer.take()
    inner = outer.take(0xA0).reader("answer").take(SEQUENCE).reader("answer")
    inner.take(OBJECT_IDENTIFIER)
    return inner.take(OCTET_STRING).content


def _wrap(tag: int, content: bytes) -> bytes:
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    octets = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 + len(octets)]) + octets + content
