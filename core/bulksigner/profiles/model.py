"""A profile as it is stored, and as it is in use."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import attrs

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.policy import Joining, SignatureSpec
from bulksigner.contract.signing import Format, PdfChoice
from bulksigner.encryption.envelope import SUFFIX
from bulksigner.formats.naming import output_name
from bulksigner.profiles.rules import SigningRules
from bulksigner.settings.signatures import (
    DEFAULT_POLICY,
    CadesContent,
    ExistingSignature,
    PadesFilter,
    XmlFlavor,
    XmlPlacement,
)

__all__ = ["KeyHold", "KeyReference", "OpenedProfile", "StoredProfile", "find_invalidity"]


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
    policy: str = DEFAULT_POLICY
    pades_filter: PadesFilter | None = None
    xml_flavor: XmlFlavor = XmlFlavor.XADES
    xml_sha1_until: datetime.date | None = None
    xml_placement: XmlPlacement = XmlPlacement.ENVELOPED
    xml_sign_element: str | None = None
    """Local name of the element that is signed by its `Id`; None but for that placement."""
    cades_existing: ExistingSignature = ExistingSignature.WRAP
    cades_content: CadesContent = CadesContent.ATTACHED
    certificate_version: int = 1
    """Moves when the certificate is changed, or is to be opened again although nothing about it changed."""
    damage: str | None = None
    encrypt: bool = False
    """Whether its outputs leave as envelopes (CFG-91)."""
    validate_certificate: bool = False
    require_non_repudiation: bool = True
    cross_check: tuple[str, ...] = ()
    """Second engines that check what was signed, as they are written (CFG-198)."""
    appearance: Mapping[str, object] = attrs.field(factory=dict)
    """The keys of `Appearance` that differ from their defaults."""
    pdf_passwords: tuple[bytes, ...] = ()
    """Passwords of PDF files, each in an envelope as those of `sealed` (BEY-11)."""

    def joining(self, file_name: str, format: Format) -> Joining | None:
        """Return how a file is signed further, where it arrives signed and the profile asks for that."""
        if self.cades_existing is ExistingSignature.WRAP or format is not Format.CADES:
            return None
        return Joining(self.cades_existing.value) if file_name.casefold().endswith(".p7m") else None

    def is_detached(self, format: Format) -> bool:
        """Tell whether the content is delivered beside its signature and not in it (BEY-12)."""
        if format is Format.CADES:
            return self.cades_content is CadesContent.DETACHED
        return format is Format.XADES and self.xml_placement is XmlPlacement.DETACHED

    def spec_of(self, spec: SignatureSpec, file_name: str, format: Format) -> SignatureSpec:
        """Return what the signature of one file carries: a specification with what depends on the file's name."""
        if format is Format.XADES and self.xml_placement is XmlPlacement.DETACHED:
            return attrs.evolve(spec, xml_file=file_name)
        joining = self.joining(file_name, format)
        return spec if joining is None else attrs.evolve(spec, joining=joining)

    def sign_options(self, options: Mapping[str, str], format: Format) -> Mapping[str, str]:
        """Return what a request to sign says to its method, from the `options` of this host.

        Nothing is repaired that is not checked afterwards: the check is what tells of it.
        """
        chosen = {name: value for name, value in options.items() if self.verify or name != "repair_unsigned"}
        if format is Format.CADES and self.save_as_pem:
            chosen["pem"] = "true"
        if self.is_detached(format):
            chosen["detached"] = "true"
        return chosen

    def name_output(self, file_name: str, format: Format) -> str:
        """Return what a signed file is called by this profile (PIPE-89); raises `StepFailed` for a name too long."""
        is_pem = format is Format.CADES and self.save_as_pem
        return output_name(
            file_name,
            format,
            pem=is_pem,
            detached=self.is_detached(format),
            # A file that is signed further is still what it was.
            preserve=self.preserve_file_extension or self.joining(file_name, format) is not None,
            suffix=SUFFIX if self.encrypt else "",
        )


class KeyHold:
    """Shared by everything in this process that may still use one opened key; the key is closed after the last."""

    __slots__ = ("__weakref__",)


@attrs.frozen
class KeyReference:
    """What another process needs to open the same key; it travels through a pipe and is never stored (PERF-06).

    `profile` is what the engine calls the key. It moves with the certificate, so that jobs under way end with the key
    they began with while later ones take the new one.
    """

    profile: str
    source: str
    block: object
    portable: bool = True


@attrs.frozen
class OpenedProfile:
    """A profile of this process: its key, or the reason why it cannot sign.

    `stored` is what is in force. `extras` holds the plugins' keys by class; `locator` names the place of the key
    without any secret. `refused` is the row as it is stored where its certificate does not open and the former one
    stays in force; `pending` then says why.
    """

    stored: StoredProfile
    key: OpenedKey | None = None
    key_reference: KeyReference | None = None
    degraded: str | None = None
    certificate_not_before: datetime.datetime | None = None
    certificate_not_after: datetime.datetime | None = None
    extras: Mapping[type[Any], object] = attrs.field(factory=dict)
    pdf: PdfChoice | None = None
    """What it chose for PDF files; None where it chose nothing."""
    rules: SigningRules | None = None
    """What its signatures carry; None where it needs no key."""
    locator: str = ""
    refused: StoredProfile | None = None
    pending: str | None = None
    hold: KeyHold | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def row(self) -> StoredProfile:
        """Return the row that was read last."""
        return self.refused or self.stored

    def pdf_choice(self, format: Format) -> PdfChoice | None:
        """Return what a request to sign in this format carries of the choice for PDF files."""
        return self.pdf if format is Format.PADES else None

    @property
    def keyless(self) -> str | None:
        """Say who signs where this profile needs no key, or None (API-87)."""
        has_none = self.key is None and self.degraded is None
        return f"the method {self.stored.method} signs" if has_none else None

    @property
    def name(self) -> str:
        """Return the profile's name."""
        return self.stored.name

    def find_fault(self, now: datetime.datetime) -> str | None:
        """Say why jobs of the profile fail now, or None."""
        found = self.degraded or self.outside_validity(now)
        return found if found or self.rules is None else self.rules.find_fault(now)

    def outside_validity(self, now: datetime.datetime) -> str | None:
        """Say why the certificate is not valid at `now`, or None; without a certificate there is nothing to say."""
        return find_invalidity(self.name, self.certificate_not_before, self.certificate_not_after, now)


def find_invalidity(
    profile: str, begins: datetime.datetime | None, ends: datetime.datetime | None, now: datetime.datetime
) -> str | None:
    """Say why a profile's certificate with these limits is not valid at `now`, or None."""
    if begins is not None and now < begins:
        return f"The certificate of signing profile '{profile}' is not valid before {begins:%Y-%m-%d %H:%M} UTC."
    if ends is not None and now > ends:
        return f"The certificate of signing profile '{profile}' expired at {ends:%Y-%m-%d %H:%M} UTC; renew it."
    return None
