"""Signing profiles, to read (API-39, API-40, API-73)."""

from __future__ import annotations

import falcon

from bulksigner.contract.errors import NotFound
from bulksigner.profiles.model import OpenedProfile
from bulksigner.web.services import WebServices
from bulksigner.web.wire import dump_json

__all__ = ["list_all", "show"]


def list_all(services: WebServices, _: falcon.Request, response: falcon.Response) -> None:
    """List every profile by name, the disabled ones too."""
    response.data = dump_json({"profiles": [_members(profile) for profile in services.list_profiles()]})


def show(services: WebServices, _: falcon.Request, response: falcon.Response, *, name: str) -> None:
    """Show one profile."""
    profile = services.find_profile(name)
    if profile is None:
        raise NotFound(f"There is no signing profile {name!r}.", code="profile.not-found")
    response.data = dump_json(_members(profile))


def _members(profile: OpenedProfile) -> dict[str, object]:
    stored = profile.stored
    return {
        "name": stored.name,
        "enabled": stored.enabled,
        "inputFolder": stored.input_folder,
        "format": None if stored.format is None else stored.format.value,
        "method": stored.method,
        "certificateSource": stored.certificate_source,
        "verify": stored.verify,
        "encrypt": stored.encrypt,
        "validateCertificate": stored.validate_certificate,
        "checkCnab240": _asks_for(profile, "CheckCnab240"),
        "checkCnab240PaymentDates": _asks_for(profile, "CheckCnab240PaymentDates"),
        "preserveFileExtension": stored.preserve_file_extension,
        "saveAsPem": stored.save_as_pem,
        "approval": None,
    }


def _asks_for(profile: OpenedProfile, key: str) -> bool:
    """Tell whether the profile switches a check on that a plugin declares."""
    wanted = key.casefold()
    return any(path.casefold() == wanted and value is True for path, value in profile.stored.extras.items())
