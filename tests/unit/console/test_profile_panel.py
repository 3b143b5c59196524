"""The panel of signing profiles, compared with stored texts."""

from __future__ import annotations

import datetime
import logging

import attrs

from bulksigner.console.profile_panel import ProfileFacts, find_alerts, profiles_panel
from bulksigner.contract.signing import Format
from bulksigner.settings.signatures import XmlFlavor

NOW = datetime.datetime(2026, 5, 26, 15, 42, tzinfo=datetime.UTC)


def test_the_profile_panel() -> None:
    """OPS-32, OPS-33, OPS-35, OPS-36: one line a profile, names padded; FAIL lines, then WARN lines."""
    profiles = [
        ProfileFacts("default", None, "Pfx", verify=True, certificate_not_after=NOW + datetime.timedelta(days=400)),
        ProfileFacts(
            "folha",
            Format.CADES,
            "Pkcs11",
            verify=False,
            folder="folha-in",
            is_folder_configured=False,
            degraded="the token is not present",
        ),
        ProfileFacts(
            "nfe",
            Format.XADES,
            None,
            verify=True,
            encrypt=True,
            enabled=False,
            certificate_not_after=NOW + datetime.timedelta(days=9),
        ),
    ]
    alerts = find_alerts(profiles, now=NOW, folder_warnings=["2 keys Storage:Inputs[].Profile are ignored"])
    chain = "validate-cert=off; the certificate's chain and revocation are not checked before signing"
    assert (
        profiles_panel(profiles, alerts)
        == f"""\
================================ Signing profiles ================================
  default   auto · cert=Pfx · verify=on · encrypt=off · validate-cert=off
  folha     DEGRADED · Cades · cert=Pkcs11 · verify=off · encrypt=off · validate-cert=off · folder=folha-in
  nfe       Xades · cert=none · verify=on · encrypt=on · validate-cert=off · disabled
FAIL  Profile 'folha': the token is not present
WARN  Profile 'default': {chain}
WARN  Profile 'folha': verify=off; signed files are not checked before they leave
WARN  Profile 'folha': {chain}
WARN  Profile 'folha': bound to the input folder 'folha-in', which this host does not configure
WARN  Profile 'nfe': {chain}
WARN  Profile 'nfe': the certificate ends in 9 day(s); renew it
WARN  2 keys Storage:Inputs[].Profile are ignored
================================================================================"""
    )
    assert [alert.level for alert in alerts] == [logging.CRITICAL, *[logging.WARNING] * 7]


def test_certificates_near_their_end() -> None:
    """BEY-21: warned from 60 days before, and after the end."""

    def texts(**delta: float) -> list[str]:
        at = NOW + datetime.timedelta(**delta)
        profile = ProfileFacts("p", None, "Pfx", verify=True, certificate_not_after=at)
        return [alert.text for alert in find_alerts([profile], now=NOW) if "certificate en" in alert.text]

    assert texts(days=60, seconds=1) == []
    assert texts(days=60) == ["Profile 'p': the certificate ends in 60 day(s); renew it"]
    assert texts(seconds=0) == ["Profile 'p': the certificate ended at 2026-05-26T15:42:00Z; renew it"]


def test_an_empty_profile_panel_has_its_frame() -> None:
    """OPS-32: no profile is a fact too."""
    assert len(profiles_panel([], []).splitlines()) == 2


def test_exceptions_of_a_policy_are_said() -> None:
    """CFG-190, CFG-197, BEY-13: plain XML and SHA-1 stand in the line of the profile and in a warning each."""
    plain = ProfileFacts("nfe", Format.XADES, "Pfx", verify=True, xml_flavor=XmlFlavor.NFE)
    legacy = attrs.evolve(plain, name="old", xml_sha1_until=datetime.date(2027, 1, 31))
    bare = ProfileFacts("bare", Format.CADES, "Pfx", verify=True, policy="B-B")
    alerts = find_alerts([plain, legacy, bare], now=NOW)
    lines = profiles_panel([plain, legacy, bare], []).splitlines()
    assert [line.rpartition("validate-cert=off")[2] for line in lines[1:4]] == [
        " · xml=Nfe", " · xml=Nfe · sha1-until=2027-01-31", " · policy=B-B"
    ]  # fmt: skip
    element = ProfileFacts("one", Format.XADES, "Pfx", verify=True, xml_sign_element="evt")
    assert profiles_panel([element], []).splitlines()[1].endswith(" · xml-element=evt")
    texts = [alert.text for alert in alerts if "validate-cert" not in alert.text]
    assert [text.partition(";")[0] for text in texts] == [
        "Profile 'nfe': Xml:Flavor=Nfe",
        "Profile 'old': Xml:Flavor=Nfe",
        "Profile 'old': signs with SHA-1 until 2027-01-31 (Xml:Sha1Until), and with nothing after that day",
    ]
