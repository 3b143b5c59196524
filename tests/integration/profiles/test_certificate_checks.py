"""Profiles that ask for the check of their certificate: import, save, start, jobs, readiness, and the end in sight."""

from __future__ import annotations

import datetime
import json

import pytest

from bulksigner.boot import plan_validation
from bulksigner.contract.errors import ConfigurationRefused
from bulksigner.contract.signing import Format
from bulksigner.formats.spec import BASELINE_B
from bulksigner.jobs.model import utc_now
from bulksigner.jobs.states import JobStatus
from bulksigner.profiles.change import ProfileChange, ProfileRefused
from bulksigner.profiles.checking import CertificateRefresh
from bulksigner.profiles.editor import ProfileEditor
from bulksigner.profiles.seal import Sealer
from bulksigner.profiles.store import ProfileStore
from bulksigner.records.prepared import Prepared
from bulksigner.records.tables import EventRow
from bulksigner.testing.authority_server import running_authority
from bulksigner.testing.certificates import make_authority
from bulksigner.trust.roots import TrustSet

VALIDATES = "Signing:Profiles:0:ValidateCertificate"
NO_ROOTS = {"Signing:Trust:RootsPath": None}
EVENTS = Prepared(EventRow.select(EventRow.event_type, EventRow.message, EventRow.facts))


@pytest.fixture
def kit():
    with running_authority(make_authority("Perfis")) as server:
        yield server


def events(harness, kind: str) -> list[tuple[str, dict]]:
    store = harness.service.store
    rows = store.read(lambda: store.execute(EVENTS).rows)
    return [(message, json.loads(facts)) for found, message, facts in rows if found == kind]


def readiness(harness) -> tuple[bool, str]:
    rows = {row.name: row for row in harness.service.readiness.report().rows}
    row = rows["signing-profile:default"]
    return row.ok, row.detail


@pytest.mark.parametrize("engine", ["InProcess", "Processes"])
def test_a_checked_certificate_signs_and_is_asked_about_once(make_harness, kit, engine) -> None:
    """CFG-92, PERF-06: on both engines; the authority hears of a service once, not of each job."""
    harness = make_harness(
        issued=kit.authority.issue(crl_url=kit.crl_url), engine=engine, settings={"Pipeline:MaxConcurrency": 2}
    )
    for number in range(6):
        harness.drop(f"{number}.bin", b"content %d" % number)
    assert {job.status for job in harness.run_until_idle()} == {JobStatus.COMPLETED}
    assert kit.requests == ["/list.crl"]


def test_a_revoked_certificate_fails_the_job_before_the_key_is_used(make_harness, kit) -> None:
    """PIPE-77, OPS-117, CLU-11: the code, the reason, no mark, the input kept; the readiness row is red."""
    issued = kit.authority.issue(crl_url=kit.crl_url)
    kit.revoked[issued.certificate.serial_number] = datetime.datetime.now(datetime.UTC)
    harness = make_harness(issued=issued)
    path = harness.drop("a.bin", b"content")
    (job,) = harness.run_until_idle()
    assert (job.status, job.error_code) == (JobStatus.FAILED, "sign.certificate-invalid")
    assert "was revoked at" in job.error_message
    assert job.sign_call_started_at is None
    assert path.exists()
    is_ok, detail = readiness(harness)
    assert not is_ok
    assert "refused before signing" in detail
    counted = b'bulksigner_cert_validation_failed_total{profile="default"} 1.0'
    assert counted in harness.service.metrics.render()


def test_readiness_knows_before_any_job(make_harness, kit) -> None:
    """OPS-117: the certificates are checked while nothing is signed, once for as long as the verdict counts."""
    issued = kit.authority.issue(crl_url=kit.crl_url)
    harness = make_harness(issued=issued)
    service = harness.service
    validation = plan_validation(service.foundation)
    refresh = CertificateRefresh(service.profiles, validation)
    refresh.look()
    refresh.look()
    assert kit.requests == ["/list.crl"]
    kit.revoked[issued.certificate.serial_number] = datetime.datetime.now(datetime.UTC)
    late = CertificateRefresh(service.profiles, service.worker._parts.validation)
    (harness.root / "revocation").rename(harness.root / "gone")
    late.begin_if_due()
    late._thread.join()
    is_ok, detail = readiness(harness)
    assert not is_ok
    assert "was revoked at" in detail
    late.begin_if_due()
    assert not late._thread.is_alive()


def test_a_profile_that_does_not_ask_signs_unchecked(make_harness, kit) -> None:
    """CFG-92: false opens no connection."""
    issued = kit.authority.issue(crl_url=kit.crl_url)
    harness = make_harness(issued=issued, settings={VALIDATES: False, **NO_ROOTS})
    harness.drop("a.bin", b"content")
    assert [job.status for job in harness.run_until_idle()] == [JobStatus.COMPLETED]
    assert kit.requests == []


def test_a_first_start_without_roots_is_refused_and_stores_nothing(make_harness) -> None:
    """CFG-68: the profile can still be corrected in the settings."""
    harness = make_harness(settings=NO_ROOTS)
    with pytest.raises(ConfigurationRefused) as refused:
        harness.service  # noqa: B018
    (failure,) = refused.value.failures
    assert failure.key == "Signing:Trust:RootsPath"
    assert "default" in failure.problem
    keys = {**harness.keys, VALIDATES: False}
    (harness.folder / "settings.json").write_text(json.dumps(keys))
    assert harness.service.profiles.get("default").stored.validate_certificate is False


def test_a_later_start_without_roots_is_refused_as_well(make_harness) -> None:
    """CFG-68: the roots were taken away under a stored profile."""
    harness = make_harness()
    harness.service  # noqa: B018
    harness.close()
    (harness.folder / "trust" / "root.pem").unlink()
    with pytest.raises(ConfigurationRefused, match="names no root"):
        harness.service  # noqa: B018


def test_the_check_is_switched_on_only_where_there_are_roots(make_harness) -> None:
    """CFG-68, CFG-81: at a save too; what is stored already does not keep a profile from being changed."""
    harness = make_harness(settings={VALIDATES: False})
    service = harness.service

    def editor(has_roots: bool) -> ProfileEditor:
        return ProfileEditor(
            ProfileStore(service.store),
            service.foundation.registry,
            Sealer(service.foundation.settings.core.signing.profile_secrets_key, lambda: b"salt"),
            {"inbox"},
            utc_now,
            lambda _: None,
            has_roots=has_roots,
        )

    switch_on = ProfileChange({"ValidateCertificate": "true"})
    with pytest.raises(ProfileRefused) as refused:
        editor(False).edit("default", switch_on, by="x")
    assert [objection.code for objection in refused.value.objections] == ["profile.no-trust"]
    assert editor(True).edit("default", switch_on, by="x").profile.validate_certificate
    assert editor(False).edit("default", ProfileChange({"Verify": "false"}), by="x").is_changed
    harness.run_until_idle()
    assert service.profiles.get("default").stored.validate_certificate
    told = [message for message, _ in events(harness, "SigningProfileEdited")]
    assert "ValidateCertificate false → true" in told[0]


def test_the_readiness_row_counts_the_days(make_harness, authority) -> None:
    """BEY-21: the row stays green while the certificate signs."""
    now = datetime.datetime.now(datetime.UTC)
    harness = make_harness(issued=authority.issue(not_after=now + datetime.timedelta(days=20, hours=1)))
    is_ok, detail = readiness(harness)
    assert is_ok
    assert "the certificate ends in 20 day(s)" in detail


def test_a_chain_is_refused_that_needs_a_root_of_somebody_else(make_harness) -> None:
    """OPS-117: unknown issuer."""
    harness = make_harness()
    make_authority("Alheia").issue().write_root_pem(harness.folder / "trust" / "root.pem")
    harness.drop("a.bin", b"content")
    (job,) = harness.run_until_idle()
    assert job.error_code == "sign.certificate-invalid"
    assert "leads to no trusted root" in job.error_message


@pytest.mark.parametrize("engine", ["InProcess", "Processes"])
def test_a_finished_signature_is_held_against_the_roots_once_more(make_harness, kit, engine) -> None:
    """BEY-01, PERF-04: whatever the check before signing said, nothing is delivered that leads to no root here."""
    harness = make_harness(issued=kit.authority.issue(crl_url=kit.crl_url), engine=engine)
    chains = harness.service.worker._parts.chains
    harness.drop("a.bin", b"content")
    assert [job.status for job in harness.run_until_idle()] == [JobStatus.COMPLETED]
    assert len(chains._good) == 1
    chains._good.clear()
    chains._trust = TrustSet()
    harness.drop("b.bin", b"content of another")
    job = harness.run_until_idle()[-1]
    assert (job.status, job.error_code) == (JobStatus.FAILED, "verify.failed")
    assert "leads to no root of this host" in job.error_message
    assert harness.outputs() == ["a.bin.p7m"]


def test_the_roots_of_the_policy_in_force_are_asked_for(make_harness) -> None:
    """ICP-33: the profile's rules know which roots the policy of a signature lists."""
    harness = make_harness()
    rules = harness.service.profiles.get("default").rules
    spec = rules.spec(Format.CADES, utc_now())
    assert any("Autoridade Certificadora Raiz Brasileira" in name for name in rules.list_roots(spec))
    assert rules.list_roots(BASELINE_B) == ()
    assert rules.list_roots(None) == ()
