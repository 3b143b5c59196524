"""Every hook a plugin may implement, one docstring page each.

A plugin is a module named by an entry point of the group `bulksigner`; its hooks are functions marked with
`hookimpl`. Collect hooks hand out provider objects once at boot; the core then calls the objects by name.
"""

from __future__ import annotations

from collections.abc import Sequence

import pluggy

from bulksigner.contract.approval import ApprovalRule
from bulksigner.contract.certificate import CertificateSource
from bulksigner.contract.intake import IntakeSource
from bulksigner.contract.observe import BannerRow, JobChange, ReadinessCheck
from bulksigner.contract.settings import Schema, Settings
from bulksigner.contract.signing import Format, SigningMethod
from bulksigner.contract.storage import StorageProvider
from bulksigner.contract.validation import FileValidator

__all__ = ["PROJECT", "hookimpl", "hookspec"]

PROJECT = "bulksigner"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def bulksigner_add_settings(schema: Schema) -> None:
    """Declare sections, certificate blocks, profile keys and error codes.

    Called once in `app.build`, before any settings are bound. What it raises marks the plugin as failed.
    """


@hookspec
def bulksigner_certificate_sources(settings: Settings) -> Sequence[CertificateSource] | None:
    """Hand out certificate sources; called once at boot and in each signing worker process."""


@hookspec
def bulksigner_signing_methods(settings: Settings) -> Sequence[SigningMethod] | None:
    """Hand out signing methods; called once at boot and in each signing worker process."""


@hookspec
def bulksigner_storage_providers(settings: Settings) -> Sequence[StorageProvider] | None:
    """Hand out storage providers; called once at boot."""


@hookspec
def bulksigner_approval_rules(settings: Settings) -> Sequence[ApprovalRule] | None:
    """Hand out approval rules; called once at boot. Declared: jobs do not park yet."""


@hookspec
def bulksigner_file_validators(settings: Settings) -> Sequence[FileValidator] | None:
    """Hand out file validators; called once at boot.

    A validator that raises, or gives no answer within 300 seconds, fails the job.
    """


@hookspec
def bulksigner_intake_sources(settings: Settings) -> Sequence[IntakeSource] | None:
    """Hand out intake sources; called once at boot. Declared: nothing asks them yet."""


@hookspec(firstresult=True)
def bulksigner_choose_format(name: str, head: bytes) -> Format | None:
    """Choose the format of a file whose profile names none; the first answer that is not None counts.

    `name` is the file's name, `head` its first bytes (at most 1024; empty where they are not at hand). Built-ins
    answer last, by extension (PIPE-38).
    """


@hookspec
def bulksigner_readiness_checks(settings: Settings) -> Sequence[ReadinessCheck] | None:
    """Hand out readiness checks; called once at boot, run at each probe."""


@hookspec
def bulksigner_banner_rows(settings: Settings) -> Sequence[BannerRow] | None:
    """Hand out rows for the ready panel; called once, when it is printed."""


@hookspec
def bulksigner_job_changed(change: JobChange) -> None:
    """Hear of a committed change of a job; the result is ignored, what it raises is logged once."""


@hookspec
def bulksigner_stopping() -> None:
    """Hear that the service stops, after the last job; called once."""
