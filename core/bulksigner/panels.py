"""Gathers the facts of the panels printed at every start, and prints them (OPS-31 to OPS-36, CFG-181)."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Sequence
from importlib import metadata

from bulksigner.boot import product_version
from bulksigner.console import banner
from bulksigner.console.host import find_host_mode
from bulksigner.contract.errors import BulkSignerError
from bulksigner.jobs.model import utc_now
from bulksigner.life import Service
from bulksigner.pipeline.pause import PauseState
from bulksigner.plugin_system.report import PluginState
from bulksigner.records.engines import EngineKind
from bulksigner.settings.backups import BackupSettings
from bulksigner.settings.model import LoggingSettings, LogLevel

__all__ = ["show"]

log = logging.getLogger(__name__)


def show(service: Service, listen: Sequence[str]) -> None:
    """Print the ready panel and the profile panel, and log what an operator must see."""
    profiles = _profiles(service)
    alerts = banner.find_alerts(profiles, now=utc_now(), folder_warnings=_folder_warnings(service))
    print(banner.ready_panel(_facts(service, listen)))
    print(banner.profiles_panel(profiles, alerts), flush=True)
    for alert in alerts:
        log.log(alert.level, "%s", alert.text)


def _facts(service: Service, listen: Sequence[str]) -> banner.BannerFacts:
    settings = service.foundation.settings
    pause = _read_pause(service)
    rows = service.foundation.plugins.rows
    locators = {profile.locator for profile in service.profiles.all if profile.locator}
    return banner.BannerFacts(
        host_mode=find_host_mode(),
        environment=settings.environment,
        listen=listen,
        content_root=str(settings.content_root),
        storage_root=str(settings.core.storage.root),
        operational_store=service.store.label,
        signing_engine=f"{service.engine.label}; {_libraries()}",
        certificate_source=next(iter(locators)) if len(locators) == 1 else ("profiles" if locators else "none"),
        poll_interval=datetime.timedelta(seconds=settings.core.pipeline.poll_interval_seconds),
        version=product_version(),
        logs=_describe_logs(settings.core.logging),
        plugins_loaded_count=sum(row.state is PluginState.LOADED for row in rows),
        plugins_failed_count=sum(row.is_lost for row in rows),
        plugin_rows=service.foundation.registry.banner_rows,
        pause=banner.Pause(pause.since or utc_now(), pause.reason) if pause is not None and pause.is_paused else None,
        retention=_describe_retention(service),
        backup=_describe_backups(settings.core.backup),
        store_status=("unreachable" if pause is None else "reachable")
        if service.store.kind is EngineKind.POSTGRESQL
        else None,
    )


def _read_pause(service: Service) -> PauseState | None:
    """Return the pause flag; None when the database went away since the start, which a panel must not end."""
    try:
        return service.pause.read()
    except BulkSignerError as error:
        log.warning("The pause flag could not be read: %s", error.message)
        return None


def _describe_logs(given: LoggingSettings) -> str:
    sinks = [str(given.file.path)] if given.file.enabled else []
    sinks += ["stdout"] if given.file.write_to_console else []
    level = max(given.level.threshold, given.file.minimum_level.threshold)
    shown = next(known.value for known in LogLevel if known.threshold == level)
    return f"{' + '.join(sinks)}, {shown}"


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


def _profiles(service: Service) -> list[banner.ProfileFacts]:
    configured = {opened.name for opened in service.folders}
    return [
        banner.ProfileFacts(
            name=profile.name,
            format=profile.stored.format,
            certificate_source=profile.stored.certificate_source,
            verify=profile.stored.verify,
            enabled=profile.stored.enabled,
            folder=profile.stored.input_folder,
            is_folder_configured=profile.stored.input_folder is None or profile.stored.input_folder in configured,
            degraded=profile.degraded,
            certificate_not_after=profile.certificate_not_after,
        )
        for profile in service.profiles.all
    ]


def _folder_warnings(service: Service) -> list[str]:
    seeded = service.seeded
    return [
        *seeded.warnings,
        *(f"Input folder '{name}' was left without a profile: {reason}" for name, reason in seeded.unassigned.items()),
    ]
