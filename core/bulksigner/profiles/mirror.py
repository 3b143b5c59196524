"""The keys of a profile in the settings and its columns in the database, side by side (CFG-81)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from bulksigner.contract.appearance import Appearance
from bulksigner.profiles.model import StoredProfile
from bulksigner.settings.bind import unstructure_block
from bulksigner.settings.signing import ProfileSeed

__all__ = ["keep_changed", "read_columns", "write_keys"]


def read_columns(seed: ProfileSeed) -> dict[str, Any]:
    """Return what a stored profile takes over as it is, by field; not its name, certificate, plugins' keys, secrets."""
    return {
        "enabled": seed.enabled,
        "format": seed.format,
        "method": seed.method,
        "verify": seed.verify,
        "preserve_file_extension": seed.preserve_file_extension,
        "save_as_pem": seed.save_as_pem,
        "encrypt": seed.encrypt,
        "validate_certificate": seed.validate_certificate,
        "require_non_repudiation": seed.require_non_repudiation,
        "policy": seed.policy,
        "pades_filter": seed.pades_filter,
        "xml_flavor": seed.xml.flavor,
        "xml_sha1_until": seed.xml.sha1_until,
        "xml_placement": seed.xml.placement,
        "xml_sign_element": seed.xml.sign_element,
        "cades_existing": seed.cades.existing,
        "cades_content": seed.cades.content,
        "cross_check": seed.cross_check,
        "appearance": keep_changed({Appearance: seed.appearance})[0],
    }


def write_keys(profile: StoredProfile) -> dict[str, object]:
    """Return a stored profile by the keys of the settings, as they would have made it; None is an absent key.

    Without what is sealed, the certificate's block and the plugins' keys.
    """
    keys: dict[str, object] = {
        "Name": profile.name,
        "Enabled": profile.enabled,
        "Format": profile.format.value if profile.format else None,
        "Method": profile.method,
        "Verify": profile.verify,
        "PreserveFileExtension": profile.preserve_file_extension,
        "SaveAsPem": profile.save_as_pem,
        "Encrypt": profile.encrypt,
        "ValidateCertificate": profile.validate_certificate,
        "RequireNonRepudiation": profile.require_non_repudiation,
        "Policy": profile.policy,
        "PadesFilter": profile.pades_filter.value if profile.pades_filter else None,
        "Cades:Existing": profile.cades_existing.value,
        "Cades:Content": profile.cades_content.value,
        "Xml:Flavor": profile.xml_flavor.value,
        "Xml:Sha1Until": profile.xml_sha1_until.isoformat() if profile.xml_sha1_until else None,
        "Xml:Placement": profile.xml_placement.value,
        "Xml:SignElement": profile.xml_sign_element,
        "Certificate:Source": profile.certificate_source,
    }
    keys |= {f"Appearance:{key}": value for key, value in profile.appearance.items()}
    if profile.cross_check:
        keys["CrossCheck"] = list(profile.cross_check)
    return keys


def keep_changed(extras: Mapping[type[Any], Any]) -> tuple[dict[str, object], bool]:
    """Return the plugins' keys that differ from their defaults, and whether one of them is a secret.

    A key left at its default asks for nothing, so that a profile outlives the removal of a plugin it does not use.
    """
    kept: dict[str, object] = {}
    has_secret = False
    for cls, value in extras.items():
        plain, hidden = unstructure_block(value)
        has_secret = has_secret or any(hidden.values())
        mandatory = any(field.init and field.default is attrs.NOTHING for field in attrs.fields(cls))
        default = {} if mandatory else unstructure_block(cls())[0]
        kept |= {key: one for key, one in plain.items() if key not in default or default[key] != one}
    return kept, has_secret
