"""The keys of `Backup`, and the places backups may not go to."""

from __future__ import annotations

import pytest


def on(path: str = "../backups", **others: str) -> dict[str, str]:
    return {"Backup__Enabled": "true", "Backup__Disk__Path": path, **others}


def test_backups_are_off_by_default(host) -> None:
    """CFG-175, STA-82: nothing is planned, fourteen would be kept, only on request."""
    given = host.load().core.backup
    assert (given.enabled, given.interval_hours, given.retain_count, given.disk.path) == (False, None, 14, None)


def test_values_are_limited_and_paths_made_absolute(host) -> None:
    """CFG-175: limits of interval and count; a relative path is under the content root."""
    given = host.load(on("b", Backup__IntervalHours="24", Backup__RetainCount="0")).core.backup
    assert (given.disk.path, given.interval_hours, given.retain_count) == (host.root / "b", 24, 0)
    for key, bad in (("IntervalHours", "0"), ("IntervalHours", "8761"), ("RetainCount", "-1"), ("RetainCount", "1001")):
        assert set(host.refuse(on(**{f"Backup__{key}": bad}))) == {f"Backup:{key}"}


def test_a_place_is_required(host) -> None:
    """CFG-175: there is no default; an empty text is none."""
    for variables in ({"Backup__Enabled": "true"}, on("")):
        assert set(host.refuse(variables)) == {"Backup:Disk:Path"}


@pytest.mark.parametrize(
    "path",
    ["in", "in/deep", "data/output/x", "data/processing", "data/error", "data/db", "else/db", "AzureFiles://a/b"],
)
def test_places_that_are_worked_in_are_refused(host, path) -> None:
    """STA-89, OPS-54: input folders, work roots, the folder of the database, and shares; also while backups are off."""
    variables = on(
        path,
        Storage__Inputs__0__Name="in",
        Storage__Inputs__0__Path="in",
        ConnectionStrings__Default="Data Source=else/db/records.db",
    )
    assert set(host.refuse(variables)) == {"Backup:Disk:Path"}
    assert set(host.refuse(variables | {"Backup__Enabled": "false"})) == {"Backup:Disk:Path"}


def test_a_server_has_backups_of_its_own(host) -> None:
    """STA-82, CLU-72, OPS-54: refused, naming both keys."""
    server = {"Database__Provider": "PostgreSql", "ConnectionStrings__Default": "postgresql://u@h/d"}
    server["Database__MaxConnections"] = "20"
    failure = host.refuse(on(**server))["Backup:Enabled"]
    assert "Database:Provider" in failure.problem
    assert "pg_dump" in failure.remedy
    host.load(server)


@pytest.mark.parametrize("key", ["S3__BucketName", "AzureBlob__ContainerUrl"])
def test_object_stores_are_not_there(host, key) -> None:
    """CFG-194: refused with their keys, and as a destination."""
    assert set(host.refuse(on(**{f"Backup__{key}": "x"}))) == {f"Backup:{key.replace('__', ':')}"}
    assert set(host.refuse(on(Backup__Destination=key.partition("__")[0]))) == {"Backup:Destination"}
