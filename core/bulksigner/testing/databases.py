"""A PostgreSQL server for one run of the tests: a cluster of its own in a temporary folder (DEP-36, DEP-41)."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import attrs

from bulksigner.contract.errors import BulkSignerError

__all__ = ["SERVER_VARIABLE", "PostgresServer", "open_server", "server_is_available"]

SERVER_VARIABLE = "BULKSIGNER_TEST_POSTGRES"
_DEBIAN_FOLDER = Path("/usr/lib/postgresql")
_USER = "postgres"
_TIMEOUT_SECONDS = 60


def _binaries() -> Path | None:
    """Return the folder with `initdb`: the newest of Debian's, which are not on PATH, else what PATH has."""
    found = sorted(_DEBIAN_FOLDER.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


def server_is_available() -> bool:
    """Tell whether `open_server` has a server to use."""
    return bool(os.environ.get(SERVER_VARIABLE)) or _binaries() is not None


def _is_root() -> bool:
    return os.name == "posix" and os.geteuid() == 0


def _run(arguments: Sequence[str | Path]) -> None:
    command = [str(argument) for argument in arguments]
    if _is_root():
        # initdb and postgres refuse to run as root.
        command = ["runuser", "-u", _USER, "--", *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False, cwd="/")
    if done.returncode:
        raise BulkSignerError(f"{Path(arguments[0]).name} failed: {done.stdout}{done.stderr}")


@attrs.frozen
class PostgresServer:
    """A running server; `url` leads to its maintenance database, as a role that may create others."""

    url: str

    @contextlib.contextmanager
    def make_database(self, template: str = "template1") -> Iterator[str]:
        """Create a database under a new name, yield its URL, and drop it with whoever is still connected."""
        import psycopg
        from psycopg import sql

        name = f"test_{uuid.uuid4().hex}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
            connection.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
        try:
            yield urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))
        finally:
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextlib.contextmanager
def open_server() -> Iterator[PostgresServer]:
    """Start a server on a Unix socket and stop it at the end; BULKSIGNER_TEST_POSTGRES names one to use instead.

    Durability is switched off: the cluster does not outlive the run. Raises `BulkSignerError` when there is none.
    """
    given = os.environ.get(SERVER_VARIABLE)
    if given:
        yield PostgresServer(given)
        return
    binaries = _binaries()
    if binaries is None:
        raise BulkSignerError(f"no PostgreSQL server: install the package postgresql or set {SERVER_VARIABLE}")
    # Unix socket paths are limited to about 100 bytes, so the folder is not below pytest's.
    with tempfile.TemporaryDirectory(prefix="bsgn-pg-") as folder:
        if _is_root():
            import pwd

            account = pwd.getpwnam(_USER)
            os.chown(folder, account.pw_uid, account.pw_gid)
        cluster = Path(folder) / "cluster"
        _run([binaries / "initdb", "-D", cluster, "-U", _USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"])
        options = f"-k {folder} -c listen_addresses= -c fsync=off -c synchronous_commit=off -c full_page_writes=off"
        control: list[str | Path] = [binaries / "pg_ctl", "-D", cluster, "-w", "-s"]
        _run([*control, "-l", Path(folder) / "log", "-o", options, "start"])
        try:
            yield PostgresServer(f"postgresql://{_USER}@/postgres?host={folder}")
        finally:
            _run([*control, "-m", "immediate", "stop"])
