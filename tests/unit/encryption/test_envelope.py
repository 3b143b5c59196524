"""The envelope BSENC v1: published vectors, every boundary, and every way to damage one."""

from __future__ import annotations

import hashlib
import io
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulksigner.contract.errors import BulkSignerError
from bulksigner.contract.signing import Measured
from bulksigner.encryption import envelope as module
from bulksigner.encryption.envelope import (
    OVERHEAD,
    DoesNotOpen,
    NotAnEnvelope,
    measure_content,
    open_envelope,
    write_envelope,
)
from bulksigner.encryption.key import EnvelopeKey, read_salt

CHUNK = 1 << 18
BOUNDARIES = sorted(
    {0, 1, 15, 16, 17, 36, 37, 38, 1 << 20}
    | {CHUNK * times + more for times in (1, 2) for more in (-17, -16, -15, -1, 0, 1, 15, 16, 17)}
)
OTHER = EnvelopeKey(bytes(range(32)))


def seal(plain: bytes, key: EnvelopeKey, nonce: bytes | None = None) -> bytes:
    out = io.BytesIO()
    measured = write_envelope(io.BytesIO(plain), out, key, nonce=nonce)
    assert measured == Measured(len(out.getvalue()), hashlib.sha256(out.getvalue()).digest())
    return out.getvalue()


def unseal(envelope: bytes, key: EnvelopeKey) -> bytes:
    out = io.BytesIO()
    length = open_envelope(io.BytesIO(envelope), len(envelope), key, out.write)
    assert length == len(out.getvalue())
    return out.getvalue()


def flip(content: bytes, index: int, bit: int = 1) -> bytes:
    changed = bytearray(content)
    changed[index] ^= bit
    return bytes(changed)


def test_vectors_hold_in_both_directions(vector: Any) -> None:
    """ENC-07, ENC-08, ENC-13, ENC-37: key, envelope bit for bit, and plaintext."""
    key = EnvelopeKey.derive(vector.password, read_salt(vector.salt_b64), vector.iterations)
    assert key.reveal().hex() == vector.key
    written = seal(vector.plain, key, bytes.fromhex(vector.nonce))
    if vector.envelope:
        assert written.hex() == vector.envelope
    else:
        assert hashlib.sha256(written).hexdigest() == vector.sha256
    assert unseal(written, key) == vector.plain


@pytest.mark.parametrize("size", BOUNDARIES)
def test_every_boundary_survives_the_round_trip(size: int, key: EnvelopeKey) -> None:
    """ENC-07, ENC-36, ENC-39: 37 bytes more, and the same bytes again."""
    plain = hashlib.shake_128(str(size).encode()).digest(size)
    written = seal(plain, key)
    assert len(written) == size + OVERHEAD == size + 37
    assert unseal(written, key) == plain
    assert measure_content(io.BytesIO(written), len(written), key) == Measured(size, hashlib.sha256(plain).digest())


@given(plain=st.binary(max_size=600))
def test_any_content_survives_the_round_trip(plain: bytes) -> None:
    """ENC-39."""
    assert unseal(seal(plain, OTHER), OTHER) == plain


def test_no_nonce_comes_twice(key: EnvelopeKey) -> None:
    """ENC-10, ENC-39: 10 000 envelopes of one plaintext, 10 000 nonces."""
    written = [seal(b"signed bytes\n", key) for _ in range(10_000)]
    assert len({one[9:21] for one in written}) == len(set(written)) == 10_000


FORMAT = {
    "too short": lambda whole: whole[:36],
    "too short: 0": lambda _: b"",
    "unknown magic": lambda whole: flip(whole, 0),
    "unknown magic (a zero)": lambda whole: flip(whole, 7),
    "unsupported version 2": lambda whole: whole[:8] + b"\x02" + whole[9:],
    "unsupported version 0": lambda whole: whole[:8] + b"\x00" + whole[9:],
}
DAMAGE = {
    "the first byte of the nonce": lambda whole: flip(whole, 9),
    "the last byte of the nonce": lambda whole: flip(whole, 20, 128),
    "the first byte of the ciphertext": lambda whole: flip(whole, 21),
    "the last byte of the ciphertext": lambda whole: flip(whole, -17, 64),
    "the first byte of the tag": lambda whole: flip(whole, -16),
    "the last byte of the tag": lambda whole: flip(whole, -1, 128),
    "one byte cut": lambda whole: whole[:-1],
    "one byte more": lambda whole: whole + b"\0",
}


@pytest.mark.parametrize("name", FORMAT)
def test_what_is_no_envelope_says_why(name: str, vectors: Any, key: EnvelopeKey) -> None:
    """ENC-28, ENC-38: length, then magic, then version, each in its own words."""
    broken = FORMAT[name](bytes.fromhex(vectors.A.envelope))
    with pytest.raises(NotAnEnvelope, match=name.partition(":")[0].partition(" (")[0]):
        unseal(broken, key)


def test_the_order_of_the_checks(vectors: Any, key: EnvelopeKey) -> None:
    """ENC-28: what is wrong in several ways is told by the first."""
    whole = bytes.fromhex(vectors.A.envelope)
    with pytest.raises(NotAnEnvelope, match="too short"):
        unseal(flip(whole, 0)[:36], key)
    with pytest.raises(NotAnEnvelope, match="magic"):
        unseal(flip(flip(whole, 0), 8, 3), key)
    with pytest.raises(NotAnEnvelope, match="version 2"):
        unseal(flip(flip(whole, 8, 3), -1), OTHER)


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_and_a_wrong_key_are_one_failure(name: str, vectors: Any, key: EnvelopeKey) -> None:
    """ENC-28, ENC-38: nobody can tell the ways apart, so the message is the same."""
    whole = bytes.fromhex(vectors.A.envelope)
    with pytest.raises(DoesNotOpen) as damaged:
        unseal(DAMAGE[name](whole), key)
    with pytest.raises(DoesNotOpen) as wrong:
        unseal(whole, OTHER)
    assert damaged.value.message == wrong.value.message


@pytest.mark.parametrize(
    "change", [{"password": "correct horse battery stapl"}, {"salt": bytes(32)}, {"iterations": 600_001}]
)
def test_each_of_the_three_values_counts(change: dict[str, Any], vectors: Any) -> None:
    """ENC-13, ENC-38: wrong password, salt or iterations."""
    values = {"password": vectors.A.password, "salt": read_salt(vectors.A.salt_b64), "iterations": 600_000} | change
    with pytest.raises(DoesNotOpen):
        unseal(bytes.fromhex(vectors.A.envelope), EnvelopeKey.derive(**values))


def test_every_bit_is_guarded(vectors: Any, key: EnvelopeKey) -> None:
    """ENC-38: whichever bit flips, it does not open."""
    whole = bytes.fromhex(vectors.A.envelope)
    for index in range(len(whole)):
        for bit in range(8):
            with pytest.raises(BulkSignerError):
                unseal(flip(whole, index, 1 << bit), key)


def test_a_file_that_shrinks_while_it_is_read_is_told(vectors: Any, key: EnvelopeKey) -> None:
    """ENC-28: fewer bytes than the length that was found."""
    whole = bytes.fromhex(vectors.A.envelope)
    for length in (len(whole) + 1, len(whole) + 40):
        with pytest.raises(NotAnEnvelope, match="shorter while"):
            open_envelope(io.BytesIO(whole[:-20]), length, key, lambda _: None)


def test_streams_that_give_little_at_a_time_are_read_whole(vectors: Any, key: EnvelopeKey) -> None:
    """ENC-12: pipes and network folders answer with less than they were asked for."""

    class Trickle(io.BytesIO):
        def readinto(self, buffer: Any) -> int:
            return super().readinto(memoryview(buffer)[:3])

        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 2, 2))

    whole = bytes.fromhex(vectors.A.envelope)
    out = io.BytesIO()
    write_envelope(Trickle(vectors.A.plain), out, key, nonce=bytes.fromhex(vectors.A.nonce))
    assert out.getvalue() == whole
    assert measure_content(Trickle(whole), len(whole), key).length == 13


class Endless(io.RawIOBase):
    """As many zeros as it is asked for, without having them."""

    def __init__(self, length: int) -> None:
        self.left = length

    def readinto(self, buffer: Any) -> int:
        count = min(self.left, len(buffer))
        self.left -= count
        return count


class Sink(io.RawIOBase):
    """Counts what is written, and keeps nothing."""

    def __init__(self) -> None:
        self.count = 0

    def write(self, piece: Any) -> int:
        self.count += len(piece)
        return len(piece)


def test_memory_does_not_grow_with_the_file(key: EnvelopeKey) -> None:
    """ENC-11: a file a hundred times as long takes not a byte more; each piece is gone when the next one comes."""
    write_envelope(Endless(CHUNK), Sink(), key)
    tracemalloc.start()
    try:
        write_envelope(Endless(100 * CHUNK), Sink(), key)  # type: ignore[arg-type]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < CHUNK // 2


def test_two_gibibytes_are_the_most(key: EnvelopeKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENC-11: one byte above is refused with what to do; the limit itself is written."""
    assert module.LONGEST_PLAINTEXT == 2 * 1024**3
    monkeypatch.setattr(module, "LONGEST_PLAINTEXT", 3 * CHUNK)
    assert write_envelope(Endless(3 * CHUNK), Sink(), key).length == 3 * CHUNK + 37  # type: ignore[arg-type]
    with pytest.raises(BulkSignerError, match="2 GiB"):
        write_envelope(Endless(3 * CHUNK + 1), Sink(), key)  # type: ignore[arg-type]


@pytest.mark.soak
def test_two_gibibytes_for_real(key: EnvelopeKey) -> None:
    """ENC-11: at the limit and one byte above it, through the cipher itself."""
    length = 2 * 1024**3
    assert write_envelope(Endless(length), Sink(), key).length == length + 37  # type: ignore[arg-type]
    with pytest.raises(BulkSignerError, match="2 GiB"):
        write_envelope(Endless(length + 1), Sink(), key)  # type: ignore[arg-type]


def test_threads_do_not_share_their_buffers(key: EnvelopeKey) -> None:
    """ENC-12: jobs that encrypt side by side in one process do not mix."""
    from concurrent.futures import ThreadPoolExecutor

    def turn(number: int) -> bool:
        plain = bytes([number]) * (3 * CHUNK + number)
        return unseal(seal(plain, key), key) == plain

    with ThreadPoolExecutor(8) as pool:
        check: Callable[[int], bool] = turn
        assert all(pool.map(check, range(24)))
