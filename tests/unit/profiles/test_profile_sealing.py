"""Secrets of stored profiles are sealed, each in its place (SEC-47 to SEC-49)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.settings import Secret
from bulksigner.profiles.deployment import deployment_salt
from bulksigner.profiles.seal import Sealer, field_of, key_of
from bulksigner.records.errors import UniqueViolation

KEY = "k" * 32
SALT = b"s" * 32


@pytest.fixture(scope="module")
def sealer() -> Sealer:
    """A sealer whose key is derived once for this module."""
    return Sealer(Secret(KEY), lambda: SALT)


def test_the_envelope_is_the_one_of_the_specification(sealer: Sealer) -> None:
    """SEC-47, SEC-48: version, nonce, ciphertext and tag, under PBKDF2 with 600 000 rounds."""
    envelope = sealer.seal("id", "Pkcs12Password", b"secret value")
    key = hashlib.pbkdf2_hmac("sha256", KEY.encode(), SALT, 600_000, 32)
    assert envelope[:1] == b"\x01"
    assert len(envelope) == 1 + 12 + len(b"secret value") + 16
    plain = AESGCM(key).decrypt(envelope[1:13], envelope[13:], b"profile-secret|1|id|Pkcs12Password")
    assert plain == b"secret value"


def test_two_envelopes_of_one_value_differ(sealer: Sealer) -> None:
    """SEC-47: the nonce is random."""
    assert sealer.seal("id", "field", b"x") != sealer.seal("id", "field", b"x")


@pytest.mark.parametrize(("profile", "field"), [("other", "Pkcs12Password"), ("id", "Pkcs12Bytes")])
def test_a_moved_value_does_not_open(profile: str, field: str, sealer: Sealer) -> None:
    """SEC-48: neither in another row nor in another column."""
    envelope = sealer.seal("id", "Pkcs12Password", b"x")
    assert sealer.open("id", "Pkcs12Password", envelope) == b"x"
    with pytest.raises(PermanentFailure, match=rf"{field}.*Signing:ProfileSecretsKey"):
        sealer.open(profile, field, envelope)


@pytest.mark.parametrize("change", [lambda e: b"", lambda e: b"\x02" + e[1:], lambda e: e[:9], lambda e: e[:-1] + b"?"])
def test_an_edited_envelope_does_not_open(change: Callable[[bytes], bytes], sealer: Sealer) -> None:
    """SEC-49: the text names the key and the field, and not the value."""
    with pytest.raises(PermanentFailure, match="Signing:ProfileSecretsKey") as caught:
        sealer.open("id", "Pkcs12Password", change(sealer.seal("id", "Pkcs12Password", b"hidden words")))
    assert "hidden" not in str(caught.value)


def test_the_key_is_derived_once_and_only_when_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-47: a deployment without secrets pays nothing, and one with many pays once."""
    asked: list[bytes] = []

    def salt() -> bytes:
        asked.append(SALT)
        return SALT

    sealer = Sealer(Secret(KEY), salt)
    assert sealer.has_key
    assert asked == []
    for _ in range(3):
        sealer.open("id", "field", sealer.seal("id", "field", b"x"))
    assert len(asked) == 1


def test_without_a_key_nothing_is_sealed() -> None:
    """CFG-66: the text names the key that is missing."""
    sealer = Sealer(Secret(""), lambda: SALT)
    assert not sealer.has_key
    with pytest.raises(PermanentFailure, match="Signing:ProfileSecretsKey is not set"):
        sealer.seal("id", "field", b"x")


def test_fields_and_keys_go_back_and_forth() -> None:
    """SEC-48: the fields that the specification names, and names for those of other plugins."""
    assert field_of("Pfx", "Password") == "Pkcs12Password"
    for source, key in (("Pfx", "Password"), ("Card", "Pin"), ("Card", "Inner:Pin")):
        assert key_of(field_of(source, key)) == key


def test_the_salt_is_made_once(database: Any, clock: Any) -> None:
    """SEC-48: 32 random bytes, the same for every instance and every boot."""
    salt = deployment_salt(database, clock)
    assert len(salt) == 32
    assert deployment_salt(database, clock) == salt


def test_the_salt_of_the_instance_that_was_first_counts(
    database: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-48: two instances that both find none end with one."""
    first = deployment_salt(database, clock)
    answers = iter([None])
    real = database.read

    def read(act: Any) -> Any:
        return next(answers, real(act))

    monkeypatch.setattr(database, "read", read)
    assert deployment_salt(database, clock) == first
    with pytest.raises(UniqueViolation):
        database.write(lambda: _record_again(database, clock))


def _record_again(database: Any, clock: Any) -> None:
    from bulksigner.profiles.deployment import record_fact

    record_fact(database, "profile-sealing-salt", "00", clock())
