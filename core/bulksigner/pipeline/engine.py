"""Where signing and checking run: in this process or in a pool of warm worker processes (PERF-06).

The seam is given paths and a key reference; key material itself never crosses it. A reference travels over the
worker's pipe only, never on a command line or in the environment.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import attrs

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.errors import BulkSignerError, StepFailed
from bulksigner.contract.signing import Format, Measured, Signed, SigningMethod, SigningRequest
from bulksigner.formats import dispatch
from bulksigner.formats.model import Checked, Expectation
from bulksigner.profiles.model import KeyReference

__all__ = ["CheckTask", "Engine", "InProcessEngine", "SignTask", "check_here", "sign_here"]


@attrs.frozen
class SignTask:
    """One staged file to sign: where it is, what it must be, where the signed file goes, and whose key signs."""

    job_id: str
    method: str
    profile: str
    file_name: str
    format: Format
    staged: Path
    measured: Measured
    target: Path
    signed_at: datetime.datetime
    options: Mapping[str, str]


@attrs.frozen
class CheckTask:
    """One signed file to check as it lies on disk (BEY-01)."""

    artifact: Path
    expectation: Expectation
    pem: bool


class Engine(Protocol):
    """Signs and checks; each call blocks until it is done and may come from any slot."""

    @property
    def label(self) -> str:
        """Name the engine for banner and benchmark."""
        ...

    def open(self, reference: KeyReference, key: OpenedKey) -> None:
        """Make a key known before its first job, so that no job pays for opening it (PERF-01)."""
        ...

    def sign(self, task: SignTask) -> Measured:
        """Sign one file. Raises `StepFailed`; the key was not used when the code is `approval.content-changed`."""
        ...

    def check(self, task: CheckTask) -> Checked:
        """Check one signed file. Raises `StepFailed` with `verify.failed`."""
        ...

    def close(self) -> None:
        """End worker processes, if any; calls under way fail."""
        ...


def sign_here(task: SignTask, method: SigningMethod, key: OpenedKey) -> Measured:
    """Sign in this process, turning every fault into `StepFailed`."""
    request = SigningRequest(
        job_id=task.job_id,
        file_name=task.file_name,
        format=task.format,
        staged=task.staged,
        staged_measured=task.measured,
        target=task.target,
        key=key,
        signed_at=task.signed_at,
        options=task.options,
    )
    outcome = method.sign(request)
    if not isinstance(outcome, Signed):
        raise StepFailed(f"Method {task.method} did not sign here but answered {type(outcome).__name__}.")
    return outcome.measured


def check_here(task: CheckTask) -> Checked:
    """Check in this process, on the bytes as they are read back from storage."""
    try:
        descriptor = os.open(task.artifact, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as artifact:
            return dispatch.check(artifact, task.expectation, pem=task.pem)
    except OSError as error:
        raise StepFailed(f"The signed file cannot be read back: {error.strerror}.", code="verify.failed") from error
    except BulkSignerError as error:
        raise StepFailed(error.message, code=error.code) from error


class InProcessEngine:
    """Signs and checks in the thread that calls."""

    def __init__(self, method_named: Callable[[str], SigningMethod]) -> None:
        self._method_named = method_named
        self._keys: dict[str, OpenedKey] = {}

    @property
    def label(self) -> str:
        return "in this process"

    def open(self, reference: KeyReference, key: OpenedKey) -> None:
        self._keys[reference.profile] = key

    def sign(self, task: SignTask) -> Measured:
        key = self._keys.get(task.profile)
        if key is None:
            raise StepFailed(f"The key of profile '{task.profile}' is not open.", code="sign.failed")
        return sign_here(task, self._method_named(task.method), key)

    def check(self, task: CheckTask) -> Checked:
        return check_here(task)

    def close(self) -> None:
        self._keys.clear()
