"""Files and environment become one typed object, or one refusal with everything in it."""

from __future__ import annotations

import datetime
import enum
import json

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bulksigner.contract.errors import ConfigurationRefused, PluginFailed
from bulksigner.contract.settings import Secret, at_least, between, option
from bulksigner.contract.signing import Format
from bulksigner.settings.bind import structure_block, unstructure_block
from bulksigner.settings.choices import Installed
from bulksigner.settings.load import check_choices, check_seed_choices
from bulksigner.settings.model import DatabaseProvider
from bulksigner.settings.reference import render_reference
from bulksigner.settings.signing import EngineChoice
from bulksigner.settings.variables import HostVariables, ListenAddress

CANARY = "canary-of-a-secret"


def test_defaults(host) -> None:
    """CFG-03, CFG-43: an API key is enough; nothing else is invented but the folder `default`."""
    loaded = host.load()
    core = loaded.core
    assert core.auth.api_key_header == "X-API-Key"
    assert core.storage.root == host.root / "data"
    (folder,) = core.storage.inputs
    assert (folder.name, folder.path, folder.provider) == ("default", host.root / "data/input", "LocalFileSystem")
    assert core.database.provider is DatabaseProvider.SQLITE
    assert core.database_location == host.root / "data/db/bulksigner.db"
    assert core.signing.engine is EngineChoice.AUTO
    assert core.signing.profiles == ()
    assert core.signing.certificate is None
    assert core.watched_folder.ignored_prefixes == (".", "~$")
    assert core.logging.level.value == "Information"
    assert (loaded.warnings, loaded.notices, loaded.files_read) == ((), (), ())
    assert [secret.reveal() for secret in loaded.secrets] == ["an-api-key-of-the-tests"]
    assert (loaded.environment, loaded.content_root) == ("Production", host.root)


def test_jobs_run_one_by_one_unless_the_settings_say_otherwise(host) -> None:
    """CFG-121: the default is sequential, as a token with one session needs it."""
    assert host.load().core.pipeline.max_concurrency == 1
    assert host.load({"Pipeline__MaxConcurrency": "4"}).core.pipeline.max_concurrency == 4


def test_the_rules_of_intake_have_their_defaults_and_can_be_set(host) -> None:
    """CFG-122, CFG-131, CFG-183: names are remembered, ten failures end a watch, no folder has sidecars."""
    core = host.load().core
    assert core.pipeline.reject_already_processed_file_names is True
    assert core.watched_folder.max_consecutive_failures == 10
    assert [folder.sidecar for folder in core.storage.inputs] == [False]
    core = host.load(
        {
            "Pipeline__RejectAlreadyProcessedFileNames": "false",
            "WatchedFolder__MaxConsecutiveFailures": "3",
            "Storage__Inputs__0__Name": "a",
            "Storage__Inputs__0__Path": "/in/a",
            "Storage__Inputs__0__Sidecar": "true",
            "Storage__Inputs__1__Name": "b",
            "Storage__Inputs__1__Path": "/in/b",
        }
    ).core
    assert core.pipeline.reject_already_processed_file_names is False
    assert core.watched_folder.max_consecutive_failures == 3
    assert [folder.sidecar for folder in core.storage.inputs] == [True, False]


def test_settings_are_immutable_and_secrets_do_not_show(host) -> None:
    """CFG-17: frozen, and `repr` shows stars."""
    loaded = host.load()
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        loaded.core.auth.api_key_header = "x"
    assert "an-api-key" not in repr(loaded)


def test_seed_profiles(pfx_host) -> None:
    """CFG-86 to CFG-97: a profile with the block of its source, in any case of letters."""
    pfx_host.write(
        "settings.toml",
        """
        [[signing.PROFILES]]
        name = "notas-fiscais"
        FORMAT = "pades"
        padesfilter = "ETSI"
        method = "LOCAL"
        [signing.PROFILES.CERTIFICATE]
        source = "PFX"
        pfx = {path = "/x.pfx", password = "a-long-password"}
        azurekeyvault = {appid = "of another source, not read"}
        """,
    )
    loaded = pfx_host.load()
    (seed,) = loaded.core.signing.profiles
    assert (seed.name, seed.format, seed.method, seed.verify) == ("notas-fiscais", Format.PADES, "Local", True)
    assert seed.certificate.source == "Pfx"
    assert (seed.certificate.block.path, seed.certificate.block.password.reveal()) == ("/x.pfx", "a-long-password")
    assert loaded.secrets[-1].reveal() == "a-long-password"
    assert loaded.warnings == ()


def test_every_failure_is_in_one_refusal(host) -> None:
    """CFG-12, OPS-38: files, types, limits, rules and reserved keys together, each with key, variable and remedy."""
    path = host.write(
        "settings.yaml",
        """
        Auth: {ApiKey: short}
        Hosting: {Threads: many}
        Pipeline: {MaxConcurrency: 33, PollIntervalSeconds: {Seconds: 1}}
        Upload: [1, 2]
        Logging: {LogLevel: {Default: Loud}}
        Storage:
          Inputs: [{Name: Caps, Path: a}, {Name: b}]
        Signing: {Engine: Rocket, Profiles: [{Name: x, Format: Docx}]}
        Encryption: {Enabled: true}
        """,
    )
    host.write("settings.Production.toml", "broken = \n")
    refused = host.refuse(
        {"Auth__ApiKey": "too-short", "Database__Provider": "Oracle", "Signing__Profiles__2__Name": "z"}
    )
    assert set(refused) == {
        str(host.root / "settings.Production.toml"),
        "Auth:ApiKey",
        "Hosting:Threads",
        "Pipeline:MaxConcurrency",
        "Pipeline:PollIntervalSeconds",
        "Upload",
        "Logging:LogLevel:Default",
        "Storage:Inputs[0]:Name",
        "Storage:Inputs[1]:Path",
        "Signing:Engine",
        "Signing:Profiles[0]:Format",
        "Signing:Profiles[0]:Certificate",
        "Signing:Profiles[1]",
        "Signing:Profiles[1]:Name",
        "Signing:Profiles[1]:Format",
        "Signing:Profiles[1]:Certificate",
        "Encryption:Password",
        "Encryption:Salt",
        "Database:Provider",
    } - {"Signing:Profiles[1]:Name"}
    line = refused["Hosting:Threads"].line()
    assert line == (
        f'Hosting:Threads (variable Hosting__Threads, from {path}): is "many". Give a whole number, 1 to 64.'
    )
    assert "one of Sqlite, PostgreSql" in refused["Database:Provider"].remedy
    assert refused["Auth:ApiKey"].origin == "variable Auth__ApiKey"


def test_missing_key_names_its_variable(host) -> None:
    """CFG-35, OPS-37: key, variable and minimum."""
    (failure,) = host.refuse({"Auth__ApiKey": ""}).values()
    assert "Auth__ApiKey" in failure.line()
    assert "16" in failure.remedy


@pytest.mark.parametrize("length", [15, 16])
def test_api_key_length(host, length) -> None:
    """CFG-35: sixteen characters are enough."""
    if length < 16:
        assert "Auth:ApiKey" in host.refuse({"Auth__ApiKey": "k" * length})
    else:
        assert host.load({"Auth__ApiKey": "k" * length}).core.auth.api_key.reveal() == "k" * length


def test_no_refusal_shows_a_secret(pfx_host) -> None:
    """CFG-13: neither wrong secrets, nor secrets that stand beside a failure or under an unknown key."""
    block = "Signing__Profiles__0__Certificate__"
    refused = pfx_host.refuse(
        {
            "Auth__ApiKey": CANARY[:10],
            "Signing__ProfileSecretsKey": CANARY,
            "Signing__Profiles__0__Name": "BAD",
            f"{block}Pfx__Password": CANARY,
            f"{block}Pfx__Path__Deep": CANARY,
            "ConnectionStrings__Default": f"postgresql://u:{CANARY}@h:1/d",
            "Database__Provider": f"postgresql://u:{CANARY}@h:1/d",
            "Auth__Unknown": CANARY,
            "Encryption__Password": CANARY,
        }
    )
    assert {"Auth:ApiKey", "Signing:ProfileSecretsKey", "ConnectionStrings:Default"} <= set(refused)
    text = "\n".join(failure.line() for failure in refused.values())
    assert "canary" not in text
    pfx_host.write("settings.json", json.dumps({"Auth": {"ApiKey": 99991111222233334444}}))
    refused = pfx_host.refuse({"Auth__ApiKey__0": CANARY})
    assert "canary" not in "\n".join(failure.line() for failure in refused.values())


def test_a_number_is_no_secret_text(host) -> None:
    """CFG-08, CFG-13: an unquoted key is refused without its digits."""
    host.write("settings.Production.json", '{"Signing": {"ProfileSecretsKey": 1234567890123456789012345678901234567}}')
    failure = host.refuse()["Signing:ProfileSecretsKey"]
    assert "quotes" in failure.remedy
    assert "12345" not in failure.line()


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("Storage__Rot", "Storage:Root"),
        ("Pipeline__MaxConcurency", "Pipeline:MaxConcurrency"),
        ("Storage__Inputs__0__Nam", "Storage:Inputs[0]:Name"),
    ],
)
def test_unknown_keys_are_warned_of_with_the_nearest(host, key, near) -> None:
    """CFG-14: full path, origin and the nearest known key, never the value."""
    host.write("settings.toml", "[[Storage.Inputs]]\nName='a'\nPath='a'\n")
    (warning,) = host.load({key: CANARY}).warnings
    assert near in warning
    assert key in warning
    assert CANARY not in warning


def test_unknown_sections_are_warned_of(host) -> None:
    """CFG-14: a section that is neither known nor reserved has no effect, and says so."""
    host.write("appsettings.json", '{"Serilog": {"Using": ["x"]}, "Kestrel": null, "Zzz": 1}')
    warnings = host.load().warnings
    assert [text.split(" (")[0] for text in warnings] == ["The key Serilog:Using[0]", "The key Zzz"]


def test_list_index_gap_is_refused(host) -> None:
    """CFG-05: the missing index is named."""
    variables = {"Storage__Inputs__0__Name": "a", "Storage__Inputs__0__Path": "a", "Storage__Inputs__2__Name": "b"}
    assert "[2]" in host.refuse(variables)["Storage:Inputs[1]"].problem
    host.write("settings.toml", "[[Storage.Inputs]]\nName='a'\nPath='a'\n[[Storage.Inputs]]\nName='b'\nPath='b'\n")
    assert (
        host.load({"Storage__Inputs__2__Name": "c", "Storage__Inputs__2__Path": "c"}).core.storage.inputs[2].name == "c"
    )


@pytest.mark.parametrize("segment", ["00", "x", "-1", "1.0", ""])
def test_what_is_no_index_is_refused(host, segment) -> None:
    """CFG-05: a list is only written by index."""
    refused = host.refuse({f"Storage__Inputs__{segment}__Name": "a"})
    assert any(key.startswith("Storage:Inputs") for key in refused)


def test_no_comma_splitting(host) -> None:
    """CFG-08: one text is not a list."""
    host.write("settings.toml", "[WatchedFolder]\nIgnoredExtensions = '.a,.b'\n")
    assert "list" in host.refuse()["WatchedFolder:IgnoredExtensions"].problem


def test_file_only_lists_replace_the_default_and_have_no_variable(host) -> None:
    """CFG-129: set in a file they replace the default; a variable has no effect and is warned of."""
    host.write("settings.toml", "[WatchedFolder]\nIgnoredExtensions = []\nIgnoredPrefixes = ['_']\n")
    loaded = host.load({"WatchedFolder__IgnoredPrefixes__0": "!"})
    assert loaded.core.watched_folder.ignored_extensions == ()
    assert loaded.core.watched_folder.ignored_prefixes == ("_",)
    assert "files only" in loaded.warnings[0]
    host.write("settings.toml", "[WatchedFolder]\nIgnoredExtensions = ['tmp']\n")
    assert "WatchedFolder:IgnoredExtensions" in host.refuse()


class Flavour(enum.Enum):
    """For the property test."""

    PLAIN = "Plain"
    RICH = "Rich"


@attrs.frozen
class Inner:
    """A nested class."""

    label: str = option(help="A required text.")
    token: Secret = option(Secret(""), help="A nested secret.")


@attrs.frozen
class Everything:
    """Every type that a plugin may use."""

    text: str = option("", help="A text.")
    count: int = option(1, help="A number.")
    wanted: bool = option(False, help="A choice.")
    flavour: Flavour = option(Flavour.PLAIN, help="A name.")
    pause: datetime.timedelta = option(datetime.timedelta(0), help="A time.")
    maybe: int | None = option(4, help="A number or none.")
    texts: tuple[str, ...] = option((), help="Texts.")
    secret: Secret = option(Secret(""), help="A secret.")
    inner: Inner | None = option(None, help="A section.")
    inners: tuple[Inner, ...] = option((), help="Sections.")


TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)


@settings(max_examples=25, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=TEXTS,
    secret=TEXTS,
    texts=st.lists(TEXTS, max_size=3),
    count=st.integers(-(10**18), 10**18),
    wanted=st.booleans(),
    flavour=st.sampled_from(["Plain", "RICH", "rich"]),
    days=st.integers(0, 10**6),
)
def test_file_and_environment_give_the_same(host, text, secret, texts, count, wanted, flavour, days) -> None:
    """CFG-08: the declared type decides what a value is, wherever it comes from."""
    host.schema.sections["Every"] = Everything
    scalars = {"Text": text, "Secret": secret, "Flavour": flavour}
    file = {**scalars, "Count": count, "Wanted": wanted, "Pause": days, "Texts": texts}
    plain = {**scalars, "Count": str(count), "Wanted": str(wanted), "Pause": str(days)}
    variables = {f"Every__{key}": value for key, value in plain.items()}
    variables |= {f"EVERY__TEXTS__{index}": value for index, value in enumerate(texts)}
    from_environment = host.load(variables).plugins[Everything]
    for syntax in ("json", "yaml", "toml"):
        body = {
            "json": json.dumps({"Every": file}),
            "yaml": "Every:\n" + "".join(f"  {key}: {_write(value)}\n" for key, value in file.items()),
            "toml": "[Every]\n" + "".join(f"{key} = {_write(value)}\n" for key, value in file.items()),
        }[syntax]
        path = host.root / f"settings.{syntax}"
        path.write_text(body, encoding="utf-8")
        try:
            assert host.load().plugins[Everything] == from_environment
        finally:
            path.unlink()


def _write(value: object) -> str:
    """Write a value as TOML and YAML have it in common, every letter escaped."""
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(letter):08x}" for letter in value) + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(_write, value)) + "]"
    return str(value).lower()


def test_blocks_are_stored_and_read_back() -> None:
    """SEC-47: plain values fit for JSON on one side, secrets on the other, and together the same block again."""
    block = Everything(
        text="@int 3",
        count=-2,
        wanted=True,
        flavour=Flavour.RICH,
        pause=datetime.timedelta(days=-3, microseconds=5),
        maybe=None,
        texts=("a", ""),
        secret=Secret("s1"),
        inner=Inner("x", Secret("s2")),
        inners=(Inner("y"), Inner("z", Secret("s3"))),
    )
    plain, secrets = unstructure_block(block)
    assert {secret.reveal() for secret in secrets.values()} == {"s1", "s2", "s3", ""}
    assert not any(f"s{number}" in json.dumps(plain) for number in (1, 2, 3))
    assert structure_block(Everything, json.loads(json.dumps(plain)), secrets) == block
    assert structure_block(Everything, *unstructure_block(Everything())) == Everything()


def test_a_stored_block_that_no_longer_fits_is_refused() -> None:
    """CFG-81: in words, with the key."""
    with pytest.raises(ConfigurationRefused, match="Count"):
        structure_block(Everything, {"Count": "many"}, {})


@attrs.frozen
class Needy:
    """A section that cannot do without a key."""

    endpoint: str = option(help="Where.")
    retries: int = option(3, help="How often.", check=at_least(1))


def test_plugin_sections(host) -> None:
    """CFG-16, CFG-196: bound by the same rules; absent it has its defaults, or is None where a key is required."""
    host.schema.section("Needy", Needy)
    host.schema.section("Storage:Everything", Everything)
    plugins = host.load().plugins
    assert plugins[Needy] is None
    assert plugins[Everything] == Everything()
    assert list(plugins) == [Needy, Everything]
    assert Inner not in plugins
    loaded = host.load({"needy__endpoint": "e", "Storage__Everything__Secret": "s", "Storage__Everything__Tex": "t"})
    assert loaded.plugins[Needy] == Needy("e", 3)
    assert Secret("s") in loaded.secrets
    assert "Storage:Everything:Text" in loaded.warnings[0]
    refused = host.refuse({"Needy__Retries": "0"})
    assert set(refused) == {"Needy:Endpoint", "Needy:Retries"}


@attrs.frozen
class Unbindable:
    """A type settings cannot have."""

    table: dict[str, int] = option(attrs.Factory(dict), help="A table.")


@attrs.frozen
class Taken:
    """A key that profiles have."""

    VERIFY: bool = option(True, help="Taken.", key="VERIFY")


def test_colliding_declarations_are_refused(host) -> None:
    """CFG-16: two owners of one key would each be told half of it."""
    schema = host.schema
    schema.section("One", Needy)
    schema.certificate_block("Pfx", Inner)
    schema.error_code("own.code", 400, "Own")
    for declare in (
        lambda: schema.section("ONE", Everything),
        lambda: schema.section("One:Endpoint", Everything),
        lambda: schema.section("Auth", Everything),
        lambda: schema.section("Two", Needy),
        lambda: schema.section("Three", Unbindable),
        lambda: schema.section("Four", str),
        lambda: schema.certificate_block("PFX", Everything),
        lambda: schema.certificate_block("Other", Inner),
        lambda: schema.profile_keys(Taken),
        lambda: schema.error_code("own.code", 400, "Own"),
        lambda: schema.error_code("sign.failed", None, "Theirs"),
    ):
        with pytest.raises(PluginFailed):
            declare()
    assert list(schema.sections) == ["One"]


def test_names_that_select_an_absent_plugin(pfx_host) -> None:
    """CFG-16, OPS-56: value and package are named."""
    profile = "Signing__Profiles__0__"
    loaded = pfx_host.load(
        {
            "Storage__Provider": "azurefiles",
            f"{profile}Name": "p",
            f"{profile}Format": "Cades",
            f"{profile}Method": "lacunasigner",
            f"{profile}Certificate__Source": "pkcs11",
            f"{profile}Certificate__Pkcs11__ModulePath": "/lib/x.so",
        }
    )
    here = Installed(frozenset({"Pfx"}), frozenset({"LocalFileSystem"}), frozenset({"Local"}))
    failures = {
        failure.key: failure for failure in (*check_choices(loaded.core, here), *check_seed_choices(loaded.core, here))
    }
    assert set(failures) == {
        "Storage:Provider",
        "Signing:Profiles[0]:Method",
        "Signing:Profiles[0]:Certificate:Source",
    }
    assert "bulksigner-azure-files" in failures["Storage:Provider"].remedy
    assert "LocalFileSystem" in failures["Storage:Provider"].remedy
    assert "bulksigner-pkcs11" in failures["Signing:Profiles[0]:Certificate:Source"].remedy
    all_here = Installed(frozenset({"Pkcs11"}), frozenset({"AzureFiles"}), frozenset({"LacunaSigner"}))
    assert check_choices(loaded.core, all_here) == []
    assert check_seed_choices(loaded.core, all_here) == []


def test_host_variables(tmp_path) -> None:
    """CFG-18 to CFG-26, CFG-185, CFG-186: own names before aliases, empty ones unset."""
    read = HostVariables.read(
        {
            "BULK_SIGNER_CONFIG_DIR": "etc",
            "BULK_SIGNER_ENVIRONMENT": "",
            "ASPNETCORE_ENVIRONMENT": "development",
            "BULK_SIGNER_URLS": "http://127.0.0.1:9; http://[::1]:10/;http://*:80",
            "BULK_SIGNER_DISABLED_PLUGINS": "a, b,,",
            "BULK_SIGNER_ALLOW_ROOT": "1",
            "TZ": "America/Sao_Paulo",
        },
        tmp_path,
    )
    assert (read.config_dir, read.content_root) == (tmp_path / "etc", tmp_path)
    assert read.is_development
    assert read.addresses == (
        ListenAddress("127.0.0.1", 9),
        ListenAddress("::1", 10),
        ListenAddress("0.0.0.0", 80),
    )
    assert read.disabled_plugins == {"a", "b"}
    assert read.allow_root
    assert not HostVariables.read({"BULK_SIGNER_ALLOW_ROOT": "true"}, tmp_path).allow_root
    assert HostVariables.read({}, tmp_path).urls == ("http://0.0.0.0:8080",)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BULK_SIGNER_URLS", "https://0.0.0.0:443"),
        ("BULK_SIGNER_URLS", "0.0.0.0:8080"),
        ("BULK_SIGNER_URLS", "http://host:99999"),
        ("BULK_SIGNER_URLS", "http://host:0"),
        ("BULK_SIGNER_URLS", "http://host/path"),
        ("BULK_SIGNER_URLS", ";"),
        ("BULK_SIGNER_ENVIRONMENT", "../x"),
    ],
)
def test_wrong_host_variables_are_refused(host, name, value) -> None:
    """CFG-12, CFG-19, CFG-20: with the settings' own failures, in the one refusal."""
    assert set(host.refuse({name: value, "Hosting__Threads": "0"})) == {name, "Hosting:Threads"}


def test_a_wrong_address_is_named_without_its_password(host) -> None:
    """CFG-12, CFG-13: which of several is wrong, and nothing secret of it."""
    failure = host.refuse({"BULK_SIGNER_URLS": "http://ok:1;ftp://x;http://me:hush@host"})["BULK_SIGNER_URLS"]
    assert "'ftp://x', 'http://…@host'" in failure.problem
    assert "ok:1" not in failure.problem
    assert "hush" not in failure.problem


def test_missing_content_root_is_refused(host) -> None:
    """CFG-21: the path is named."""
    failure = host.refuse({"BULK_SIGNER_CONTENT_ROOT": "/nowhere/at/all"})["BULK_SIGNER_CONTENT_ROOT"]
    assert "/nowhere/at/all" in failure.problem


def test_reference_has_what_plugins_declare(pfx_host) -> None:
    """CFG-16: the page is written from the same schema that binds."""
    pfx_host.schema.section("Needy", Needy)
    page = render_reference(pfx_host.schema)
    assert "| `Needy:Retries` | a whole number, 1 or more | `3` | `Needy__Retries` | How often. |" in page
    assert "`Signing:Profiles[]:Certificate:Pfx:Password`" in page


def test_checks_name_what_they_accept() -> None:
    """CFG-12: a refusal can say what would do."""
    assert between(1, 2).expected == "1 to 2"
    assert at_least(3).accepts(3)
    assert not at_least(3).accepts(2)
