"""Reads and inserts profiles."""

from __future__ import annotations

import base64
import binascii
import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

from bulksigner.contract.signing import Format
from bulksigner.profiles.model import StoredProfile
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import ProfileRow

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
    "certificate_source",
    "certificate_block",
    "sealed",
    "extras",
    "input_folder",
    "row_version",
)
_WRITTEN_COLUMNS = (*_READ_COLUMNS, "name_key", "created_at", "updated_at")
_SELECT = ProfileRow.select(*(getattr(ProfileRow, column) for column in _READ_COLUMNS))
_ALL = Prepared(_SELECT.order_by(ProfileRow.name_key))
_BY_NAME = Prepared(_SELECT.where(ProfileRow.name_key == slot("name_key")))
_BY_FOLDER = Prepared(_SELECT.where(ProfileRow.input_folder == slot("input_folder")))
_INSERT = Prepared(ProfileRow.insert({getattr(ProfileRow, column): slot(column) for column in _WRITTEN_COLUMNS}))


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
        sealed = {field: base64.b64encode(envelope).decode() for field, envelope in profile.sealed.items()}
        self.store.execute(
            _INSERT,
            id=profile.id,
            name=profile.name,
            name_key=profile.name.casefold(),
            enabled=profile.enabled,
            format=profile.format,
            method=profile.method,
            verify=profile.verify,
            preserve_file_extension=profile.preserve_file_extension,
            save_as_pem=profile.save_as_pem,
            certificate_source=profile.certificate_source,
            certificate_block=_write_json(profile.certificate_block),
            sealed=_write_json(sealed),
            extras=_write_json(profile.extras),
            input_folder=profile.input_folder,
            created_at=at,
            updated_at=at,
            row_version=profile.row_version,
        )

    def _read(self, prepared: Prepared, **values: object) -> list[StoredProfile]:
        return [_from_row(row) for row in self.store.read(lambda: self.store.execute(prepared, **values).rows)]


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


def _from_row(row: Sequence[Any]) -> StoredProfile:
    columns = dict(zip(_READ_COLUMNS, row, strict=True))
    damages: list[str] = []
    objects = {name: _read_object(name, columns[name], damages) for name in ("certificate_block", "sealed", "extras")}
    sealed: dict[str, bytes] = {}
    try:
        sealed = {field: base64.b64decode(text, validate=True) for field, text in objects["sealed"].items()}
    except (binascii.Error, TypeError, ValueError):
        damages.append("sealed")
    chosen = columns["format"]
    formats = {known.value: known for known in Format}
    if chosen is not None and chosen not in formats:
        damages.append("format")
    return StoredProfile(
        id=columns["id"],
        name=columns["name"],
        enabled=bool(columns["enabled"]),
        format=formats.get(chosen),
        method=columns["method"],
        verify=bool(columns["verify"]),
        preserve_file_extension=bool(columns["preserve_file_extension"]),
        save_as_pem=bool(columns["save_as_pem"]),
        certificate_source=columns["certificate_source"],
        certificate_block=objects["certificate_block"],
        sealed=sealed,
        extras=objects["extras"],
        input_folder=columns["input_folder"],
        row_version=columns["row_version"],
        damage=f"its row in the database is damaged (column {damages[0]})" if damages else None,
    )
