"""The panels printed at every start: name, ready panel (OPS-31), signing profiles (OPS-32 to OPS-36)."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Sequence

import attrs

from bulksigner.contract.observe import BannerRow
from bulksigner.contract.signing import Format
from bulksigner.observability.logs import escape

__all__ = [
    "Alert",
    "BannerFacts",
    "Pause",
    "ProfileFacts",
    "find_alerts",
    "name_banner",
    "profiles_panel",
    "ready_panel",
]

LABEL_WIDTH = 17
_SIDE = "=" * 32
_FOOT = "=" * 80
_EXPIRY_WARNING = datetime.timedelta(days=60)


@attrs.frozen
class Pause:
    """Since when, and why, nothing is claimed."""

    since: datetime.datetime
    reason: str | None


@attrs.frozen
class BannerFacts:
    """Everything the ready panel says; texts are free of secrets already."""

    host_mode: str
    environment: str
    listen: Sequence[str]
    content_root: str
    storage_root: str
    operational_store: str
    signing_engine: str
    certificate_source: str
    poll_interval: datetime.timedelta
    version: str
    logs: str
    plugins_loaded_count: int
    plugins_failed_count: int
    plugin_rows: Sequence[BannerRow] = ()
    pause: Pause | None = None
    retention: str | None = None
    """What the retention policy does; printed where there is one."""
    backup: str | None = None
    """Where backups go and how often; printed where they are on."""
    store_status: str | None = None
    """Printed for a server database only: `reachable`, or what is wrong."""


@attrs.frozen
class ProfileFacts:
    """One stored profile as the profile panel shows it."""

    name: str
    format: Format | None
    certificate_source: str | None
    verify: bool
    enabled: bool = True
    folder: str | None = None
    is_folder_configured: bool = True
    degraded: str | None = None
    certificate_not_after: datetime.datetime | None = None


@attrs.frozen
class Alert:
    """A line under the profile panel that also goes to the log, at `level` of `logging`."""

    level: int
    text: str

    def line(self) -> str:
        """Render the line as the panel shows it."""
        prefix = "FAIL" if self.level >= logging.CRITICAL else "WARN"
        return f"{prefix}  {escape(self.text)}"


def name_banner(version: str) -> str:
    """Return the line that opens every start: the name and the short version, without build metadata."""
    return f"Bulk Signer v{version.partition('+')[0]}"


def ready_panel(facts: BannerFacts) -> str:
    """Return the panel of OPS-31: one row a fact, in fixed order, framed."""
    rows = [
        ("host mode", facts.host_mode),
        ("environment", facts.environment),
        ("https redirect", "off (terminate TLS at reverse proxy)"),
        ("forwarded headers", "off"),
        ("listen", ", ".join(facts.listen)),
        ("content root", facts.content_root),
        ("storage root", facts.storage_root),
        ("operational store", facts.operational_store),
    ]
    if facts.store_status is not None:
        rows.append(("store status", facts.store_status))
    rows += [
        ("signing engine", facts.signing_engine),
        ("cert source", facts.certificate_source),
        ("signing policy", "PAdES + CAdES + XAdES baseline (B-B), no national policy"),
        ("trust set", "none (certificate chains are not validated)"),
        ("encryption", "disabled"),
        *([("retention", facts.retention)] if facts.retention is not None else []),
        *([("backup", facts.backup)] if facts.backup is not None else []),
        ("plugins", f"{facts.plugins_loaded_count} loaded, {facts.plugins_failed_count} failed"),
        *((row.label, row.value) for row in facts.plugin_rows),
        ("logs", facts.logs),
        ("poll interval", f"{facts.poll_interval.total_seconds():g}s"),
        ("pipeline", _pipeline(facts.pause)),
        ("ready", "(anonymous)"),
        ("version", facts.version),
    ]
    return _framed("Service ready", [_row(label, value) for label, value in rows])


def _row(label: str, value: str) -> str:
    return f"{escape(label)[:LABEL_WIDTH]:<{LABEL_WIDTH}} = {escape(value)}"


def _framed(title: str, lines: Sequence[str]) -> str:
    return "\n".join((f"{_SIDE} {title} {_SIDE}", *lines, _FOOT))


def _pipeline(pause: Pause | None) -> str:
    if pause is None:
        return "running"
    since = f"since {pause.since:%Y-%m-%dT%H:%M:%SZ}"
    return f"paused ({since}, {pause.reason})" if pause.reason else f"paused ({since})"


def profiles_panel(profiles: Sequence[ProfileFacts], alerts: Sequence[Alert]) -> str:
    """Return the panel of OPS-32: one line a profile, then the FAIL and WARN lines."""
    width = max((len(escape(profile.name)) for profile in profiles), default=0)
    lines = [f"  {escape(profile.name):<{width}}   {_behaviour(profile)}" for profile in profiles]
    return _framed("Signing profiles", [*lines, *(alert.line() for alert in alerts)])


def _behaviour(profile: ProfileFacts) -> str:
    parts = ["DEGRADED"] if profile.degraded is not None else []
    parts += [
        profile.format.value if profile.format is not None else "auto",
        f"cert={escape(profile.certificate_source or 'none')}",
        f"verify={'on' if profile.verify else 'off'}",
        "encrypt=off",
        "validate-cert=off",
    ]
    if profile.folder is not None:
        parts.append(f"folder={escape(profile.folder)}")
    if not profile.enabled:
        parts.append("disabled")
    return " · ".join(parts)


def find_alerts(
    profiles: Sequence[ProfileFacts],
    *,
    now: datetime.datetime,
    folder_warnings: Sequence[str] = (),
) -> list[Alert]:
    """Return what an operator must see at a start: degraded profiles first, then warnings (OPS-33, OPS-35, OPS-36).

    `folder_warnings` are the sentences of the first-boot import about folders and ignored seed keys.
    """
    failures = [
        Alert(logging.CRITICAL, f"Profile '{profile.name}': {profile.degraded}")
        for profile in profiles
        if profile.degraded is not None
    ]
    warnings = [f"Profile '{profile.name}': {text}" for profile in profiles for text in _warnings(profile, now)]
    return [*failures, *(Alert(logging.WARNING, text) for text in (*warnings, *folder_warnings))]


def _warnings(profile: ProfileFacts, now: datetime.datetime) -> list[str]:
    found = []
    if not profile.verify:
        found.append("verify=off; signed files are not checked before they leave")
    found.append("validate-cert=off; the certificate's chain and revocation are not checked before signing")
    ends_at = profile.certificate_not_after
    if ends_at is not None and ends_at <= now:
        found.append(f"the certificate ended at {ends_at:%Y-%m-%dT%H:%M:%SZ}; renew it and restart")
    elif ends_at is not None and ends_at - now <= _EXPIRY_WARNING:
        found.append(f"the certificate ends in {(ends_at - now).days} day(s); renew it and restart")
    if profile.folder is not None and not profile.is_folder_configured:
        found.append(f"bound to the input folder '{profile.folder}', which this host does not configure")
    return found
