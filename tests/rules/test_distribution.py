import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PINNED = re.compile(r"^[a-z0-9-]+==[\w.!+]+( ; .+)?$")
# Written in pieces, so that this file does not find itself.
REGISTRIES = ("pypi" + ".org", "python" + "hosted", "index" + "-url", "find" + "-links=")
MACHINE_PATHS = ("/home" + "/", "/root" + "/", "/Us" + "ers/", "/wo" + "rk/", "C:" + "\\Us" + "ers", "/tm" + "p/")


def project_files(root: Path) -> list[Path]:
    return [root / "pyproject.toml", *sorted(root.glob("plugins/*/pyproject.toml"))]


def pins(root: Path) -> dict[str, str]:
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(line.split("==")[0]): line.split("==")[1].split(" ;")[0] for line in lines}


def declared(path: Path) -> list[Requirement]:
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    extras = project.get("optional-dependencies", {}).values()
    return [Requirement(text) for text in [*project["dependencies"], *(line for extra in extras for line in extra)]]


def test_constraints_hold_versions_only(root: Path):
    """DEP-13, DEP-15: one exact version a line, at most a marker, and no address."""
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert lines
    assert [line for line in lines if not PINNED.match(line)] == []
    assert list(pins(root)) == sorted(pins(root))


def test_every_declared_dependency_is_pinned_inside_its_bounds(root: Path):
    """DEP-15: constraints.txt and every pyproject.toml agree."""
    pinned, wrong = pins(root), []
    for path in project_files(root):
        for requirement in declared(path):
            name = canonicalize_name(requirement.name)
            if name.startswith("bulksigner"):
                continue
            if name not in pinned:
                wrong.append(f"{path.relative_to(root)}: {name} is not in constraints.txt")
            elif not requirement.specifier.contains(pinned[name], prereleases=True):
                wrong.append(f"{path.relative_to(root)}: {requirement} but {pinned[name]} is pinned")
    assert not wrong


def test_every_plugin_is_installed_for_development(root: Path):
    """DEP-08: one `-e` line for each plugin, so that no suite is left out."""
    lines = (root / "requirements-dev.txt").read_text(encoding="utf-8").splitlines()
    for path in root.glob("plugins/*/pyproject.toml"):
        assert f"-e plugins/{path.parent.name}" in lines


def test_plugins_have_the_shape_of_plugins(root: Path):
    """DEP-03, DEP-04: name, package, build system and entry point of each plugin follow from its folder."""
    for path in root.glob("plugins/*/pyproject.toml"):
        settings, folder = tomllib.loads(path.read_text(encoding="utf-8")), path.parent.name
        assert settings["project"]["name"] == f"bulksigner-{folder.replace('_', '-')}"
        assert settings["project"]["entry-points"]["bulksigner"] == {folder: f"bulksigner_{folder}.plugin"}
        assert settings["build-system"]["build-backend"] == "hatchling.build"
        assert (path.parent / f"bulksigner_{folder}/plugin.py").is_file()
        for name in ("README.md", "CHANGELOG.md", "tests"):
            assert (path.parent / name).exists(), f"{path.parent.name} lacks {name}"


def test_no_lock_file_is_committed(tracked: list[Path]):
    """DEP-12: lock files hold the address of every package."""
    assert not {path.name for path in tracked} & {"uv.lock", "pylock.toml"}


def test_no_file_names_a_registry_or_a_path_of_one_machine(tracked: list[Path], root: Path):
    """DEP-12, DEP-13: the tree is the same wherever it is cloned."""
    wrong = []
    for path in tracked:
        text = path.read_bytes().decode("utf-8", errors="replace")
        if path.name == "LICENSE":
            continue
        wrong += [f"{path.relative_to(root)}: {found}" for found in (*REGISTRIES, *MACHINE_PATHS) if found in text]
    assert not wrong


def test_no_file_holds_the_marks_of_an_unfinished_merge(tracked: list[Path], root: Path):
    """A page is text to every linter, so nothing else would notice."""
    marks = re.compile(rb"^(<{7}|>{7}) ", re.MULTILINE)
    assert [str(path.relative_to(root)) for path in tracked if marks.search(path.read_bytes())] == []


def test_system_packages_are_listed_with_proof_and_reason(root: Path):
    """DEP-64: package, what shows that it is there, and what needs it, on every line."""
    lines = (root / "tests/system-packages.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split(maxsplit=2) for line in lines if not line.startswith("#")]
    assert rows
    assert all(len(row) == 3 for row in rows)
