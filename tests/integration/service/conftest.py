"""Foundations and services over a folder of their own, with the PKCS#12 plugin installed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bulksigner.app import build
from bulksigner.boot import Foundation, lay_foundation
from bulksigner.life import Service

PASSWORD = "senha de teste, longa"


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """Take back what a start sets up for the log."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Make a module known as the plugin of an installed distribution."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)

    def act(name: str, module: str) -> None:
        metadata = site / f"bulksigner_{name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: bulksigner-{name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[bulksigner]\n{name} = {module}\n")

    return act


@pytest.fixture
def environ(tmp_path: Path, leaf: Any, install: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The variables of a host that signs in its own process, with one certificate and one folder."""
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[3] / "plugins/local_pfx")
    install("local_pfx", "bulksigner_local_pfx.plugin")
    (tmp_path / "inbox").mkdir()
    return {
        "BULK_SIGNER_ALLOW_ROOT": "1",
        "BULK_SIGNER_CONTENT_ROOT": str(tmp_path),
        "Auth__ApiKey": "an api key of some length",
        "Storage__Root": str(tmp_path / "data"),
        "Storage__Inputs__0__Name": "inbox",
        "Storage__Inputs__0__Path": str(tmp_path / "inbox"),
        "Storage__Inputs__0__Profile": "default",
        "WatchedFolder__StabilityPollIntervalMs": "50",
        "Signing__ProfileSecretsKey": "k" * 40,
        "Signing__Engine": "InProcess",
        "Signing__Certificate__Source": "Pfx",
        "Signing__Certificate__Pfx__Path": str(leaf.write_pfx(tmp_path / "company.pfx", PASSWORD)),
        "Signing__Certificate__Pfx__Password": PASSWORD,
    }


@pytest.fixture
def lay(environ: dict[str, str]) -> Callable[..., Foundation]:
    """Lay a foundation, with further variables; None takes one away."""

    def act(**changes: str | None) -> Foundation:
        return lay_foundation({name: value for name, value in (environ | changes).items() if value is not None})

    return act


@pytest.fixture
def built(lay: Any) -> Iterator[Callable[..., Service]]:
    """Build services; they are stopped at the end."""
    services: list[Service] = []

    def act(**changes: str | None) -> Service:
        services.append(build(lay(**changes)))
        return services[-1]

    yield act
    for service in services:
        service.stop()
