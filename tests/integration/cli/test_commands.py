"""The commands as an operator runs them: processes, exit codes, and what is said on which stream."""

import datetime
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from cryptography.x509.oid import NameOID

from bulksigner.testing.certificates import AURORA, make_authority
from bulksigner.testing.files import pdf_file

PASSWORD = "senha-de-um-teste"


def test_init_check_and_a_short_serve_agree(run, made, environment):
    """OPS-203, OPS-24: what `init` writes, `check` accepts; `serve` signs with it and ends with 0."""
    checked = run("check", folder=made)
    assert checked.code == 0, checked.out + checked.err
    assert "ok    signing-profile:default  opens" in checked.out

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    service = subprocess.Popen(
        [sys.executable, "-m", "bulksigner", "serve"],
        cwd=made,
        env=environment | {"BULK_SIGNER_URLS": url},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        (made / "inbox" / "contrato.pdf").write_bytes(pdf_file())
        signed = made / "data" / "output" / "contrato.signed.pdf"
        deadline = time.monotonic() + 60
        while not signed.exists() and service.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        service.send_signal(signal.SIGTERM)
        printed, _ = service.communicate(timeout=30)
    finally:
        service.kill()
    assert signed.exists(), printed
    assert service.returncode == 0, printed
    assert "Service ready" in printed
    assert url in printed


@pytest.fixture
def unlisted_pfx(tmp_path):
    """A PKCS#12 file under a root that calls itself one of ICP-Brasil, which no policy lists."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "ICP-Brasil"), x509.NameAttribute(NameOID.COMMON_NAME, "Own")]
    )
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=99))
    made = pkcs12.serialize_key_and_certificates(
        b"own", key, builder.sign(key, hashes.SHA256()), None, BestAvailableEncryption(PASSWORD.encode())
    )
    path = tmp_path / "own.pfx"
    path.write_bytes(made)
    return path


def test_init_chooses_no_policy_that_the_certificate_cannot_sign(run, tmp_path, unlisted_pfx):
    """ICP-03, OPS-203: `init` says why and writes what signs; `check` objects to what a start would degrade."""
    ran = run("init", "signer", "--pfx", str(unlisted_pfx), BULK_SIGNER_INIT_PFX_PASSWORD=PASSWORD)
    assert ran.code == 0, ran.err
    assert 'It says Policy = "B-B"' in ran.out
    assert "does not list the root" in ran.out
    target = tmp_path / "signer" / "settings.toml"
    text = target.read_text(encoding="utf-8")
    assert '\nPolicy = "B-B"\n' in text
    assert "ok    signing-profile:default" in run("check", folder=target.parent).out
    target.write_text(text.replace('\nPolicy = "B-B"\n', "\n"), encoding="utf-8")
    checked = run("check", folder=target.parent)
    assert "WARN  signing-profile:default  No version of the policy AD-RB can be used" in checked.out
    assert "Policy=B-B" in checked.out


@pytest.mark.parametrize("line", ['Policy = "B-B"', 'PadesFilter = "Etsi"'])
def test_init_offers_what_pdf_readers_know(run, made, line):
    """ICP-10, CFG-188: each line that the settings file offers is accepted as it stands, and `init` says why."""
    target = made / "settings.toml"
    text = target.read_text(encoding="utf-8")
    assert text.count(f"# {line}\n") == 1
    target.write_text(text.replace(f"# {line}\n", f"{line}\n"), encoding="utf-8")
    checked = run("check", folder=made)
    assert checked.code == 0, checked.out + checked.err
    assert "ok    signing-profile:default" in checked.out


def test_check_foresees_a_method_that_nothing_here_has(run, made):
    """OPS-203, OPS-33: before the first start as well."""
    checked = run("check", folder=made, Signing__Profiles__0__Method="LacunaSigner")
    assert "WARN  signing-profile:default" in checked.out
    assert "bulksigner-lacuna-signer" in checked.out


def test_init_prepares_encrypted_outputs_and_check_tries_them(run, made):
    """ENC-06, ENC-20, OPS-203: with the marks taken away it asks for the password, and then says what a start costs."""
    target = made / "settings.toml"
    text = target.read_text(encoding="utf-8")
    for line in ("[Encryption]", "Enabled = true", "Salt = ", "Encrypt = true"):
        assert text.count(f"# {line}") == 1
        text = text.replace(f"# {line}", line)
    target.write_text(text, encoding="utf-8")
    refused = run("check", folder=made)
    assert refused.code == 78
    assert "Encryption:Password" in refused.err
    checked = run("check", folder=made, BULK_SIGNER_ENCRYPTION_PASSWORD="a password for the tests only")
    assert checked.code == 0, checked.out + checked.err
    assert "ok encryption enabled (BSENC v1, salt loaded); each start spends" in " ".join(checked.out.split())
    assert "a password for" not in checked.out + checked.err


def test_check_as_json(run, made):
    """OPS-203: the same rows for programs."""
    ran = run("check", "--json", folder=made)
    told = json.loads(ran.out)
    assert told["ready"] is True
    assert {"storage-root", "input-folder:inbox", "database", "signing-profile:default"} <= {
        row["name"] for row in told["checks"]
    }


@pytest.mark.parametrize(("begins", "ends", "told"), [(-20, -10, "expired at"), (10, 20, "is not valid before")])
def test_check_tells_of_a_certificate_out_of_its_time(run, made, tmp_path, begins, ends, told):
    """OPS-203, API-86: before the first start as after it; what opens does not sign for that."""
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    other = make_authority().issue(AURORA, not_before=now + begins * day, not_after=now + ends * day)
    path = other.write_pfx(tmp_path / "other.pfx", "another-password")
    block = "Signing__Profiles__0__Certificate__Pfx__"
    ran = run("check", folder=made, **{f"{block}Path": str(path), f"{block}Password": "another-password"})
    [row] = [line for line in ran.out.splitlines() if "signing-profile:default" in line]
    assert row.startswith("WARN")
    assert told in row


def test_check_fails_when_a_folder_is_missing(run, made):
    """OPS-203: a gating row that is red gives exit 1 and names the folder."""
    (made / "inbox").rmdir()
    ran = run("check", folder=made)
    assert ran.code == 1
    assert "FAIL  input-folder:inbox" in ran.out
    assert str(made / "inbox") in ran.out


def test_init_replaces_a_file_only_when_forced(run, made):
    """OPS-202: settings somebody has edited are not lost."""
    before = (made / "settings.toml").read_text()
    refused = run("init", str(made))
    assert refused.code == 1
    assert "--force" in refused.err
    assert (made / "settings.toml").read_text() == before
    assert run("init", str(made), "--force").code == 0
    assert (made / "settings.toml").read_text() != before


def test_init_keeps_the_file_private(made):
    """SEC-71: the file holds the API key and a password."""
    if os.name == "posix":
        assert (made / "settings.toml").stat().st_mode & 0o777 == 0o600


def test_init_with_a_wrong_password_writes_nothing(run, tmp_path, company_pfx):
    """OPS-33: better now than as a degraded profile at the first start."""
    ran = run("init", "signer", "--pfx", str(company_pfx), BULK_SIGNER_INIT_PFX_PASSWORD="not the password")
    assert ran.code == 1
    assert "wrong password" in ran.err
    assert not (tmp_path / "signer").exists()


def test_init_without_the_pfx_or_a_terminal(run, tmp_path, company_pfx):
    """OPS-203: both refusals name what to give."""
    assert "missing.pfx" in run("init", "signer", "--pfx", "missing.pfx").err
    assert "BULK_SIGNER_INIT_PFX_PASSWORD" in run("init", "signer", "--pfx", str(company_pfx)).err
    assert not (tmp_path / "signer").exists()


def test_refused_settings_name_every_key(run, made):
    """OPS-30, OPS-231: exit 78 with all that is wrong at once, and no secret."""
    ran = run("serve", folder=made, Auth__ApiKey="tiny-canary", Pipeline__MaxConcurrency="many")
    assert ran.code == 78
    assert "Auth:ApiKey" in ran.err
    assert "Pipeline:MaxConcurrency" in ran.err
    assert "tiny-canary" not in ran.err


def test_a_folder_without_settings_says_how_to_make_some(run, tmp_path):
    """OPS-30, OPS-37: the missing key, where was looked, and the command that helps."""
    ran = run("check")
    assert ran.code == 78
    assert "Auth:ApiKey" in ran.err
    assert f"There is no settings file in {tmp_path}" in ran.err
    assert "bulksigner init" in ran.err


def test_a_taken_address_is_named(run, made):
    """OPS-28: exit 71, the address, and how to choose another."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        ran = run("serve", folder=made, BULK_SIGNER_URLS=url)
    assert ran.code == 71
    assert url in ran.err
    assert "BULK_SIGNER_URLS" in ran.err


def test_plugins_and_version(run, made):
    """OPS-204, OPS-241: what is loaded, and the same version under both spellings."""
    listed = run("plugins", folder=made)
    assert listed.code == 0
    assert "local_pfx" in listed.out
    assert run("version").out == run("--version").out
    assert run("version").out.startswith("bulksigner ")


def test_a_plugin_switched_off_by_mistake_is_told(run, made):
    """CFG-185: a name that nothing has is a warning in the list and in the check; one that is missed is named."""
    for command in ("plugins", "check"):
        assert (
            "names nosuch, and no such plugin" in run(command, folder=made, BULK_SIGNER_DISABLED_PLUGINS="nosuch").out
        )
    ran = run("serve", folder=made, BULK_SIGNER_DISABLED_PLUGINS="local_pfx")
    assert "local_pfx is disabled: listed in BULK_SIGNER_DISABLED_PLUGINS" in ran.err


def test_wrong_command_lines(run):
    """OPS-26: exit 2, with the commands there are."""
    for arguments in ((), ("nonsense",), ("init",)):
        ran = run(*arguments)
        assert ran.code == 2
        assert "usage: bulksigner" in ran.err


def test_init_where_nothing_can_be_written(run, tmp_path):
    """OPS-204: one sentence with the place and what to do, and no traceback."""
    taken = tmp_path / "taken"
    taken.write_text("a file")
    for place in (taken / "x", "/proc/x"):
        ran = run("init", str(place))
        assert ran.code == 1
        assert ran.err.startswith("The settings cannot be written: ")
        assert ran.err.count("\n") == 1
    assert taken.read_text() == "a file"


def test_a_storage_root_that_is_a_file(run, made, tmp_path):
    """OPS-203, OPS-59: told as what it is, by `check` and by a start."""
    taken = tmp_path / "taken"
    taken.write_text("a file")
    checked = run("check", folder=made, Storage__Root=str(taken))
    assert f"storage-root             {taken} is not a folder; name another" in checked.out
    served = run("serve", folder=made, Storage__Root=str(taken))
    assert served.code == 73
    assert str(taken) in served.err
    assert "Traceback" not in served.err


def start(made, environment, arguments, stdout):
    return subprocess.Popen(
        [sys.executable, "-m", "bulksigner", *arguments],
        cwd=made,
        env=environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("command", ["check", "plugins", "version"])
def test_a_reader_that_went_away_changes_no_verdict(made, environment, command):
    """OPS-203, OPS-241: `check | head -1` exits as the check found, and says nothing more."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        process = start(made, environment, [command], pipe)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def test_a_full_disk_below_standard_output_is_told_once(made, environment):
    """OPS-203: the verdict stands, and standard error says why nothing was printed."""
    with open("/dev/full", "w") as full:
        process = start(made, environment, ["check"], full)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "Standard output cannot be written: No space left on device.\n")


@pytest.mark.parametrize("closed", ["pipe", "descriptor"])
def test_a_service_outlives_its_standard_output(made, environment, closed):
    """OPS-18: without a reader the panels and the log are dropped; files are signed and the stop is clean."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = {"BULK_SIGNER_URLS": f"http://127.0.0.1:{probe.getsockname()[1]}"}
    if closed == "pipe":
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            service = start(made, environment | address, ["serve"], pipe)
    else:
        script = 'exec "$0" -m bulksigner serve >&-'
        service = subprocess.Popen(
            ["/bin/sh", "-c", script, sys.executable],
            cwd=made,
            env=environment | address,
            stderr=subprocess.PIPE,
            text=True,
        )
    try:
        (made / "inbox" / "contrato.pdf").write_bytes(pdf_file())
        signed = made / "data" / "output" / "contrato.signed.pdf"
        deadline = time.monotonic() + 60
        while not signed.exists() and service.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        service.send_signal(signal.SIGTERM)
        _, errors = service.communicate(timeout=30)
    finally:
        service.kill()
    assert (service.returncode, errors) == (0, "")
    assert signed.exists()
