"""Saves profiles: every rule in one place, whoever asks (CFG-81, CFG-85 to CFG-97, PIPE-56 to PIPE-63)."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Collection, Mapping

import attrs

from bulksigner.contract.errors import NotFound, RaceLost
from bulksigner.contract.settings import Secret
from bulksigner.formats.policies import PolicyTable, shipped_policies
from bulksigner.plugin_system.registry import Registry
from bulksigner.profiles import edit_events
from bulksigner.profiles.change import KEEP, Objection, ProfileChange, ProfileRefused
from bulksigner.profiles.draft import Draft, Drafter
from bulksigner.profiles.looks import find_unfit_looks
from bulksigner.profiles.model import StoredProfile
from bulksigner.profiles.rules import find_absent_policy
from bulksigner.profiles.seal import PDF_PASSWORD, Sealer
from bulksigner.profiles.store import ProfileStore
from bulksigner.records.errors import UniqueViolation
from bulksigner.records.events import write_event
from bulksigner.settings.cross_check import find_absent_engine
from bulksigner.settings.grammar import quote
from bulksigner.settings.signatures import asks_for_stamp
from bulksigner.settings.signing import LOCAL_METHOD, NAME

__all__ = ["ProfileEditor", "Saved"]


@attrs.frozen
class Saved:
    """A profile after a save; `before` is None for a new one, and equal to `profile` when nothing was to be saved."""

    profile: StoredProfile
    before: StoredProfile | None

    @property
    def is_changed(self) -> bool:
        """Tell whether anything was stored."""
        return self.profile != self.before


class ProfileEditor:
    """Creates and changes profiles; `folders` are the input folders that this host configures.

    `has_roots` tells whether the host trusts any root, without which no profile may begin to ask for validation or for
    time stamps; `has_timestamps` whether it names a time-stamp service.

    A save is one transaction: the row, the count of saves that running services look at, and the event.
    """

    def __init__(
        self,
        profiles: ProfileStore,
        registry: Registry,
        sealer: Sealer,
        folders: Collection[str],
        clock: Callable[[], datetime.datetime],
        keep_secret: Callable[[Secret], None],
        *,
        policies: PolicyTable | None = None,
        is_encryption_on: bool = False,
        has_roots: bool = True,
        has_timestamps: bool = False,
    ) -> None:
        self._profiles = profiles
        self._drafter = Drafter(registry, sealer, keep_secret, is_encryption_on, has_timestamps)
        self._sealer = sealer
        self._policies = policies or shipped_policies()
        self._folders = folders
        self._has_roots = has_roots
        self._clock = clock

    def create(self, name: str, change: ProfileChange, *, by: str) -> Saved:
        """Make a profile. Raises `ProfileRefused` with every objection, or `StoreFailed`."""
        objections: list[Objection] = []
        if not NAME.accepts(name):
            objections.append(Objection("profile.invalid", "Name", f"is {quote(name)}. Give {NAME.expected}."))
        elif self._profiles.get(name) is not None:
            objections.append(_name_taken())
        bare = StoredProfile(
            id=str(uuid.uuid4()),
            name=name,
            enabled=True,
            format=None,
            method=LOCAL_METHOD,
            verify=True,
            preserve_file_extension=False,
            save_as_pem=False,
            validate_certificate=True,
            require_non_repudiation=True,
            certificate_source=None,
            certificate_block={},
            sealed={},
            extras={},
            input_folder=None,
        )
        draft = self._draft(bare, change, objections)
        profile = self._seal(draft)
        return self._save(Saved(profile, None), by)

    def edit(self, name: str, change: ProfileChange, *, by: str) -> Saved:
        """Change a profile.

        Raises `NotFound`, `ProfileRefused` with every objection, `RaceLost` when somebody else saved it in between,
        or `StoreFailed`.
        """
        before = self._profiles.get(name)
        if before is None:
            raise NotFound(f"There is no profile '{name}'.", code="profile.not-found")
        if change.read_version is not None and change.read_version != before.row_version:
            raise _race_lost(before.name)
        objections: list[Objection] = []
        if before.damage is not None:
            objections.append(
                Objection("profile.invalid", "", f"{before.damage}; restore the database, or mend the row by hand.")
            )
        draft = self._draft(before, change, objections)
        profile = self._seal(draft)
        if profile == before and not change.reopens:
            return Saved(before, before)
        if change.reopens or edit_events.list_moved(before, profile):
            profile = attrs.evolve(profile, certificate_version=before.certificate_version + 1)
        return self._save(Saved(attrs.evolve(profile, row_version=before.row_version + 1), before), by)

    def _draft(self, before: StoredProfile, change: ProfileChange, objections: list[Objection]) -> Draft:
        draft = self._drafter.draft(before, change, objections)
        if change.folder is not KEEP:
            folder = change.folder or None
            draft = attrs.evolve(draft, profile=attrs.evolve(draft.profile, input_folder=folder))
        objections += self._object_to_folder(draft.profile, before)
        objections += self._object_to_validation(draft.profile, before)
        objections += self._object_to_stamps(draft.profile)
        absent = find_absent_policy(draft.profile, self._policies)
        if absent is not None and not objections:
            objections.append(Objection("profile.invalid", "Policy", f"is {draft.profile.policy}, but {absent}."))
        if draft.profile.cross_check != before.cross_check and not objections:
            # One that was lost later must not keep its profile from being disabled.
            lost = find_absent_engine(draft.profile.cross_check)
            objections += [] if lost is None else [Objection("profile.invalid", "CrossCheck", lost)]
        if draft.profile.appearance != before.appearance and not objections:
            unfit = find_unfit_looks(draft.profile.appearance)
            objections += [] if unfit is None else [Objection("profile.invalid", "Appearance", unfit)]
        if objections:
            raise ProfileRefused(before.name, objections)
        return draft

    def _object_to_folder(self, profile: StoredProfile, before: StoredProfile) -> list[Objection]:
        folder = profile.input_folder
        if folder is None:
            return []
        found = []
        if not profile.enabled:
            found.append(
                Objection(
                    "profile.folder-bound",
                    "InputFolder",
                    f"is '{folder}', and the files of a disabled profile's folder would wait unseen. Clear the folder "
                    "in the same save, or leave the profile enabled.",
                )
            )
        # A binding that is stored already is never looked at again (PIPE-61).
        if folder != before.input_folder:
            if folder not in self._folders:
                known = ", ".join(sorted(self._folders)) or "none"
                found.append(
                    Objection(
                        "profile.folder-unknown",
                        "InputFolder",
                        f"is '{folder}', which this host does not configure. Configured: {known}.",
                    )
                )
            owner = self._profiles.by_folder(folder)
            if owner is not None and owner.id != profile.id:
                found.append(_folder_taken(folder, owner.name))
        return found

    def _object_to_validation(self, profile: StoredProfile, before: StoredProfile) -> list[Objection]:
        is_stored = before.validate_certificate and before.certificate_source is not None
        if self._has_roots or not profile.validate_certificate or is_stored:
            return []
        return [
            Objection(
                "profile.no-trust",
                "ValidateCertificate",
                "is true, and this host trusts no root. Fill the folder that Signing:Trust:RootsPath names and restart "
                "the service, or set ValidateCertificate=false.",
            )
        ]

    def _object_to_stamps(self, profile: StoredProfile) -> list[Objection]:
        if self._has_roots or not asks_for_stamp(profile.policy):
            return []
        return [
            Objection(
                "profile.no-trust",
                "Policy",
                f"is {profile.policy}, which asks for a time stamp, and this host trusts no root of any service. "
                "Fill the folder that Signing:Trust:RootsPath names and restart the service.",
            )
        ]

    def _seal(self, draft: Draft) -> StoredProfile:
        sealed: Mapping[str, bytes] = {
            field: self._sealer.seal(draft.profile.id, field, secret.reveal().encode("utf-8"))
            for field, secret in draft.secrets.items()
        }
        profile = attrs.evolve(draft.profile, sealed={**draft.profile.sealed, **sealed})
        if draft.pdf_passwords is None:
            return profile
        passwords = self._sealer.seal_all(profile.id, PDF_PASSWORD, draft.pdf_passwords)
        return attrs.evolve(profile, pdf_passwords=passwords)

    def _save(self, saved: Saved, by: str) -> Saved:
        profile, before = saved.profile, saved.before
        at = self._clock()

        def act() -> Saved:
            self._profiles.count_save()
            self._refuse_taken(profile)
            if before is None:
                self._profiles.insert(profile, at)
                write_event(self._profiles.store, edit_events.created(profile, by), at)
                return saved
            if not self._profiles.update(profile, before.row_version, at):
                raise _race_lost(profile.name)
            for event in edit_events.edited(before, profile, by):
                write_event(self._profiles.store, event, at)
            return saved

        def settle() -> Saved | None:
            return saved if self._profiles.get(profile.name) == profile else None

        try:
            return self._profiles.store.write(act, settle=settle)
        except UniqueViolation as error:
            # An import by another build takes no turn at the counter; the unique rules of the table still hold.
            self._refuse_taken(profile)
            raise ProfileRefused(profile.name, [_name_taken()]) from error

    def _refuse_taken(self, profile: StoredProfile) -> None:
        """Refuse what another save took since the rules were looked at (PIPE-58)."""
        named = self._profiles.get(profile.name)
        if named is not None and named.id != profile.id:
            raise ProfileRefused(profile.name, [_name_taken()])
        owner = self._profiles.by_folder(profile.input_folder) if profile.input_folder else None
        if owner is not None and owner.id != profile.id:
            raise ProfileRefused(profile.name, [_folder_taken(owner.input_folder or "", owner.name)])


def _name_taken() -> Objection:
    return Objection("profile.name-taken", "Name", "is that of another profile; choose another name.")


def _folder_taken(folder: str, owner: str) -> Objection:
    return Objection(
        "profile.folder-taken",
        "InputFolder",
        f"'{folder}' belongs to the profile '{owner}'; clear it there first, or choose another folder.",
    )


def _race_lost(name: str) -> RaceLost:
    return RaceLost(
        f"Profile '{name}' was changed by somebody else in between; nothing was saved. Look at it and try again.",
        code="profile.race-lost",
    )
