"""The panels, compared with stored texts."""

from __future__ import annotations

import datetime

import attrs

from bulksigner.console.banner import (
    BannerFacts,
    Pause,
    name_banner,
    ready_panel,
)
from bulksigner.contract.observe import BannerRow

NOW = datetime.datetime(2026, 5, 26, 15, 42, tzinfo=datetime.UTC)
FACTS = BannerFacts(
    host_mode="systemd",
    environment="Production",
    listen=["http://0.0.0.0:8080"],
    content_root="/opt/bulksigner",
    storage_root="/var/lib/bulksigner",
    operational_store="SQLite (/var/lib/bulksigner/db/bulksigner.db)",
    signing_engine="pyHanko 0.30, cryptography 46",
    certificate_source="Pkcs11 (module=/usr/lib/softhsm.so)",
    signing_policy="ADR-Básica (PAdES + CAdES + XAdES)",
    poll_interval=datetime.timedelta(seconds=2),
    version="0.1.0+9a3f2c1e4b",
    logs="stdout, Information",
    plugins_loaded_count=2,
    plugins_failed_count=0,
    trust_set="ICP-Brasil, 2 roots",
)


def test_the_ready_panel_of_a_plain_host() -> None:
    """OPS-31: head, rows in order, foot."""
    assert (
        ready_panel(FACTS)
        == """\
================================ Service ready ================================
host mode         = systemd
environment       = Production
https redirect    = off (terminate TLS at reverse proxy)
forwarded headers = off
listen            = http://0.0.0.0:8080
content root      = /opt/bulksigner
storage root      = /var/lib/bulksigner
operational store = SQLite (/var/lib/bulksigner/db/bulksigner.db)
signing engine    = pyHanko 0.30, cryptography 46
cert source       = Pkcs11 (module=/usr/lib/softhsm.so)
signing policy    = ADR-Básica (PAdES + CAdES + XAdES)
trust set         = ICP-Brasil, 2 roots
encryption        = disabled
plugins           = 2 loaded, 0 failed
logs              = stdout, Information
poll interval     = 2s
pipeline          = running
ready             = (anonymous)
metrics           = (API key)
version           = 0.1.0+9a3f2c1e4b
================================================================================"""
    )


def test_encryption_is_told_either_way() -> None:
    """ENC-06, OPS-31."""
    assert "encryption        = enabled (BSENC v1, salt loaded)" in ready_panel(attrs.evolve(FACTS, encrypts=True))


def test_who_may_ask_for_readiness_and_metrics() -> None:
    """OPS-31, CFG-152, CFG-153: as the settings say."""
    panel = ready_panel(attrs.evolve(FACTS, ready_needs_key=True, metrics_need_key=False))
    assert "\nready             = (API key)\nmetrics           = (anonymous)\n" in panel


def test_backups_have_a_row_where_they_are_on() -> None:
    """OPS-31: destination and interval, before the plugins."""
    lines = ready_panel(attrs.evolve(FACTS, backup="/mnt/b, every 24 h")).splitlines()
    place = lines.index("backup            = /mnt/b, every 24 h")
    assert lines[place + 1].startswith("plugins ")


def test_proxies_and_https_have_their_rows() -> None:
    """CFG-27, CFG-29: whether clients are redirected, and who is believed."""
    lines = ready_panel(attrs.evolve(FACTS, https_redirect=True, forwarded_headers="10.0.0.1, 1 in a row")).splitlines()
    assert lines[3:5] == ["https redirect    = on", "forwarded headers = 10.0.0.1, 1 in a row"]


def test_rows_that_depend_on_the_host() -> None:
    """OPS-31: store status on a server database, rows of plugins, a pause with its reason, several addresses."""
    facts = attrs.evolve(
        FACTS,
        listen=["http://127.0.0.1:8080", "http://[::1]:8080"],
        operational_store="PostgreSQL (db.example/bulksigner)",
        store_status="UNREACHABLE: OperationalError",
        plugin_rows=[BannerRow("hsm slots", "3 free"), BannerRow("a label that is far too long", "x")],
        pause=Pause(NOW, "month end"),
        poll_interval=datetime.timedelta(milliseconds=500),
    )
    panel = ready_panel(facts).splitlines()
    assert panel[5] == "listen            = http://127.0.0.1:8080, http://[::1]:8080"
    assert panel[8:10] == [
        "operational store = PostgreSQL (db.example/bulksigner)",
        "store status      = UNREACHABLE: OperationalError",
    ]
    assert panel[15:18] == [
        "plugins           = 2 loaded, 0 failed",
        "hsm slots         = 3 free",
        "a label that is f = x",
    ]
    assert "poll interval     = 0.5s" in panel
    assert "pipeline          = paused (since 2026-05-26T15:42:00Z, month end)" in panel


def test_a_value_cannot_add_a_row() -> None:
    """OPS-31: a line end in a value is shown, not obeyed."""
    facts = attrs.evolve(FACTS, pause=Pause(NOW, "x\nversion = 9"))
    assert "paused (since 2026-05-26T15:42:00Z, x\\nversion = 9)" in ready_panel(facts)


def test_the_name_banner_shows_the_short_version() -> None:
    """OPS-31: build metadata is for the `version` row only."""
    assert name_banner("0.1.0+9a3f2c1e4b") == "Bulk Signer v0.1.0"
