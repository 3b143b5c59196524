from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from bulksigner.testing.certificates import AURORA, make_authority

PASSWORD = "senha-da-empresa-ficticia"


@attrs.frozen
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def company_pfx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PKCS#12 file that opens with PASSWORD."""
    return make_authority().issue(AURORA).write_pfx(tmp_path_factory.mktemp("pfx") / "empresa.pfx", PASSWORD)


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment of a shell that knows nothing of the service but that root is meant."""
    kept = {name: value for name, value in os.environ.items() if "__" not in name and "SIGNER" not in name}
    return kept | {"BULK_SIGNER_ALLOW_ROOT": "1", "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def run(tmp_path: Path, environment: dict[str, str]) -> Callable[..., Ran]:
    """Run one command as a process, in `folder`, without a terminal."""

    def call(*arguments: str, folder: Path = tmp_path, **variables: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "bulksigner", *arguments],
            cwd=folder,
            env=environment | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def made(run: Callable[..., Ran], tmp_path: Path, company_pfx: Path) -> Path:
    """A folder that `init` made."""
    ran = run("init", "signer", "--pfx", str(company_pfx), BULK_SIGNER_INIT_PFX_PASSWORD=PASSWORD)
    assert ran.code == 0, ran.err
    return tmp_path / "signer"
