"""The demonstration, run as `make demo` runs it (DEP-62)."""

import re
import subprocess
import sys

import pytest

from bulksigner.testing.fixtures import require_tool

FILES = ("contrato.pdf", "nota-fiscal.xml", "pagamentos.rem", "declaracao.txt")


def run_demo(folder):
    return subprocess.run(
        [sys.executable, "-m", "bulksigner.testing.demo"], cwd=folder, capture_output=True, text=True, timeout=240
    )


@pytest.mark.slow
def test_the_demo_signs_and_its_commands_check(tmp_path):
    """DEP-62: exit 0, one row per file, and the printed commands hold, twice, word for word."""
    for tool, package in (("pdfsig", "poppler-utils"), ("certutil", "libnss3-tools"), ("xmlsec1", "xmlsec1")):
        require_tool(tool, package)
    done = run_demo(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in FILES:
        assert re.search(rf"^{re.escape(name)} +\w+ +[0-9a-f-]{{36}}( +[\d.]+ s){{3}} +/", done.stdout, re.MULTILINE)
    assert "4 of 4 files signed and verified" in done.stdout
    section = done.stdout.split("Check them yourself")[1].split("4 of 4")[0]
    commands = "".join(f"{line}\n" for line in section.splitlines()[1:])
    for _ in range(2):
        checked = subprocess.run(["sh", "-e"], input=commands, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert "Certificate is Trusted." in checked.stdout


def test_the_demo_leaves_a_foreign_folder_alone(tmp_path):
    """DEP-62: a folder that the demo did not make is not replaced."""
    precious = tmp_path / "demo-run" / "thesis.txt"
    precious.parent.mkdir()
    precious.write_text("years of work")
    done = run_demo(tmp_path)
    assert done.returncode == 1
    assert "nothing was touched" in done.stdout
    assert precious.read_text() == "years of work"
