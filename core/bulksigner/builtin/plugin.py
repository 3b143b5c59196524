"""The hooks of the built-ins; every one of them answers last."""

from __future__ import annotations

from collections.abc import Sequence

from bulksigner.builtin.by_extension import choose_by_extension
from bulksigner.builtin.local_folder import LocalFileSystem
from bulksigner.builtin.local_signing import LocalSigning
from bulksigner.contract.hookspecs import hookimpl
from bulksigner.contract.settings import Settings
from bulksigner.contract.signing import Format, SigningMethod
from bulksigner.contract.storage import StorageProvider

__all__ = ["bulksigner_choose_format", "bulksigner_signing_methods", "bulksigner_storage_providers"]


@hookimpl
def bulksigner_signing_methods(settings: Settings) -> Sequence[SigningMethod]:  # noqa: ARG001 - hook signature
    """Hand out the method `Local`."""
    return [LocalSigning()]


@hookimpl
def bulksigner_storage_providers(settings: Settings) -> Sequence[StorageProvider]:  # noqa: ARG001 - hook signature
    """Hand out the provider `LocalFileSystem`."""
    return [LocalFileSystem()]


@hookimpl
def bulksigner_choose_format(name: str) -> Format:
    """Choose by the extension of the name."""
    return choose_by_extension(name)
