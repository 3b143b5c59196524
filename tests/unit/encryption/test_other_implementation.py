"""Envelopes go both ways between ours and an implementation in another language, made from the format's description."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bulksigner.encryption import envelope
from bulksigner.encryption.key import EnvelopeKey, read_salt

PROGRAM = Path(__file__).with_name("bsenc.mjs")
PASSWORD, SALT, ITERATIONS = "senha-ção-Ünïcode", "AAECAwQFBgcICQoLDA0ODw==", 10_000
# Around what a header, a tag, a block and our pieces are long.
PLACES = (0, 16, 21, 37, 1 << 12, 1 << 16, *(count * envelope._CHUNK_BYTES for count in (1, 2, 4)))
NEAR = (-37, -21, -16, -1, 0, 1, 15, 16, 17, 21, 37)
SIZES = sorted({place + near for place in PLACES for near in NEAR if place + near >= 0})


@pytest.fixture
def other(require_tool: Any, tmp_path: Path) -> Any:
    """Run the other implementation on contents; returns what it made of them, by the same names."""
    node = require_tool("node", "nodejs")

    def act(verb: str, contents: dict[str, bytes], password: str, *arguments: object) -> dict[str, bytes]:
        given, made = tmp_path / f"{verb}-in", tmp_path / f"{verb}-out"
        given.mkdir()
        made.mkdir()
        for name, content in contents.items():
            (given / name).write_bytes(content)
        command = [node, str(PROGRAM), verb, str(given), str(made), *map(str, arguments)]
        subprocess.run(command, env=os.environ | {"PASSWORD": password}, check=True)
        return {path.name: path.read_bytes() for path in made.iterdir()}

    return act


def test_each_opens_what_the_other_wrote(other: Any) -> None:
    """ENC-07, ENC-13, ENC-28, ENC-39: sizes around every boundary, a password that is not ASCII."""
    key = EnvelopeKey.derive(PASSWORD, read_salt(SALT), ITERATIONS)
    plain = {str(size): os.urandom(size) for size in SIZES}
    ours: dict[str, bytes] = {}
    for name, content in plain.items():
        out = io.BytesIO()
        envelope.write_envelope(io.BytesIO(content), out, key)
        ours[name] = out.getvalue()
    assert other("decrypt", ours, PASSWORD, SALT, ITERATIONS) == plain
    theirs = other("encrypt", plain, PASSWORD, SALT, ITERATIONS)
    assert len(theirs) == len(SIZES)
    for name, content in theirs.items():
        found = io.BytesIO()
        envelope.open_envelope(io.BytesIO(content), len(content), key, found.write)
        assert found.getvalue() == plain[name]


def test_the_other_meets_the_vectors(other: Any, vector: Any) -> None:
    """ENC-37: bit for bit, so that both keep to the format and not to each other."""
    [made] = other(
        "encrypt", {"v": vector.plain}, vector.password, vector.salt_b64, vector.iterations, vector.nonce
    ).values()
    if vector.envelope:
        assert made.hex() == vector.envelope
    else:
        assert hashlib.sha256(made).hexdigest() == vector.sha256
    assert other("decrypt", {"v": made}, vector.password, vector.salt_b64, vector.iterations) == {"v": vector.plain}
