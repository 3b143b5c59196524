"""Keys are opened at boot and held; a profile that fails is a row with a reason (PERF-01, OPS-33)."""

from __future__ import annotations

import datetime
import pickle
from typing import Any

import attrs
import pytest

from bulksigner.contract.errors import ConfigurationRefused
from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Format
from bulksigner.profiles.model import StoredProfile
from bulksigner.profiles.opened import ProfileOpener, open_profiles
from bulksigner.records.errors import StoreFailed
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.tables import ProfileRow
from bulksigner.testing.rows import stored_profile

KEY, OTHER_KEY = "k" * 32, "o" * 32
PROFILE = stored_profile(
    "contracts", format=Format.PADES, certificate_source="pfx", certificate_block={"Path": "/good"}
)


@pytest.fixture
def put(profiles: Any, clock: Any) -> Any:
    """Store a profile that differs from `PROFILE` as told."""

    def insert(name: str, **changes: Any) -> StoredProfile:
        profile = attrs.evolve(PROFILE, id=name, name=name, **changes)
        profiles.store.write(lambda: profiles.insert(profile, clock()))
        return profile

    return insert


def test_a_profile_holds_its_opened_key(
    put: Any, profiles: Any, registry: Any, sealer_with: Any, source: Any, classes: Any
) -> None:
    """PERF-01: opened once at boot, found by name and by folder."""
    put("contracts", input_folder="in")
    opened = open_profiles(profiles, registry, sealer_with(""))
    profile = opened.get("CONTRACTS")
    assert profile is not None
    assert profile is opened.bound("in")
    assert (profile.name, profile.degraded, profile.locator) == ("contracts", None, "/good")
    assert profile.key.certificate == source.certificate
    assert profile.certificate_not_after == classes.not_after
    assert source.blocks == [classes.FileBlock("/good", Secret(""))]
    assert (opened.get("nobody"), opened.bound("out")) == (None, None)


def test_a_certificate_outside_its_validity_is_told(
    put: Any, profiles: Any, registry: Any, sealer_with: Any, classes: Any
) -> None:
    """BEY-21: both ends of the validity, inclusive (RFC 5280 4.1.2.5); a profile without certificate says nothing."""
    put("contracts")
    put("remote", method="Remote")
    local, remote = open_profiles(profiles, registry, sealer_with("")).all
    second = datetime.timedelta(seconds=1)
    assert local.outside_validity(classes.now) is None
    assert local.outside_validity(classes.not_after) is None
    assert "not valid before 2026-03-02 12:00" in (local.outside_validity(classes.now - second) or "")
    assert "expired at 2030-01-01 00:00" in (local.outside_validity(classes.not_after + second) or "")
    assert remote.outside_validity(classes.not_after + second) is None


def test_a_sealed_secret_reaches_the_source_and_redaction_first(
    put: Any, profiles: Any, registry: Any, sealer_with: Any, source: Any
) -> None:
    """SEC-51: the value is registered for redaction before anything uses it."""
    sealer = sealer_with(KEY)
    put("contracts", sealed={"Pkcs12Password": sealer.seal("contracts", "Pkcs12Password", b"correct horse")})
    kept: list[tuple[str, int]] = []
    open_profiles(profiles, registry, sealer, lambda secret: kept.append((secret.reveal(), len(source.blocks))))
    assert set(kept) == {("correct horse", 0)}
    assert source.blocks[0].password.reveal() == "correct horse"


def test_the_reference_travels_to_another_process(put: Any, profiles: Any, registry: Any, sealer_with: Any) -> None:
    """PERF-06: the block, not the key; its text shows no secret."""
    sealer = sealer_with(KEY)
    put("contracts", sealed={"Pkcs12Password": sealer.seal("contracts", "Pkcs12Password", b"correct horse")})
    reference = open_profiles(profiles, registry, sealer).all[0].key_reference
    assert (reference.profile, reference.source, reference.portable) == ("contracts", "Pfx", True)
    assert "correct horse" not in repr(reference)
    assert reference.block.password.reveal() == "correct horse"
    assert pickle.loads(pickle.dumps(attrs.evolve(reference, block=Secret("x")))).block == Secret("x")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"certificate_block": {"Path": "/missing"}}, "no such file"),
        ({"certificate_block": {"Path": "/broken"}}, "certificate source Pfx of the plugin local_pfx broke"),
        ({"certificate_block": {"Path": "/nothing"}}, "no key"),
        ({"certificate_block": {"Path": "/garbage"}}, "certificate of the key cannot be read"),
        ({"certificate_block": {}}, "Path"),
        ({"certificate_source": None}, "no certificate is configured"),
        ({"certificate_source": "Pkcs11"}, "bulksigner-pkcs11"),
        ({"method": "LacunaSigner"}, "bulksigner-lacuna-signer"),
        ({"extras": {"CheckCNAB240": True}}, "CheckCNAB240"),
        ({"extras": {"CheckDepth": "deep"}}, "CheckDepth"),
        ({"sealed": {"Pkcs12Password": b"\x01 not sealed at all, surely"}}, "Signing:ProfileSecretsKey"),
    ],
    ids=[
        "refused",
        "broken",
        "no-key",
        "no-certificate",
        "no-path",
        "no-source",
        "absent-source",
        "absent-method",
        "absent-check",
        "wrong-key-type",
        "not-sealed",
    ],
)
def test_a_profile_that_fails_does_not_stop_the_others(
    changes: dict[str, Any],
    reason: str,
    put: Any,
    profiles: Any,
    registry: Any,
    sealer_with: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """OPS-33, CFG-16: degraded with a reason, which the panels tell once; the rest serves."""
    put("bad", **changes)
    put("good")
    opened = open_profiles(profiles, registry, sealer_with(KEY))
    bad, good = opened.all
    assert reason in (bad.degraded or "")
    assert (bad.key, bad.key_reference) == (None, None)
    assert (good.degraded, good.key is not None) == (None, True)
    assert not caplog.records


def test_a_secret_that_is_no_text_degrades(put: Any, profiles: Any, registry: Any, sealer_with: Any) -> None:
    """SEC-49: the field is named, the value is not shown."""
    sealer = sealer_with(KEY)
    put("contracts", sealed={"Pkcs12Password": sealer.seal("contracts", "Pkcs12Password", b"\xff\xfe")})
    assert open_profiles(profiles, registry, sealer).all[0].degraded == "the stored secret Pkcs12Password is no text."


def test_a_wrong_key_degrades_only_the_profiles_with_secrets(
    put: Any, profiles: Any, registry: Any, sealer_with: Any
) -> None:
    """CFG-66, SEC-49: key present but wrong."""
    put("sealed", sealed={"Pkcs12Password": sealer_with(KEY).seal("sealed", "Pkcs12Password", b"correct horse")})
    put("plain")
    plain, sealed = open_profiles(profiles, registry, sealer_with(OTHER_KEY)).all
    assert plain.degraded is None
    assert "Signing:ProfileSecretsKey" in sealed.degraded
    assert "/good" not in sealed.degraded


def test_stored_secrets_without_a_key_refuse_the_start(
    put: Any, profiles: Any, registry: Any, sealer_with: Any
) -> None:
    """CFG-66, SEC-50, OPS-47: key, variable and profiles are named."""
    put("sealed", sealed={"Pkcs12Password": b"anything"})
    put("plain")
    with pytest.raises(ConfigurationRefused, match=r"Signing__ProfileSecretsKey.*have secrets: sealed\."):
        open_profiles(profiles, registry, sealer_with(""))


def test_without_secrets_the_key_is_never_asked_for(put: Any, profiles: Any, registry: Any, sealer_with: Any) -> None:
    """CFG-66: no profile carries a secret."""
    put("plain")
    assert open_profiles(profiles, registry, sealer_with("")).all[0].degraded is None


@pytest.mark.parametrize(("key", "doubt"), [("", True), (KEY, False)])
def test_a_silent_database_gives_a_warning_and_no_profiles(
    key: str, doubt: bool, profiles: Any, registry: Any, sealer_with: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CFG-66, CFG-64: the host starts; without the key it says what it could not check."""

    def fail() -> Any:
        raise StoreFailed("The server does not answer.")

    monkeypatch.setattr(profiles, "all", fail)
    opened = open_profiles(profiles, registry, sealer_with(key))
    assert opened.all == ()
    assert ("Signing:ProfileSecretsKey" in opened.warnings[0]) is doubt


def test_a_method_without_certificate_opens_nothing(
    put: Any, profiles: Any, registry: Any, sealer_with: Any, source: Any
) -> None:
    """CFG-97: a stale block is tolerated and not opened."""
    put("remote", method="Remote", certificate_block={"Path": "/missing"})
    (profile,) = open_profiles(profiles, registry, sealer_with("")).all
    assert (profile.degraded, profile.key, source.blocks) == (None, None, [])


def test_keys_of_plugins_are_bound(put: Any, profiles: Any, registry: Any, sealer_with: Any, classes: Any) -> None:
    """CFG-16: by class, in any case of letters, the rest at their defaults."""
    put("strict", extras={"checkcard": True})
    put("plain")
    plain, strict = open_profiles(profiles, registry, sealer_with("")).all
    assert strict.extras == {classes.CheckKeys: classes.CheckKeys(True, 3)}
    assert plain.extras == {classes.CheckKeys: classes.CheckKeys()}


def test_keys_of_a_lost_plugin_are_not_bound(put: Any, profiles: Any, registry: Any, sealer_with: Any) -> None:
    """CFG-16: who asks is degraded, who does not is served without them."""
    lost = attrs.evolve(
        registry, profile_keys=tuple(attrs.evolve(keys, lost="no reader") for keys in registry.profile_keys)
    )
    put("asks", extras={"CheckCard": True})
    put("plain")
    asks, plain = open_profiles(profiles, lost, sealer_with("")).all
    assert "no reader" in (asks.degraded or "")
    assert (plain.degraded, plain.extras) == (None, {})


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("certificate_block", "{not json"),
        ("extras", "[]"),
        ("sealed", '{"Pkcs12Password": "***"}'),
        ("sealed", '{"Pkcs12Password": 5}'),
        ("format", "Word"),
    ],
)
def test_an_edited_row_degrades_itself_only(
    column: str, text: str, put: Any, profiles: Any, registry: Any, sealer_with: Any
) -> None:
    """SEC-49: a row edited by hand does not keep the others from serving."""
    put("edited")
    put("good")
    field = getattr(ProfileRow, column)
    change = Prepared(ProfileRow.update({field: slot("text")}).where(ProfileRow.id == "edited"))
    profiles.store.write(lambda: profiles.store.execute(change, text=text))
    edited, good = open_profiles(profiles, registry, sealer_with("")).all
    assert column in (edited.degraded or "")
    assert good.degraded is None


def test_closing_lets_go_of_every_key(
    put: Any, profiles: Any, registry: Any, sealer_with: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """PERF-01: one key that will not close does not keep the others open."""
    put("a")
    put("b")
    put("c", certificate_block={"Path": "/missing"})
    opened = open_profiles(profiles, registry, sealer_with(""))
    first, second, _ = opened.all
    first.key.close()
    opened.close()
    assert (first.key.closed, second.key.closed) == (2, 1)
    assert "'a' did not close" in caplog.text


def test_a_renewal_opens_only_what_an_edit_asks_for(
    put: Any, profiles: Any, registry: Any, sealer_with: Any, source: Any
) -> None:
    """CFG-85: checks and folders move without the key; the certificate's version, or a degraded state, opens it."""
    put("contracts")
    opener = ProfileOpener(registry, sealer_with(""))
    first = open_profiles(profiles, registry, sealer_with("")).all[0]
    row = first.stored
    moved = opener.renew(first, attrs.evolve(row, verify=False, input_folder="in", row_version=2))
    assert (moved.stored.verify, moved.stored.input_folder) == (False, "in")
    assert (moved.key, moved.hold, moved.key_reference) == (first.key, first.hold, first.key_reference)
    assert len(source.blocks) == 1

    again = opener.renew(moved, attrs.evolve(row, certificate_version=2))
    assert again.key is not first.key
    assert again.key_reference.profile == "contracts (certificate 2)"

    wrong = opener.renew(again, attrs.evolve(row, certificate_version=3, certificate_block={"Path": "/missing"}))
    assert (wrong.degraded, wrong.key, wrong.stored.certificate_block) == (None, again.key, {"Path": "/good"})
    assert "no such file" in (wrong.pending or "")
    assert wrong.row.certificate_block == {"Path": "/missing"}

    unchecked = opener.renew(wrong, attrs.evolve(row, extras={"CheckCNAB240": True}))
    assert (unchecked.key, unchecked.pending) == (None, None)
    assert "CheckCNAB240" in (unchecked.degraded or "")
    assert opener.renew(unchecked, row).degraded is None
    assert len(source.blocks) == 4


def test_a_profile_that_encrypts_does_not_sign_while_encryption_is_off(
    put: Any, profiles: Any, registry: Any, sealer_with: Any
) -> None:
    """CFG-91, CFG-115: a setting that was lost must not turn envelopes into clear files."""
    put("contracts", encrypt=True)
    put("plain")
    off = open_profiles(profiles, registry, sealer_with(""))
    encrypting, plain = off.all
    assert "Encryption:Enabled is false" in (encrypting.degraded or "")
    assert encrypting.key is None
    assert plain.degraded is None
    on = open_profiles(profiles, registry, sealer_with(""), is_encryption_on=True)
    assert on.all[0].degraded is None
    opener = ProfileOpener(registry, sealer_with(""))
    renewed = opener.renew(plain, attrs.evolve(plain.stored, encrypt=True, row_version=2))
    assert renewed.degraded is not None


def test_a_profile_that_needs_no_key_says_who_signs(put: Any, profiles: Any, registry: Any, sealer_with: Any) -> None:
    """API-87: keyless is neither degraded nor ready by a key."""
    put("local")
    put("lost", certificate_block={"Path": "/missing"})
    put("remote", method="Remote")
    opened = open_profiles(profiles, registry, sealer_with("")).all
    assert [profile.keyless for profile in opened] == [None, None, "the method Remote signs"]
