"""Every envelope that issuers and tools make opens (CFG-72)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asn1crypto import core, pkcs12
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.hazmat.primitives.serialization import pkcs12 as builder

from bulksigner_local_pfx import passwords, rc2
from bulksigner_local_pfx.algorithms import mac_of
from bulksigner_local_pfx.envelope import open_envelope
from bulksigner_local_pfx.passwords import readings_of
from bulksigner_local_pfx.refusals import WrongPassword
from bulksigner_local_pfx.source import open_pfx

PASSWORD = "correct horse"
_PKCS12 = PrivateFormat.PKCS12.encryption_builder()


def _made(identity: Any, encryption: KeySerializationEncryption) -> bytes:
    return builder.serialize_key_and_certificates(
        b"name", identity.key, identity.certificate, list(identity.issuers), encryption
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("-legacy", "-keypbe", "PBE-SHA1-RC2-40", "-certpbe", "PBE-SHA1-RC2-40"),
        ("-legacy", "-keypbe", "PBE-SHA1-RC2-128", "-certpbe", "PBE-SHA1-RC2-128"),
        ("-legacy", "-keypbe", "PBE-SHA1-2DES", "-certpbe", "PBE-SHA1-2DES"),
        ("-legacy",),
        ("-legacy", "-descert"),
        ("-keypbe", "aes-256-cbc", "-certpbe", "aes-256-cbc", "-macalg", "sha256"),
        ("-keypbe", "aes-192-cbc", "-certpbe", "aes-128-cbc", "-macalg", "sha512"),
        ("-keypbe", "des-ede3-cbc", "-certpbe", "NONE", "-macalg", "sha384"),
        ("-nomac",),
        ("-keypbe", "NONE", "-certpbe", "NONE", "-nomac"),
        ("-macalg", "sha224", "-iter", "100000"),
        ("-nomaciter", "-noiter"),
    ],
    ids=lambda arguments: "_".join(arguments),
)
def test_envelopes_of_openssl_open(
    arguments: tuple[str, ...], openssl_pfx: Callable[..., bytes], rsa_identity: Any
) -> None:
    """CFG-72: classic and PBES2 envelopes give the key, its certificate and the chain."""
    opened = open_pfx(openssl_pfx(rsa_identity, *arguments), PASSWORD, [])
    assert opened.certificate == rsa_identity.certificate.public_bytes(Encoding.DER)
    assert opened.chain == tuple(issuer.public_bytes(Encoding.DER) for issuer in rsa_identity.issuers)


@pytest.mark.parametrize(
    "encryption",
    [
        NoEncryption(),
        BestAvailableEncryption(PASSWORD.encode()),
        _PKCS12.key_cert_algorithm(builder.PBES.PBESv1SHA1And3KeyTripleDESCBC)
        .hmac_hash(SHA1())
        .build(PASSWORD.encode()),
        _PKCS12.key_cert_algorithm(builder.PBES.PBESv2SHA256AndAES256CBC).hmac_hash(SHA256()).build(PASSWORD.encode()),
    ],
    ids=["plain", "best", "3des", "aes"],
)
def test_envelopes_of_cryptography_open(encryption: KeySerializationEncryption, ec_identity: Any) -> None:
    """CFG-72: files of another writer open too."""
    password = "" if isinstance(encryption, NoEncryption) else PASSWORD
    opened = open_pfx(_made(ec_identity, encryption), password, [])
    assert opened.certificate == ec_identity.certificate.public_bytes(Encoding.DER)


@pytest.mark.parametrize("password", ["sênha-ção€", "пароль-длинный", "key-𝄞-clef", "with blank ", "ü" * 60])
@pytest.mark.parametrize("arguments", [(), ("-legacy",)], ids=["aes", "rc2"])
def test_passwords_with_any_character_open(
    password: str, arguments: tuple[str, ...], openssl_pfx: Callable[..., bytes], ec_identity: Any
) -> None:
    """CFG-71: a password is text, not ASCII (RFC 7292 appendix B.1)."""
    data = openssl_pfx(ec_identity, *arguments, password=password)
    assert open_pfx(data, password, []).certificate
    with pytest.raises(WrongPassword):
        open_pfx(data, password + "x", [])


def test_a_utf8_password_read_as_latin1_opens(ec_identity: Any) -> None:
    """CFG-71: OpenSSL before 1.1 widened the single bytes of UTF-8; such files are still in use."""
    misread = PASSWORD.replace("o", "ô").encode().decode("latin-1")
    encryption = _PKCS12.key_cert_algorithm(builder.PBES.PBESv1SHA1And3KeyTripleDESCBC).hmac_hash(SHA1())
    data = _made(ec_identity, encryption.build(misread.encode()))
    assert open_pfx(data, PASSWORD.replace("o", "ô"), []).certificate


@pytest.mark.parametrize("arguments", [(), ("-legacy",)], ids=["aes", "rc2"])
def test_an_empty_password_opens(
    arguments: tuple[str, ...], openssl_pfx: Callable[..., bytes], ec_identity: Any
) -> None:
    """CFG-71: empty is allowed."""
    assert open_pfx(openssl_pfx(ec_identity, *arguments, password=""), "", []).certificate


@pytest.mark.parametrize("wide", [b"", b"\x00\x00"], ids=["null", "empty"])
def test_both_encodings_of_an_empty_password_fit_the_mac(
    wide: bytes, openssl_pfx: Callable[..., bytes], ec_identity: Any
) -> None:
    """CFG-71: no bytes at all and an empty BMPString are both written for an empty password."""
    pfx = pkcs12.Pfx.load(openssl_pfx(ec_identity, "-keypbe", "NONE", "-certpbe", "NONE", password=""))
    mac, content = pfx["mac_data"], bytes(pfx["auth_safe"]["content"])
    mac["mac"]["digest"] = mac_of(
        mac["mac"]["digest_algorithm"].dump(),
        mac["mac_salt"].native,
        mac["iterations"].native,
        content,
        passwords.Reading(wide, b""),
    )
    assert open_envelope(pfx.dump(force=True), "").keys


def _sequence(*parts: bytes) -> bytes:
    body = b"".join(parts)
    return core.Any(core.Sequence(contents=body)).dump()


def test_a_file_with_pbmac1_opens(openssl_pfx: Callable[..., bytes], ec_identity: Any) -> None:
    """CFG-72: the MAC of RFC 9579, checked against OpenSSL's own reader."""
    hmac_sha256 = _sequence(core.ObjectIdentifier("1.2.840.113549.2.9").dump(), core.Null().dump())
    terms = _sequence(core.OctetString(b"salt-salt").dump(), b"\x02\x02\x08\x00", b"\x02\x01\x20", hmac_sha256)
    stretching = _sequence(core.ObjectIdentifier("1.2.840.113549.1.5.12").dump(), terms)
    algorithm = _sequence(core.ObjectIdentifier("1.2.840.113549.1.5.14").dump(), _sequence(stretching, hmac_sha256))
    pfx = pkcs12.Pfx.load(openssl_pfx(ec_identity))
    content = bytes(pfx["auth_safe"]["content"])
    value = mac_of(algorithm, b"ignored", 1, content, readings_of(PASSWORD)[0])
    mac = _sequence(_sequence(algorithm, core.OctetString(value).dump()), core.OctetString(b"ignored").dump())
    data = _sequence(b"\x02\x01\x03", pfx["auth_safe"].dump(), mac)
    assert builder.load_key_and_certificates(data, PASSWORD.encode())[1] == ec_identity.certificate
    assert open_pfx(data, PASSWORD, []).certificate
    with pytest.raises(WrongPassword):
        open_pfx(data, "another password", [])


def _indefinite(tag: bytes, *parts: bytes) -> bytes:
    return tag + b"\x80" + b"".join(parts) + b"\x00\x00"


def _chunks(tag: bytes, data: bytes) -> bytes:
    return _indefinite(tag, *(core.OctetString(data[at : at + 100]).dump() for at in range(0, len(data), 100)))


def test_a_file_in_ber_opens(openssl_pfx: Callable[..., bytes], ec_identity: Any) -> None:
    """CFG-72: browsers write indefinite lengths and octet strings in pieces (X.690 8.1.3.6, 8.7)."""
    pfx = pkcs12.Pfx.load(openssl_pfx(ec_identity, "-nomac"))
    safes = []
    for safe in pkcs12.AuthenticatedSafe.load(bytes(pfx["auth_safe"]["content"])):
        if safe["content_type"].native == "data":
            content = _chunks(b"\x24", bytes(safe["content"]))
        else:
            inner = safe["content"]["encrypted_content_info"]
            pieces = _chunks(b"\xa0", inner["encrypted_content"].native)
            head = inner["content_type"].dump() + inner["content_encryption_algorithm"].dump()
            content = _indefinite(b"\x30", b"\x02\x01\x00", _indefinite(b"\x30", head, pieces))
        safes.append(_indefinite(b"\x30", safe["content_type"].dump(), _indefinite(b"\xa0", content)))
    authenticated = _chunks(b"\x24", _indefinite(b"\x30", *safes))
    auth_safe = _indefinite(b"\x30", pfx["auth_safe"]["content_type"].dump(), _indefinite(b"\xa0", authenticated))
    data = _indefinite(b"\x30", b"\x02\x01\x03", auth_safe)
    assert open_pfx(data, PASSWORD, []).certificate == ec_identity.certificate.public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("key", "bits", "plain", "cipher"),
    [
        ("0000000000000000", 63, "0000000000000000", "ebb773f993278eff"),
        ("ffffffffffffffff", 64, "ffffffffffffffff", "278b27e42e2f0d49"),
        ("3000000000000000", 64, "1000000000000001", "30649edf9be7d2c2"),
        ("88", 64, "0000000000000000", "61a8a244adacccf0"),
        ("88bca90e90875a", 64, "0000000000000000", "6ccf4308974c267f"),
        ("88bca90e90875a7f0f79c384627bafb2", 128, "0000000000000000", "2269552ab0f85ca6"),
    ],
)
def test_rc2_gives_the_published_vectors(key: str, bits: int, plain: str, cipher: str) -> None:
    """CFG-72: RFC 2268 section 5."""
    assert rc2.decrypt_cbc(bytes.fromhex(key), bits, bytes(8), bytes.fromhex(cipher)).hex() == plain
