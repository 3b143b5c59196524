"""Where signing and checking run: in this process or in a pool of warm worker processes (PERF-06).

The seam is given paths and a key reference; key material itself never crosses it. A reference travels over the
worker's pipe only, never on a command line or in the environment.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

import attrs

from bulksigner.contract.certificate import OpenedKey
from bulksigner.contract.errors import StepFailed
from bulksigner.contract.signing import Format, Measured, Signed, SigningRequest
from bulksigner.formats import dispatch, self_test
from bulksigner.formats.model import Checked, Expectation
from bulksigner.plugin_system.registry import Registry
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
    metadata: Mapping[str, str] = attrs.field(factory=dict, repr=False)


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
        """Sign one file; the key was not used when the error has the code `approval.content-changed`."""
        ...

    def check(self, task: CheckTask) -> Checked:
        """Check one signed file. Raises `CheckFailed`, or `StepFailed` where it cannot be checked."""
        ...

    def find_fault(self) -> str | None:
        """Sign and check a sample of each format where jobs will be; return what went wrong, or None (API-82).

        Afterwards everything that only the first use of a format costs is paid.
        """
        ...

    def close(self) -> None:
        """End worker processes, if any; calls under way fail."""
        ...


def sign_here(task: SignTask, registry: Registry, key: OpenedKey) -> Measured:
    """Sign in this process; what a method raises against its contract becomes `PermanentFailure` naming its plugin."""
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
        metadata=task.metadata,
    )
    method = registry.signing_method(task.method)
    with registry.guard(method):
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
        raise StepFailed(f"The signed file cannot be read back: {error.strerror}.") from error


class InProcessEngine:
    """Signs and checks in the thread that calls; `formats` are those that jobs may ask for."""

    def __init__(self, registry: Registry, formats: Collection[Format] = tuple(Format)) -> None:
        self._registry = registry
        self._formats = tuple(formats)
        self._keys: dict[str, OpenedKey] = {}

    @property
    def label(self) -> str:
        return "in this process"

    def open(self, reference: KeyReference, key: OpenedKey) -> None:
        self._keys[reference.profile] = key

    def sign(self, task: SignTask) -> Measured:
        key = self._keys.get(task.profile)
        if key is None:
            raise StepFailed(f"The key of profile '{task.profile}' is not open.")
        return sign_here(task, self._registry, key)

    def check(self, task: CheckTask) -> Checked:
        return check_here(task)

    def find_fault(self) -> str | None:
        return self_test.find_fault(self._formats)

    def close(self) -> None:
        self._keys.clear()
