"""Gathers the facts of the panels printed at every start, and prints them (OPS-31 to OPS-36, CFG-181)."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Sequence
from importlib import metadata

from bulksigner.boot import product_version
from bulksigner.console import banner
from bulksigner.console.host import find_host_mode
from bulksigner.console.profile_panel import (
    describe_policies,
    find_alerts,
    list_folder_warnings,
    list_profiles,
    profiles_panel,
)
from bulksigner.contract.errors import BulkSignerError
from bulksigner.jobs.model import utc_now
from bulksigner.life import Service
from bulksigner.pipeline.pause import PauseState
from bulksigner.plugin_system.report import PluginState
from bulksigner.records.engines import EngineKind
from bulksigner.settings.backups import BackupSettings
from bulksigner.settings.hosting import ForwardedHeadersSettings
from bulksigner.settings.model import LOCAL_PROVIDER, LoggingSettings, LogLevel

__all__ = ["show"]

log = logging.getLogger(__name__)


def show(service: Service, listen: Sequence[str]) -> None:
    """Print the ready panel and the profile panel, and log what an operator must see."""
    profiles = list_profiles(service.profiles, {opened.name for opened in service.folders}, service.holds)
    alerts = find_alerts(profiles, now=utc_now(), folder_warnings=list_folder_warnings(service.seeded))
    scrub = service.foundation.scrubber.scrub
    print(scrub(banner.ready_panel(_facts(service, listen))))
    print(scrub(profiles_panel(profiles, alerts)), flush=True)
    for alert in alerts:
        log.log(alert.level, "%s", alert.text)


def _facts(service: Service, listen: Sequence[str]) -> banner.BannerFacts:
    settings = service.foundation.settings
    pause, store_status = _read_pause(service)
    providers = sorted({given.provider for given in settings.core.storage.inputs})
    is_plain = {settings.core.storage.provider, *providers} == {LOCAL_PROVIDER}
    rows = service.foundation.plugins.rows
    places = {
        f"{profile.stored.certificate_source} ({profile.locator})"
        for profile in service.profiles.all
        if profile.key is not None
    }
    return banner.BannerFacts(
        host_mode=find_host_mode(),
        environment=settings.environment,
        listen=listen,
        content_root=str(settings.content_root),
        storage_root=str(settings.core.storage.root),
        operational_store=service.store.label,
        signing_engine=f"{service.engine.label}; {_libraries()}",
        certificate_source=next(iter(places)) if len(places) == 1 else ("profiles" if places else "none"),
        signing_policy=describe_policies(service.profiles),
        poll_interval=datetime.timedelta(seconds=settings.core.pipeline.poll_interval_seconds),
        version=product_version(),
        logs=_describe_logs(settings.core.logging),
        ready_needs_key=settings.core.readiness.require_api_key,
        metrics_need_key=settings.core.metrics.require_api_key,
        plugins_loaded_count=sum(row.state is PluginState.LOADED for row in rows),
        plugins_failed_count=sum(row.is_lost for row in rows),
        plugin_rows=service.foundation.registry.banner_rows,
        encrypts=settings.core.encryption.enabled,
        pause=banner.Pause(pause.since or utc_now(), pause.reason) if pause is not None and pause.is_paused else None,
        trust_set=service.foundation.trust.describe(),
        https_redirect=settings.core.hosting.require_https,
        forwarded_headers=_describe_proxies(settings.core.hosting.forwarded_headers),
        retention=_describe_retention(service),
        backup=_describe_backups(settings.core.backup),
        store_status=store_status if service.store.kind is EngineKind.POSTGRESQL else None,
        storage_provider=None if is_plain else settings.core.storage.provider,
        input_providers=() if is_plain else providers,
    )


def _read_pause(service: Service) -> tuple[PauseState | None, str]:
    """Return the pause flag and how the store answered; one that went away since the start must not end it."""
    try:
        return service.pause.read(), "reachable"
    except BulkSignerError as error:
        log.warning("The pause flag could not be read: %s", error.message)
        return None, f"UNREACHABLE: {type(error).__name__}"


def _describe_logs(given: LoggingSettings) -> str:
    sinks = [str(given.file.path)] if given.file.enabled else []
    sinks += ["stdout"] if given.file.write_to_console else []
    level = max(given.level.threshold, given.file.minimum_level.threshold)
    shown = next(known.value for known in LogLevel if known.threshold == level)
    return f"{' + '.join(sinks)}, {shown}"


def _describe_proxies(given: ForwardedHeadersSettings) -> str | None:
    if not given.enabled:
        return None
    trusted = "any proxy" if given.trust_any_proxy else ", ".join((*given.known_proxies, *given.known_networks))
    return f"{trusted}, {given.forward_limit} in a row"


def _describe_backups(given: BackupSettings) -> str | None:
    if not given.enabled:
        return None
    return f"{given.disk.path}, {'manual only' if given.interval_hours is None else f'every {given.interval_hours} h'}"


def _describe_retention(service: Service) -> str | None:
    if service.retention is None:
        return None
    try:
        if (warning := service.retention.find_warning()) is not None:
            log.warning("%s", warning)
        return service.retention.describe()
    except BulkSignerError as error:
        log.warning("The state of the retention policy could not be read: %s", error.message)
        return "unknown (the database does not answer)"


def _libraries() -> str:
    return ", ".join(f"{name} {metadata.version(name)}" for name in ("cryptography", "pyhanko", "lxml"))
