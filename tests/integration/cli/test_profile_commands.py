"""`bulksigner profiles` and `bulksigner secrets` as an operator runs them, beside a service that runs."""

import json
import signal
import socket
import sqlite3
import subprocess
import sys
import time

import pytest

from bulksigner.testing.certificates import AURORA, make_authority
from bulksigner.testing.files import pdf_file

NEW_PASSWORD = "outra-senha-da-empresa"
PATIENCE_SECONDS = 60


def wait_for(what, said):
    """Wait until `what()` is true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not what():
        assert time.monotonic() < deadline, said()
        time.sleep(0.05)


@pytest.fixture
def new_pfx(tmp_path):
    """Another certificate of the company."""
    return make_authority().issue(AURORA).write_pfx(tmp_path / "nova.pfx", NEW_PASSWORD)


@pytest.fixture
def serve(made, environment, tmp_path):
    """Run the service of `made` until the test ends; its log is in a file."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    log = tmp_path / "service.log"
    with log.open("w") as out:
        service = subprocess.Popen(
            [sys.executable, "-m", "bulksigner", "serve"],
            cwd=made,
            env=environment | {"BULK_SIGNER_URLS": url},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        wait_for(lambda: "Signing profiles" in log.read_text() or service.poll() is not None, log.read_text)
        try:
            yield log
            service.send_signal(signal.SIGTERM)
            assert service.wait(30) == 0, log.read_text()
        finally:
            service.kill()
            service.wait()


def test_a_running_service_follows_the_command_line(run, made, serve, new_pfx):
    """CFG-85, PIPE-59, OPS-228: another certificate, a folder let go of and given back, without a restart."""
    changed = run(
        "profiles", "set", "default", f"Certificate:Pfx:Path={new_pfx}", "--secret-env", "Certificate:Pfx:Password=NEW",
        folder=made, NEW=NEW_PASSWORD,
    )  # fmt: skip
    assert changed.code == 0, changed.err
    assert "bulksigner profiles test default" in changed.out
    wait_for(lambda: "signs with another certificate" in serve.read_text(), serve.read_text)

    assert run("profiles", "unbind", "default", folder=made).code == 0
    wait_for(lambda: "is bound to no profile" in serve.read_text(), serve.read_text)
    (made / "inbox" / "contrato.pdf").write_bytes(pdf_file())
    assert run("profiles", "bind", "default", "inbox", folder=made).code == 0
    wait_for((made / "data" / "output" / "contrato.signed.pdf").exists, serve.read_text)

    with sqlite3.connect(made / "data" / "db" / "bulksigner.db") as database:
        events = database.execute("SELECT event_type, message || facts FROM operational_event ORDER BY id").fetchall()
    database.close()
    edits = [told for kind, told in events if kind.startswith("SigningProfile") and "Edited" in kind]
    assert len(edits) == 3
    assert "operator (command line)" in edits[0]
    assert "InputFolder inbox → (none)" in edits[1]
    everything = serve.read_text() + "".join(told for _, told in events)
    assert NEW_PASSWORD not in everything


@pytest.fixture
def started(run, made, environment):
    """The folder of a service that was started once and stopped."""
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
        for line in service.stdout:
            if "Signing profiles" in line:
                break
        service.send_signal(signal.SIGTERM)
        service.communicate(timeout=30)
    finally:
        service.kill()
        service.wait()
    return made


def test_profiles_are_listed_and_shown_without_their_secrets(run, started):
    """SEC-51, API-73: of a secret only that it is there."""
    assert (
        "default  enabled · auto · cert=Pfx · verify=on · encrypt=off · validate-cert=off · folder=inbox"
        in run("profiles", "list", folder=started).out
    )
    listed = json.loads(run("profiles", "list", "--json", folder=started).out)
    assert [(one["name"], one["enabled"], one["format"]) for one in listed["profiles"]] == [("default", True, None)]
    shown = run("profile", "show", "DEFAULT", "--json", folder=started)
    facts = json.loads(shown.out)
    assert facts["secrets"] == {"Password": "configured"}
    assert facts["encrypt"] is False
    assert facts["certificate"]["Path"].endswith("empresa.pfx")
    assert "senha-da-empresa" not in shown.out + run("profiles", "show", "default", folder=started).out


def test_second_engines_are_set_and_shown(run, started):
    """CFG-198: a list by numbered keys, refused where it cannot be followed."""
    wish = f"CrossCheck:0={sys.executable} {{file}}"
    assert run("profiles", "set", "default", wish, folder=started).code == 0
    facts = json.loads(run("profiles", "show", "default", "--json", folder=started).out)
    assert facts["crossCheck"] == [f"{sys.executable} {{file}}"]
    assert f"{sys.executable} {{file}}" in run("profiles", "show", "default", folder=started).out
    refused = run("profiles", "set", "default", "CrossCheck:0=pdfsig", folder=started)
    assert refused.code == 1
    assert "Pbad" in refused.err
    assert run("profiles", "set", "default", "--reset", "CrossCheck", folder=started).code == 0
    assert json.loads(run("profiles", "show", "default", "--json", folder=started).out)["crossCheck"] == []


def test_a_refusal_tells_everything_and_its_exit_code(run, started):
    """CFG-81, PIPE-58, PIPE-63: exit 1, one line and one code each; wrong usage is 2."""
    refused = run("profiles", "set", "default", "Verify=maybe", "SaveAsPem=true", "Enabled=false", folder=started)
    assert refused.code == 1
    assert refused.out == ""
    for told in ("Verify: ", "SaveAsPem: ", "Enabled: ", "InputFolder: is 'inbox'", "[profile.folder-bound]"):
        assert told in refused.err
    unknown = run("profiles", "bind", "default", "elsewhere", folder=started)
    assert (unknown.code, "[profile.folder-unknown]" in unknown.err, "Configured: inbox" in unknown.err) == (
        1,
        True,
        True,
    )
    reset = run("profiles", "set", "default", "--reset", "Verfiy", folder=started)
    assert (reset.code, "the nearest known key is Verify" in reset.err) == (1, True)
    # Where the options stand makes no difference, and what is no key is still refused as wrong usage.
    stale = run("profiles", "set", "default", "--expect", "99", "Verify=false", folder=started)
    assert (stale.code, "in between" in stale.err) == (1, True)
    assert run("profiles", "set", "default", "--expect", "1", "Verify=true", folder=started).code == 0
    for wrong in (["set", "default", "Verify=true", "--frob"], ["enable", "default", "Verify=true"]):
        assert run("profiles", *wrong, folder=started).code == 2
    assert run("profiles", "show", "nobody", folder=started).code == 1
    assert run("profiles", "frobnicate", folder=started).code == 2
    assert run("profiles", folder=started).code == 2


def test_a_secret_is_no_argument(run, started, tmp_path):
    """SEC-44: refused as one without being repeated; taken from a file, or asked for in a terminal only."""
    argument = run("profiles", "set", "default", "Certificate:Pfx:Password=a-password-of-mine", folder=started)
    assert argument.code == 1
    assert "[profile.secret-refused]" in argument.err
    assert "a-password-of-mine" not in argument.err
    loose = run("profiles", "set", "default", "a-password-of-mine", folder=started)
    assert (loose.code, "a-password-of-mine" in loose.err) == (1, False)
    assert (
        "--secret-env" in run("profiles", "set", "default", "--secret", "Certificate:Pfx:Password", folder=started).err
    )
    endless = run("profiles", "set", "default", "--secret-file", "Certificate:Pfx:Password=/dev/zero", folder=started)
    assert (endless.code, "more than 65536 bytes" in endless.err) == (1, True)
    file = tmp_path / "password"
    file.write_text("senha-da-empresa-ficticia\n")
    given = run("profiles", "set", "default", "--secret-file", f"Certificate:Pfx:Password={file}", folder=started)
    assert given.code == 0, given.err
    assert run("profiles", "test", "default", folder=started).code == 0


def test_a_certificate_is_tried_without_a_signature(run, started, tmp_path):
    """OPS-207, SEC-59: its facts and how far its chain goes; exit 1 with the reason when it does not open."""
    opens = run("profile", "test", "default", folder=started)
    assert opens.code == 0, opens.out + opens.err
    assert opens.out.startswith("ok    Profile 'default': the certificate opens")
    assert {line.split()[0] for line in opens.out.splitlines()[1:]} == {
        "source", "subject", "holder", "issuer", "serial", "thumbprint", "valid", "chain", "trust", "policy"
    }  # fmt: skip
    assert (
        run("profiles", "set", "default", f"Certificate:Pfx:Path={tmp_path / 'nowhere.pfx'}", folder=started).code == 0
    )
    fails = run("profile", "test", "default", folder=started)
    assert fails.code == 1
    assert fails.out.startswith("FAIL  Profile 'default': PFX file")
    assert "Password" not in fails.out


def test_the_check_before_signing_is_made_by_hand(run, started):
    """CFG-68, CFG-92, OPS-207: only where there are roots; the reason when the chain leads elsewhere; `check` warns."""
    switch_on = ("profiles", "set", "default", "ValidateCertificate=true")
    refused = run(*switch_on, folder=started)
    assert refused.code == 1
    assert "[profile.no-trust]" in refused.err
    root = started / "trust" / "root.pem"
    make_authority("De ninguem").issue().write_root_pem(root)
    assert run(*switch_on, folder=started).code == 0
    fails = run("profiles", "test", "default", folder=started)
    assert fails.code == 1
    assert "leads to no trusted root" in fails.out
    root.unlink()
    checked = run("check", folder=started)
    assert checked.code != 0
    assert "trust-set" in checked.out
    make_authority().issue().write_root_pem(root)
    assert run("profiles", "test", "default", folder=started).code == 0


def test_stored_secrets_are_tried_by_profile_and_field(run, started):
    """OPS-206, SEC-53: exit 0, or 1 under another sealing key; no value, and nothing is changed."""
    sound = run("secrets", "check", folder=started)
    assert (sound.code, sound.out) == (0, "ok    default  Certificate:Pfx:Password\n")
    wrong = run("secrets", "check", folder=started, Signing__ProfileSecretsKey="w" * 40)
    assert wrong.code == 1
    assert wrong.out.startswith("FAIL  default  Certificate:Pfx:Password")
    assert "Signing:ProfileSecretsKey" in wrong.out
    assert run("secrets", "check", folder=started) == sound


def test_before_the_first_start_there_is_nothing_to_change(run, made):
    """CFG-81: said, with what to do; no database is made."""
    ran = run("profiles", "list", folder=made)
    assert ran.code == 1
    assert "first start" in ran.err
    assert not (made / "data" / "db" / "bulksigner.db").exists()


def test_check_tells_what_the_panels_tell(run, started):
    """OPS-203, OPS-35, OPS-36, API-88: unverified signatures, ignored seeds, a folder that is gone."""
    assert run("profiles", "set", "default", "Verify=false", folder=started).code == 0
    checked = run("check", folder=started, Storage__Inputs__0__Name="other")
    assert "WARN  profile-input-folder:default  bound to the input folder 'inbox'" in " ".join(checked.out.split("\n"))
    assert "WARN  Profile 'default': verify=off" in checked.out
    assert "WARN  Profile 'default': validate-cert=off" in checked.out
    assert "WARN  Profile 'default': bound to the input folder 'inbox'" in checked.out
    assert "WARN  Signing:Profiles (1 entries) is ignored" in checked.out
    assert "WARN  Storage:Inputs[]:Profile (1 keys) is ignored" in checked.out
