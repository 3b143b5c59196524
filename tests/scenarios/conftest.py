"""A real `bulksigner serve` on a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from bulksigner.testing.certificates import Issued
from bulksigner.testing.served import ServedService


@pytest.fixture
def serve(tmp_path: Path, leaf: Issued, pfx: tuple[Path, str]) -> Iterator[Callable[..., ServedService]]:
    """Return a maker of services: one folder `inbox`, one profile `default`, files taken at the first look.

    It takes settings and variables to override or to add, and starts the service unless told otherwise.
    """
    path, password = pfx
    with ExitStack() as stack:

        def make(
            settings: Mapping[str, object] | None = None,
            *,
            environment: Mapping[str, str] | None = None,
            start: bool = True,
        ) -> ServedService:
            root = tmp_path / "service"
            keys = {
                "Storage:Inputs:0:Name": "inbox",
                "Storage:Inputs:0:Path": root / "inbox",
                "Storage:Inputs:0:Profile": "default",
                "Signing:Trust:RootsPath": root / "trust",
                "Signing:Profiles:0:Name": "default",
                "Signing:Profiles:0:Certificate:Source": "Pfx",
                "Signing:Profiles:0:Certificate:Pfx:Path": path,
                "Signing:Profiles:0:Certificate:Pfx:Password": password,
                "WatchedFolder:StabilityPollIntervalMs": 50,
                "WatchedFolder:StabilityRequiredSamples": 2,
            }
            for folder in (root / "inbox", root / "trust"):
                folder.mkdir(parents=True, exist_ok=True)
            leaf.write_root_pem(root / "trust" / "root.pem")
            service = ServedService(root, {**keys, **(settings or {})}, environment or {})
            stack.callback(service.kill)
            if start:
                service.start()
            return service

        yield make
