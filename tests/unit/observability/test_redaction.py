"""The scrubber finds a secret in every shape it may take in a line."""

from __future__ import annotations

import base64
import html
import json
import re
import urllib.parse
from pathlib import Path

import attrs
import pytest

from bulksigner.contract.settings import Secret
from bulksigner.observability.redaction import (
    Scrubber,
    is_sensitive,
    list_block_secrets,
    list_environment_secrets,
    mask_cpf,
    mask_emails,
)

SECRET = 'cañary/"key+1234 &5678'


@pytest.mark.parametrize(
    "name",
    [
        *("Password", "dbPassword", "api_key", "ApiKey", "X-API-Key", "apikey", "AccountKey", "connection_string"),
        *("PIN", "Pin", "UserPin", "token_pin", "ConnectionStrings", "cpf", "holderCpf", "Authorization"),
        *("SetCookie", "LinkSecret", "salt", "LicensePath"),
    ],
)
def test_a_property_with_a_sensitive_name_is_masked(name: str) -> None:
    """SEC-55: the name decides, whatever its case."""
    assert is_sensitive(name)


@pytest.mark.parametrize("name", ["Mapping", "Spinning", "JobId", "PinnedVersion", "opinion", "Format", "Key"])
def test_an_ordinary_name_is_not_masked(name: str) -> None:
    """SEC-55: `Pin` matches as a part of a name, not inside a word."""
    assert not is_sensitive(name)


@pytest.mark.parametrize(
    "shape",
    [
        SECRET,
        urllib.parse.quote(SECRET, safe=""),
        urllib.parse.quote(SECRET),
        urllib.parse.quote_plus(SECRET),
        re.sub("%..", lambda match: match[0].lower(), urllib.parse.quote(SECRET, safe="")),
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        repr(SECRET),
        ascii(SECRET),
        html.escape(SECRET),
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(b"u:" + SECRET.encode() + b"tail").decode(),
        base64.urlsafe_b64encode(b"x" + SECRET.encode()).decode(),
    ],
)
def test_a_secret_is_replaced_in_every_shape(shape: str) -> None:
    """SEC-56: literal, inside a URL, quoted, inside base64 at any alignment."""
    line = Scrubber([Secret(SECRET)]).scrub(f"before {shape} after")
    assert "***" in line
    assert "1234" not in line
    assert "cañary" not in line
    core = base64.b64encode(SECRET.encode()).decode()[4:-8]
    assert core not in line
    assert line.startswith("before ")
    assert line.endswith(" after")


def test_a_short_secret_is_left_alone() -> None:
    """SEC-56: values shorter than 12 characters would mask ordinary words."""
    assert Scrubber(["elevenchars"]).scrub("elevenchars") == "elevenchars"
    assert Scrubber(["twelve-chars"]).scrub("twelve-chars") == "***"


def test_a_secret_registered_later_is_found() -> None:
    """SEC-56: secrets typed in while the service runs count too."""
    scrubber = Scrubber()
    scrubber.register("typed-in-later-on")
    assert scrubber.scrub("a typed-in-later-on b") == "a *** b"


def test_a_secret_that_contains_another_is_masked_whole() -> None:
    """SEC-56: the longer secret goes first, so that no tail of it is left."""
    scrubber = Scrubber(["abcdefghijkl", "abcdefghijklmnopqrstu"])
    assert scrubber.scrub("<abcdefghijklmnopqrstu>") == "<***>"


def test_personal_data_is_reduced() -> None:
    """SEC-59: an e-mail keeps its first letter and domain, a CPF its check digits; a CNPJ is not masked."""
    assert mask_emails("from maria.silva+x@banco.com.br, ok") == "from m***@banco.com.br, ok"
    assert mask_cpf("CN=MARIA:12345678909") == "CN=MARIA:***.***.***-09"
    assert mask_cpf("123.456.789-09") == "***.***.***-09"
    assert mask_cpf("CNPJ 12345678000195") == "CNPJ 12345678000195"


@pytest.mark.parametrize("number", ["53670F05D8C87626540001C37BA4CA6A", "00c52998224725ff", "AB52998224725CDEF"])
def test_a_serial_number_keeps_its_digits(number: str) -> None:
    """SEC-59: eleven of them in a row between letters are no CPF; a CPF beside it still is."""
    given = f"MARIA:52998224725 (serial {number})"
    assert mask_cpf(given) == f"MARIA:***.***.***-25 (serial {number})"
    assert Scrubber([SECRET]).clean_text(given) == f"MARIA:***.***.***-25 (serial {number})"


def test_a_stored_message_has_no_cpf_either() -> None:
    """SEC-57, SEC-59: by its form, or by its check digits where it is bare; other numbers stay."""
    scrubber = Scrubber([SECRET])
    cleaned = scrubber.clean_text(f"{SECRET} of 529.982.247-25 and 52998224725, a@b.br, not 12345678901 or 11111111111")
    assert cleaned == "*** of ***.***.***-25 and ***.***.***-25, a***@b.br, not 12345678901 or 11111111111"
    job = "0f8fad5b-d9cb-469f-a165-a52998224725"
    assert scrubber.clean_text(f"Retry of {job}") == f"Retry of {job}"
    assert scrubber.clean_text("CNPJ 11.222.333/0001-81 stays") == "CNPJ 11.222.333/0001-81 stays"


def test_the_facts_of_an_event_are_walked() -> None:
    """SEC-55, SEC-57: names that say secret, and secrets anywhere; what programs look up again stays as it is."""
    facts = {
        "password": "short",
        "changes": {"Pkcs12Password": {"old": "a", "new": "b"}, "Format": [f"x{SECRET}y", 3, None]},
        "folder": "/mnt/ana@host/52998224725",
        "jobsLeft": 0,
        "drained": True,
    }
    assert Scrubber([SECRET]).clean_facts(facts) == {
        "password": "***",
        "changes": {"Pkcs12Password": "***", "Format": ["x***y", 3, None]},
        "folder": "/mnt/ana@host/52998224725",
        "jobsLeft": 0,
        "drained": True,
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("GET /approvals/link/abc-123_x?a=b", "GET /approvals/link/***?a=b"),
        ('{Path: "/approvals/link/abc"}', '{Path: "/approvals/link/***"}'),
        ("/approvals/cloud/return?code=1&state=2 x", "/approvals/cloud/return?*** x"),
        ("/approvals/export/mine", "/approvals/export/mine"),
    ],
)
def test_links_lose_what_is_secret_of_them(line: str, expected: str) -> None:
    """SEC-58: the token of a link, and every value of a return."""
    assert Scrubber().scrub(line) == expected


def test_variables_that_are_named_like_secrets(tmp_path: Path) -> None:
    """SEC-56, SEC-43: a PIN or a password of another library; what names a file is no secret."""
    (tmp_path / "token").touch()
    environ = {
        "BULK_SIGNER_PKCS11_PIN": "pin of a token",
        "PGPASSWORD": "of the database",
        "TOKEN_FILE": str(tmp_path / "token"),
        "API_TOKEN": "/starts like a path",
        "PATH": "/usr/bin",
        "ConnectionStrings__Default": "Data Source=/data/db/bulksigner.db",
        "OTHER_CONNECTION_STRING": "/data/db/new.db",
        "CONNECTION_STRING": "postgresql://u:p@h/d",
        "MAPPING": "x",
    }
    found = [secret.reveal() for secret in list_environment_secrets(environ)]
    assert found == ["pin of a token", "of the database", "/starts like a path", "postgresql://u:p@h/d"]


@attrs.frozen
class Block:
    password: Secret
    pin_env_var: str
    other_env_var: str | None = None
    path: str = "/key"


def test_a_block_s_secrets_are_its_own_and_those_of_the_variables_it_names() -> None:
    """SEC-43, SEC-56: a PIN is known whatever the variable is called; one that is not set is none."""
    environ = {"SECOND_SLOT": "open sesame, please", "/key": "not named"}
    found = [secret.reveal() for secret in list_block_secrets(Block(Secret("own"), "SECOND_SLOT"), environ)]
    assert found == ["own", "open sesame, please"]
    assert list(list_block_secrets(Block(Secret("own"), "MISSING"), environ)) == [Secret("own")]
    assert list(list_block_secrets(None, environ)) == []
