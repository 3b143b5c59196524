"""The panel of signing profiles, compared with stored texts."""

from __future__ import annotations

import datetime
import logging

from bulksigner.console.profile_panel import ProfileFacts, find_alerts, profiles_panel
from bulksigner.contract.signing import Format

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
