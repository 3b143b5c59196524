"""Profiles to read (API-39, API-40, API-73)."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from falcon.testing import TestClient

from bulksigner.contract.signing import Format
from bulksigner.profiles.holds import Cause, Hold
from bulksigner.profiles.model import OpenedProfile
from bulksigner.settings.signatures import ExistingSignature, PadesFilter, XmlFlavor, XmlPlacement

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
    "policy": "AD-RB",
    "padesFilter": None,
    "xmlFlavor": "Xades",
    "xmlSha1Until": None,
    "xmlPlacement": "Enveloped",
    "xmlSignElement": None,
    "cadesExisting": "Wrap",
    "cadesContent": "Attached",
    "crossCheck": [],
    "heldSinceUtc": None,
    "heldReason": None,
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


def test_how_a_profile_signs_and_checks_is_shown(client: TestClient, service: Any, new_profile: Building) -> None:
    """API-73, BEY-02, BEY-13, ICP-01: policy, filter, kind of XML, files that arrive signed, second engines."""
    stored = new_profile(
        policy="AD-RT",
        pades_filter=PadesFilter.ETSI,
        cades_existing=ExistingSignature.COUNTER,
        cross_check=("pdfsig", "openssl"),
    )
    service.profiles[:] = [OpenedProfile(stored)]
    shown = client.simulate_get("/api/profiles/default").json
    assert shown["policy"] == "AD-RT"
    assert shown["padesFilter"] == PadesFilter.ETSI.value
    assert shown["cadesExisting"] == ExistingSignature.COUNTER.value
    assert shown["crossCheck"] == ["pdfsig", "openssl"]
    day = datetime.date(2026, 12, 31)
    plain = new_profile(xml_flavor=XmlFlavor.NFE, xml_sha1_until=day)
    service.profiles[:] = [OpenedProfile(plain)]
    shown = client.simulate_get("/api/profiles/default").json
    assert (shown["policy"], shown["xmlFlavor"], shown["xmlSha1Until"]) == (None, "Nfe", "2026-12-31")
    one = new_profile(xml_placement=XmlPlacement.BY_ID, xml_sign_element="evtAdmissao")
    service.profiles[:] = [OpenedProfile(one)]
    shown = client.simulate_get("/api/profiles/default").json
    assert (shown["xmlPlacement"], shown["xmlSignElement"]) == ("ById", "evtAdmissao")


def test_a_held_profile_says_so(client: TestClient, service: Any) -> None:
    """API-73, BEY-20: since when, and why."""
    since = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)
    service.holds["default"] = Hold(Cause.KEY, "no token is there", since, {"default"}, None, 5.0, 0.0)
    shown = client.simulate_get("/api/profiles/default").json
    assert shown["heldReason"] == "no token is there"
    assert shown["heldSinceUtc"].startswith("2026-12-01T00:00:00")
