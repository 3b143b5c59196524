"""The roles of providers, and the check that an object can fill one."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import attrs

from bulksigner.contract.approval import ApprovalRule
from bulksigner.contract.certificate import CertificateSource
from bulksigner.contract.errors import PluginFailed
from bulksigner.contract.intake import IntakeSource
from bulksigner.contract.observe import BannerRow, ReadinessCheck
from bulksigner.contract.signing import SigningMethod
from bulksigner.contract.storage import StorageProvider
from bulksigner.contract.validation import FileValidator

__all__ = [
    "APPROVAL_RULE",
    "BANNER_HOOK",
    "CERTIFICATE_SOURCE",
    "FILE_VALIDATOR",
    "INTAKE_SOURCE",
    "READINESS_CHECK",
    "ROLES",
    "SIGNING_METHOD",
    "SIGNING_ROLES",
    "STORAGE_PROVIDER",
    "Role",
    "check_answer",
    "check_banner_rows",
]

P = TypeVar("P")
BANNER_HOOK = "bulksigner_banner_rows"


@attrs.frozen
class Role(Generic[P]):
    """A kind of provider: the hook that hands it out, its Protocol, and its name in texts."""

    hook: str
    protocol: Any  # type[P], which mypy does not allow to be a Protocol
    title: str


CERTIFICATE_SOURCE: Role[CertificateSource] = Role(
    "bulksigner_certificate_sources", CertificateSource, "certificate source"
)
SIGNING_METHOD: Role[SigningMethod] = Role("bulksigner_signing_methods", SigningMethod, "signing method")
STORAGE_PROVIDER: Role[StorageProvider] = Role("bulksigner_storage_providers", StorageProvider, "storage provider")
APPROVAL_RULE: Role[ApprovalRule] = Role("bulksigner_approval_rules", ApprovalRule, "approval rule")
FILE_VALIDATOR: Role[FileValidator] = Role("bulksigner_file_validators", FileValidator, "file validator")
INTAKE_SOURCE: Role[IntakeSource] = Role("bulksigner_intake_sources", IntakeSource, "intake source")
READINESS_CHECK: Role[ReadinessCheck] = Role("bulksigner_readiness_checks", ReadinessCheck, "readiness check")

SIGNING_ROLES: tuple[Role[Any], ...] = (CERTIFICATE_SOURCE, SIGNING_METHOD)
ROLES: tuple[Role[Any], ...] = (
    *SIGNING_ROLES,
    STORAGE_PROVIDER,
    APPROVAL_RULE,
    FILE_VALIDATOR,
    INTAKE_SOURCE,
    READINESS_CHECK,
)


def _check_sequence(hook: str, answer: object) -> Sequence[object]:
    if answer is None:
        return ()
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
        raise PluginFailed(f"{hook} returns {type(answer).__name__}, not a list of providers")
    return answer


def _check_methods(role: Role[Any], provider: object) -> None:
    """Refuse methods that cannot be called the way the Protocol is called."""
    for name, promised in inspect.getmembers(role.protocol, inspect.isfunction):
        if name.startswith("_"):
            continue
        method = getattr(provider, name)
        if not callable(method):
            raise PluginFailed(f"{role.title} {type(provider).__name__}: {name} is not a method")
        parameters = list(inspect.signature(promised).parameters)[1:]
        try:
            inspect.signature(method).bind(*parameters)
        except TypeError as error:
            raise PluginFailed(
                f"{role.title} {type(provider).__name__}: {name} does not take ({', '.join(parameters)})"
            ) from error


def check_answer(role: Role[P], answer: object) -> list[P]:
    """Return the providers a hook gave; raises `PluginFailed` when one cannot fill the role."""
    providers: list[P] = []
    for provider in _check_sequence(role.hook, answer):
        if isinstance(provider, type):
            raise PluginFailed(f"{role.hook} hands out the class {provider.__name__}, not an object of it")
        if not isinstance(provider, role.protocol):
            raise PluginFailed(f"{role.hook} hands out {type(provider).__name__}, which is no {role.title}")
        name: object = getattr(provider, "name", None)
        if not isinstance(name, str) or not name.strip():
            raise PluginFailed(f"{role.title} {type(provider).__name__} has no name")
        _check_methods(role, provider)
        providers.append(provider)
    return providers


def check_banner_rows(answer: object) -> list[BannerRow]:
    """Return the banner rows a hook gave; raises `PluginFailed` on anything else."""
    rows = _check_sequence(BANNER_HOOK, answer)
    if not all(isinstance(row, BannerRow) for row in rows):
        raise PluginFailed(f"{BANNER_HOOK} hands out something that is no BannerRow")
    return [row for row in rows if isinstance(row, BannerRow)]
