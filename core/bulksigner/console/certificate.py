"""A certificate in words for a terminal; a CPF is reduced to its check digits (SEC-59)."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from bulksigner.formats.icp_brasil import read_holder
from bulksigner.observability.logs import escape
from bulksigner.observability.redaction import mask_cpf

__all__ = ["describe_certificate"]


def describe_certificate(
    certificate: bytes, chain: Sequence[bytes], now: datetime.datetime
) -> Iterator[tuple[str, str]]:
    """Yield label and value of each fact of a DER certificate, and of the issuers that came with its key."""
    parsed = x509.load_der_x509_certificate(certificate)
    left = (parsed.not_valid_after_utc - now).days
    yield "subject", _name(parsed.subject)
    holder = read_holder(certificate).describe()
    if holder:
        yield "holder", holder
    yield "issuer", _name(parsed.issuer)
    yield "serial", f"{parsed.serial_number:X}"
    yield "thumbprint", parsed.fingerprint(hashes.SHA1()).hex().upper()  # noqa: S303 - names a certificate (SEC-82)
    yield (
        "valid",
        f"{parsed.not_valid_before_utc:%Y-%m-%d} to {parsed.not_valid_after_utc:%Y-%m-%d}, {left} day(s) left",
    )
    issuers = [x509.load_der_x509_certificate(one) for one in chain]
    last = issuers[-1] if issuers else parsed
    is_whole = last.issuer == last.subject
    reach = "up to its root" if is_whole else f"the issuer {_name(last.issuer)} is missing"
    yield "chain", f"{len(issuers)} issuer(s) with the key, {reach}"


def _name(name: x509.Name) -> str:
    return mask_cpf(escape(name.rfc4514_string()))
