"""pytest fixtures of the test kit, registered by the entry point `pytest11`.

Everything but pytest is imported inside the functions: the plugin is loaded in every run of pytest on the host.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from bulksigner.testing.certificates import Authority, Issued
    from bulksigner.testing.harness import Harness
    from bulksigner.testing.postgres import PostgresServer

__all__ = ["missing", "require_tool"]


def missing(what: str, package: str) -> NoReturn:
    """Skip the running test because `what` is missing; fail it instead where CI=true (DEP-63)."""
    reason = f"{what} is missing: install the system package {package}"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason} (CI=true allows no skipped test)", pytrace=False)
    pytest.skip(reason)


def require_tool(name: str, package: str) -> str:
    """Return the path of a command-line tool, or skip the test naming the Debian package (DEP-63)."""
    found = shutil.which(name)
    if found is None:
        missing(name, package)
    return found


@pytest.fixture(name="require_tool", scope="session")
def _require_tool() -> Callable[[str, str], str]:
    """Hand out `require_tool` to tests that import nothing of ours."""
    return require_tool


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Return one PostgreSQL server for the run (DEP-41); its lack is that of a tool."""
    from bulksigner.testing.postgres import ServerUnavailable, running_server

    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(running_server())
        except ServerUnavailable as error:
            missing(f"a PostgreSQL server ({error})", "postgresql")
        yield server


@pytest.fixture(scope="session")
def authority() -> Authority:
    """Return the throw-away certificate authority of this run."""
    from bulksigner.testing.certificates import make_authority

    return make_authority()


@pytest.fixture(scope="session")
def leaf(authority: Authority) -> Issued:
    """Return an e-CPF with an RSA-2048 key under `authority`."""
    return authority.issue()


@pytest.fixture
def pfx(leaf: Issued, tmp_path: Path) -> tuple[Path, str]:
    """Write `leaf` as a PKCS#12 file; returns path and password."""
    password = "senha de teste"
    return leaf.write_pfx(tmp_path / "certificate.pfx", password), password


@pytest.fixture
def make_harness(leaf: Issued, tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    """Return a maker of services on folders of their own; it takes what `testing.harness.prepare` takes."""
    from bulksigner.testing.harness import Harness, prepare

    with contextlib.ExitStack() as stack:

        def make(**choices: Any) -> Harness:
            folder = tmp_path / f"service-{len(made)}"
            made.append(Harness(prepare(folder, **{"issued": leaf, **choices})))
            stack.callback(made[-1].close)
            return made[-1]

        made: list[Harness] = []
        yield make


@pytest.fixture
def harness(make_harness: Callable[..., Harness]) -> Harness:
    """Return a whole service on SQLite, stepped by hand; it is closed afterwards."""
    return make_harness()


@pytest.fixture(scope="session")
def pdf_file() -> Callable[..., bytes]:
    """Return the PDF builder `testing.files.pdf_file`."""
    from bulksigner.testing.files import pdf_file as build

    return build


@pytest.fixture(scope="session")
def xml_file() -> Callable[..., bytes]:
    """Return the XML builder `testing.files.xml_file`."""
    from bulksigner.testing.files import xml_file as build

    return build


@pytest.fixture(scope="session")
def cnab240_file() -> Callable[..., bytes]:
    """Return the payment file builder `testing.files.cnab240_file`."""
    from bulksigner.testing.files import cnab240_file as build

    return build
