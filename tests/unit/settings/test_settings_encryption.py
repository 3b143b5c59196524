"""`Encryption`: what is refused, all at once, what is warned of, and what is not looked at while it is off."""

from __future__ import annotations

import unicodedata

import pytest

from bulksigner.observability.redaction import Scrubber

SALT = "AAECAwQFBgcICQoLDA0ODw=="
PASSWORD = "correct horse battery staple"
VARIABLE = "BULK_SIGNER_ENCRYPTION_PASSWORD"


def on(**others: str) -> dict[str, str]:
    return {
        "Encryption__Enabled": "true",
        "Encryption__Salt": SALT,
        "Encryption__Password": PASSWORD,
        **{f"Encryption__{key}": value for key, value in others.items()},
    }


def test_it_is_off_by_default_and_unlooked_at(host) -> None:
    """CFG-115, ENC-20: what is wrong matters only once it is enabled."""
    assert not host.load().core.encryption.enabled
    off = on(Enabled="false", Salt="?", Iterations="1", Password="")
    assert host.load(off).warnings == ()


def test_defaults(host) -> None:
    """CFG-117, CFG-119."""
    given = host.load(on()).core.encryption
    assert (given.iterations, given.password_env_var) == (600_000, VARIABLE)
    assert given.password.reveal() == PASSWORD


def test_everything_wrong_is_in_one_refusal(host) -> None:
    """ENC-20, OPS-49, CFG-12: password, salt and iterations, each with its key and what to write."""
    refused = host.refuse({"Encryption__Enabled": "true", "Encryption__Iterations": "6000"})
    assert set(refused) == {"Encryption:Password", "Encryption:Salt", "Encryption:Iterations"}
    assert VARIABLE in refused["Encryption:Password"].line()
    assert "openssl rand -base64 32" in refused["Encryption:Salt"].line()
    assert "600000" in refused["Encryption:Iterations"].remedy
    nowhere = host.refuse(on(Password="", PasswordEnvVar=""))
    assert "names no variable" in nowhere["Encryption:Password"].line()


@pytest.mark.parametrize(
    "salt", ["AAECAwQFBgcICQoLDA0O", "AAECAwQFBgcICQoLDA0ODw", f"{SALT}\n", "-_ECAwQFBgcICQoLDA0ODw=="]
)
def test_a_salt_that_does_not_fit(host, salt) -> None:
    """ENC-17, CFG-118."""
    assert set(host.refuse(on(Salt=salt))) == {"Encryption:Salt"}


@pytest.mark.parametrize(
    ("count", "fits"), [("9999", False), ("10000", True), ("100000000", True), ("100000001", False)]
)
def test_iterations_have_limits(host, count, fits) -> None:
    """ENC-18, CFG-119."""
    if fits:
        assert host.load(on(Iterations=count)).core.encryption.iterations == int(count)
    else:
        assert set(host.refuse(on(Iterations=count))) == {"Encryption:Iterations"}


def test_the_variable_wins_when_it_is_not_empty(host) -> None:
    """ENC-14, CFG-117: and another one may be named."""
    assert host.load(on() | {VARIABLE: ""}).core.encryption.password.reveal() == PASSWORD
    assert host.load(on() | {VARIABLE: "another long password"}).core.encryption.password.reveal().startswith("another")
    named = on(PasswordEnvVar="MY_PASSWORD") | {VARIABLE: "not this one, surely", "MY_PASSWORD": "but this one, yes"}
    assert host.load(named).core.encryption.password.reveal() == "but this one, yes"


def test_the_password_is_masked_wherever_it_came_from(host) -> None:
    """SEC-44, SEC-56, CFG-17."""
    loaded = host.load(on() | {VARIABLE: "from the environment"})
    assert "from the environment" not in repr(loaded)
    assert Scrubber(loaded.secrets).scrub("it is from the environment!") == "it is ***!"


@pytest.mark.parametrize(
    ("password", "told"),
    [
        (f" {PASSWORD}", "white space"),
        (f"{PASSWORD}\n", "white space"),
        (f"{PASSWORD}\u00a0", "white space"),
        (unicodedata.normalize("NFD", "senha secreta da seção"), "NFC"),
        ("fifteen letters", "shorter than 16"),
    ],
)
def test_what_may_go_wrong_later_is_warned_of(host, password, told) -> None:
    """ENC-15, ENC-16: it is taken exactly as given, and nobody sees it."""
    loaded = host.load(on() | {VARIABLE: password})
    (warning,) = loaded.warnings
    assert told in warning
    assert VARIABLE in warning
    assert password.strip() not in warning
    assert loaded.core.encryption.password.reveal() == password


def test_what_is_no_text_is_refused(host) -> None:
    """ENC-15: bytes of the environment that no reader could type."""
    assert set(host.refuse(on() | {VARIABLE: "sixteen letters \udcff"})) == {VARIABLE}


def test_a_profile_may_encrypt_only_while_it_is_on(pfx_host) -> None:
    """CFG-91, ENC-20: refused with the profile's key."""
    profile = {
        "Signing__Profiles__0__Name": "p",
        "Signing__Profiles__0__Format": "Cades",
        "Signing__Profiles__0__Encrypt": "true",
        "Signing__Profiles__0__Certificate__Pfx__Path": "/p.pfx",
    }
    refused = pfx_host.refuse(profile)
    assert set(refused) == {"Signing:Profiles[0]:Encrypt"}
    assert "plaintext" in refused["Signing:Profiles[0]:Encrypt"].line()
    (seed,) = pfx_host.load(profile | on()).core.signing.profiles
    assert seed.encrypt
