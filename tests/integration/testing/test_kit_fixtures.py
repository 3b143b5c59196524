import os
import subprocess
import sys

STORY = """
from pathlib import Path

from cryptography.hazmat.primitives.serialization import pkcs12


def test_story(authority, leaf, pfx, pdf_file, xml_file, cnab240_file, require_tool):
    path, password = pfx
    key, certificate, issuers = pkcs12.load_key_and_certificates(path.read_bytes(), password.encode())
    assert certificate == leaf.certificate
    assert leaf.issuers[-1] == authority.root
    assert pdf_file(pages=2).startswith(b"%PDF-")
    assert xml_file().startswith(b"<?xml")
    assert len(cnab240_file(payments=1)) == 6 * 242
    assert Path(require_tool("sh", "dash")).is_file()
"""


def test_a_plugin_s_tests_get_the_fixtures_by_name(tmp_path, pytestconfig):
    """Design, section 9: the kit's fixtures need no import and no conftest."""
    (tmp_path / "test_story.py").write_text(STORY, encoding="utf-8")
    # A tree on PYTHONPATH has no entry point, unlike one that is installed.
    installed = pytestconfig.pluginmanager.has_plugin("bulksigner")
    loading = [] if installed else ["-p", "bulksigner.testing.fixtures"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *loading, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
