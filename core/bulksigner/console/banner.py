"""The name and the ready panel printed at every start (OPS-31)."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import attrs

from bulksigner.contract.observe import BannerRow
from bulksigner.observability.logs import escape

__all__ = [
    "ENABLED",
    "BannerFacts",
    "Pause",
    "framed",
    "name_banner",
    "ready_panel",
]

ENABLED = "enabled (BSENC v1, salt loaded)"
LABEL_WIDTH = 17
_SIDE = "=" * 32
_FOOT = "=" * 80


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
    signing_policy: str
    poll_interval: datetime.timedelta
    version: str
    logs: str
    plugins_loaded_count: int
    plugins_failed_count: int
    trust_set: str
    ready_needs_key: bool = False
    metrics_need_key: bool = True
    plugin_rows: Sequence[BannerRow] = ()
    encrypts: bool = False
    pause: Pause | None = None
    https_redirect: bool = False
    forwarded_headers: str | None = None
    """Which proxies are believed; None where none is."""
    retention: str | None = None
    """What the retention policy does; printed where there is one."""
    backup: str | None = None
    """Where backups go and how often; printed where they are on."""
    store_status: str | None = None
    """Printed for a server database only: `reachable`, or what is wrong."""
    storage_provider: str | None = None
    input_providers: Sequence[str] = ()
    """Printed, as the one above, where some folder is not a plain directory of this host."""


def name_banner(version: str) -> str:
    """Return the line that opens every start: the name and the short version, without build metadata."""
    return f"Bulk Signer v{version.partition('+')[0]}"


def ready_panel(facts: BannerFacts) -> str:
    """Return the panel of OPS-31: one row a fact, in fixed order, framed."""
    rows = [
        ("host mode", facts.host_mode),
        ("environment", facts.environment),
        ("https redirect", "on" if facts.https_redirect else "off (terminate TLS at reverse proxy)"),
        ("forwarded headers", facts.forwarded_headers or "off"),
        ("listen", ", ".join(facts.listen)),
        ("content root", facts.content_root),
        ("storage root", facts.storage_root),
        ("operational store", facts.operational_store),
    ]
    if facts.store_status is not None:
        rows.append(("store status", facts.store_status))
    if facts.storage_provider is not None:
        rows += [
            ("storage provider", facts.storage_provider),
            ("input providers", ", ".join(facts.input_providers)),
        ]
    rows += [
        ("signing engine", facts.signing_engine),
        ("cert source", facts.certificate_source),
        ("signing policy", facts.signing_policy),
        ("trust set", facts.trust_set),
        ("encryption", ENABLED if facts.encrypts else "disabled"),
        *([("retention", facts.retention)] if facts.retention is not None else []),
        *([("backup", facts.backup)] if facts.backup is not None else []),
        ("plugins", f"{facts.plugins_loaded_count} loaded, {facts.plugins_failed_count} failed"),
        *((row.label, row.value) for row in facts.plugin_rows),
        ("logs", facts.logs),
        ("poll interval", f"{facts.poll_interval.total_seconds():g}s"),
        ("pipeline", _pipeline(facts.pause)),
        ("ready", _who_may(facts.ready_needs_key)),
        ("metrics", _who_may(facts.metrics_need_key)),
        ("version", facts.version),
    ]
    return framed("Service ready", [_row(label, value) for label, value in rows])


def _row(label: str, value: str) -> str:
    return f"{escape(label)[:LABEL_WIDTH]:<{LABEL_WIDTH}} = {escape(value)}"


def framed(title: str, lines: Sequence[str]) -> str:
    """Put lines under a head with the title, and over a foot."""
    return "\n".join((f"{_SIDE} {title} {_SIDE}", *lines, _FOOT))


def _who_may(needs_key: bool) -> str:
    return "(API key)" if needs_key else "(anonymous)"


def _pipeline(pause: Pause | None) -> str:
    if pause is None:
        return "running"
    since = f"since {pause.since:%Y-%m-%dT%H:%M:%SZ}"
    return f"paused ({since}, {pause.reason})" if pause.reason else f"paused ({since})"
