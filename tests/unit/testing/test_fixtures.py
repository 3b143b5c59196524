import pytest

from bulksigner.testing.fixtures import missing, require_tool


def test_a_missing_tool_skips_with_the_package_that_has_it(monkeypatch):
    """DEP-63: the reason of a skipped test names the package."""
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no-such-tool is missing: install the system package its-package"):
        require_tool("no-such-tool", "its-package")


def test_a_missing_tool_fails_in_ci(monkeypatch):
    """DEP-63: where CI=true nothing is skipped."""
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="install the system package its-package"):
        missing("a server", "its-package")


def test_a_tool_that_is_there_is_found(monkeypatch, tmp_path):
    """The path comes from PATH."""
    tool = tmp_path / "a-tool"
    tool.write_text("#!/bin/sh\n", encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert require_tool("a-tool", "its-package") == str(tool)
