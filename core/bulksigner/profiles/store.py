"""Reads and writes the profile table, and counts its saves."""

from __future__ import annotations

import base64
import binascii
import datetime
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bulksigner.contract.signing import Format
from bulksigner.profiles.model import StoredProfile
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import ProfileChangeRow, ProfileRow
from bulksigner.settings.signatures import CadesContent, ExistingSignature, PadesFilter, XmlFlavor, XmlPlacement

__all__ = ["ProfileStore"]

_READ_COLUMNS = (
    "id",
    "name",
    "enabled",
    "format",
    "method",
    "verify",
    "preserve_file_extension",
    "save_as_pem",
    "validate_certificate",
    "require_non_repudiation",
    "certificate_source",
    "certificate_block",
    "sealed",
    "extras",
    "input_folder",
    "row_version",
    "certificate_version",
    "encrypt",
    "policy",
    "pades_filter",
    "xml_flavor",
    "xml_sha1_until",
    "xml_placement",
    "xml_sign_element",
    "cades_existing",
    "cades_content",
    "cross_check",
    "pdf_passwords",
    "appearance",
)
_OBJECTS = ("certificate_block", "sealed", "extras", "appearance")
_WRITTEN_COLUMNS = (*_READ_COLUMNS, "name_key", "created_at", "updated_at")
_SELECT = ProfileRow.select(*(getattr(ProfileRow, column) for column in _READ_COLUMNS))
_ALL = Prepared(_SELECT.order_by(ProfileRow.name_key))
_BY_NAME = Prepared(_SELECT.where(ProfileRow.name_key == slot("name_key")))
_BY_FOLDER = Prepared(_SELECT.where(ProfileRow.input_folder == slot("input_folder")))
_INSERT = Prepared(ProfileRow.insert({getattr(ProfileRow, column): slot(column) for column in _WRITTEN_COLUMNS}))
# Name and id stay for ever (CFG-86).
_EDITED_COLUMNS = (*(column for column in _READ_COLUMNS if column not in ("id", "name")), "updated_at")
_UPDATE = Prepared(
    ProfileRow.update({getattr(ProfileRow, column): slot(column) for column in _EDITED_COLUMNS}).where(
        ProfileRow.id == slot("id"), ProfileRow.row_version == slot("read_version")
    )
)
_COUNT_UP = Prepared(
    ProfileChangeRow.update({ProfileChangeRow.counter: ProfileChangeRow.counter + 1}).where(ProfileChangeRow.id == 1)
)
_COUNTED = Prepared(ProfileChangeRow.select(ProfileChangeRow.counter).where(ProfileChangeRow.id == 1))


class ProfileStore:
    """The profile table; names match without regard to case (CFG-86)."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def all(self) -> list[StoredProfile]:
        """Return every profile by name, also one whose row is damaged."""
        return self._read(_ALL)

    def get(self, name: str) -> StoredProfile | None:
        """Return a profile, or None."""
        return next(iter(self._read(_BY_NAME, name_key=name.casefold())), None)

    def by_folder(self, folder: str) -> StoredProfile | None:
        """Return the profile that a folder is bound to, or None (PIPE-56)."""
        return next(iter(self._read(_BY_FOLDER, input_folder=folder)), None)

    def insert(self, profile: StoredProfile, at: datetime.datetime) -> None:
        """Insert a profile in the act under way; raises `UniqueViolation` when name or folder is taken."""
        columns = _write_columns(profile)
        self.store.execute(_INSERT, **columns, name_key=profile.name.casefold(), created_at=at, updated_at=at)

    def update(self, profile: StoredProfile, read_version: int, at: datetime.datetime) -> bool:
        """Save a profile in the act under way; False when its row is not at `read_version` any more."""
        columns = _write_columns(profile)
        return self.store.execute(_UPDATE, **columns, read_version=read_version, updated_at=at).count == 1

    def count_save(self) -> None:
        """Count one more save, first in the act that saves.

        Whoever saves holds this row until the commit, so that saves follow one another, and what a save reads after
        it is what the one before has left (PIPE-58).
        """
        self.store.execute(_COUNT_UP)

    def saves(self) -> int:
        """Return how many saves there were; it has moved when any process has committed one (CFG-85)."""
        return int(self.store.read(lambda: self.store.execute(_COUNTED).rows)[0][0])

    def _read(self, prepared: Prepared, **values: object) -> list[StoredProfile]:
        return [_from_row(row) for row in self.store.read(lambda: self.store.execute(prepared, **values).rows)]


def _write_columns(profile: StoredProfile) -> dict[str, object]:
    sealed = {field: base64.b64encode(envelope).decode() for field, envelope in profile.sealed.items()}
    return {column: getattr(profile, column) for column in _READ_COLUMNS} | {
        "certificate_block": _write_json(profile.certificate_block),
        "sealed": _write_json(sealed),
        "extras": _write_json(profile.extras),
        "appearance": _write_json(profile.appearance),
        "cross_check": json.dumps(profile.cross_check, ensure_ascii=False),
        "pdf_passwords": json.dumps([base64.b64encode(envelope).decode() for envelope in profile.pdf_passwords]),
        "pades_filter": profile.pades_filter.value if profile.pades_filter else None,
        "xml_flavor": profile.xml_flavor.value,
        "xml_placement": profile.xml_placement.value,
        "cades_existing": profile.cades_existing.value,
        "cades_content": profile.cades_content.value,
        "xml_sha1_until": profile.xml_sha1_until.isoformat() if profile.xml_sha1_until else None,
    }


def _write_json(value: Mapping[str, object]) -> str:
    return json.dumps(dict(value), ensure_ascii=False, sort_keys=True)


def _read_object(column: str, text: str, damages: list[str]) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        damages.append(column)
        return {}
    return value


def _read_choice(column: str, value: str | None, read: Callable[[str], Any], damages: list[str]) -> Any:
    try:
        return None if value is None else read(value)
    except ValueError:
        damages.append(column)
        return None


def _read_texts(text: str) -> tuple[str, ...]:
    value = json.loads(text)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("no list of texts")
    return tuple(value)


def _read_envelopes(text: str) -> tuple[bytes, ...]:
    return tuple(base64.b64decode(one, validate=True) for one in _read_texts(text))


def _from_row(row: Sequence[Any]) -> StoredProfile:
    columns = dict(zip(_READ_COLUMNS, row, strict=True))
    damages: list[str] = []
    objects = {name: _read_object(name, columns[name], damages) for name in _OBJECTS}
    sealed: dict[str, bytes] = {}
    try:
        sealed = {field: base64.b64decode(text, validate=True) for field, text in objects["sealed"].items()}
    except (binascii.Error, TypeError, ValueError):
        damages.append("sealed")
    chosen = {
        name: _read_choice(name, columns[name], read, damages)
        for name, read in (
            ("format", Format),
            ("pades_filter", PadesFilter),
            ("xml_flavor", XmlFlavor),
            ("xml_placement", XmlPlacement),
            ("xml_sha1_until", datetime.date.fromisoformat),
            ("cades_existing", ExistingSignature),
            ("cades_content", CadesContent),
            ("cross_check", _read_texts),
            ("pdf_passwords", _read_envelopes),
        )
    }
    return StoredProfile(
        id=columns["id"],
        name=columns["name"],
        enabled=bool(columns["enabled"]),
        format=chosen["format"],
        method=columns["method"],
        verify=bool(columns["verify"]),
        preserve_file_extension=bool(columns["preserve_file_extension"]),
        save_as_pem=bool(columns["save_as_pem"]),
        validate_certificate=bool(columns["validate_certificate"]),
        require_non_repudiation=bool(columns["require_non_repudiation"]),
        certificate_source=columns["certificate_source"],
        certificate_block=objects["certificate_block"],
        sealed=sealed,
        extras=objects["extras"],
        input_folder=columns["input_folder"],
        row_version=columns["row_version"],
        certificate_version=columns["certificate_version"],
        encrypt=bool(columns["encrypt"]),
        policy=columns["policy"],
        pades_filter=chosen["pades_filter"],
        xml_flavor=chosen["xml_flavor"] or XmlFlavor.XADES,
        xml_sha1_until=chosen["xml_sha1_until"],
        xml_placement=chosen["xml_placement"] or XmlPlacement.ENVELOPED,
        xml_sign_element=columns["xml_sign_element"],
        cades_existing=chosen["cades_existing"] or ExistingSignature.WRAP,
        cades_content=chosen["cades_content"] or CadesContent.ATTACHED,
        cross_check=chosen["cross_check"] or (),
        appearance=objects["appearance"],
        pdf_passwords=chosen["pdf_passwords"] or (),
        damage=f"its row in the database is damaged (column {damages[0]})" if damages else None,
    )
