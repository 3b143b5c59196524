"""Signing profiles, to read (API-39, API-40, API-73); what is said of signatures and holds is ours."""

from __future__ import annotations

import falcon

from bulksigner.contract.errors import NotFound
from bulksigner.profiles.model import OpenedProfile
from bulksigner.settings.signatures import XmlFlavor
from bulksigner.web.services import WebServices
from bulksigner.web.wire import dump_json, wire_time

__all__ = ["list_all", "show"]


def list_all(services: WebServices, _: falcon.Request, response: falcon.Response) -> None:
    """List every profile by name, the disabled ones too."""
    response.data = dump_json({"profiles": [_members(services, profile) for profile in services.list_profiles()]})


def show(services: WebServices, _: falcon.Request, response: falcon.Response, *, name: str) -> None:
    """Show one profile."""
    profile = services.find_profile(name)
    if profile is None:
        raise NotFound(f"There is no signing profile {name!r}.", code="profile.not-found")
    response.data = dump_json(_members(services, profile))


def _members(services: WebServices, profile: OpenedProfile) -> dict[str, object]:
    stored, hold = profile.stored, services.find_hold(profile.name)
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
        "policy": stored.policy if stored.xml_flavor is XmlFlavor.XADES else None,
        "padesFilter": None if stored.pades_filter is None else stored.pades_filter.value,
        "xmlFlavor": stored.xml_flavor.value,
        "xmlSha1Until": None if stored.xml_sha1_until is None else str(stored.xml_sha1_until),
        "xmlPlacement": stored.xml_placement.value,
        "xmlSignElement": stored.xml_sign_element,
        "cadesExisting": stored.cades_existing.value,
        "cadesContent": stored.cades_content.value,
        "crossCheck": list(stored.cross_check),
        "heldSinceUtc": None if hold is None else wire_time(hold.since),
        "heldReason": None if hold is None else hold.reason,
    }


def _asks_for(profile: OpenedProfile, key: str) -> bool:
    """Tell whether the profile switches a check on that a plugin declares."""
    wanted = key.casefold()
    return any(path.casefold() == wanted and value is True for path, value in profile.stored.extras.items())
