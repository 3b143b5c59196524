"""Profiles are imported on the first boot, all or none, once (CFG-81 to CFG-84)."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.contract.errors import ConfigurationRefused
from bulksigner.contract.settings import Secret, option
from bulksigner.contract.signing import Format
from bulksigner.profiles import seed
from bulksigner.profiles.seed import seed_profiles
from bulksigner.profiles.store import ProfileStore
from bulksigner.records.errors import UniqueViolation
from bulksigner.records.prepared import Prepared
from bulksigner.records.tables import EventRow
from bulksigner.settings.model import InputFolder
from bulksigner.settings.signing import CertificateChoice, ProfileSeed

KEY = "k" * 32


def _folder(name: str, profile: str | None = None) -> InputFolder:
    return InputFolder(name=name, path=Path(f"/in/{name}"), profile=profile)


def _pfx(classes: Any, password: str = "") -> CertificateChoice:
    return CertificateChoice("Pfx", classes.FileBlock("/key.pfx", Secret(password)))


def _events(profiles: ProfileStore) -> list[tuple[Any, ...]]:
    query = Prepared(EventRow.select(EventRow.event_type, EventRow.message, EventRow.facts))
    return profiles.store.read(lambda: profiles.store.execute(query).rows)


def test_profiles_are_stored_as_the_settings_have_them(
    profiles: Any, core_with: Any, classes: Any, sealer_with: Any, clock: Any
) -> None:
    """CFG-81: every key of the section, with its certificate block."""
    core = core_with(
        ProfileSeed(name="contracts", format=Format.PADES, verify=False, certificate=_pfx(classes)),
        ProfileSeed(name="notes", enabled=False, format=Format.CADES, save_as_pem=True, method="Remote"),
    )
    report = seed_profiles(profiles, core, sealer_with(""), clock)
    assert report.profiles == ("contracts", "notes")
    contracts, notes = profiles.all()
    assert (contracts.name, contracts.enabled, contracts.format, contracts.verify) == (
        "contracts",
        True,
        Format.PADES,
        False,
    )
    assert (contracts.certificate_source, contracts.certificate_block) == ("Pfx", {"Path": "/key.pfx"})
    assert contracts.sealed == {}
    assert (notes.enabled, notes.save_as_pem, notes.method, notes.certificate_source) == (False, True, "Remote", None)


def test_secrets_are_stored_sealed_only(
    profiles: Any, core_with: Any, classes: Any, sealer_with: Any, clock: Any, tmp_path: Path
) -> None:
    """SEC-45, SEC-47: the password is nowhere in the database."""
    core = core_with(ProfileSeed(name="a", format=Format.CADES, certificate=_pfx(classes, "correct horse staple")))
    seed_profiles(profiles, core, sealer_with(KEY), clock)
    (stored,) = profiles.all()
    assert list(stored.sealed) == ["Pkcs12Password"]
    assert sealer_with(KEY).open(stored.id, "Pkcs12Password", stored.sealed["Pkcs12Password"]) == (
        b"correct horse staple"
    )
    for file in (tmp_path / "db").iterdir():
        assert b"correct horse" not in file.read_bytes()


def test_a_secret_without_a_key_refuses_the_import(
    profiles: Any, core_with: Any, classes: Any, sealer_with: Any, clock: Any
) -> None:
    """CFG-66, OPS-47: key, variable and profiles are named, and nothing is stored."""
    core = core_with(
        ProfileSeed(name="a", format=Format.CADES, certificate=_pfx(classes, "correct horse staple")),
        ProfileSeed(name="b", format=Format.CADES, certificate=_pfx(classes)),
        ProfileSeed(name="c", format=Format.CADES, certificate=_pfx(classes, "correct horse staple")),
    )
    with pytest.raises(ConfigurationRefused, match="Signing__ProfileSecretsKey") as caught:
        seed_profiles(profiles, core, sealer_with(""), clock)
    assert "a, c" in str(caught.value)
    assert "correct horse" not in str(caught.value)
    assert profiles.all() == []


def test_without_profiles_the_single_certificate_makes_default(
    profiles: Any, core_with: Any, classes: Any, sealer_with: Any, clock: Any
) -> None:
    """CFG-83: one real row, format by extension."""
    report = seed_profiles(profiles, core_with(certificate=_pfx(classes)), sealer_with(""), clock)
    assert report.profiles == ("default",)
    default = profiles.get("DEFAULT")
    assert (default.method, default.format, default.verify, default.certificate_source) == ("Local", None, True, "Pfx")


@pytest.mark.parametrize("encrypts", [True, False])
def test_the_made_profile_encrypts_where_the_service_does(
    encrypts: bool, profiles: Any, core_with: Any, sealer_with: Any, clock: Any
) -> None:
    """CFG-83: `Encrypt` is that of `Encryption:Enabled`."""
    seed_profiles(profiles, core_with(encrypts=encrypts), sealer_with(""), clock)
    assert profiles.get("default").encrypt is encrypts


def test_without_any_certificate_default_has_none(profiles: Any, core_with: Any, sealer_with: Any, clock: Any) -> None:
    """CFG-83: the row is made all the same; opening it degrades it."""
    seed_profiles(profiles, core_with(), sealer_with(""), clock)
    assert profiles.get("default").certificate_source is None


def test_no_default_is_invented_beside_profiles(
    profiles: Any, core_with: Any, classes: Any, sealer_with: Any, clock: Any
) -> None:
    """CFG-84, CFG-69: the single certificate does not count then."""
    core = core_with(ProfileSeed(name="only", format=Format.CADES), certificate=_pfx(classes))
    seed_profiles(profiles, core, sealer_with(""), clock)
    assert [profile.name for profile in profiles.all()] == ["only"]


def test_folders_are_bound_in_their_order(profiles: Any, core_with: Any, sealer_with: Any, clock: Any) -> None:
    """PIPE-57: null means default; unknown and taken profiles leave the folder unassigned."""
    core = core_with(
        ProfileSeed(name="default"),
        ProfileSeed(name="payments", format=Format.CADES),
        folders=[
            _folder("in"),
            _folder("again"),
            _folder("remessas", "Payments"),
            _folder("late", "payments"),
            _folder("lost", "nobody"),
        ],
    )
    report = seed_profiles(profiles, core, sealer_with(""), clock)
    assert report.bound == {"in": "default", "remessas": "payments"}
    assert {folder: reason.split()[-1] for folder, reason in report.unassigned.items()} == {
        "again": "in",
        "late": "remessas",
        "lost": "nobody",
    }
    assert profiles.by_folder("remessas").name == "payments"
    assert profiles.by_folder("late") is None


def test_a_disabled_profile_gets_no_folder(profiles: Any, core_with: Any, sealer_with: Any, clock: Any) -> None:
    """CFG-87, PIPE-63: refused at the import, naming the folder's key."""
    core = core_with(
        ProfileSeed(name="default"),
        ProfileSeed(name="off", enabled=False, format=Format.CADES),
        folders=[_folder("in"), _folder("remessas", "off")],
    )
    with pytest.raises(ConfigurationRefused, match=r"Storage:Inputs\[1\]:Profile"):
        seed_profiles(profiles, core, sealer_with(""), clock)


def test_the_import_is_one_event(profiles: Any, core_with: Any, sealer_with: Any, clock: Any) -> None:
    """SEC-73: count, names, folders bound and left unassigned."""
    core = core_with(ProfileSeed(name="default"), folders=[_folder("in"), _folder("lost", "nobody")])
    seed_profiles(profiles, core, sealer_with(""), clock)
    ((kind, message, facts),) = _events(profiles)
    assert kind == "SigningProfilesSeeded"
    assert message.startswith("1 signing profile(s)")
    assert json.loads(facts) == {"profiles": ["default"], "bound": {"in": "default"}, "unassigned": ["lost"]}


def test_later_boots_ignore_the_section_and_say_so(
    profiles: Any, core_with: Any, classes: Any, sealer_with: Any, clock: Any
) -> None:
    """CFG-81, CFG-50, OPS-36: one warning for each kind, with the count; nothing merges."""
    seed_profiles(profiles, core_with(ProfileSeed(name="default")), sealer_with(""), clock)
    core = core_with(
        ProfileSeed(name="new", format=Format.CADES, certificate=_pfx(classes, "correct horse staple")),
        folders=[_folder("in"), _folder("x", "new"), _folder("y", "new")],
    )
    report = seed_profiles(profiles, core, sealer_with(""), clock)
    assert report.profiles == ()
    assert ["1 entries" in report.warnings[0], "2 keys" in report.warnings[1]] == [True, True]
    assert len(report.warnings) == 2
    assert [profile.name for profile in profiles.all()] == ["default"]
    single = seed_profiles(profiles, core_with(certificate=_pfx(classes)), sealer_with(""), clock)
    assert len(single.warnings) == 1
    assert seed_profiles(profiles, core_with(), sealer_with(""), clock).warnings == ()


def test_instances_that_boot_together_import_once(
    profiles: Any, core_with: Any, sealer_with: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CFG-82: both find the table empty, one writes; the other reports the rows as already there."""
    both = threading.Barrier(2)
    real = seed._import

    def import_together(*arguments: Any) -> bool:
        both.wait(timeout=10)
        return real(*arguments)

    monkeypatch.setattr(seed, "_import", import_together)
    reports: list[Any] = []

    def boot(name: str) -> None:
        core = core_with(ProfileSeed(name=name, format=Format.CADES))
        reports.append(seed_profiles(profiles, core, sealer_with(""), clock))

    threads = [threading.Thread(target=boot, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(profiles.all()) == 1
    assert sorted(len(report.profiles) for report in reports) == [0, 1]
    assert len(_events(profiles)) == 1


def test_a_failure_in_the_middle_leaves_nothing(
    profiles: Any, core_with: Any, sealer_with: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CFG-82: all profiles and bindings, or none; the next boot imports again."""
    core = core_with(ProfileSeed(name="default"), ProfileSeed(name="b", format=Format.CADES))
    with monkeypatch.context() as patch:
        patch.setattr(seed, "write_event", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            seed_profiles(profiles, core, sealer_with(""), clock)
    assert profiles.all() == []
    assert len(seed_profiles(profiles, core, sealer_with(""), clock).profiles) == 2


def test_only_keys_that_ask_for_something_are_stored(
    profiles: Any, core_with: Any, classes: Any, sealer_with: Any, clock: Any
) -> None:
    """CFG-16: a profile that leaves a plugin's keys alone outlives the plugin."""
    core = core_with(
        ProfileSeed(name="default", extras={classes.CheckKeys: classes.CheckKeys()}),
        ProfileSeed(name="strict", format=Format.CADES, extras={classes.CheckKeys: classes.CheckKeys(True)}),
    )
    seed_profiles(profiles, core, sealer_with(""), clock)
    assert profiles.get("default").extras == {}
    assert profiles.get("strict").extras == {"CheckCard": True}


def test_a_secret_among_a_plugins_profile_keys_is_refused(
    profiles: Any, core_with: Any, sealer_with: Any, clock: Any
) -> None:
    """SEC-47: only certificate blocks are sealed, so nothing else may carry a secret."""

    @attrs.frozen
    class Keys:
        token: Secret = option()

    core = core_with(ProfileSeed(name="default", extras={Keys: Keys(Secret("hidden words"))}))
    with pytest.raises(ConfigurationRefused, match=r"Signing:Profiles\[0\]") as caught:
        seed_profiles(profiles, core, sealer_with(KEY), clock)
    assert "hidden" not in str(caught.value)


def test_names_and_folders_are_unique_in_the_database(
    profiles: Any, core_with: Any, sealer_with: Any, clock: Any
) -> None:
    """CFG-86, PIPE-56: the rule holds against any writer."""
    seed_profiles(profiles, core_with(ProfileSeed(name="default"), folders=[_folder("in")]), sealer_with(""), clock)
    (stored,) = profiles.all()
    for changed in (
        attrs.evolve(stored, id="2", name="Default", input_folder=None),
        attrs.evolve(stored, id="3", name="other"),
    ):
        with pytest.raises(UniqueViolation):
            profiles.store.write(lambda changed=changed: profiles.insert(changed, clock()))
