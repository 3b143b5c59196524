"""The hooks of this plugin."""

from __future__ import annotations

from collections.abc import Sequence

from bulksigner.contract.certificate import CertificateSource
from bulksigner.contract.hookspecs import hookimpl
from bulksigner.contract.settings import Schema, Settings
from bulksigner_pkcs11.channel import LOST
from bulksigner_pkcs11.settings import Pkcs11Block, Pkcs11Section
from bulksigner_pkcs11.source import Pkcs11Source

__all__ = ["bulksigner_add_settings", "bulksigner_certificate_sources"]


@hookimpl
def bulksigner_add_settings(schema: Schema) -> None:
    """Declare the block `<Certificate>:Pkcs11`, the section `Pkcs11` and the code of a lost driver."""
    schema.certificate_block(Pkcs11Source.name, Pkcs11Block)
    schema.section("Pkcs11", Pkcs11Section)
    schema.error_code(LOST, None, "The PKCS #11 library hung or crashed in the job's call")


@hookimpl
def bulksigner_certificate_sources(settings: Settings) -> Sequence[CertificateSource]:
    """Hand out the source `Pkcs11`."""
    return [Pkcs11Source(settings[Pkcs11Section].call_timeout_seconds)]
