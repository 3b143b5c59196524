"""The visible appearance of a profile's signatures: bound from its row, and tried where it is saved or opened."""

from __future__ import annotations

from collections.abc import Mapping

from bulksigner.contract.appearance import Appearance
from bulksigner.contract.errors import BulkSignerError
from bulksigner.settings.bind import structure_block

__all__ = ["bind_looks", "find_unfit_looks"]


def bind_looks(stored: Mapping[str, object]) -> Appearance | None:
    """Return what a row asks for, or None where signatures are not shown.

    Raises `ConfigurationRefused` for a row that was edited by hand, `PermanentFailure` for an image or a font that is
    no use.
    """
    if not stored:
        return None
    looks = structure_block(Appearance, stored, {})
    if not looks.enabled:
        return None
    if looks.image_path is not None or looks.font_path is not None:
        # It comes with pyHanko, which hosts without visible signatures do without.
        from bulksigner.formats.stamp import Stamp

        Stamp.make(looks, None)
    return looks


def find_unfit_looks(stored: Mapping[str, object]) -> str | None:
    """Say why signatures cannot be shown so on this host, or None."""
    try:
        bind_looks(stored)
    except BulkSignerError as error:
        return error.message
    return None
