"""The check of what stands unsigned beside a signature: exactly its time stamp, where its level asks for one."""

from __future__ import annotations

from bulksigner.contract.errors import BulkSignerError
from bulksigner.contract.policy import SignatureSpec
from bulksigner.formats.der_reader import OBJECT_IDENTIFIER, SEQUENCE, SET, Element, Reader
from bulksigner.formats.model import CheckFailed, Hashed, JudgeStamp
from bulksigner.formats.policy_check import check_moment

__all__ = ["UNSIGNED", "check_token", "check_unsigned"]

UNSIGNED = 0xA1
_SIGNATURE_TIMESTAMP = bytes.fromhex("060b2a864886f70d010910020e")


def check_unsigned(signer: Reader, value: bytes, spec: SignatureSpec, judge: JudgeStamp | None) -> None:
    """Take the unsigned attributes of a CMS signer, which must be its time stamp alone, and check it over `value`."""
    if not signer.next_is(UNSIGNED):
        raise CheckFailed(f"The signature has no time stamp, and {spec.name} asks for one.")
    attributes = signer.take(UNSIGNED).reader("unsigned attributes")
    attribute = attributes.take(SEQUENCE).reader("unsigned attribute")
    kind = attribute.take(OBJECT_IDENTIFIER).encoded
    values = attribute.take(SET).reader("unsigned attribute value")
    token: Element = values.take(SEQUENCE)
    if kind != _SIGNATURE_TIMESTAMP or not (values.at_end and attribute.at_end and attributes.at_end):
        raise CheckFailed(f"Beside its time stamp, which {spec.name} asks for, the signature has something unsigned.")
    check_token(token.encoded, value, spec, judge)


def check_token(token: bytes, covered: bytes | Hashed, spec: SignatureSpec, judge: JudgeStamp | None) -> None:
    """Check a token over what it must cover: imprint, signature, service, and the days of the policy."""
    if judge is None:
        raise CheckFailed("The signature has a time stamp, and nothing here tells whose are trusted (Signing:Trust).")
    try:
        moment = judge(token, covered)
    except BulkSignerError as error:
        raise CheckFailed(f"The time stamp of the signature does not count: {error.message.rstrip('.')}.") from error
    check_moment(moment, spec)
