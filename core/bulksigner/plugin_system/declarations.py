"""What one plugin declares, kept apart until all of it is known to be acceptable."""

from __future__ import annotations

import copy
from typing import Any

import attrs

from bulksigner.contract.settings import Schema

__all__ = ["Declarations", "is_off_by_default"]


@attrs.define
class Declarations:
    """Records the calls of one `bulksigner_add_settings`; a `Schema`."""

    sections: list[tuple[str, type[Any]]] = attrs.Factory(list)
    blocks: list[tuple[str, type[Any]]] = attrs.Factory(list)
    keys: list[type[Any]] = attrs.Factory(list)
    codes: list[tuple[str, int | None, str]] = attrs.Factory(list)

    def section(self, path: str, cls: type[Any]) -> None:
        """Record a section."""
        self.sections.append((path, cls))

    def certificate_block(self, source: str, cls: type[Any]) -> None:
        """Record the block of a certificate source."""
        self.blocks.append((source, cls))

    def profile_keys(self, cls: type[Any]) -> None:
        """Record keys of profiles."""
        self.keys.append(cls)

    def error_code(self, code: str, status: int | None, title: str) -> None:
        """Record an error code."""
        self.codes.append((code, status, title))

    def _declare_all(self, schema: Schema) -> None:
        for path, cls in self.sections:
            schema.section(path, cls)
        for source, cls in self.blocks:
            schema.certificate_block(source, cls)
        for cls in self.keys:
            schema.profile_keys(cls)
        for row in self.codes:
            schema.error_code(*row)

    def join(self, schema: Schema) -> None:
        """Declare everything to `schema`, or nothing: a copy of it tries first."""
        self._declare_all(copy.deepcopy(schema))
        self._declare_all(schema)


def is_off_by_default(cls: type[Any]) -> bool:
    """Tell whether a profile that sets none of these keys asks for nothing: each default is false or absent."""
    return all(attribute.default is None or attribute.default is False for attribute in attrs.fields(cls))
