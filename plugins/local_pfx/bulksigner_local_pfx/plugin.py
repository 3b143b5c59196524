"""The hooks of this plugin."""

from __future__ import annotations

from collections.abc import Sequence

from bulksigner.contract.certificate import CertificateSource
from bulksigner.contract.hookspecs import hookimpl
from bulksigner.contract.settings import Schema, Settings
from bulksigner_local_pfx.settings import PfxBlock
from bulksigner_local_pfx.source import PfxSource

__all__ = ["bulksigner_add_settings", "bulksigner_certificate_sources"]


@hookimpl
def bulksigner_add_settings(schema: Schema) -> None:
    """Declare the block `<Certificate>:Pfx`."""
    schema.certificate_block(PfxSource.name, PfxBlock)


@hookimpl
def bulksigner_certificate_sources(settings: Settings) -> Sequence[CertificateSource]:  # noqa: ARG001 - hook signature
    """Hand out the source `Pfx`."""
    return [PfxSource()]
