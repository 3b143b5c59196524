"""The means that tests need, one by one, so that a host without one says so by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bulksigner.testing.fixtures import missing

LIST = Path(__file__).parents[1] / "system-packages.txt"
ROWS = [
    line.split(maxsplit=2)
    for line in LIST.read_text(encoding="utf-8").splitlines()
    if line.strip() and not line.startswith("#")
]


@pytest.mark.parametrize(("package", "proof", "reason"), ROWS, ids=[row[0] for row in ROWS])
def test_a_package_is_there(package: str, proof: str, reason: str) -> None:
    """DEP-63, DEP-64: what is missing is skipped on a laptop and fails where CI=true."""
    found = any(Path("/").glob(proof.lstrip("/"))) if proof.startswith("/") else shutil.which(proof) is not None
    if not found:
        missing(f"{proof} ({reason})", package)
