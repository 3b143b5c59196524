"""The scripts behind `make setup` and `make test`, with a PATH that holds only what a test puts there."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="shell scripts; Windows has the lines of DEP-66")


@pytest.fixture
def path_folder(tmp_path: Path) -> Path:
    """Make a folder for PATH with the few tools that the scripts call."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "dirname", "id"):
        (folder / name).symlink_to(shutil.which(name))
    return folder


def add_command(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def run(script: str, path_folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(ROOT / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={"PATH": str(path_folder)}, check=False)


def test_setup_says_which_python_it_needs(path_folder):
    """DEP-61: an interpreter that is too old is passed over; with none the message says what is needed."""
    add_command(path_folder, "python3", "exit 1")
    done = run("tools/make-venv.sh", path_folder, "unused")
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr


def test_setup_names_the_package_of_a_missing_venv_module(path_folder):
    """DEP-61: Debian ships venv apart, and the message says under which names."""
    answer = 'case "$2" in *version_info*3,*) exit 0;; *import*ensurepip*) exit 1;; *) echo 3.12;; esac'
    add_command(path_folder, "python3.12", answer)
    done = run("tools/make-venv.sh", path_folder, "unused")
    assert done.returncode == 1
    assert "apt-get install python3-venv python3.12-venv" in done.stderr


def test_setup_makes_an_environment_with_the_first_python_that_fits(path_folder, tmp_path):
    """DEP-61: a launcher without its version behind it is passed over."""
    add_command(path_folder, "python3.11", "exit 127")
    add_command(path_folder, "python3.12", 'case "$1" in -m) echo "made with $3";; --version) echo Python 3.12;; esac')
    done = run("tools/make-venv.sh", path_folder, str(tmp_path / "venv"))
    assert done.returncode == 0
    assert f"made with {tmp_path / 'venv'}" in done.stdout


def test_missing_system_packages_are_listed(path_folder):
    """DEP-63, DEP-64: without apt-get nothing is installed; the list says what to install and for what."""
    done = run("tests/install-system-packages.sh", path_folder)
    assert done.returncode == 0
    assert "missing: poppler-utils (independent check of PDF signatures)" in done.stdout
    assert "apt-get install softhsm2 opensc" in done.stdout


def test_nothing_is_said_or_done_when_every_package_is_there(path_folder):
    """DEP-63: the second run is a quick no-op."""
    for line in (ROOT / "tests/system-packages.txt").read_text(encoding="utf-8").splitlines():
        proof = line.split()[1]
        if not line.startswith("#") and not proof.startswith("/"):
            add_command(path_folder, proof, "exit 0")
    done = run("tests/install-system-packages.sh", path_folder)
    lines = [line for line in done.stdout.splitlines() if line.startswith("missing:")]
    # The server is recognised by its folder, which a test cannot put in place.
    assert lines in ([], ["missing: postgresql (operational store)"])


def test_packages_are_installed_as_root_with_the_list_updated_when_needed(path_folder, tmp_path):
    """DEP-63: a first attempt on an old package list fails; the list is fetched and the attempt repeated."""
    calls = tmp_path / "calls"
    (path_folder / "id").unlink()
    add_command(path_folder, "id", "echo 0")
    add_command(
        path_folder,
        "apt-get",
        f'echo "$1" >>{calls}; [ "$1" = update ] || [ -e {calls}.again ] || {{ : >{calls}.again; exit 100; }}',
    )
    done = run("tests/install-system-packages.sh", path_folder)
    assert done.returncode == 0
    assert calls.read_text(encoding="utf-8").split() == ["install", "update", "install"]
    assert "could not install" not in done.stdout


def test_a_host_without_network_goes_on_without_the_packages(path_folder):
    """DEP-63: the tests that need the packages say so themselves."""
    (path_folder / "id").unlink()
    add_command(path_folder, "id", "echo 0")
    add_command(path_folder, "apt-get", "exit 100")
    done = run("tests/install-system-packages.sh", path_folder)
    assert done.returncode == 0
    assert "could not install softhsm2" in done.stdout
