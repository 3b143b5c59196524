"""The method `Local` signs a staged file into its target."""

from __future__ import annotations

import datetime
import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.builtin import local_signing
from bulksigner.builtin.local_signing import LocalSigning
from bulksigner.contract.certificate import KeyAlgorithm
from bulksigner.contract.errors import PermanentFailure, StepFailed, TemporaryFailure
from bulksigner.contract.signing import (
    Dispatched,
    Format,
    Measured,
    SigningMethod,
    SigningRequest,
    Unknown,
)
from bulksigner.formats.model import ContentChanged, FormatRefused

CONTENT = b"a file"
AT = datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC)


class Key:
    """An opened key that is never asked."""

    certificate = b""
    chain = ()
    algorithm = KeyAlgorithm.RSA

    def sign(self, data: bytes, digest: Any) -> bytes:
        return b""

    def sign_digest(self, value: bytes, digest: Any) -> bytes:
        return b""

    def close(self) -> None:
        return None


@attrs.frozen
class Signer:
    """Writes the content behind a mark; raises `error` after half of it, if there is one."""

    error: Exception | None = None

    def sign(self, source: Any, target: Any, *, expected: Measured, signed_at: datetime.datetime) -> Measured:
        target.write(b"signed ")
        if self.error is not None:
            raise self.error
        target.write(source.read())
        target.seek(0)
        written = target.read()
        return Measured(len(written), hashlib.sha256(written).digest())


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Record which signers are made, and make fakes."""
    calls: list[tuple[Any, ...]] = []

    def signer_for(
        format: Format, key: Any, spec: Any, *, detached: bool, pem: bool, pdf: Any, stamps: Any, proofs: Any
    ) -> Signer:
        assert (stamps, proofs) == (None, None)
        calls.append((format, key, detached, pem, pdf.ignore_owner_restrictions))
        return Signer(key.error if hasattr(key, "error") else None)

    monkeypatch.setattr(local_signing, "signer_for", signer_for)
    return calls


@pytest.fixture
def request_for(tmp_path: Path) -> Callable[..., SigningRequest]:
    """Make a request for a staged file."""

    def make(key: Any, name: str = "out", **options: str) -> SigningRequest:
        staged = tmp_path / "staged"
        staged.write_bytes(CONTENT)
        measured = Measured(len(CONTENT), hashlib.sha256(CONTENT).digest())
        return SigningRequest("job", "a.bin", Format.CADES, staged, measured, tmp_path / name, key, AT, options)

    return make


def test_the_target_is_new_private_and_complete(made: Any, request_for: Callable[..., SigningRequest]) -> None:
    """PIPE-79: the signed file is measured as written, and readable by owner and group only."""
    request = request_for(Key())
    signed = LocalSigning().sign(request)
    written = request.target.read_bytes()
    assert written == b"signed a file"
    assert signed.measured == Measured(len(written), hashlib.sha256(written).digest())
    assert request.target.stat().st_mode & 0o137 == 0


def test_the_target_is_on_disk_before_the_call_returns(
    made: Any, request_for: Callable[..., SigningRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-82: what is promoted later must survive a power loss."""
    lengths: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        lengths.append(os.fstat(descriptor).st_size)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    LocalSigning().sign(request_for(Key()))
    assert lengths == [len(b"signed a file")]


def test_a_taken_target_is_left_alone(made: Any, request_for: Callable[..., SigningRequest]) -> None:
    """PIPE-82: nothing is overwritten, and the text names the path."""
    request = request_for(Key())
    request.target.write_bytes(b"someone else's")
    with pytest.raises(StepFailed, match=str(request.target)) as caught:
        LocalSigning().sign(request)
    assert caught.value.code == "sign.failed"
    assert request.target.read_bytes() == b"someone else's"


def test_one_signer_serves_a_key(made: Any, request_for: Callable[..., SigningRequest]) -> None:
    """PERF-02: what does not differ by file is made once for each key, format and set of options."""
    method, key, other = LocalSigning(), Key(), Key()
    for number, (used, options) in enumerate(
        [
            (key, {}),
            (key, {}),
            (other, {}),
            (key, {"detached": "true"}),
            (key, {"pem": "true"}),
            (key, {"pem": "no"}),
            (key, {"ignore_owner_restrictions": "true"}),
        ]
    ):
        method.sign(request_for(used, f"out{number}", **options))
    assert made == [
        (Format.CADES, key, False, False, False),
        (Format.CADES, other, False, False, False),
        (Format.CADES, key, True, False, False),
        (Format.CADES, key, False, True, False),
        (Format.CADES, key, False, False, True),
    ]


def test_threads_share_the_signer(made: Any, request_for: Callable[..., SigningRequest]) -> None:
    """PIPE-70: slots of one process sign with the same signer."""
    method, requests = LocalSigning(), []
    key = Key()
    requests = [request_for(key, f"out{number}") for number in range(8)]
    threads = [threading.Thread(target=method.sign, args=(request,)) for request in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert all(request.target.read_bytes() == b"signed a file" for request in requests)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FormatRefused("no PDF"), "sign.failed"),
        (ContentChanged("other bytes"), "approval.content-changed"),
        (PermanentFailure("card gone"), "sign.failed"),
        (TemporaryFailure("busy", code="job.input-held"), "job.input-held"),
        (OSError(28, "No space left on device"), "sign.failed"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_a_failure_ends_the_job_and_leaves_no_half_file(
    error: Exception, code: str, made: Any, request_for: Callable[..., SigningRequest]
) -> None:
    """PIPE-86: code and text for the job; half a signature is removed."""
    key: Any = Key()
    key.error = error
    request = request_for(key)
    with pytest.raises(StepFailed) as caught:
        LocalSigning().sign(request)
    assert caught.value.code == code
    assert caught.value.__cause__ is error
    assert not request.target.exists()


def test_any_other_error_leaves_no_half_file_either(made: Any, request_for: Callable[..., SigningRequest]) -> None:
    """PIPE-86: the guard turns it into a failure; the file is gone by then."""
    key: Any = Key()
    key.error = ZeroDivisionError("a fault")
    request = request_for(key)
    with pytest.raises(ZeroDivisionError):
        LocalSigning().sign(request)
    assert not request.target.exists()


def test_a_missing_staged_file_is_named(made: Any, request_for: Callable[..., SigningRequest]) -> None:
    """PIPE-86: the text names the file that is not there."""
    request = request_for(Key())
    request.staged.unlink()
    with pytest.raises(StepFailed, match="staged"):
        LocalSigning().sign(request)


def test_without_a_key_nothing_is_signed(made: Any, request_for: Callable[..., SigningRequest]) -> None:
    """PIPE-71: a degraded profile has no key."""
    with pytest.raises(StepFailed, match="no opened key"):
        LocalSigning().sign(request_for(None))


def test_nothing_is_dispatched_and_nothing_known_afterwards() -> None:
    """PIPE-32: local signing has no remote side."""
    method = LocalSigning()
    assert isinstance(method, SigningMethod)
    for call in (method.poll, method.withdraw):
        with pytest.raises(PermanentFailure):
            call(Dispatched("reference"))
    assert isinstance(method.settle("job"), Unknown)
