"""`Signing:Trust`: places, test roots, and what a profile says of its certificate."""

from __future__ import annotations

import pytest

ALLOWS = {"Signing__Trust__AllowTestRoots": "true", "Signing__Trust__TestRootsPath": "tests"}


def test_without_the_section_nothing_is_trusted_and_nothing_is_refused(host) -> None:
    """CFG-68: whether a profile needs roots is asked at the import."""
    trust = host.load().core.signing.trust
    assert (trust.roots_path, trust.offline, trust.recheck_minutes) == (None, False, 60)


def test_folders_count_from_the_content_root(host) -> None:
    """CFG-68: absolute from here on."""
    for name in ("roots", "lists"):
        (host.root / name).mkdir()
    trust = host.load({"Signing__Trust__RootsPath": "roots", "Signing__Trust__CrlsPath": "lists"}).core.signing.trust
    assert (trust.roots_path, trust.crls_path) == (host.root / "roots", host.root / "lists")


@pytest.mark.parametrize("key", ["RootsPath", "CrlsPath"])
def test_a_folder_that_is_not_there_is_refused(host, key) -> None:
    """CFG-68: unreadable refuses, naming key and place."""
    failure = host.refuse({f"Signing__Trust__{key}": "nowhere"})[f"Signing:Trust:{key}"]
    assert str(host.root / "nowhere") in failure.problem


@pytest.mark.parametrize("key", ["Signing:Trust:AllowTestRoots", "Signing:TrustLacunaTestRoot"])
@pytest.mark.parametrize("environment", ["Production", "production", None])
def test_test_roots_are_refused_in_production(host, key, environment) -> None:
    """CFG-67: key, environment and remedy, under both spellings; no environment is Production."""
    (host.root / "tests").mkdir()
    variables = {key.replace(":", "__"): "true", "Signing__Trust__TestRootsPath": "tests"}
    if environment is not None:
        variables["BULK_SIGNER_ENVIRONMENT"] = environment
    failure = host.refuse(variables)[key]
    assert "roduction" in failure.problem
    assert "BULK_SIGNER_ENVIRONMENT" in failure.remedy


def test_test_roots_elsewhere_are_warned_of_at_every_start(host) -> None:
    """CFG-67, OPS-67."""
    (host.root / "tests").mkdir()
    loaded = host.load({**ALLOWS, "BULK_SIGNER_ENVIRONMENT": "Development"})
    assert loaded.core.signing.trust.allow_test_roots
    assert any("AllowTestRoots is true" in warning for warning in loaded.warnings)
    migrated = {"Signing__TrustLacunaTestRoot": "true", "Signing__Trust__TestRootsPath": "tests"}
    loaded = host.load({**migrated, "BULK_SIGNER_ENVIRONMENT": "Development"})
    assert loaded.core.signing.trust.allow_test_roots


def test_test_roots_need_their_folder(host) -> None:
    """CFG-67: root files come from `TestRootsPath`."""
    refused = host.refuse({"Signing__Trust__AllowTestRoots": "true", "BULK_SIGNER_ENVIRONMENT": "Development"})
    assert set(refused) == {"Signing:Trust:TestRootsPath"}


def test_a_profile_checks_its_certificate_unless_told_otherwise(host) -> None:
    """CFG-92, CFG-189: both are true by default."""
    prefix = "Signing__Profiles__0__"
    base = {f"{prefix}Name": "p", f"{prefix}Format": "Cades", f"{prefix}Certificate__Pfx__Path": "/x.pfx"}
    (seed,) = host.load(base).core.signing.profiles
    assert (seed.validate_certificate, seed.require_non_repudiation) == (True, True)
    off = {f"{prefix}ValidateCertificate": "false", f"{prefix}RequireNonRepudiation": "false"}
    (seed,) = host.load(base | off).core.signing.profiles
    assert (seed.validate_certificate, seed.require_non_repudiation) == (False, False)
