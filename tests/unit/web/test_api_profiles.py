"""Profiles to read (API-39, API-40, API-73)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from falcon.testing import TestClient

from bulksigner.contract.signing import Format
from bulksigner.profiles.model import OpenedProfile

Building = Callable[..., Any]
DEFAULT = {
    "name": "default",
    "enabled": True,
    "inputFolder": "payments",
    "format": None,
    "method": "Local",
    "certificateSource": "Pfx",
    "verify": True,
    "encrypt": False,
    "validateCertificate": False,
    "checkCnab240": False,
    "checkCnab240PaymentDates": False,
    "preserveFileExtension": False,
    "saveAsPem": False,
    "approval": None,
}


def test_every_profile_is_listed(client: TestClient, service: Any, new_profile: Building) -> None:
    """API-73: disabled ones too; flags of plugins come from their keys; no certificate or place is shown."""
    other = new_profile(
        name="folha", enabled=False, format=Format.CADES, input_folder=None, extras={"checkcnab240": True}
    )
    service.profiles.append(OpenedProfile(other))
    answer = client.simulate_get("/api/profiles")
    changed = {"name": "folha", "enabled": False, "format": "Cades", "inputFolder": None, "checkCnab240": True}
    assert answer.json == {"profiles": [DEFAULT, DEFAULT | changed]}
    assert "secret" not in answer.text


def test_the_source_in_force_is_shown(client: TestClient, service: Any, new_profile: Building) -> None:
    """API-73: a changed certificate that does not open is not the one that signs."""
    stored = new_profile(certificate_source="Pkcs11")
    service.profiles[:] = [OpenedProfile(new_profile(), refused=stored, pending="does not open")]
    assert client.simulate_get("/api/profiles/default").json["certificateSource"] == "Pfx"


def test_one_profile_by_its_name_in_any_case(client: TestClient) -> None:
    """API-40: the name matches without case; an unknown one is 404 `profile.not-found`."""
    assert client.simulate_get("/api/profiles/DEFAULT").json == DEFAULT
    answer = client.simulate_get("/api/profiles/other")
    assert (answer.status_code, answer.json["code"]) == (404, "profile.not-found")
