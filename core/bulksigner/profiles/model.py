"""A profile as it is stored, and as it is in use."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import attrs

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.signing import Format

__all__ = ["KeyReference", "OpenedProfile", "StoredProfile"]


@attrs.frozen
class StoredProfile:
    """One row of the profile table (CFG-81 to CFG-97).

    `certificate_block` and `extras` map key paths to plain values, `sealed` maps a field of SEC-48 to its envelope.
    `damage` tells what of the row could not be read; a row edited by hand must not keep the others from serving.
    """

    id: str
    name: str
    enabled: bool
    format: Format | None
    method: str
    verify: bool
    preserve_file_extension: bool
    save_as_pem: bool
    certificate_source: str | None
    certificate_block: Mapping[str, object]
    sealed: Mapping[str, bytes]
    extras: Mapping[str, object]
    input_folder: str | None
    row_version: int = 1
    damage: str | None = None


@attrs.frozen
class KeyReference:
    """What another process needs to open the same key; it travels through a pipe and is never stored (PERF-06)."""

    profile: str
    source: str
    block: object
    portable: bool = True


@attrs.frozen
class OpenedProfile:
    """A profile of this process: its key, or the reason why it cannot sign.

    `extras` holds the plugins' keys by class; `locator` names the place of the key without any secret.
    """

    stored: StoredProfile
    key: OpenedKey | None = None
    key_reference: KeyReference | None = None
    degraded: str | None = None
    certificate_not_before: datetime.datetime | None = None
    certificate_not_after: datetime.datetime | None = None
    extras: Mapping[type[Any], object] = attrs.field(factory=dict)
    locator: str = ""

    @property
    def name(self) -> str:
        """Return the profile's name."""
        return self.stored.name

    def outside_validity(self, now: datetime.datetime) -> str | None:
        """Say why the certificate is not valid at `now`, or None; without a certificate there is nothing to say."""
        begins, ends = self.certificate_not_before, self.certificate_not_after
        if begins is not None and now < begins:
            return f"The certificate of signing profile '{self.name}' is not valid before {begins:%Y-%m-%d %H:%M} UTC."
        if ends is not None and now > ends:
            return f"The certificate of signing profile '{self.name}' expired at {ends:%Y-%m-%d %H:%M} UTC; renew it."
        return None
