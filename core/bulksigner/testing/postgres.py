"""A PostgreSQL server for tests: a given one, or one of our own for as long as the run lasts (DEP-41)."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import attrs

__all__ = ["TEST_SERVER_VARIABLE", "PostgresServer", "ServerUnavailable", "running_server"]

TEST_SERVER_VARIABLE = "BULKSIGNER_TEST_POSTGRES"
_START_LIMIT_SECONDS = 60


class ServerUnavailable(Exception):
    """Report that no server can be had here, and why."""


@attrs.frozen
class PostgresServer:
    """A server on which databases can be made; `url` is that of its maintenance database."""

    url: str

    def create_database(self, template: str | None = None) -> str:
        """Make a database, empty or a copy of `template`, and return its name."""
        name = f"bulksigner_test_{secrets.token_hex(6)}"
        self._run(f'CREATE DATABASE "{name}"' + (f' TEMPLATE "{template}"' if template else ""))
        return name

    def drop_database(self, name: str) -> None:
        """Remove a database, whoever is still connected."""
        self._run(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def url_of(self, name: str) -> str:
        """Return the URL of one of its databases, with the host where settings want it (DEP-30), a socket's too."""
        from psycopg.conninfo import conninfo_to_dict

        given = {key: quote(str(value), safe="") for key, value in conninfo_to_dict(self.url).items()}
        place = f"{given.pop('user', 'postgres')}@{given.pop('host', 'localhost')}:{given.pop('port', '5432')}"
        query = "&".join(f"{key}={value}" for key, value in given.items() if key != "dbname")
        return f"postgresql://{place}/{name}" + (f"?{query}" if query else "")

    @contextmanager
    def database(self, template: str | None = None) -> Iterator[str]:
        """Give the URL of a new database and remove it afterwards."""
        name = self.create_database(template)
        try:
            yield self.url_of(name)
        finally:
            self.drop_database(name)

    def end_connections(self, name: str) -> None:
        """Break every connection to a database, as a fail-over would."""
        self._run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")

    def _run(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)


@contextmanager
def running_server(*, is_durable: bool = False) -> Iterator[PostgresServer]:
    """Give a server: the one `BULKSIGNER_TEST_POSTGRES` names, else one started from this host's binaries.

    It listens on a socket in its own temporary folder only. `is_durable` makes it flush as in production, for
    measurements. Raises `ServerUnavailable`.
    """
    if given := os.environ.get(TEST_SERVER_VARIABLE):
        yield PostgresServer(given)
        return
    binaries = _find_binaries()
    with tempfile.TemporaryDirectory(prefix="bulksigner-postgres-") as folder:
        root = Path(folder)
        account = _own_folder(root)
        options = f"-k {root} -c listen_addresses='' -c fsync={'on' if is_durable else 'off'}"
        _call(account, binaries / "initdb", "-D", root / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "-N")
        start = ("-w", "-t", str(_START_LIMIT_SECONDS), "-l", root / "log", "-o", options, "start")
        _call(account, binaries / "pg_ctl", "-D", root / "data", *start)
        try:
            yield PostgresServer(f"postgresql://postgres@/postgres?host={root}")
        finally:
            _call(account, binaries / "pg_ctl", "-D", root / "data", "-m", "immediate", "-w", "stop")


def _find_binaries() -> Path:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if versions:
        return versions[-1].parent
    found = shutil.which("initdb")
    if found is None:
        raise ServerUnavailable(
            f"no PostgreSQL binaries: install the system package postgresql, or set {TEST_SERVER_VARIABLE} to a URL"
        )
    return Path(found).resolve().parent


def _own_folder(root: Path) -> dict[str, Any]:
    """Return who runs the server: ourselves, or `postgres` when we are root, which the server refuses to be."""
    if os.name != "posix" or os.geteuid() != 0:
        return {}
    import pwd  # absent on Windows

    try:
        account = pwd.getpwnam("postgres")
    except KeyError as error:
        raise ServerUnavailable("running as root, and there is no account `postgres` to run the server") from error
    os.chown(root, account.pw_uid, account.pw_gid)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": [], "cwd": root}


def _call(account: dict[str, Any], *command: str | Path) -> None:
    done = subprocess.run(
        [str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **account
    )
    if done.returncode != 0:
        raise ServerUnavailable(f"{Path(str(command[0])).name} ended with {done.returncode}: {done.stderr.strip()}")
