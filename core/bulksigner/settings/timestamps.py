"""`Signing:Timestamps[]`: the time-stamp services, in the order in which they are asked."""

from __future__ import annotations

import re

import attrs

from bulksigner.contract.settings import Check, Secret, between, option

__all__ = ["LONGEST_WAIT_SECONDS", "TimestampSettings"]

LONGEST_WAIT_SECONDS = 120
"""Most that all services together may take: a file asks twice at worst, and a call of the engine is ended at 300 s."""

_URL = Check(
    lambda text: re.fullmatch(r"https?://[^\s/@?#]+(?:/[^\s@]*)?", text) is not None,
    "an address with http:// or https://, without a user name in it",
)
_OID = Check(lambda text: re.fullmatch(r"[0-2](?:\.\d{1,20}){1,30}", text) is not None, "an object identifier")


@attrs.frozen
class TimestampSettings:
    """`Signing:Timestamps[]`."""

    url: str = option(help="Address of a time-stamp service (RFC 3161 over HTTP).", check=_URL)
    policy: str | None = option(
        None, help="Policy that a stamp must be of; without it the service chooses.", check=_OID
    )
    user: str | None = option(None, help="User name, where the service asks for one.")
    password: Secret = option(Secret(""), help="Password of that user.")
    timeout_seconds: int = option(
        10, help="How long one stamp may take before the next service is asked.", check=between(1, 60)
    )
