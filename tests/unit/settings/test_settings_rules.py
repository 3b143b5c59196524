"""Rules across keys: folders that lie apart, databases of the right kind, profiles that make sense."""

from __future__ import annotations

import pytest


def folders(*paths: str, **more: str) -> dict[str, str]:
    variables = {}
    for index, path in enumerate(paths):
        variables[f"Storage__Inputs__{index}__Name"] = f"folder-{index}"
        variables[f"Storage__Inputs__{index}__Path"] = path
    return variables | more


def profile(index: int = 0, **keys: str) -> dict[str, str]:
    prefix = f"Signing__Profiles__{index}__"
    base = {"Name": f"profile-{index}", "Format": "Cades", "Certificate__Pfx__Path": "/x.pfx"} | keys
    return {prefix + key: value for key, value in base.items() if value != "-"}


@pytest.mark.parametrize("name", ["a", "a-b", "0", "a" * 40, "nf-2026"])
def test_folder_names_that_do(host, name) -> None:
    """CFG-44: lower-case letters, digits and inner hyphens, up to 40."""
    assert host.load(folders("x", Storage__Inputs__0__Name=name)).core.storage.inputs[0].name == name


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a_b", "a b", "á", "a" * 41, "a\n", "a/b"])
def test_folder_names_that_do_not(host, name) -> None:
    """CFG-44, OPS-42: a bad name is refused."""
    assert set(host.refuse(folders("x", Storage__Inputs__0__Name=name))) == {"Storage:Inputs[0]:Name"}


def test_folder_names_are_unique(host) -> None:
    """CFG-44, OPS-42: both entries are named."""
    failure = host.refuse(folders("x", "y", Storage__Inputs__1__Name="folder-0"))["Storage:Inputs[1]:Name"]
    assert "Storage:Inputs[0]" in failure.problem


@pytest.mark.parametrize(
    ("one", "other"), [("a", "a"), ("a", "./a/"), ("a", "a/b"), ("a/b", "a"), ("a", "b/../a/c"), ("a", "link/x")]
)
def test_folders_may_not_meet(host, one, other) -> None:
    """CFG-45: equal, inside and around, with links and `..` resolved; both folders are named."""
    (host.root / "a").mkdir()
    (host.root / "link").symlink_to(host.root / "a")
    failure = host.refuse(folders(one, other))["Storage:Inputs[1]:Path"]
    assert "folder-0" in failure.problem
    assert "folder-1" in failure.problem


def test_folders_with_a_common_beginning_lie_apart(host) -> None:
    """CFG-45: `in` and `in2` are two directories."""
    assert host.load(folders("in", "in2")).warnings == ()


@pytest.mark.parametrize("root", ["processing", "output", "error", "db", "logs", "keys", "retention"])
@pytest.mark.parametrize("form", ["data/{}", "data/{}/deep", "data/x/../{}", "link/{}"])
def test_folders_keep_out_of_our_own_directories(host, root, form) -> None:
    """CFG-46, OPS-42: for work roots the refusal says where to look."""
    (host.root / "data").mkdir()
    (host.root / "link").symlink_to(host.root / "data")
    failure = host.refuse(folders(form.format(root)))["Storage:Inputs[0]:Path"]
    assert f"data/{root}" in failure.problem
    hint = f"Look at {host.root / 'data/output'}: earlier runs may have removed signed files."
    assert (hint in failure.remedy) is (root in ("processing", "output", "error"))


@pytest.mark.parametrize("path", ["data", ".", "/"])
def test_folders_around_our_own_directories_are_refused(host, path) -> None:
    """CFG-46: a folder that contains a work root would take its files in."""
    assert set(host.refuse(folders(path))) == {"Storage:Inputs[0]:Path"}


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_path_is_refused(host, blank) -> None:
    """CFG-41, CFG-45: it would mean the content root."""
    assert set(host.refuse(folders(blank, Storage__Root=blank))) == {"Storage:Root", "Storage:Inputs[0]:Path"}


def test_folder_around_the_database_is_refused(host) -> None:
    """CFG-46: also where the database lies elsewhere."""
    refused = host.refuse(folders("in", ConnectionStrings__Default="in/records.db"))
    assert "records.db" in refused["Storage:Inputs[0]:Path"].problem


@pytest.mark.parametrize("key", ["Storage:Root", "Storage:Inputs[0]:Path", "ConnectionStrings:Default"])
def test_a_share_is_no_directory_of_this_host(host, key) -> None:
    """CFG-41, CFG-45, CFG-61: the scheme of a share is refused."""
    variable = key.replace("[0]", "__0").replace(":", "__")
    assert key in host.refuse(folders("in", **{variable: "AzureFiles://account/share"}))


def test_folder_values(host) -> None:
    """CFG-41, CFG-47 to CFG-50: inherited provider, absolute path, own limits."""
    variables = folders(
        "in",
        str(host.root / "abs"),
        Storage__Root="else/where",
        Storage__Inputs__0__PollIntervalSeconds="5",
        Storage__Inputs__0__IgnoredPrefixes__0="x",
        Storage__Inputs__0__Profile="",
        Storage__Inputs__1__Profile="p",
    )
    storage = host.load(variables).core.storage
    assert storage.root == host.root / "else/where"
    assert [folder.provider for folder in storage.inputs] == ["LocalFileSystem"] * 2
    assert [folder.path for folder in storage.inputs] == [host.root / "in", host.root / "abs"]
    assert [folder.profile for folder in storage.inputs] == [None, "p"]
    assert storage.inputs[0].poll_interval_seconds == 5
    for bad in ("4", "3601"):
        assert "Storage:Inputs[0]:PollIntervalSeconds" in host.refuse(
            folders("in", Storage__Inputs__0__PollIntervalSeconds=bad)
        )


def test_folders_of_a_share(host) -> None:
    """CFG-45, CFG-46, OPS-43: no backslash, apart from each other and from the work roots of the share."""
    share = {"Storage__Provider": "AzureFiles"}
    folder, _ = host.load(folders("in/deep", "data/output", **share)).core.storage.inputs
    assert (folder.provider, str(folder.path)) == ("AzureFiles", "in/deep")
    for paths in (("in\\deep",), ("output/deep",), ("/Error",), (".",), ("in", "IN/deep")):
        refused = host.refuse(folders(*paths, **share))
        assert set(refused) == {f"Storage:Inputs[{len(paths) - 1}]:Path"}


def test_share_without_any_interval_is_refused(host) -> None:
    """CFG-48, OPS-43: nothing would ever look into the folder."""
    variables = folders("in", Storage__Provider="AzureFiles", WatchedFolder__PollIntervalSeconds="")
    assert set(host.refuse(variables)) == {"Storage:Inputs[0]:PollIntervalSeconds"}
    assert host.load(variables | {"Storage__Inputs__0__PollIntervalSeconds": "5"}).warnings == ()


def test_root_on_a_network_file_system_is_warned_of(host, monkeypatch) -> None:
    """CFG-41: path and type are named."""
    monkeypatch.setattr("bulksigner.settings.folders.network_type", lambda path: "cifs")
    (warning,) = host.load().warnings
    assert "cifs" in warning
    assert str(host.root / "data") in warning


def test_many_folders_are_warned_of(host) -> None:
    """CFG-43: more than sixteen."""
    assert host.load(folders(*(f"f{number}" for number in range(16)))).warnings == ()
    assert "17" in host.load(folders(*(f"f{number}" for number in range(17)))).warnings[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Data Source=data/db/x.db", "data/db/x.db"),
        ("data source = data/db/x.db ; ", "data/db/x.db"),
        ("DataSource='data/x y.db';", "data/x y.db"),
        ("data/x.db", "data/x.db"),
        ("", "data/db/bulksigner.db"),
    ],
)
def test_sqlite_files(host, text, expected) -> None:
    """CFG-61: `Data Source=` or a path; it is no secret."""
    loaded = host.load({"ConnectionStrings__Default": text})
    assert loaded.core.database_location == host.root / expected
    assert len(loaded.secrets) == 1
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u:canary@h/d",
        "Server=h;Database=d;Password=canary",
        "Data Source=",
        "Data Source=azurefiles://canary",
        "\\\\server\\share\\canary.db",
        "//server/share/canary.db",
    ],
)
def test_what_is_no_sqlite_file(host, text) -> None:
    """CFG-61, CFG-13, OPS-44: the wrong kind is refused without being shown."""
    failure = host.refuse({"ConnectionStrings__Default": text})["ConnectionStrings:Default"]
    assert "canary" not in failure.line()


def test_sqlite_warnings(host) -> None:
    """CFG-61: a file outside the root, and keywords that do nothing."""
    text = f"Data Source={host.root / 'other/x.db'};Cache=Shared"
    first, second = host.load({"ConnectionStrings__Default": text}).warnings
    assert "cache" in first
    assert "outside Storage:Root" in second


POSTGRESQL = {"Database__Provider": "PostgreSql"}


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user@host:5432/db?sslmode=verify-full",
        "postgres://user:pa%40ss-word@h1:5432,h2:5432/db?target_session_attrs=read-write",
    ],
)
def test_postgresql_urls(host, url) -> None:
    """DEP-30, CFG-13: secret as a whole, and so is the password in it."""
    loaded = host.load(POSTGRESQL | {"ConnectionStrings__Default": url})
    assert loaded.core.database_location.reveal() == url
    revealed = {secret.reveal() for secret in loaded.secrets}
    assert url in revealed
    assert ("pa%40ss-word" in url) == ({"pa%40ss-word", "pa@ss-word"} <= revealed)


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("", "missing"),
        ("data/db/canary.db", "file"),
        ("Data Source=canary.db", "file"),
        ("host=h password=canary", "not a URL"),
        ("mysql://u:canary@h/d", "not a URL"),
        ("postgresql://u:canary@/d", "no host"),
        ("postgresql://u:canary@h/", "no database"),
        ("postgresql://u:canary@[h/d", "parsed"),
    ],
)
def test_what_is_no_postgresql_url(host, url, word) -> None:
    """DEP-30, CFG-13, CFG-61, OPS-44: absent, a file, or unparseable, and never shown."""
    failure = host.refuse(POSTGRESQL | {"ConnectionStrings__Default": url})["ConnectionStrings:Default"]
    assert word in failure.problem
    assert "canary" not in failure.line()


def test_connections_must_suffice(host) -> None:
    """CFG-63: slots + HTTP threads + 3, under PostgreSql only."""
    variables = {"Pipeline__MaxConcurrency": "9", "Hosting__Threads": "9", "Database__MaxConnections": "20"}
    assert host.load(variables).core.database.max_connections == 20
    variables |= POSTGRESQL | {"ConnectionStrings__Default": "postgresql://u@h/d"}
    failure = host.refuse(variables)["Database:MaxConnections"]
    assert "21" in failure.problem
    assert host.load(variables | {"Database__MaxConnections": "21"}).core.database.max_connections == 21


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ({"Name": "BAD"}, "Name"),
        ({"Name": "default", "Enabled": "false"}, "Enabled"),
        ({"Format": "-"}, "Format"),
        ({"Format": "Pades", "PreserveFileExtension": "true"}, "PreserveFileExtension"),
        ({"Name": "default", "Format": "-", "PreserveFileExtension": "true"}, "PreserveFileExtension"),
        ({"Format": "Xades", "SaveAsPem": "true"}, "SaveAsPem"),
        ({"Format": "Cades", "PadesFilter": "Etsi"}, "PadesFilter"),
        ({"Certificate__Pfx__Path": "-"}, "Certificate"),
        ({"Policy": "AD-RT"}, "Policy"),
        ({"Policy": "B-T"}, "Policy"),
        ({"Policy": "AD-RV 2.4"}, "Policy"),
        ({"Policy": "B-LT"}, "Policy"),
        ({"Policy": "B-LTA"}, "Policy"),
        ({"Policy": "AD-RX"}, "Policy"),
        ({"Name": "default", "Format": "-", "Policy": "AD-RB 2.3"}, "Policy"),
        ({"Format": "Pades", "Policy": "B-B", "PadesFilter": "Pbad"}, "PadesFilter"),
        ({"Format": "Cades", "Xml__Flavor": "Nfe"}, "Xml:Flavor"),
        ({"Format": "Pades", "Cades__Existing": "Counter"}, "Cades:Existing"),
        ({"Format": "Cades", "Cades__Existing": "Counter", "SaveAsPem": "true"}, "SaveAsPem"),
        ({"Format": "Xades", "Xml__Sha1Until": "2027-01-01"}, "Xml:Sha1Until"),
        ({"Format": "Xades", "Xml__Flavor": "Nfe", "Xml__Sha1Until": "2027-13-01"}, "Xml:Sha1Until"),
        ({"Format": "Xades", "Xml__Flavor": "Nfe", "Policy": "B-B"}, "Policy"),
        ({"Format": "Xades", "Xml__Placement": "ById"}, "Xml:SignElement"),
        ({"Format": "Xades", "Xml__SignElement": "evt"}, "Xml:SignElement"),
        ({"Format": "Xades", "Xml__Placement": "ById", "Xml__SignElement": "e:evt"}, "Xml:SignElement"),
        ({"Format": "Xades", "Xml__Placement": "Beside"}, "Xml:Placement"),
        ({"Format": "Cades", "Xml__Placement": "ById", "Xml__SignElement": "evt"}, "Xml:Placement"),
        (
            {"Format": "Xades", "Xml__Flavor": "Nfe", "Xml__Placement": "ById", "Xml__SignElement": "evt"},
            "Xml:Placement",
        ),
        ({"CrossCheck__0": "openssl cms", "Verify": "false"}, "CrossCheck"),
        ({"CrossCheck__0": "adobe"}, "CrossCheck[0]"),
        ({"CrossCheck__0": " "}, "CrossCheck[0]"),
        ({"CrossCheck__0": "judge {file}"}, "CrossCheck[0]"),
        ({"CrossCheck__0": "/bin/judge"}, "CrossCheck[0]"),
        ({"CrossCheck__0": "/bin/judge {file} {password}"}, "CrossCheck[0]"),
        ({"CrossCheck__0": "/bin/judge '{file}"}, "CrossCheck[0]"),
        ({"CrossCheck__0": "/bin/judge {file}\x01"}, "CrossCheck[0]"),
        ({"CrossCheck__0": "/bin/judge {file}" + "x" * 1000}, "CrossCheck[0]"),
        ({"CrossCheck__0": "openssl cms", "CrossCheck__1": "xmlsec1"}, "CrossCheck[1]"),
        ({"Format": "Pades", "CrossCheck__0": "pdfsig"}, "CrossCheck[0]"),
        ({"Format": "Pades", "CrossCheck__0": "pdfsig", "PadesFilter": "Pbad"}, "CrossCheck[0]"),
        ({"Name": "default", "Format": "-", "CrossCheck__0": "pdfsig"}, "CrossCheck[0]"),
        ({f"CrossCheck__{number}": "openssl cms" for number in range(9)}, "CrossCheck"),
    ],
)
def test_profiles_that_make_no_sense(pfx_host, keys, wrong) -> None:
    """CFG-86 to CFG-97, OPS-48: path-prefixed, one failure each."""
    assert set(pfx_host.refuse(profile(**keys))) == {f"Signing:Profiles[0]:{wrong}"}


@pytest.mark.parametrize(
    "keys",
    [
        {"Name": "default", "Format": "-"},
        {"Format": "Xades", "PreserveFileExtension": "true"},
        {"Format": "Cades", "PreserveFileExtension": "true", "SaveAsPem": "true"},
        {"Format": "Pades", "PadesFilter": "Etsi"},
        {"Name": "default", "Format": "-", "PadesFilter": "Etsi"},
        {"Format": "Pades", "PadesFilter": "Pbad", "Policy": "AD-RB 1.1"},
        {"Format": "Pades", "PadesFilter": "Etsi", "Policy": "B-B"},
        {"Format": "Cades", "Policy": "AD-RB 2.3"},
        {"Format": "Cades", "Cades__Existing": "parallel"},
        {"Format": "Xades", "Xml__Flavor": "Nfe", "Xml__Sha1Until": "2027-01-01"},
        {"CrossCheck__0": "OpenSSL cms", "CrossCheck__1": "/bin/judge --of='{original}' {file} {format}"},
        {"Format": "Pades", "PadesFilter": "Etsi", "CrossCheck__0": "pdfsig"},
        {"Format": "Pades", "Policy": "B-B", "CrossCheck__0": "pdfsig"},
        {"Name": "default", "Format": "-", "Policy": "B-B", "CrossCheck__0": "pdfsig", "CrossCheck__1": "xmlsec1"},
        {"Enabled": "false"},
        {"Method": "LacunaSigner", "Certificate__Pfx__Path": "-"},
    ],
)
def test_profiles_that_do(pfx_host, keys) -> None:
    """CFG-87 to CFG-97: the permitted combinations."""
    assert pfx_host.load(profile(**keys)).warnings == ()


STAMPS = {"Signing__Timestamps__0__Url": "https://carimbo.example/tsa"}


@pytest.mark.parametrize("policy", ["AD-RT", "AD-RT 2.3", "B-T"])
def test_a_time_stamp_needs_a_service(pfx_host, policy) -> None:
    """ICP-03: the refusal names the key of the services; with one the profile is taken."""
    refused = pfx_host.refuse(profile(Policy=policy))["Signing:Profiles[0]:Policy"]
    assert "Signing:Timestamps[0]:Url" in refused.remedy
    (service,) = pfx_host.load(profile(Policy=policy) | STAMPS).core.signing.timestamps
    assert (service.url, service.policy, service.timeout_seconds) == ("https://carimbo.example/tsa", None, 10)


def test_services_keep_their_order_and_their_secrets(pfx_host) -> None:
    """SEC-51: each has its own policy, person and limit; the password is known to redaction."""
    more = {"Policy": "2.16.76.1.6.6", "User": "empresa", "Password": "long-canary-one", "TimeoutSeconds": "3"}
    loaded = pfx_host.load(
        STAMPS
        | {"Signing__Timestamps__1__Url": "http://other.example"}
        | {f"Signing__Timestamps__1__{key}": value for key, value in more.items()}
    )
    first, second = loaded.core.signing.timestamps
    assert (first.url, second.url) == ("https://carimbo.example/tsa", "http://other.example")
    assert (second.policy, second.user, second.timeout_seconds) == ("2.16.76.1.6.6", "empresa", 3)
    assert "long-canary-one" in {secret.reveal() for secret in loaded.secrets}


TOO_LONG = {
    f"{number}__{key}": value
    for number in range(3)
    for key, value in (("Url", "http://a.example"), ("TimeoutSeconds", "41"))
}


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ({"0__Url": "ftp://carimbo.example"}, "[0]:Url"),
        ({"0__Url": "https://user:word@carimbo.example/"}, "[0]:Url"),
        ({"0__Policy": "2.16.x"}, "[0]:Policy"),
        ({"0__User": "empresa"}, "[0]:Password"),
        ({"0__Password": "long-canary-two"}, "[0]:User"),
        ({"0__TimeoutSeconds": "61"}, "[0]:TimeoutSeconds"),
        (TOO_LONG, ""),
    ],
)
def test_services_that_make_no_sense(pfx_host, keys, wrong) -> None:
    """CFG-12: one failure each, at the key."""
    given = STAMPS | {f"Signing__Timestamps__{key}": value for key, value in keys.items()}
    assert set(pfx_host.refuse(given)) == {f"Signing:Timestamps{wrong}"}


@pytest.mark.parametrize("existing", ["Parallel", "Counter"])
def test_further_signatures_get_no_time_stamp(pfx_host, existing) -> None:
    """ICP-30: never a level that is not what it says."""
    keys = profile(Policy="AD-RT", Cades__Existing=existing) | STAMPS
    assert set(pfx_host.refuse(keys)) == {"Signing:Profiles[0]:Cades:Existing"}


def test_profile_names_are_unique(pfx_host) -> None:
    """CFG-86: each of the two is named."""
    refused = pfx_host.refuse(profile(0) | profile(1, Name="profile-0"))
    assert set(refused) == {"Signing:Profiles[0]:Name", "Signing:Profiles[1]:Name"}


@pytest.mark.parametrize(("password", "count"), [("", 0), ("short-canary"[:11], 1), ("long-enough-", 0)])
def test_short_seed_password_is_warned_of(pfx_host, password, count) -> None:
    """CFG-71: shorter than twelve characters logs cannot mask it; it is not shown."""
    loaded = pfx_host.load(profile(Certificate__Pfx__Password=password))
    assert len(loaded.warnings) == count
    assert not any("short-" in text for text in loaded.warnings)


def test_profile_secrets_key(host) -> None:
    """CFG-66: thirty-two characters when set; empty is none."""
    assert "Signing:ProfileSecretsKey" in host.refuse({"Signing__ProfileSecretsKey": "k" * 31})
    assert host.load({"Signing__ProfileSecretsKey": "k" * 32}).core.signing.profile_secrets_key
    assert not host.load({"Signing__ProfileSecretsKey": ""}).core.signing.profile_secrets_key


def test_licence_key_is_ignored_aloud(host) -> None:
    """CFG-65: one line of information, and the key is masked."""
    loaded = host.load({"Signing__PkiSdkLicense": "licence-of-another-product"})
    assert len(loaded.notices) == 1
    assert "licence-of" not in loaded.notices[0]
    assert "licence-of-another-product" in {secret.reveal() for secret in loaded.secrets}


def test_tokens_and_concurrency_are_warned_of(pfx_host) -> None:
    """CFG-80: both settings are named."""
    variables = profile(Certificate__Source="Pkcs11", Certificate__Pkcs11__ModulePath="/m")
    assert pfx_host.load(variables).warnings == ()
    (warning,) = pfx_host.load(variables | {"Pipeline__MaxConcurrency": "2"}).warnings
    assert "Pipeline:MaxConcurrency" in warning
    assert "Signing:Profiles[0]:Certificate:Source" in warning
    second = {name.replace("__0__", "__1__"): value for name, value in variables.items() if "Profiles" in name}
    second["Signing__Profiles__1__Name"] = "other"
    (warning,) = pfx_host.load(variables | second | {"Pipeline__MaxConcurrency": "2"}).warnings
    assert "1 more" in warning


LIMITS = {
    "Pipeline__PollIntervalSeconds": (1, 3600),
    "Pipeline__MaxConcurrency": (1, 32),
    "Pipeline__ShutdownGraceSeconds": (0, 600),
    "WatchedFolder__StabilityPollIntervalMs": (50, 10000),
    "WatchedFolder__StabilityRequiredSamples": (1, 100),
    "WatchedFolder__MaxConsecutiveFailures": (1, 1000),
    "WatchedFolder__StabilityConcurrency": (1, 64),
    "WatchedFolder__StabilityTimeoutSeconds": (1, 3600),
    "WatchedFolder__PollIntervalSeconds": (5, 3600),
    "Hosting__Threads": (1, 64),
    "Database__MaxConnections": (5, 200),
    "Signing__EngineWorkers": (1, 64),
    "Upload__MaxBytes": (1024, 2**63 - 1),
}


@pytest.mark.parametrize("variable", LIMITS)
def test_limits(host, variable) -> None:
    """CFG-48, CFG-63, CFG-120 to CFG-133, CFG-195, CFG-205: both ends are in, the next are out."""
    lowest, highest = LIMITS[variable]
    for value in (lowest, highest):
        host.load({variable: str(value)})
    for value in (lowest - 1, highest + 1):
        assert set(host.refuse({variable: str(value)})) == {variable.replace("__", ":")}


def test_database_on_a_network_file_system_is_refused(host, monkeypatch) -> None:
    """CFG-61, OPS-44: file and type are named."""
    monkeypatch.setattr("bulksigner.settings.databases.network_type", lambda path: "nfs4")
    failure = host.refuse()["ConnectionStrings:Default"]
    assert "nfs4" in failure.problem
    assert "bulksigner.db" in failure.problem
