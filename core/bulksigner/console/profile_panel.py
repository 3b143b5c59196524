"""The panel of signing profiles, and what an operator must see of them (OPS-32 to OPS-36)."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Collection, Sequence

import attrs

from bulksigner.console.banner import framed
from bulksigner.contract.signing import Format
from bulksigner.observability.logs import escape
from bulksigner.profiles.expiry import describe_end
from bulksigner.profiles.holds import Holds
from bulksigner.profiles.model import StoredProfile
from bulksigner.profiles.opened import OpenedProfiles
from bulksigner.profiles.seed import SeedReport
from bulksigner.settings.signatures import BASELINE_POLICY, DEFAULT_POLICY, XmlFlavor
from bulksigner.settings.signing import LOCAL_METHOD

__all__ = [
    "Alert",
    "ProfileFacts",
    "describe_policies",
    "find_alerts",
    "list_exceptions",
    "list_folder_warnings",
    "list_profiles",
    "profiles_panel",
]

_FORMATS = {Format.PADES: "PAdES", Format.CADES: "CAdES", Format.XADES: "XAdES"}


@attrs.frozen
class ProfileFacts:
    """One stored profile as the profile panel shows it."""

    name: str
    format: Format | None
    certificate_source: str | None
    verify: bool
    encrypt: bool = False
    enabled: bool = True
    folder: str | None = None
    is_folder_configured: bool = True
    degraded: str | None = None
    certificate_not_after: datetime.datetime | None = None
    method: str = LOCAL_METHOD
    policy: str = DEFAULT_POLICY
    xml_flavor: XmlFlavor = XmlFlavor.XADES
    xml_sha1_until: datetime.date | None = None
    xml_sign_element: str | None = None
    keyless: str | None = None
    """Who signs where the profile needs no key (OPS-34)."""
    validate_certificate: bool = False
    held: str | None = None
    """Since when and why its jobs wait (BEY-20)."""


@attrs.frozen
class Alert:
    """A line under the profile panel that also goes to the log, at `level` of `logging`."""

    level: int
    text: str

    def line(self) -> str:
        """Render the line as the panel shows it."""
        prefix = "FAIL" if self.level >= logging.CRITICAL else "WARN"
        return f"{prefix}  {escape(self.text)}"


def list_profiles(
    profiles: OpenedProfiles, configured: Collection[str], holds: Holds | None = None
) -> list[ProfileFacts]:
    """Return the facts of each profile; `configured` are the input folders of this host."""
    return [
        ProfileFacts(
            name=profile.name,
            format=profile.stored.format,
            certificate_source=profile.stored.certificate_source,
            verify=profile.stored.verify,
            encrypt=profile.stored.encrypt,
            enabled=profile.stored.enabled,
            folder=profile.stored.input_folder,
            is_folder_configured=profile.stored.input_folder is None or profile.stored.input_folder in configured,
            degraded=profile.degraded,
            certificate_not_after=profile.certificate_not_after,
            method=profile.stored.method,
            policy=profile.stored.policy,
            xml_flavor=profile.stored.xml_flavor,
            xml_sha1_until=profile.stored.xml_sha1_until,
            xml_sign_element=profile.stored.xml_sign_element,
            keyless=profile.keyless,
            validate_certificate=profile.stored.validate_certificate,
            held=None if holds is None or (hold := holds.find(profile.name)) is None else hold.describe(),
        )
        for profile in profiles.all
    ]


def list_folder_warnings(seeded: SeedReport) -> list[str]:
    """Say which folders the first import left without a profile, or what later starts ignore (OPS-36)."""
    return [
        *seeded.warnings,
        *(f"Input folder '{name}' was left without a profile: {reason}" for name, reason in seeded.unassigned.items()),
    ]


def profiles_panel(profiles: Sequence[ProfileFacts], alerts: Sequence[Alert]) -> str:
    """Return the panel of OPS-32: one line a profile, then the FAIL and WARN lines."""
    width = max((len(escape(profile.name)) for profile in profiles), default=0)
    lines = [f"  {escape(profile.name):<{width}}   {_behaviour(profile)}" for profile in profiles]
    return framed("Signing profiles", [*lines, *(alert.line() for alert in alerts)])


def _behaviour(profile: ProfileFacts) -> str:
    parts = ["DEGRADED"] if profile.degraded is not None else ["KEYLESS"] if profile.keyless is not None else []
    parts += ["HELD"] if profile.held is not None else []
    certificate = profile.certificate_source or "none" if profile.keyless is None else f"none ({profile.keyless})"
    parts += [
        profile.format.value if profile.format is not None else "auto",
        f"cert={escape(certificate)}",
        f"verify={'on' if profile.verify else 'off'}",
        f"encrypt={'on' if profile.encrypt else 'off'}",
        f"validate-cert={'on' if profile.validate_certificate and profile.keyless is None else 'off'}",
    ]
    parts += list_exceptions(profile)
    if profile.folder is not None:
        parts.append(f"folder={escape(profile.folder)}")
    if not profile.enabled:
        parts.append("disabled")
    return " · ".join(parts)


def list_exceptions(profile: ProfileFacts | StoredProfile) -> list[str]:
    """Return a token for each way in which a profile signs unlike others: policy, kind of XML signature, method."""
    parts = []
    if profile.xml_flavor is not XmlFlavor.XADES:
        parts.append(f"xml={profile.xml_flavor.value}")
    elif profile.policy != DEFAULT_POLICY:
        parts.append(f"policy={profile.policy}")
    if profile.xml_sha1_until is not None:
        parts.append(f"sha1-until={profile.xml_sha1_until}")
    if profile.xml_sign_element is not None:
        parts.append(f"xml-element={escape(profile.xml_sign_element)}")
    if profile.method != LOCAL_METHOD:
        parts.append(f"method={escape(profile.method)}")
    return parts


def describe_policies(profiles: OpenedProfiles) -> str:
    """Return what the open profiles sign as, with the formats; `profiles` where they differ, `none` without one."""
    opened = [(profile.stored, profile.rules) for profile in profiles.all if profile.rules is not None]
    names = {_name_policy(stored) for stored, _ in opened}
    if len(names) != 1:
        return "profiles" if names else "none"
    formats = [told for known, told in _FORMATS.items() if any(known in rules.specs for _, rules in opened)]
    return f"{names.pop()} ({' + '.join(formats)})"


def _name_policy(stored: StoredProfile) -> str:
    if stored.xml_flavor is not XmlFlavor.XADES:
        return f"none, plain XML of {stored.xml_flavor.value}"
    if stored.policy == BASELINE_POLICY:
        return f"none, baseline {BASELINE_POLICY}"
    return stored.policy.replace(DEFAULT_POLICY, "ADR-Básica")


def find_alerts(
    profiles: Sequence[ProfileFacts],
    *,
    now: datetime.datetime,
    folder_warnings: Sequence[str] = (),
) -> list[Alert]:
    """Return what an operator must see at a start: degraded profiles first, then warnings (OPS-33, OPS-35, OPS-36).

    `folder_warnings` are the sentences of the first-boot import about folders and ignored seed keys.
    """
    failures = [
        Alert(logging.CRITICAL, f"Profile '{profile.name}': {profile.held or profile.degraded}")
        for profile in profiles
        if profile.held is not None or profile.degraded is not None
    ]
    warnings = [f"Profile '{profile.name}': {text}" for profile in profiles for text in _warnings(profile, now)]
    return [*failures, *(Alert(logging.WARNING, text) for text in (*warnings, *folder_warnings))]


def _warnings(profile: ProfileFacts, now: datetime.datetime) -> list[str]:
    found = []
    if not profile.verify:
        found.append("verify=off; signed files are not checked before they leave")
    if not profile.validate_certificate and profile.keyless is None:
        found.append("validate-cert=off; the certificate's chain and revocation are not checked before signing")
    if profile.xml_flavor is XmlFlavor.NFE:
        found.append("Xml:Flavor=Nfe; it makes plain XML signatures, without XAdES and without a policy")
    if profile.xml_sha1_until is not None:
        found.append(
            f"signs with SHA-1 until {profile.xml_sha1_until} (Xml:Sha1Until), and with nothing after that day"
        )
    end = describe_end(profile.certificate_not_after, now)
    if end is not None:
        found.append(end)
    if profile.folder is not None and not profile.is_folder_configured:
        found.append(f"bound to the input folder '{profile.folder}', which this host does not configure")
    return found
