"""The panels of real services in eight configurations, compared with stored texts (OPS-233).

`panels/<name>.txt` holds what each prints; places, versions and times of the run are written in angle brackets.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bulksigner import panels
from bulksigner.console.profile_panel import describe_policies
from bulksigner.records.prepared import Prepared
from bulksigner.records.tables import PipelineStateRow
from bulksigner.testing.certificates import Authority

STORED = Path(__file__).parent / "panels"
DATABASE_PASSWORD = "a database password"
PLUGIN = """
from bulksigner.builtin.local_folder import LocalFileSystem
from bulksigner.contract.hookspecs import hookimpl
from bulksigner.contract.observe import BannerRow


class Share(LocalFileSystem):
    name = "Share"


class Remote:
    name = "Remote"
    needs_certificate = False

    def sign(self, request):
        raise NotImplementedError

    poll = withdraw = settle = sign


@hookimpl
def bulksigner_storage_providers(settings):
    return [Share()]


@hookimpl
def bulksigner_signing_methods(settings):
    return [Remote()]


@hookimpl
def bulksigner_banner_rows(settings):
    return [BannerRow("share", "mounted")]
"""


KEYLESS = {
    "Signing__Profiles__0__Name": "default",
    "Signing__Profiles__0__Method": "Remote",
    "Signing__Certificate__Source": None,
    "Signing__Certificate__Pfx__Path": None,
    "Signing__Certificate__Pfx__Password": None,
}


@pytest.fixture
def shown(built: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Build a service and return what its panels print, with what differs from run to run in angle brackets."""

    def act(prepare: Callable[[Any], None] = lambda _: None, **changes: str | None) -> str:
        service = built(BULK_SIGNER_ENVIRONMENT="Production", **changes)
        prepare(service)
        capsys.readouterr()
        panels.show(service, ["http://127.0.0.1:8080"])
        printed = capsys.readouterr().out
        # Log lines of the same facts go to the same stream.
        text = "\n".join(line for line in printed.splitlines() if not re.match(r"\d{4}-\d\d-\d\dT", line))
        text = text.replace(str(tmp_path), "<folder>")
        text = re.sub(r"(?m)^(host mode +=|version +=) .+$", r"\1 <of this run>", text)
        text = re.sub(r"(cryptography|pyhanko|lxml) [\w.]+", r"\1 <version>", text)
        text = re.sub(r"PostgreSQL \(.+\)", "PostgreSQL (<host>/<database>)", text)
        text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>", text)
        return f"{text}\n"

    return act


def stored(name: str) -> str:
    return (STORED / f"{name}.txt").read_text(encoding="utf-8")


def profile(number: int, folder: Path, **keys: str) -> dict[str, str]:
    """Return the variables of one profile with a PFX certificate."""
    given = {
        "Certificate__Source": "Pfx",
        "Certificate__Pfx__Path": str(folder / "company.pfx"),
        "ValidateCertificate": "false",
        **keys,
    }
    return {f"Signing__Profiles__{number}__{key}": value for key, value in given.items()}


def test_one_profile_by_extension(shown: Any) -> None:
    """OPS-31, OPS-32: a plain host on its first start."""
    assert shown() == stored("plain")


def test_a_server_database(shown: Any, postgres_url: str) -> None:
    """OPS-31, OPS-233: host and name of the database, its status, and nothing else of the connection string."""
    location = re.sub(r"://postgres@", f"://postgres:{DATABASE_PASSWORD.replace(' ', '%20')}@", postgres_url)
    text = shown(Database__Provider="PostgreSql", ConnectionStrings__Default=location)
    assert text == stored("server-database")
    assert "database%20password" not in text


def test_several_profiles_and_certificates(shown: Any, tmp_path: Path, authority: Authority) -> None:
    """OPS-31, OPS-32, OPS-35: several certificates, low trust, disabled, an end that is near, and one that was."""
    now = datetime.datetime.now(datetime.UTC)
    ends = {"near": now + datetime.timedelta(days=9, hours=1), "past": now - datetime.timedelta(days=1)}
    for name, end in ends.items():
        authority.issue(not_before=now - datetime.timedelta(days=300), not_after=end).write_pfx(
            tmp_path / f"{name}.pfx", ""
        )
    assert shown(
        Storage__Inputs__0__Profile="contracts",
        **profile(0, tmp_path, Name="contracts", Format="Pades", Certificate__Pfx__Path=str(tmp_path / "near.pfx")),
        **profile(1, tmp_path, Name="slips", Format="Cades", Verify="false", Enabled="false")
        | {"Signing__Profiles__1__Certificate__Pfx__Password": "senha de teste, longa"},
        **profile(2, tmp_path, Name="tax", Format="Xades", Certificate__Pfx__Path=str(tmp_path / "past.pfx")),
    ) == stored("several-profiles")


def test_a_degraded_profile_beside_a_sound_one(shown: Any, tmp_path: Path) -> None:
    """OPS-33: the prefix, and the line with the reason."""
    assert shown(
        **profile(0, tmp_path, Name="default", Certificate__Pfx__Password="senha de teste, longa"),
        **profile(1, tmp_path, Name="lost", Format="Cades", Certificate__Pfx__Path=str(tmp_path / "nowhere.pfx")),
    ) == stored("degraded")


def test_a_profile_without_a_key_and_storage_of_a_plugin(shown: Any, install: Any, tmp_path: Path) -> None:
    """OPS-31, OPS-34: the method signs; providers are named once a folder is no plain directory; a plugin's row."""
    (tmp_path / "site" / "remote_kit.py").write_text(PLUGIN)
    install("remote_kit", "remote_kit")
    assert shown(
        Storage__Inputs__0__Provider="Share",
        Storage__Inputs__0__PollIntervalSeconds="5",
        **KEYLESS,
    ) == stored("keyless")


def test_folders_that_the_import_could_not_bind(shown: Any, tmp_path: Path) -> None:
    """OPS-36, PIPE-57: a profile that is not there, and one that has a folder already."""
    for name in ("second", "third"):
        (tmp_path / name).mkdir()
    assert shown(
        Storage__Inputs__1__Name="second",
        Storage__Inputs__1__Path=str(tmp_path / "second"),
        Storage__Inputs__2__Name="third",
        Storage__Inputs__2__Path=str(tmp_path / "third"),
        Storage__Inputs__2__Profile="nobody",
    ) == stored("unassigned-folders")


def test_a_later_start_under_other_settings(shown: Any, built: Any, tmp_path: Path) -> None:
    """OPS-35, OPS-36, PIPE-61: ignored seeds are counted, and a bound folder that is gone is named."""
    built().stop()
    (tmp_path / "other").mkdir()
    assert shown(Storage__Inputs__0__Name="other", Storage__Inputs__0__Path=str(tmp_path / "other")) == stored(
        "later-start"
    )


def test_a_paused_pipeline(shown: Any) -> None:
    """OPS-31: since when and why."""

    def pause(service: Any) -> None:
        at = datetime.datetime(2026, 5, 26, 15, 42, tzinfo=datetime.UTC)
        columns = {PipelineStateRow.paused: True, PipelineStateRow.changed_at: at, PipelineStateRow.reason: "month end"}
        query = Prepared(PipelineStateRow.update(columns))
        service.store.write(lambda: service.store.execute(query))

    assert shown(pause) == stored("paused")


def test_a_profile_without_a_key_is_a_green_row(built: Any, install: Any, tmp_path: Path) -> None:
    """API-87, OPS-34: a row of its own name that never gates, and none for a key that nobody opens."""
    (tmp_path / "site" / "remote_kit.py").write_text(PLUGIN)
    install("remote_kit", "remote_kit")
    rows = {row.name: row for row in built(**KEYLESS).readiness.report().rows}
    row = rows["signing-profile-keyless:default"]
    assert (row.ok, row.gating) == (True, False)
    assert row.detail == "needs no key: the method Remote signs"
    assert "signing-profile:default" not in rows


def rows_of(printed: str) -> dict[str, str]:
    """Return the rows of the ready panel."""
    return {
        label.strip(): value for label, _, value in (line.partition(" = ") for line in printed.splitlines()) if value
    }


def test_the_rows_follow_the_settings(
    built: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-31: where an operator looks whether a setting took effect; the version with its build metadata."""
    monkeypatch.setattr(panels, "product_version", lambda: "9.8.7+build.654")
    monkeypatch.setattr(panels, "find_host_mode", lambda: "Windows service")
    service = built(
        BULK_SIGNER_ENVIRONMENT="Staging",
        Pipeline__PollIntervalSeconds="7",
        Logging__LogLevel__Default="Error",
        Logging__File__Path=str(tmp_path / "elsewhere"),
        Logging__File__WriteToConsole="false",
        Storage__Root=str(tmp_path / "other-data"),
        Backup__Enabled="true",
        Backup__Disk__Path=str(tmp_path / "copies"),
        Backup__IntervalHours="6",
        Hosting__RequireHttps="true",
        Encryption__Enabled="true",
        Encryption__Password="a password for tests",
        Encryption__Salt="AAECAwQFBgcICQoLDA0ODw==",
        Encryption__Iterations="10000",
    )
    capsys.readouterr()
    panels.show(service, ["http://127.0.0.1:1", "http://127.0.0.1:2"])
    rows = rows_of(capsys.readouterr().out)
    wanted = {
        "environment": "Staging",
        "listen": "http://127.0.0.1:1, http://127.0.0.1:2",
        "content root": str(tmp_path),
        "storage root": str(tmp_path / "other-data"),
        "logs": f"{tmp_path / 'elsewhere'}, Error",
        "poll interval": "7s",
        "backup": f"{tmp_path / 'copies'}, every 6 h",
        "version": "9.8.7+build.654",
        "https redirect": "on",
        "encryption": "enabled (BSENC v1, salt loaded)",
        "host mode": "Windows service",
    }
    assert {label: rows[label] for label in wanted} == wanted
    assert str(tmp_path / "data" / "db" / "bulksigner.db") in rows["operational store"]


def test_the_warnings_of_the_panel_reach_the_log_file(built: Any, tmp_path: Path) -> None:
    """OPS-33, OPS-35, OPS-36: durable where the terminal is not, at the level of the panel's line."""
    (tmp_path / "second").mkdir()
    service = built(
        Storage__Inputs__1__Name="second",
        Storage__Inputs__1__Path=str(tmp_path / "second"),
        **profile(0, tmp_path, Name="default", Verify="false")
        | {"Signing__Profiles__0__Certificate__Pfx__Password": "senha de teste, longa"},
        **profile(1, tmp_path, Name="lost", Format="Cades", Certificate__Pfx__Path=str(tmp_path / "nowhere.pfx")),
    )
    panels.show(service, ["http://127.0.0.1:8080"])
    service.stop()
    [path] = (tmp_path / "data" / "logs").glob("bulksigner-*.log")
    lines = path.read_text(encoding="utf-8").splitlines()
    for told in (
        "[WRN] Profile 'default': verify=off; signed files are not checked before they leave",
        "[WRN] Profile 'default': validate-cert=off; ",
        "[FTL] Profile 'lost': ",
        "[WRN] Input folder 'second' was left without a profile",
    ):
        assert len([line for line in lines if told in line]) == 1, told
    assert len([line for line in lines if "nowhere.pfx" in line]) == 1, "a reason is told once"


@pytest.mark.parametrize(
    ("keys", "row"),
    [
        ({}, "ADR-Básica (PAdES + CAdES + XAdES)"),
        ({"Policy": "B-B", "Format": "Cades"}, "none, baseline B-B (CAdES)"),
        ({"Policy": "AD-RB 1.3", "Format": "Pades"}, "ADR-Básica 1.3 (PAdES)"),
        ({"Xml__Flavor": "Nfe", "Format": "Xades"}, "none, plain XML of Nfe (XAdES)"),
    ],
)
def test_the_panel_says_what_policy_is_signed(built: Any, tmp_path: Path, keys: dict[str, str], row: str) -> None:
    """OPS-31, ICP-04: a national policy is never claimed where none is signed."""
    secret = {"Signing__Profiles__0__Certificate__Pfx__Password": "senha de teste, longa"}
    service = built(**profile(0, tmp_path, Name="default", **keys) | secret)
    assert describe_policies(service.profiles) == row


def test_profiles_that_sign_unlike_each_other(built: Any, tmp_path: Path) -> None:
    """OPS-31: as the row of the certificate's source, it points at the profiles."""
    secrets = {f"Signing__Profiles__{n}__Certificate__Pfx__Password": "senha de teste, longa" for n in (0, 1)}
    service = built(
        **profile(0, tmp_path, Name="default")
        | profile(1, tmp_path, Name="other", Format="Cades", Policy="B-B")
        | secrets
    )
    assert describe_policies(service.profiles) == "profiles"


def test_an_unassigned_folder_is_warned_of_at_every_start(
    built: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """PIPE-60: also when the import of the first start is long over."""
    (tmp_path / "second").mkdir()
    second = {"Storage__Inputs__1__Name": "second", "Storage__Inputs__1__Path": str(tmp_path / "second")}
    for _ in range(2):
        caplog.clear()
        service = built(**second)
        service.watchers.step()
        service.stop()
        [line] = [one for one in caplog.records if one.getMessage().startswith("Input folder second is bound to no")]
        assert line.levelname == "WARNING"
