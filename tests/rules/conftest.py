import subprocess
from pathlib import Path

import pytest

from bulksigner.testing.fixtures import missing, require_tool

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def tracked(root: Path) -> list[Path]:
    """List the files that a commit of the present tree would hold."""
    git = require_tool("git", "git")
    # A checkout that belongs to another account, as in containers, is still the one to look at.
    command = [git, "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=root, capture_output=True, check=False)
    if listed.returncode:
        missing("a git checkout around the tests", "git")
    return [path for name in listed.stdout.decode().split("\0") if name and (path := root / name).is_file()]


@pytest.fixture(scope="session")
def product_modules(root: Path) -> list[Path]:
    """List the modules that ship: the core and the package of each plugin."""
    return sorted([*root.glob("core/bulksigner/**/*.py"), *root.glob("plugins/*/bulksigner_*/**/*.py")])
