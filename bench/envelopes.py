"""MB/s of encrypted outputs, as a job pays for them, beside the bare AES-GCM call of `cryptography`."""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bench.measure import Loop, Result, run_interleaved
from bulksigner.contract.signing import Measured
from bulksigner.encryption.envelope import measure_content, write_envelope
from bulksigner.encryption.key import EnvelopeKey
from bulksigner.pipeline.tasks import EncryptTask, encrypt_here

__all__ = ["run_envelopes"]

SIZES = {"300 KB": 300_000, "5 MB": 5_000_000, "100 MB": 100_000_000}


class _Nowhere:
    """Takes what is written and keeps nothing."""

    def write(self, piece: bytes | memoryview) -> int:
        return len(piece)


def run_envelopes(count: int | None) -> list[Result]:
    """Measure each size: the bare call, our envelope alone, reading it back, and the whole durable task."""
    raw = secrets.token_bytes(32)
    key, bare = EnvelopeKey(raw), AESGCM(raw)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as folder:
        for name, size in SIZES.items():
            loops = _loops(name, size, key, bare, Path(folder))
            results += run_interleaved("envelopes", loops, rounds=3, round_seconds=0.4, count=count)
    return [_with_rate(result) for result in results]


def _loops(name: str, size: int, key: EnvelopeKey, bare: AESGCM, folder: Path) -> Sequence[Loop]:
    content = secrets.token_bytes(size)
    signed, written, beside = folder / f"{size}.p7m", folder / f"{size}.enc", folder / f"{size}-read.enc"
    signed.write_bytes(content)
    task = EncryptTask(signed, Measured(size, hashlib.sha256(content).digest()), written)
    with open(beside, "wb") as out, open(signed, "rb", buffering=0) as plain:
        length = write_envelope(plain, out, key).length

    def seal() -> None:
        with open(signed, "rb", buffering=0) as plain:
            write_envelope(plain, _Nowhere(), key)  # type: ignore[arg-type] # it is only written to

    def read_back() -> None:
        with open(beside, "rb", buffering=0) as envelope:
            measure_content(envelope, length, key)

    return [
        Loop(
            f"bare AESGCM.encrypt, {name} in memory", lambda: bare.encrypt(secrets.token_bytes(12), content, None), size
        ),
        Loop(f"envelope with its SHA-256, {name} from a file", seal, size),
        Loop(f"envelope opened and hashed, {name} from a file", read_back, size),
        Loop(f"whole task: written, flushed, read back, {name}", lambda: encrypt_here(task, key), size),
    ]


def _with_rate(result: Result) -> Result:
    size = next(size for name, size in SIZES.items() if name in result.name)
    by_cpu = size / 1e3 / result.cpu_milliseconds if result.cpu_milliseconds else 0.0
    return attrs.evolve(result, note=f"{size * result.per_second / 1e6:,.0f} MB/s, {by_cpu:,.0f} by CPU time")
