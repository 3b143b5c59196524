from pathlib import Path

import pytest
from tools import reference

from bulksigner import CheckReport, Finding, Folder, OpenedKey, Severity, StagedFile
from bulksigner.plugin_system.roles import ROLES, Role


@pytest.mark.parametrize("name", sorted(reference.PAGES))
def test_reference_pages_are_up_to_date(root: Path, name):
    """`make docs` was run after the code changed."""
    path = root / name
    assert path.is_file(), f"{name} is missing: run make docs"
    assert path.read_text(encoding="utf-8") == reference.PAGES[name](), f"{name} is out of date: run make docs"


def test_every_hook_has_a_section_with_its_signature(root: Path):
    """Design, section 8, rule 1: a hook is a documented promise."""
    page = (root / "docs/reference/hooks.md").read_text(encoding="utf-8")
    hooks = reference.hook_functions()
    assert hooks
    for hook in hooks:
        assert f"\n## {hook.__name__}\n" in page
        assert reference.hook_signature(hook) in page
        assert hook.__doc__


@pytest.mark.parametrize("role", [*ROLES, *(OpenedKey, Folder, StagedFile, CheckReport, Finding, Severity)])
def test_what_a_provider_must_be_is_on_the_page_of_the_hooks(root: Path, role):
    """Design, section 8, rule 1: a plugin can be written from the page, without the source."""
    page = (root / "docs/reference/hooks.md").read_text(encoding="utf-8")
    cls = role.protocol if isinstance(role, Role) else role
    assert f"\n### {cls.__name__}\n" in page
    assert reference.contract_source(cls) in page
    assert cls.__doc__


def test_every_hook_is_exercised_by_a_test(root: Path):
    """Design, section 8, rule 1: a hook without a test that names it is no promise."""
    here = Path(__file__)
    tests = [*root.glob("tests/**/*.py"), *root.glob("plugins/*/tests/**/*.py")]
    text = "".join(path.read_text(encoding="utf-8") for path in tests if path != here)
    untested = [hook.__name__ for hook in reference.hook_functions() if hook.__name__ not in text]
    assert not untested
