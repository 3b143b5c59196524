"""The steps of a start that need no running service: plugins, settings, and what they name (CLU-01)."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import socket
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from bulksigner.contract.codes import CODES, ErrorCode
from bulksigner.contract.errors import ConfigurationRefused, Failure, PermanentFailure
from bulksigner.contract.settings import Secret
from bulksigner.formats.policies import PolicyTable, shipped_policies
from bulksigner.jobs.model import Owner, utc_now
from bulksigner.observability.redaction import Scrubber, list_block_secrets, list_environment_secrets
from bulksigner.plugin_system import roles
from bulksigner.plugin_system.manager import PluginSet, discover
from bulksigner.plugin_system.registry import Registry
from bulksigner.records.engines import Store, open_postgresql, open_sqlite
from bulksigner.settings.choices import Installed
from bulksigner.settings.load import LoadedSettings, check_choices, load
from bulksigner.settings.schema import CollectedSchema
from bulksigner.settings.variables import HostVariables
from bulksigner.trust.proving import EvidencePlan
from bulksigner.trust.roots import TrustSet, load_trust
from bulksigner.trust.validation import CertificateValidation

if TYPE_CHECKING:
    from bulksigner.trust.stamping import StampingPlan

__all__ = [
    "Foundation",
    "lay_foundation",
    "new_owner",
    "open_store",
    "plan_stamping",
    "plan_validation",
    "product_version",
]


@attrs.frozen
class Foundation:
    """Plugins and settings of this process, bound and checked; nothing is open and nothing runs."""

    variables: HostVariables
    plugins: PluginSet
    registry: Registry
    settings: LoadedSettings
    installed: Installed
    codes: Mapping[str, ErrorCode]
    policies: PolicyTable
    trust: TrustSet
    scrubber: Scrubber
    """Knows every secret of the settings and of the variables; those of stored profiles join when they are opened."""


def lay_foundation(
    environ: Mapping[str, str], working_directory: Path | None = None, *, scrubber: Scrubber | None = None
) -> Foundation:
    """Load plugins, read every setting, and check the names that choose plugins.

    Secrets are made known to `scrubber`, if one is there already. Raises `ConfigurationRefused` with all failures at
    once (CFG-12).
    """
    variables = HostVariables.read(environ, working_directory)
    plugins = discover(sorted(variables.disabled_plugins))
    schema = CollectedSchema()
    plugins.add_settings(schema)
    account = _account_failures(variables)
    try:
        settings = load(schema, variables, environ)
    except ConfigurationRefused as refused:
        raise ConfigurationRefused([*refused.failures, *account]) from None
    settings = attrs.evolve(settings, secrets=(*settings.secrets, *_own_secrets(environ)))
    scrubber = Scrubber() if scrubber is None else scrubber
    signing = settings.core.signing
    choices = [signing.certificate, *(seed.certificate for seed in signing.profiles)]
    named = [one for choice in choices if choice is not None for one in list_block_secrets(choice.block, environ)]
    for secret in (*settings.secrets, *named):
        scrubber.register(secret)
    registry = plugins.providers(settings.plugins)
    installed = Installed(
        sources=frozenset(registry.names(roles.CERTIFICATE_SOURCE)),
        storage_providers=frozenset(registry.names(roles.STORAGE_PROVIDER)),
        signing_methods=frozenset(registry.names(roles.SIGNING_METHOD)),
        out_of_use=registry.out_of_use,
    )
    failures = [*check_choices(settings.core, installed), *account]
    trust = TrustSet()
    try:
        trust = load_trust(settings.core.signing.trust)
    except ConfigurationRefused as refused:
        failures += refused.failures
    policies = shipped_policies()
    try:
        policies = _read_policies(settings)
    except PermanentFailure as error:
        remedy = "Mend it, or remove the key to use the policies that come with the product."
        failures.append(Failure("Signing:Policies:Path", error.message, remedy))
    if failures:
        raise ConfigurationRefused(failures)
    return Foundation(
        variables, plugins, registry, settings, installed, {**CODES, **schema.codes}, policies, trust, scrubber
    )


def _own_secrets(environ: Mapping[str, str]) -> list[Secret]:
    """Return the secrets among the variables that are no settings, such as a PIN; settings were read already."""
    others = {name: value for name, value in environ.items() if "__" not in name}
    return [secret for secret in list_environment_secrets(others) if secret]


def _read_policies(settings: LoadedSettings) -> PolicyTable:
    """Return the policies of the folder that is named, or those that come with the product (ICP-05, CFG-187)."""
    path = settings.core.signing.policies.path
    if path is None:
        return shipped_policies()
    from bulksigner.formats.policy_files import read_folder  # lxml is not loaded where nothing asks for it

    return read_folder(settings.content_root / path)


def open_store(settings: LoadedSettings) -> Store:
    """Open the database the settings name; nothing is migrated."""
    location = settings.core.database_location
    if isinstance(location, Secret):
        return open_postgresql(location, max_connections=settings.core.database.max_connections)
    return open_sqlite(location)


def new_owner(variables: HostVariables) -> Owner:
    """Return who claims jobs in this life: the platform's instance or the host, and a fresh incarnation (CLU-20)."""
    return Owner(variables.instance_id or socket.gethostname(), str(uuid.uuid4()))


def plan_validation(foundation: Foundation) -> CertificateValidation:
    """Return the check of certificates as the settings want it; nothing is fetched before it is asked (CFG-92)."""
    return _plan_evidence(foundation).open(foundation.trust, utc_now)


def _plan_evidence(foundation: Foundation) -> EvidencePlan:
    core = foundation.settings.core
    given = core.signing.trust
    recheck = datetime.timedelta(minutes=given.recheck_minutes)
    return EvidencePlan(
        core.storage.root / "revocation", recheck, given.offline, given.crls_path, given.fetch_timeout_seconds
    )


def plan_stamping(foundation: Foundation) -> StampingPlan | None:
    """Return the time-stamp services of the settings and whom to trust, or None where none is named."""
    given = foundation.settings.core.signing.timestamps
    if not given:
        return None
    from bulksigner.trust.stamping import StampingPlan  # its readers of ASN.1 are not loaded where nothing is stamped
    from bulksigner.trust.timestamping import TimestampService

    services = (
        TimestampService(one.url, one.policy, one.user, one.password or None, float(one.timeout_seconds))
        for one in given
    )
    return StampingPlan(tuple(services), foundation.trust, _plan_evidence(foundation))


def product_version() -> str:
    """Return the version of the installed distribution."""
    return importlib.metadata.version("bulksigner")


def _account_failures(variables: HostVariables) -> list[Failure]:
    """Refuse the all-powerful account unless the host says it is meant (OPS-248, SEC-71)."""
    if sys.platform == "win32" or os.geteuid() != 0 or variables.allow_root:
        return []
    return [
        Failure(
            "BULK_SIGNER_ALLOW_ROOT",
            "is not set, and the service was started as root.",
            "Start it under an account of its own (User= in the unit file), or set the variable to 1 where root is "
            "meant, such as in a test container.",
        )
    ]
