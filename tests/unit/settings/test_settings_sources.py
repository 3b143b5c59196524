"""Files and environment come in literally and in the right order."""

from __future__ import annotations

import json
import os
from pathlib import Path

import attrs
import pytest

from bulksigner.contract.settings import Secret, option
from bulksigner.settings.findings import Findings
from bulksigner.settings.sources import read_environment, read_files
from bulksigner.settings.tree import walk

SYNTAXES = {
    "toml": """
        [Hosting]
        Threads = 3
        [Logging.LogLevel]
        Default = "Debug"
        "bulksigner.files" = "Error"
        [[Storage.Inputs]]
        Name = "one"
        Path = "in/one"
        IgnoredExtensions = [".bak", ".old"]
        """,
    "yaml": """
        Hosting: {Threads: 3}
        Logging:
          LogLevel:
            Default: Debug
            bulksigner.files: Error
        Storage:
          Inputs:
            - Name: one
              Path: in/one
              IgnoredExtensions: [.bak, .old]
        """,
    "json": """
        {"Hosting": {"Threads": 3},
         "Logging": {"LogLevel": {"Default": "Debug", "bulksigner.files": "Error"}},
         "Storage": {"Inputs": [{"Name": "one", "Path": "in/one", "IgnoredExtensions": [".bak", ".old"]}]}}
        """,
}


def leaves(directory: Path) -> dict[str, object]:
    findings = Findings()
    files = read_files([directory], "Production", findings)
    findings.raise_failures()
    return {":".join(path): leaf.value for path, leaf in walk(files.tree)}


@pytest.mark.parametrize("syntax", [*SYNTAXES, "yml"])
def test_every_syntax_gives_the_same_settings(host, syntax) -> None:
    """CFG-02: one shape, three syntaxes."""
    host.write(f"settings.{syntax}", SYNTAXES["yaml" if syntax == "yml" else syntax])
    core = host.load().core
    assert core.hosting.threads == 3
    assert core.logging.level.value == "Debug"
    assert {name: level.value for name, level in core.logging.levels.items()} == {"bulksigner.files": "Error"}
    (folder,) = core.storage.inputs
    assert (folder.name, folder.path) == ("one", host.root / "in/one")
    assert folder.ignored_extensions == (".bak", ".old")


def test_later_sources_win_leaf_by_leaf(host) -> None:
    """CFG-01, CFG-10: defaults, content root, configuration directory, environment; named files over base files."""
    host.write("settings.toml", "[Pipeline]\nPollIntervalSeconds = 11\nMaxConcurrency = 2\n[Hosting]\nThreads = 11\n")
    host.write("settings.Production.yaml", "Hosting: {Threads: 12}\nUpload: {MaxBytes: 2000}\n")
    host.write("etc/settings.json", '{"Upload": {"MaxBytes": 3000}, "Pipeline": {"MaxConcurrency": 3}}')
    host.write("etc/settings.Production.toml", "[Pipeline]\nMaxConcurrency = 4\n")
    host.write("settings.Staging.toml", "[Hosting]\nThreads = 60\n")
    loaded = host.load({"BULK_SIGNER_CONFIG_DIR": "etc", "Pipeline__PollIntervalSeconds": "7"})
    core = loaded.core
    assert core.pipeline.poll_interval_seconds == 7
    assert core.pipeline.max_concurrency == 4
    assert core.pipeline.shutdown_grace_seconds == 30
    assert core.hosting.threads == 12
    assert core.upload.max_bytes == 3000
    assert [path.name for path in loaded.files_read] == [
        "settings.toml",
        "settings.Production.yaml",
        "settings.json",
        "settings.Production.toml",
    ]


def test_configuration_directory_that_is_the_content_root_is_read_once(host) -> None:
    """CFG-01: the same file is not two sources."""
    host.write("settings.toml", "[[Storage.Inputs]]\nName = 'one'\nPath = 'one'\n")
    loaded = host.load({"BULK_SIGNER_CONFIG_DIR": str(host.root)})
    assert len(loaded.files_read) == 1
    assert loaded.warnings == ()


@pytest.mark.parametrize("second", ["settings.yaml", "settings.json", "Settings.toml"])
def test_two_files_of_one_stem_are_refused(host, second) -> None:
    """CFG-02: both are named."""
    host.write("settings.toml", "")
    host.write(second, "{}")
    failure = host.refuse()[str(host.root)]
    assert "settings.toml" in failure.problem
    assert second in failure.problem


def test_migrated_file_with_comments_lies_below(host) -> None:
    """CFG-02: appsettings.json with comments, trailing commas and a byte-order mark starts, below settings.*."""
    host.write("settings.toml", "[Hosting]\nThreads = 5\n").touch()
    path = host.write(
        "appsettings.json",
        """\
        \ufeff{
          // the web part
          "Hosting": { "Threads": 9, /* was 4 */ },
          "AllowedHosts": "*",
          "Logging": { "LogLevel": { "Default": "Warning", "Microsoft.AspNetCore": "Error" } },
          "Storage:Root": "C//not-a-comment/*nor this*/",
          "Upload": { "MaxBytes": "4096", },
        }
        """,
    )
    loaded = host.load()
    assert loaded.core.hosting.threads == 5
    assert loaded.core.upload.max_bytes == 4096
    assert loaded.core.logging.level.value == "Warning"
    assert loaded.core.storage.root == host.root / "C//not-a-comment/*nor this*/"
    assert any(str(path) in notice for notice in loaded.notices)
    assert loaded.warnings == (
        f"The database file {host.root / 'data/db/bulksigner.db'} lies outside Storage:Root "
        f"({loaded.core.storage.root}).",
    )


def test_comments_belong_to_migrated_files_only(host) -> None:
    """CFG-02: settings.json is plain JSON; the refusal names the place."""
    path = host.write("settings.json", '{\n// note\n"Hosting": {}}')
    assert "line 2" in host.refuse()[str(path)].problem


@pytest.mark.parametrize("syntax", ["toml", "yaml", "json"])
@pytest.mark.parametrize(
    "value",
    ["@int 3", "@format {env[HOME]}", "@jinja {{ 1 }}", "@json [1]", "@merge a", "${HOME}", "dynaconf_merge", "{}"],
)
def test_values_of_files_are_literal(tmp_path, syntax, value) -> None:
    """CFG-07: tokens and templates come through as written."""
    quoted = json.dumps(value)
    text = {
        "toml": f"[Auth]\nApiKey = {quoted}\n",
        "yaml": f"Auth:\n  ApiKey: {quoted}\n",
        "json": f'{{"Auth": {{"ApiKey": {quoted}}}}}',
    }[syntax]
    (tmp_path / f"settings.{syntax}").write_text(text)
    assert leaves(tmp_path) == {"Auth:ApiKey": value}


@pytest.mark.parametrize("syntax", ["toml", "yaml", "json"])
def test_merge_markers_are_ordinary_keys(tmp_path, syntax) -> None:
    """CFG-07: neither `dynaconf_merge` nor a key with `__` or dots orders anything."""
    body = {"dynaconf_merge": True, "Auth": {"dynaconf_merge": True, "A__B": "x", "C.D": "y"}}
    text = {
        "json": json.dumps(body),
        "toml": 'dynaconf_merge = true\n[Auth]\ndynaconf_merge = true\nA__B = "x"\n"C.D" = "y"\n',
        "yaml": "dynaconf_merge: true\nAuth: {dynaconf_merge: true, A__B: x, C.D: y}\n",
    }[syntax]
    (tmp_path / f"settings.{syntax}").write_text(text)
    read = leaves(tmp_path)
    assert set(read) == {"dynaconf_merge", "Auth:dynaconf_merge", "Auth:A__B", "Auth:C.D"}


def test_plain_yaml_scalars_stay_text(tmp_path) -> None:
    """CFG-07: nothing becomes a number of base 60, a boolean or a date; null is null."""
    (tmp_path / "settings.yaml").write_text(
        "A: 10:20:00\nB: no\nC: 012\nD: 2026-01-02\nE: 12345678901234567890\nF: ~\nG:\nH: ''\nI: 'null'\n<<: {J: 1}\n"
    )
    assert leaves(tmp_path) == {
        "A": "10:20:00",
        "B": "no",
        "C": "012",
        "D": "2026-01-02",
        "E": "12345678901234567890",
        "F": None,
        "G": None,
        "H": "",
        "I": "null",
        "<<:J": "1",
    }


def test_dates_and_times_of_toml_become_the_text_of_the_other_syntaxes(tmp_path) -> None:
    """CFG-08: the declared type decides, not the syntax."""
    (tmp_path / "settings.toml").write_text("A = 00:20:00\nB = 2026-01-02\nC = [01:00:00]\n")
    assert leaves(tmp_path) == {"A": "00:20:00", "B": "2026-01-02", "C:0": "01:00:00"}


CANARY = "canary-of-a-secret"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("settings.toml", f"[Auth]\nApiKey = {CANARY}\n"),
        ("settings.toml", f'[Auth]\nApiKey = "{CANARY}\n'),
        ("settings.toml", f'[Auth]\nApiKey = "{CANARY}\\q"\n'),
        ("settings.yaml", f"Auth:\n  ApiKey: *{CANARY}\n"),
        ("settings.yaml", f"Auth:\n  ApiKey: !{CANARY} x\n"),
        ("settings.yaml", f"Auth:\n  ApiKey: '{CANARY}\n"),
        ("settings.yaml", f"Auth: {{ApiKey: &a {CANARY}, Other: *a}}\n"),
        ("settings.yaml", f"Auth:\n  ApiKey: {CANARY}\n  ApiKey: b\n"),
        ("settings.yaml", f"Auth: {CANARY}\x01\n"),
        ("settings.yaml", f"[{CANARY}, b]: c\n"),
        ("settings.json", f'{{"Auth": {{"ApiKey": {CANARY}}}}}'),
        ("settings.json", f'{{"Auth": {{"ApiKey": "{CANARY}", "ApiKey": "b"}}}}'),
        ("settings.json", f'["{CANARY}"]'),
        ("settings.json", f'{{"{CANARY}": NaN}}'),
        ("settings.json", f'{{"{CANARY}": {"9" * 5000}}}'),
        ("settings.json", "[" * 100000),
    ],
)
def test_malformed_file_is_refused_without_its_content(host, name, text) -> None:
    """CFG-12, CFG-13: file and place are named, the content is not."""
    path = host.write(name, text)
    failure = host.refuse()[str(path)]
    assert CANARY not in failure.line()
    assert str(path) in failure.line()


def test_unreadable_and_undecodable_files_are_refused(host, monkeypatch) -> None:
    """CFG-12: both failures, one refusal."""
    latin = host.root / "settings.toml"
    latin.write_bytes("[Auth]\nApiKey = 'é'".encode("latin-1"))
    shut = host.write("settings.Production.toml", "")
    real = Path.open

    def deny(self, *args, **kwargs):
        if self == shut:
            raise PermissionError(13, "Permission denied")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", deny)
    refused = host.refuse()
    assert "UTF-8" in refused[str(latin)].problem
    assert "Permission denied" in refused[str(shut)].problem


def test_missing_configuration_directory_is_refused(host) -> None:
    """CFG-18: the path is named."""
    failure = host.refuse({"BULK_SIGNER_CONFIG_DIR": "/nowhere/etc"})["BULK_SIGNER_CONFIG_DIR"]
    assert "/nowhere/etc" in failure.problem


def test_empty_files_are_no_failure(host) -> None:
    """CFG-11: a file that says nothing inherits everything."""
    for name in ("settings.toml", "settings.Production.yaml", "appsettings.json"):
        host.write(name, "")
    assert host.load().core.hosting.threads == 8


def test_lists_merge_by_index_and_two_files_are_warned_of(host) -> None:
    """CFG-10: entry 0 of the later file overlays entry 0 and inherits what it does not name."""
    base = host.write("settings.yaml", "Storage:\n  Inputs:\n    - {Name: one, Path: a, PollIntervalSeconds: 9}\n")
    over = host.write(
        "settings.Production.toml", "[[Storage.Inputs]]\nName = 'uno'\n[[Storage.Inputs]]\nName = 'two'\nPath = 'b'"
    )
    loaded = host.load({"Storage__Inputs__1__Path": "c"})
    assert [(folder.name, folder.path.name, folder.poll_interval_seconds) for folder in loaded.core.storage.inputs] == [
        ("uno", "a", 9),
        ("two", "c", None),
    ]
    (warning,) = loaded.warnings
    assert "Storage:Inputs" in warning
    assert str(base) in warning
    assert str(over) in warning


def test_null_inherits_and_empty_text_does_not(host) -> None:
    """CFG-11: null is nothing said, an empty text is "there is none"."""
    host.write("settings.json", '{"WatchedFolder": {"PollIntervalSeconds": 77}, "Hosting": {"Threads": 5}}')
    host.write("settings.Production.json", '{"WatchedFolder": {"PollIntervalSeconds": null}, "Hosting": null}')
    core = host.load().core
    assert (core.watched_folder.poll_interval_seconds, core.hosting.threads) == (77, 5)
    assert host.load({"WatchedFolder__PollIntervalSeconds": ""}).core.watched_folder.poll_interval_seconds is None


def test_same_key_twice_in_one_source_is_refused(host) -> None:
    """CFG-04: spellings of one key are one key, so two of them contradict each other."""
    host.write("settings.toml", "[Hosting]\nThreads = 1\nthreads = 2\n")
    assert "twice" in host.refuse()["Hosting:threads"].problem
    host.write("settings.toml", '"Hosting:Threads" = 1\n[Hosting]\nThreads = 2\n')
    assert "twice" in host.refuse()["Hosting:Threads"].problem
    host.write("settings.toml", "")
    failure = host.refuse({"Hosting__Threads": "1", "HOSTING__THREADS": "2"})["HOSTING:THREADS"]
    assert "Hosting__Threads" in failure.problem
    assert "HOSTING__THREADS" in failure.problem


@attrs.frozen
class Odd:
    """Keys of every kind that the environment can get wrong."""

    text: str = option("", help="A text.")
    secret: Secret = option(Secret(""), help="A secret.")
    texts: tuple[str, ...] = option((), help="Texts.")


NASTY = [
    "12345678901234567",
    "@int 3",
    "@format {this.AUTH}",
    "{}",
    "[1, 2]",
    '"quoted"',
    "'x'",
    "true",
    "1e5",
    "0x10",
    "007",
    " padded ",
    "a=b;c",
    "${HOME}",
    "ação ✓",
    "line\nbreak",
    "",
]


@pytest.mark.parametrize("value", NASTY)
def test_variables_are_text(host, value) -> None:
    """CFG-06: no cast, no token, no trimming; an index is an index."""
    host.schema.section("Odd", Odd)
    loaded = host.load({"ODD__TEXT": value, "Odd__Secret": value, "odd__texts__0": value, "Odd__Texts__1": "z"})
    odd = loaded.plugins[Odd]
    assert (odd.text, odd.secret.reveal(), odd.texts) == (value, value, (value, "z"))


def test_only_variables_of_known_sections_are_read() -> None:
    """CFG-06: other processes' variables, and a bare section name, are not ours."""
    environ = {
        "Auth__ApiKey": "a",
        "AUTH": "not ours",
        "AUTH_API_KEY": "not ours",
        "PATH": "/bin",
        "Other__Key": "not ours",
        "allowedhosts": "*",
        "AllowedHosts__0": "not ours",
    }
    tree = read_environment(environ, {"auth"}, {"allowedhosts"}, Findings())
    assert [(path, leaf.origin) for path, leaf in walk(tree)] == [
        (("Auth", "ApiKey"), "variable Auth__ApiKey"),
        (("allowedhosts",), "variable allowedhosts"),
    ]


def test_loading_leaves_the_process_environment_alone(host, monkeypatch) -> None:
    """CFG-06: nothing of the process leaks in, whatever the settings library would take from it."""
    for name in (
        "DYNACONF_HOSTING__THREADS",
        "Hosting__Threads",
        "ROOT_PATH_FOR_DYNACONF",
        "SETTINGS_FILE_FOR_DYNACONF",
    ):
        monkeypatch.setenv(name, "33")
    before = dict(os.environ)
    host.write("settings.toml", "[Upload]\nEnabled = false\n")
    assert host.load().core.hosting.threads == 8
    assert dict(os.environ) == before
