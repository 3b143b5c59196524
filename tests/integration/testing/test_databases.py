import psycopg
import pytest

from bulksigner.testing.databases import SERVER_VARIABLE, open_server, server_is_available
from bulksigner.testing.fixtures import missing


@pytest.fixture(scope="module")
def server():
    if not server_is_available():
        missing("a PostgreSQL server", "postgresql")
    with open_server() as opened:
        yield opened


def test_each_test_has_a_database_of_its_own(server):
    """DEP-41: what one database holds the next does not, and it is gone afterwards."""
    with server.make_database() as url, psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept (id int)")
    with server.make_database() as other, psycopg.connect(other) as connection:
        assert connection.execute("SELECT to_regclass('kept')").fetchone() == (None,)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_a_database_can_be_copied_from_a_migrated_one(server):
    """DEP-41: one migration serves every test, by TEMPLATE."""
    with server.make_database() as url:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept (id int)")
        name = url.split("?", maxsplit=1)[0].rpartition("/")[2]
        with server.make_database(template=name) as copy, psycopg.connect(copy) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_a_server_named_by_the_environment_is_used(monkeypatch, server):
    """DEP-41: a given server comes before our own."""
    monkeypatch.setenv(SERVER_VARIABLE, server.url)
    with open_server() as opened:
        assert opened.url == server.url
        with opened.make_database() as url, psycopg.connect(url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
