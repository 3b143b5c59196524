"""The events of profile edits: what changed, in words and as facts; never the value of a secret (SEC-76)."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from bulksigner.profiles.model import StoredProfile
from bulksigner.profiles.seal import key_of
from bulksigner.records.events import Event

__all__ = ["created", "edited", "list_moved"]

_FIELDS = {
    "Enabled": "enabled",
    "Format": "format",
    "Method": "method",
    "Verify": "verify",
    "PreserveFileExtension": "preserve_file_extension",
    "SaveAsPem": "save_as_pem",
    "Encrypt": "encrypt",
    "ValidateCertificate": "validate_certificate",
    "RequireNonRepudiation": "require_non_repudiation",
    "Policy": "policy",
    "PadesFilter": "pades_filter",
    "Cades:Existing": "cades_existing",
    "Cades:Content": "cades_content",
    "Xml:Flavor": "xml_flavor",
    "Xml:Sha1Until": "xml_sha1_until",
    "Xml:Placement": "xml_placement",
    "Xml:SignElement": "xml_sign_element",
    "CrossCheck": "cross_check",
    "InputFolder": "input_folder",
}
_IN_FORCE = "running services open it within two poll intervals; one that does not open leaves the former in force"


def created(profile: StoredProfile, by: str) -> Event:
    """Tell of a new profile."""
    folder, certificate = profile.input_folder, profile.certificate_source or "none"
    parts = [
        f"Signing profile '{profile.name}' created by {by}: format {_show(profile.format, 'auto')}, method "
        f"{profile.method}, certificate {certificate}, verify {_show(profile.verify)}, encrypt "
        f"{_show(profile.encrypt)}."
    ]
    if folder is not None:
        parts.append(f"Input folder: {folder}.")
    facts = {
        "actor": by,
        "profile": profile.name,
        "format": _show(profile.format, "auto"),
        "method": profile.method,
        "certificateSource": profile.certificate_source,
        "verify": profile.verify,
        "encrypt": profile.encrypt,
        "inputFolder": folder,
    }
    return Event("SigningProfileCreated", " ".join(parts), facts)


def edited(before: StoredProfile, after: StoredProfile, by: str) -> Iterator[Event]:
    """Tell of a save: one event for what the profile does, one for its certificate, where either moved."""
    moves = dict(_list_moves(before, after))
    if moves:
        told = "; ".join(f"{name} {old} → {new}" for name, (old, new) in moves.items())
        changes = {name: {"old": old, "new": new} for name, (old, new) in moves.items()}
        yield Event(
            "SigningProfileEdited",
            f"Signing profile '{after.name}' edited by {by}: {told}.",
            {"actor": by, "profile": after.name, "changes": changes},
        )
    if after.certificate_version != before.certificate_version:
        fields = list_moved(before, after)
        told = f"certificate changed: {', '.join(fields)}" if fields else "certificate to be opened again"
        yield Event(
            "SigningProfileCertificateEdited",
            f"Signing profile '{after.name}', {told}, by {by}; {_IN_FORCE}.",
            {"actor": by, "profile": after.name, "fields": fields},
        )


def list_moved(before: StoredProfile, after: StoredProfile) -> list[str]:
    """Name the certificate's keys that changed, appeared or went, without any value."""
    moved = [] if before.certificate_source == after.certificate_source else ["Source"]
    source = after.certificate_source or before.certificate_source or ""
    plain = {key for key in {*before.certificate_block, *after.certificate_block} if _differs(key, before, after)}
    fields = {
        key_of(field)
        for field in {*before.sealed, *after.sealed}
        if before.sealed.get(field) != after.sealed.get(field)
    }
    return [*moved, *(f"{source}:{key}" for key in sorted(plain | fields))]


def _differs(key: str, before: StoredProfile, after: StoredProfile) -> bool:
    return before.certificate_block.get(key) != after.certificate_block.get(key)


def _list_moves(before: StoredProfile, after: StoredProfile) -> Iterator[tuple[str, tuple[str, str]]]:
    for name, attribute in _FIELDS.items():
        old, new = getattr(before, attribute), getattr(after, attribute)
        if old != new:
            absent = "auto" if name == "Format" else "(none)"
            yield name, (_show(old, absent), _show(new, absent))
    if before.pdf_passwords != after.pdf_passwords:
        # Two of a number may be others, so the number alone would say that nothing changed.
        yield "Pdf:Passwords", (_count(before.pdf_passwords, "former"), _count(after.pdf_passwords, "present"))
    for key in sorted({*before.appearance, *after.appearance}):
        old, new = before.appearance.get(key), after.appearance.get(key)
        if old != new:
            yield f"Appearance:{key}", (_show(old, "(default)"), _show(new, "(default)"))
    for key in sorted({*before.extras, *after.extras}):
        old, new = before.extras.get(key), after.extras.get(key)
        if old != new:
            yield key, (_show(old, "(default)"), _show(new, "(default)"))


def _count(passwords: tuple[bytes, ...], which: str) -> str:
    return f"{len(passwords)} {which}" if passwords else "(none)"


def _show(value: object, absent: str = "(none)") -> str:
    if value is None:
        return absent
    if isinstance(value, tuple):
        return ", ".join(value) or absent
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value.value if isinstance(value, enum.Enum) else value)
