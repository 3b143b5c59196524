"""The published vectors of BSENC v1 (ENC-37)."""

from __future__ import annotations

import types
from typing import Any

import attrs
import pytest

from bulksigner.encryption.key import EnvelopeKey


@attrs.frozen
class Vector:
    """One envelope whose every part is known."""

    password: str
    salt_b64: str
    iterations: int
    key: str
    nonce: str
    plain: bytes
    envelope: str = ""
    sha256: str = ""


_COMMON: dict[str, Any] = {
    "password": "correct horse battery staple",
    "salt_b64": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "iterations": 600_000,
    "key": "613a4c3411394e24fffe6c51994307724572e574bcd98ea8cf457c64899bfbfe",
}
VECTORS = {
    "A": Vector(
        **_COMMON,
        nonce="000102030405060708090a0b",
        plain=b"signed bytes\n",
        envelope="4253454e4300000001000102030405060708090a0bf1b8e01522c52de590d29be559a0e49a4a702af86bd01f1f472af31852",
    ),
    "B": Vector(
        **_COMMON,
        nonce="0c0d0e0f1011121314151617",
        plain=b"",
        envelope="4253454e43000000010c0d0e0f1011121314151617ff7e9c62aac469a6ed570f368e13b7e8",
    ),
    "C": Vector(
        password="senha-ção-Ünïcode",
        salt_b64="AAECAwQFBgcICQoLDA0ODw==",
        iterations=10_000,
        key="890d1401b22595f753aca5ca225e02aba8aacaea979e5026330f457f772c953a",
        nonce="ff" * 12,
        plain=bytes.fromhex("255044462d312e370a25e2e3cfd30a"),
        envelope="4253454e4300000001ffffffffffffffffffffffff54dd40e2b41c90ebe7170ac1f87bcd4d17fe93d7ea6684986f624e7709bd1e",
    ),
    "D": Vector(
        **_COMMON,
        nonce="a0a1a2a3a4a5a6a7a8a9aaab",
        plain=bytes((7 * index + 3) % 256 for index in range(1 << 20)),
        sha256="3f3e15b411682244d7a6affbf42879ec5da48fde629d26870c91af9720c63443",
    ),
}


@pytest.fixture(params=VECTORS)
def vector(request: pytest.FixtureRequest) -> Vector:
    return VECTORS[request.param]


@pytest.fixture
def vectors() -> Any:
    return types.SimpleNamespace(**VECTORS)


@pytest.fixture(scope="session")
def key() -> EnvelopeKey:
    """The key of the vectors A, B and D."""
    return EnvelopeKey(bytes.fromhex(_COMMON["key"]))
