import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("core", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """Build sdist and wheel from a copy of the tree without plugins and tests."""
    copy = tmp_path_factory.mktemp("copy")
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    (copy / "plugins").mkdir()
    (copy / "plugins/left-out.py").touch()
    (copy / "tests").mkdir()
    (copy / "tests/left_out.py").touch()
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", copy / "dist", copy]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return copy / "dist"


@pytest.mark.slow
def test_the_sdist_holds_neither_plugins_nor_tests(built):
    """DEP-01, DEP-67: core, license and pages, nothing else."""
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames()]
    assert "core/bulksigner/contract/hookspecs.py" in names
    assert "LICENSE" in names
    assert [name for name in names if name.startswith(("plugins", "tests", "bench", "tools"))] == []


@pytest.mark.slow
def test_the_wheel_is_the_package_with_types_and_entry_points(built, tmp_path):
    """DEP-01, DEP-05: `core` is not part of the import name; the command and the test kit are found."""
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        (entry_points,) = [name for name in names if name.endswith("entry_points.txt")]
        text = archive.read(entry_points).decode()
    assert "bulksigner/py.typed" in names
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"bulksigner"}
    assert "bulksigner = bulksigner.cli:main" in text
    assert "decrypt-bsenc = bulksigner.encryption.tool:main" in text
    assert "bulksigner = bulksigner.testing.fixtures" in text
