"""Saves of profiles: every rule, every refusal with its code, and what is stored (CFG-81, CFG-86 to CFG-97)."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.contract.errors import NotFound, RaceLost
from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Format
from bulksigner.profiles.change import ProfileChange, ProfileRefused
from bulksigner.profiles.editor import ProfileEditor
from bulksigner.profiles.model import StoredProfile
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.tables import EventRow, ProfileRow
from bulksigner.settings.signatures import ExistingSignature, PadesFilter, XmlFlavor, XmlPlacement
from bulksigner.testing.rows import stored_profile

KEY, OTHER_KEY = "k" * 32, "o" * 32
PASSWORD = "correct horse battery"
PROFILE = stored_profile("contracts", format=Format.PADES, certificate_block={"Path": "/good"})


@pytest.fixture
def put(profiles: Any, clock: Any) -> Callable[..., StoredProfile]:
    """Store a profile that differs from `PROFILE` as told."""

    def insert(name: str = "contracts", **changes: Any) -> StoredProfile:
        profile = attrs.evolve(PROFILE, id=name, name=name, **changes)
        profiles.store.write(lambda: profiles.insert(profile, clock()))
        return profile

    return insert


@pytest.fixture
def editor_with(profiles: Any, registry: Any, sealer_with: Any, clock: Any) -> Callable[..., ProfileEditor]:
    """Make an editor of a host with the folders `in` and `out`, for a value of `Signing:ProfileSecretsKey`."""

    def make(
        key: str = KEY, keep: Callable[[Secret], None] = lambda _: None, *, is_encryption_on: bool = False
    ) -> ProfileEditor:
        folders = {"in", "out"}
        return ProfileEditor(
            profiles, registry, sealer_with(key), folders, clock, keep, is_encryption_on=is_encryption_on
        )

    return make


@pytest.fixture
def edit(editor_with: Any) -> Callable[..., Any]:
    """Save a change of a profile as `operator`."""
    return lambda name="contracts", **change: editor_with().edit(name, ProfileChange(**change), by="operator")


@pytest.fixture
def events(profiles: Any) -> Callable[[], list[tuple[str, str, dict[str, Any]]]]:
    """Read every event: type, message, facts."""
    query = Prepared(EventRow.select(EventRow.event_type, EventRow.message, EventRow.facts).order_by(EventRow.id))

    def read() -> list[tuple[str, str, dict[str, Any]]]:
        rows = profiles.store.read(lambda: profiles.store.execute(query).rows)
        return [(kind, message, json.loads(facts)) for kind, message, facts in rows]

    return read


def objections(caught: pytest.ExceptionInfo[ProfileRefused]) -> set[tuple[str, str]]:
    return {(one.code, one.key) for one in caught.value.objections}


def test_keys_are_saved_with_the_count_and_the_event(put: Any, edit: Any, profiles: Any, events: Any) -> None:
    """CFG-85, SEC-76: one save moves row, version and count, and says what was there and what is."""
    put()
    saves = profiles.saves()
    saved = edit(values={"verify": "false", "Format": "Cades", "SaveAsPem": "TRUE"}, folder="in")
    stored = profiles.get("contracts")
    assert stored == saved.profile
    assert (stored.verify, stored.format, stored.save_as_pem, stored.input_folder) == (False, Format.CADES, True, "in")
    assert (stored.row_version, stored.certificate_version) == (2, 1)
    assert profiles.saves() == saves + 1
    ((kind, message, facts),) = events()
    assert kind == "SigningProfileEdited"
    assert message == (
        "Signing profile 'contracts' edited by operator: Format Pades → Cades; Verify true → false; "
        "SaveAsPem false → true; InputFolder (none) → in."
    )
    assert facts["changes"]["InputFolder"] == {"old": "(none)", "new": "in"}
    assert facts["actor"] == "operator"


def test_the_kind_of_signature_is_saved_and_taken_back(put: Any, edit: Any, profiles: Any, events: Any) -> None:
    """CFG-188, CFG-190, CFG-197, SEC-76: policy, filter, flavour and day are rows like any other."""
    put()
    edit(values={"Policy": "AD-RB 1.1", "PadesFilter": "etsi"})
    stored = profiles.get("contracts")
    assert (stored.policy, stored.pades_filter) == ("AD-RB 1.1", PadesFilter.ETSI)
    edit(
        values={
            "Policy": None,
            "PadesFilter": None,
            "Format": "Xades",
            "Xml:Flavor": "Nfe",
            "Xml:Sha1Until": "2027-01-31",
        }
    )
    stored = profiles.get("contracts")
    assert (stored.policy, stored.pades_filter) == ("AD-RB", None)
    assert (stored.xml_flavor, stored.xml_sha1_until) == (XmlFlavor.NFE, datetime.date(2027, 1, 31))
    edit(values={"Xml": None, "Format": "Cades", "Cades:Existing": "Counter"})
    stored = profiles.get("contracts")
    assert (stored.xml_flavor, stored.xml_sha1_until) == (XmlFlavor.XADES, None)
    assert stored.cades_existing is ExistingSignature.COUNTER
    assert "Policy AD-RB → AD-RB 1.1" not in events()[1][1]
    assert "Xml:Sha1Until (none) → 2027-01-31" in events()[1][1]


def test_the_element_to_sign_is_saved_and_taken_back(put: Any, edit: Any, profiles: Any, events: Any) -> None:
    """BEY-12, CFG-81, SEC-76: placement and element go together, also where they are edited one after the other."""
    put()
    edit(values={"Format": "Xades", "xml:placement": "byid", "Xml:SignElement": "evtAdmissao"})
    stored = profiles.get("contracts")
    assert (stored.xml_placement, stored.xml_sign_element) == (XmlPlacement.BY_ID, "evtAdmissao")
    for values, key in (
        ({"Xml:SignElement": None}, "Xml:SignElement"),
        ({"Xml:SignElement": "esocial:evt"}, "Xml:SignElement"),
        ({"Xml:Placement": None}, "Xml:SignElement"),
        ({"Xml:Placement": "Detached"}, "Xml:SignElement"),
        ({"Xml:Flavor": "Nfe"}, "Xml:Placement"),
        ({"Format": "Cades"}, "Xml:Placement"),
    ):
        with pytest.raises(ProfileRefused) as caught:
            edit(values=values)
        assert ("profile.invalid", key) in objections(caught)
    edit(values={"Xml:SignElement": "evtDeslig"})
    edit(values={"Xml": None})
    stored = profiles.get("contracts")
    assert (stored.xml_placement, stored.xml_sign_element) == (XmlPlacement.ENVELOPED, None)
    told = [message for _, message, _ in events()]
    assert "Xml:Placement Enveloped → ById; Xml:SignElement (none) → evtAdmissao" in told[0]
    assert "Xml:SignElement evtAdmissao → evtDeslig" in told[1]


def test_pdf_passwords_are_sealed_and_taken_back(
    put: Any, edit: Any, editor_with: Any, profiles: Any, events: Any, sealer_with: Any
) -> None:
    """BEY-11, SEC-47, SEC-76: a list of envelopes, short ones too; one is added, replaced and removed by its number."""
    put()
    edit(secrets={"Pdf:Passwords:0": Secret("0123"), "pdf:passwords:1": Secret(PASSWORD)})

    def opened() -> list[str]:
        stored = profiles.get("contracts")
        sealer = sealer_with(KEY)
        return [one.reveal() for one in sealer.open_all(stored.id, "Pdf:Passwords", stored.pdf_passwords)]

    assert opened() == ["0123", PASSWORD]
    edit(secrets={"Pdf:Passwords:0": Secret("9876")})
    assert opened() == ["9876", PASSWORD]
    # Others do not need the key.
    editor_with(OTHER_KEY).edit("contracts", ProfileChange({"Verify": "false"}), by="operator")
    assert opened() == ["9876", PASSWORD]
    edit(secrets={"Pdf:Passwords:1": Secret("")})
    assert opened() == ["9876"]
    edit(values={"Pdf:Passwords": None})
    assert profiles.get("contracts").pdf_passwords == ()
    told = [message for _, message, _ in events()]
    assert "Pdf:Passwords (none) → 2 present" in told[0]
    assert "Pdf:Passwords 2 former → 2 present" in told[1]
    assert "Pdf:Passwords 1 former → (none)" in told[-1]
    assert not any("9876" in message or PASSWORD in message for message in told)
    assert profiles.get("contracts").certificate_version == 1


def test_the_looks_are_saved_and_taken_back(put: Any, edit: Any, profiles: Any, events: Any) -> None:
    """Issue 5, SEC-76: keys of the appearance are rows like any other, and what is at its default is not stored."""
    put()
    edit(values={"Appearance:Enabled": "true", "appearance:page": "First", "Appearance:Width": "70mm"})
    assert profiles.get("contracts").appearance == {"Enabled": True, "Page": "First"}
    edit(values={"Appearance:Corner": "topleft"})
    assert profiles.get("contracts").appearance == {"Enabled": True, "Page": "First", "Corner": "TopLeft"}
    edit(values={"Appearance": None})
    assert profiles.get("contracts").appearance == {}
    assert "Appearance:Page (default) → First" in events()[0][1]
    assert "Appearance:Corner TopLeft → (default)" in events()[2][1]


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"Page": "0"}, "Appearance:Page"),
        ({"Corner": "Middle"}, "Appearance:Corner"),
        ({"Width": "0"}, "Appearance:Width"),
        ({"OffsetX": "-3mm"}, "Appearance:OffsetX"),
        ({"Text": "{cpff}"}, "Appearance:Text"),
        ({"Text": "\u65e5"}, "Appearance:Text"),
        ({"Text": ""}, "Appearance:Text"),
        ({"TimeZone": "Mars/Olympus"}, "Appearance:TimeZone"),
        ({"ImagePath": "logo.png"}, "Appearance:ImagePath"),
        ({"FontPath": "/nowhere/at/all.ttf"}, "Appearance"),
        ({"Colour": "red"}, "Appearance:Colour"),
    ],
)
def test_looks_that_cannot_be_are_refused(values: dict[str, str], key: str, put: Any, edit: Any) -> None:
    """Issue 5, CFG-81: each wrong value by its key, before anything is stored."""
    put()
    with pytest.raises(ProfileRefused) as caught:
        edit(values={"Appearance:Enabled": "true", **{f"Appearance:{name}": value for name, value in values.items()}})
    assert ("profile.invalid", key) in objections(caught)


@pytest.mark.parametrize(
    ("change", "code", "key"),
    [
        ({"values": {"Pdf:Passwords:0": "0123"}}, "profile.secret-refused", "Pdf:Passwords:0"),
        ({"values": {"Pdf:Passwords": "0123"}}, "profile.secret-refused", "Pdf:Passwords"),
        ({"secrets": {"Pdf:Passwords:1": Secret("0123")}}, "profile.invalid", "Pdf:Passwords[0]"),
        ({"secrets": {"Pdf:Passwords:first": Secret("0123")}}, "profile.invalid", "Pdf:Passwords:first"),
        ({"values": {"Format": "Cades"}, "secrets": {"Pdf:Passwords:0": Secret("0123")}}, "profile.invalid",
         "Pdf:Passwords"),
    ],
)  # fmt: skip
def test_pdf_passwords_are_refused(change: Any, code: str, key: str, put: Any, edit: Any) -> None:
    """BEY-11, CFG-81: in plain sight, with a gap, or in a profile that signs no PDF files; the value is not shown."""
    put()
    with pytest.raises(ProfileRefused) as caught:
        edit(**change)
    assert (code, key) in objections(caught)
    assert "0123" not in caught.value.message


def test_second_engines_are_saved_and_taken_back(put: Any, edit: Any, profiles: Any, events: Any) -> None:
    """CFG-198, SEC-76: a list of rows; an engine that is not here is refused, but keeps nobody from other edits."""
    put(format=Format.CADES)
    edit(values={"CrossCheck:0": f"{sys.executable} {{file}}"})
    assert profiles.get("contracts").cross_check == (f"{sys.executable} {{file}}",)
    edit(values={"CrossCheck:1": f"{sys.executable} -I {{file}}"})
    assert len(profiles.get("contracts").cross_check) == 2
    assert f"CrossCheck (none) → {sys.executable} {{file}}" in events()[0][1]
    for wish in ("/nowhere/judge {file}", "anything"):
        with pytest.raises(ProfileRefused) as caught:
            edit(values={"CrossCheck:1": wish})
        assert {code for code, _ in objections(caught)} == {"profile.invalid"}
        assert wish.partition(" ")[0] in str(caught.value)
    assert len(profiles.get("contracts").cross_check) == 2
    edit(values={"CrossCheck": None})
    assert profiles.get("contracts").cross_check == ()
    put("lost", format=Format.CADES, cross_check=("/nowhere/judge {file}",))
    edit("lost", values={"Enabled": "false"})
    assert not profiles.get("lost").enabled


def test_every_objection_is_told_at_once_and_nothing_is_stored(put: Any, edit: Any, profiles: Any, events: Any) -> None:
    """CFG-81: one refusal with a code and a key for each thing that is wrong."""
    put()
    put("other", input_folder="out")
    before, saves = profiles.all(), profiles.saves()
    with pytest.raises(ProfileRefused) as caught:
        edit(
            values={
                "Verify": "maybe",
                "SaveAsPem": "true",
                "Name": "renamed",
                "Verfiy": "true",
                "Method": "Telepathy",
                "Enabled": "false",
                "Certificate:Pfx:Password": PASSWORD,
                "Certificate:Pkcs11:ModulePath": "/lib",
            },
            secrets={"Certificate:Pfx:Path": Secret(PASSWORD)},
            folder="out",
        )
    assert objections(caught) == {
        ("profile.invalid", "Verify"),
        ("profile.invalid", "SaveAsPem"),
        ("profile.invalid", "Name"),
        ("profile.invalid", "Verfiy"),
        ("profile.invalid", "Method"),
        ("profile.invalid", "Certificate:Pkcs11:ModulePath"),
        ("profile.secret-refused", "Certificate:Pfx:Password"),
        ("profile.secret-refused", "Certificate:Pfx:Path"),
        ("profile.folder-bound", "InputFolder"),
        ("profile.folder-taken", "InputFolder"),
    }
    assert "the nearest known key is Verify" in str(caught.value)
    assert "'other'" in str(caught.value)
    assert PASSWORD not in str(caught.value)
    assert (profiles.all(), profiles.saves(), events()) == (before, saves, [])


@pytest.mark.parametrize(
    ("changes", "wish", "code", "key"),
    [
        ({}, {"values": {"Format": ""}}, "profile.invalid", "Format"),
        ({}, {"values": {"PreserveFileExtension": "true"}}, "profile.invalid", "PreserveFileExtension"),
        (
            {"save_as_pem": True, "format": Format.CADES},
            {"values": {"Format": "Xades"}},
            "profile.invalid",
            "SaveAsPem",
        ),
        ({}, {"values": {"Certificate": None}}, "profile.invalid", "Certificate"),
        ({}, {"values": {"Certificate": "x"}}, "profile.invalid", "Certificate"),
        ({}, {"values": {"Certificate:Source": "Pkcs11"}}, "profile.invalid", "Certificate:Source"),
        ({}, {"values": {"Certificate:Pfx:Path": None}}, "profile.invalid", "Certificate:Pfx:Path"),
        ({}, {"values": {"CheckDepth": "deep"}}, "profile.invalid", "CheckDepth"),
        ({}, {"values": {"Verfiy": None}}, "profile.invalid", "Verfiy"),
        ({}, {"values": {"Certificate:Pfx:Phat": None}}, "profile.invalid", "Certificate:Pfx:Phat"),
        ({}, {"values": {"Nonsense:Below": None, "Nonsense": None}}, "profile.invalid", "Nonsense:Below"),
        ({"input_folder": "in"}, {"values": {"Enabled": "false"}}, "profile.folder-bound", "InputFolder"),
        ({"enabled": False}, {"folder": "in"}, "profile.folder-bound", "InputFolder"),
        ({}, {"folder": "elsewhere"}, "profile.folder-unknown", "InputFolder"),
        (
            {},
            {"secrets": {"Certificate:Pfx:Password": Secret("short")}},
            "profile.secret-refused",
            "Certificate:Pfx:Password",
        ),
        ({}, {"values": {"Policy": "AD-RT"}}, "profile.invalid", "Policy"),
        ({}, {"values": {"Policy": "AD-RB 9.9"}}, "profile.invalid", "Policy"),
        ({}, {"values": {"Policy": "anything"}}, "profile.invalid", "Policy"),
        ({}, {"values": {"Policy": "B-B", "PadesFilter": "Pbad"}}, "profile.invalid", "PadesFilter"),
        ({}, {"values": {"Xml:Flavor": "Nfe"}}, "profile.invalid", "Xml:Flavor"),
        ({}, {"values": {"Cades:Existing": "Counter"}}, "profile.invalid", "Cades:Existing"),
        ({}, {"values": {"CrossCheck:0": "pdfsig"}}, "profile.invalid", "CrossCheck[0]"),
        ({"damage": "its row is damaged"}, {"values": {"Verify": "false"}}, None, None),
    ],
    ids=lambda value: next(iter(value), "") if isinstance(value, dict) else None,
)
def test_each_rule_refuses(
    changes: dict[str, Any], wish: dict[str, Any], code: str | None, key: str | None, put: Any, edit: Any, profiles: Any
) -> None:
    """CFG-87, CFG-88, CFG-93, CFG-94, CFG-97, CFG-16, CFG-71, PIPE-58, PIPE-63: refused by the rule's own code."""
    put(**changes)
    if code is None:
        # A row that cannot be read whole must not be written over with what stands in for the rest.
        query = Prepared(ProfileRow.update({ProfileRow.extras: "{"}).where(ProfileRow.id == slot("id")))
        profiles.store.write(lambda: profiles.store.execute(query, id="contracts"))
        code, key = "profile.invalid", ""
    before = profiles.get("contracts")
    with pytest.raises(ProfileRefused) as caught:
        edit(**wish)
    assert (code, key) in objections(caught)
    assert profiles.get("contracts") == before


def test_a_profile_encrypts_only_where_encryption_is_on(
    put: Any, edit: Any, editor_with: Any, profiles: Any, events: Any
) -> None:
    """CFG-91, ENC-20: refused while the service does not encrypt; switched off at any time."""
    put()
    with pytest.raises(ProfileRefused) as caught:
        edit(values={"Encrypt": "true"})
    assert objections(caught) == {("profile.invalid", "Encrypt")}
    assert "Encryption:Enabled" in str(caught.value)
    assert not profiles.get("contracts").encrypt
    editor_with(is_encryption_on=True).edit("contracts", ProfileChange({"encrypt": "true"}), by="operator")
    assert profiles.get("contracts").encrypt
    assert "Encrypt false → true" in events()[-1][1]
    edit(values={"Encrypt": "false"})
    assert not profiles.get("contracts").encrypt


def test_a_key_that_is_taken_back_by_a_wrong_name_is_told_the_nearest(put: Any, edit: Any, profiles: Any) -> None:
    """CFG-16: it would change nothing without a word; what is stored for a plugin that is away can be taken back."""
    put(extras={"Gone": "x"})
    with pytest.raises(ProfileRefused, match="Verfiy: is no key of a profile; the nearest known key is Verify"):
        edit(values={"Verfiy": None})
    edit(values={"Gone": None, "Verify": None, "CheckDepth": None})
    assert profiles.get("contracts").extras == {}


def test_default_is_never_disabled(put: Any, edit: Any) -> None:
    """CFG-87: uploads that name no profile need it."""
    put("default", format=None)
    with pytest.raises(ProfileRefused, match="default cannot be disabled"):
        edit("default", values={"Enabled": "false"})


def test_clearing_the_folder_in_the_same_save_lets_a_profile_be_disabled(put: Any, edit: Any, profiles: Any) -> None:
    """PIPE-63: one save for both."""
    put(input_folder="in")
    edit(values={"Enabled": "false"}, folder=None)
    stored = profiles.get("contracts")
    assert (stored.enabled, stored.input_folder) == (False, None)


def test_a_stored_folder_is_not_looked_at_again(put: Any, edit: Any, profiles: Any) -> None:
    """PIPE-61: a binding to a folder that went from the settings keeps no other edit from being saved."""
    put(input_folder="gone")
    edit(values={"Verify": "false"})
    assert profiles.get("contracts").input_folder == "gone"


def test_a_password_is_sealed_kept_replaced_and_removed(
    put: Any, edit: Any, editor_with: Any, sealer_with: Any, profiles: Any, events: Any, tmp_path: Path
) -> None:
    """SEC-45, SEC-47, SEC-51: sealed only, kept while nobody says otherwise, never in an event, gone when removed."""
    put()
    kept: list[str] = []
    change = ProfileChange(secrets={"certificate:pfx:password": Secret(PASSWORD)})
    editor_with(keep=lambda secret: kept.append(secret.reveal())).edit("contracts", change, by="operator")
    first = profiles.get("contracts")
    assert kept == [PASSWORD]
    assert sealer_with(KEY).open("contracts", "Pkcs12Password", first.sealed["Pkcs12Password"]) == PASSWORD.encode()
    assert first.certificate_version == 2

    edit(values={"Certificate:Pfx:Path": "/other"})
    second = profiles.get("contracts")
    assert (second.certificate_block["Path"], second.sealed, second.certificate_version) == ("/other", first.sealed, 3)

    edit(secrets={"Certificate:Pfx:Password": Secret("another " + PASSWORD)})
    assert profiles.get("contracts").sealed != first.sealed
    edit(secrets={"Certificate:Pfx:Password": Secret("")})
    assert profiles.get("contracts").sealed == {}

    assert [kind for kind, _, _ in events()] == ["SigningProfileCertificateEdited"] * 4
    assert [facts["fields"] for _, _, facts in events()] == [
        ["Pfx:Password"],
        ["Pfx:Path"],
        ["Pfx:Password"],
        ["Pfx:Password"],
    ]
    for file in (tmp_path / "db").iterdir():
        assert b"correct horse" not in file.read_bytes()


def test_a_secret_needs_the_sealing_key(put: Any, editor_with: Any) -> None:
    """CFG-66, SEC-50: refused naming the key, its value unsaid."""
    put()
    change = ProfileChange(secrets={"Certificate:Pfx:Password": Secret(PASSWORD)})
    with pytest.raises(ProfileRefused, match="Signing:ProfileSecretsKey") as caught:
        editor_with("").edit("contracts", change, by="operator")
    assert objections(caught) == {("profile.secrets-key-missing", "Signing:ProfileSecretsKey")}
    assert PASSWORD not in str(caught.value)


def test_an_unreadable_secret_is_not_kept(put: Any, editor_with: Any, edit: Any, profiles: Any) -> None:
    """SEC-49: under another key the certificate's save is refused, until the secret is entered again."""
    put()
    edit(secrets={"Certificate:Pfx:Password": Secret(PASSWORD)})
    with pytest.raises(ProfileRefused, match="Signing:ProfileSecretsKey") as caught:
        editor_with(OTHER_KEY).edit("contracts", ProfileChange({"Certificate:Pfx:Path": "/other"}), by="operator")
    assert objections(caught) == {("profile.secret-unreadable", "Certificate:Pfx:Password")}
    again = ProfileChange({"Certificate:Pfx:Path": "/other"}, {"Certificate:Pfx:Password": Secret(PASSWORD)})
    editor_with(OTHER_KEY).edit("contracts", again, by="operator")
    assert profiles.get("contracts").certificate_block["Path"] == "/other"


def test_another_source_leaves_nothing_of_the_former(put: Any, edit: Any, profiles: Any) -> None:
    """CFG-89, CFG-97: a profile that goes remote may let go of its certificate and its secret."""
    put()
    edit(secrets={"Certificate:Pfx:Password": Secret(PASSWORD)})
    edit(values={"Method": "remote", "Certificate": None})
    stored = profiles.get("contracts")
    assert (stored.method, stored.certificate_source, stored.certificate_block, stored.sealed) == (
        "Remote",
        None,
        {},
        {},
    )


def test_a_save_without_a_difference_stores_nothing(put: Any, edit: Any, profiles: Any, events: Any) -> None:
    """SEC-76: an event is a change."""
    before, saves = put(), profiles.saves()
    assert not edit(values={"Verify": "true", "Certificate:Pfx:Path": "/good"}, folder=None).is_changed
    assert (profiles.get("contracts"), profiles.saves(), events()) == (before, saves, [])


def test_a_certificate_can_be_opened_again_unchanged(put: Any, edit: Any, profiles: Any, events: Any) -> None:
    """CFG-85: a file that was replaced in its place is a change that only a person knows of."""
    put()
    edit(reopens=True)
    assert profiles.get("contracts").certificate_version == 2
    ((kind, message, facts),) = events()
    assert (kind, facts["fields"]) == ("SigningProfileCertificateEdited", [])
    assert "to be opened again" in message


def test_keys_of_plugins_are_edited_like_the_cores(put: Any, edit: Any, profiles: Any, events: Any) -> None:
    """CFG-16: bound by the plugin's class; one at its default is not stored, one of a plugin that is away stays."""
    put(extras={"CheckSeal": True})
    with pytest.raises(ProfileRefused, match="CheckSeal"):
        edit(values={"CheckCard": "true"})
    edit(values={"CheckSeal": None, "CheckCard": "true", "CheckDepth": "5"})
    assert profiles.get("contracts").extras == {"CheckCard": True, "CheckDepth": 5}
    edit(values={"CheckDepth": "3"})
    assert profiles.get("contracts").extras == {"CheckCard": True}
    assert events()[-1][2]["changes"] == {"CheckDepth": {"old": "5", "new": "(default)"}}


def test_a_profile_whose_source_is_away_can_be_disabled(put: Any, edit: Any, profiles: Any) -> None:
    """CFG-16: what the edit is not about is neither checked nor lost."""
    before = put(certificate_source="Pkcs11", certificate_block={"ModulePath": "/lib", "Thumbprint": "ab"})
    edit(values={"Enabled": "false"})
    stored = profiles.get("contracts")
    assert (stored.enabled, stored.certificate_block) == (False, before.certificate_block)


def test_an_edit_on_an_older_look_is_refused(put: Any, edit: Any, profiles: Any) -> None:
    """DSH-110: nothing is saved over what somebody else saved in between."""
    put()
    edit(values={"Verify": "false"}, read_version=1)
    with pytest.raises(RaceLost) as caught:
        edit(values={"Verify": "true"}, read_version=1)
    assert caught.value.code == "profile.race-lost"
    assert not profiles.get("contracts").verify


def test_an_unknown_profile_is_named(edit: Any) -> None:
    """DSH-101: as everywhere, by code."""
    with pytest.raises(NotFound, match="'nobody'") as caught:
        edit("nobody", values={"Verify": "true"})
    assert caught.value.code == "profile.not-found"


def test_a_profile_is_created_by_the_same_rules(put: Any, editor_with: Any, profiles: Any, events: Any) -> None:
    """CFG-86, PIPE-62, SEC-76: name, certificate, folder and secret at once; the event names the folder."""
    saves = profiles.saves()
    change = ProfileChange(
        {"Format": "Pades", "Certificate:Source": "pfx", "Certificate:Pfx:Path": "/good"},
        {"Certificate:Pfx:Password": Secret(PASSWORD)},
        folder="in",
    )
    editor_with().create("invoices", change, by="operator")
    stored = profiles.get("invoices")
    assert (stored.format, stored.certificate_source, stored.input_folder) == (Format.PADES, "Pfx", "in")
    assert list(stored.sealed) == ["Pkcs12Password"]
    assert profiles.saves() == saves + 1
    ((kind, message, facts),) = events()
    assert kind == "SigningProfileCreated"
    assert message.endswith(
        "format Pades, method Local, certificate Pfx, verify true, encrypt false. Input folder: in."
    )
    assert facts["inputFolder"] == "in"
    with pytest.raises(ProfileRefused) as caught:
        editor_with().create("INVOICES", change, by="operator")
    assert ("profile.invalid", "Name") in objections(caught)
    with pytest.raises(ProfileRefused) as caught:
        editor_with().create("invoices", ProfileChange(), by="operator")
    assert objections(caught) == {
        ("profile.name-taken", "Name"),
        ("profile.invalid", "Format"),
        ("profile.invalid", "Certificate"),
    }
