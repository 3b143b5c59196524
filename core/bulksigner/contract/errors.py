"""What goes wrong, as one tree.

BulkSignerError                 code, and a sentence that says what to do
├── ConfigurationRefused        every failure at once: key, variable, what is wrong, remedy (exit 78)
├── StartRefused                anything else that stops a start, with its own exit code (OPS-24 to OPS-30)
├── Refusal                     a person asked for what the rules do not allow
│   ├── NotFound
│   ├── NotAllowed
│   └── RaceLost
├── PluginFailed                load time; recorded, never raised past the manager
├── ProviderError               what providers raise on purpose
│   ├── TemporaryFailure        may be asked again where asking again is harmless
│   ├── PermanentFailure        will not get better by itself
│   └── HeldElsewhere           someone else has the file; an expected outcome
└── StepFailed                  ends the job: code, scrubbed message, cause
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import attrs

__all__ = [
    "BulkSignerError",
    "ConfigurationRefused",
    "Failure",
    "HeldElsewhere",
    "KeyTrouble",
    "NotAllowed",
    "NotFound",
    "PermanentFailure",
    "PluginFailed",
    "ProviderError",
    "RaceLost",
    "Refusal",
    "StartRefused",
    "StepFailed",
    "TemporaryFailure",
    "join",
]


def join(problem: str, remedy: str) -> str:
    """Join two sentences, ending the first one where its author did not."""
    problem = problem.strip()
    if problem and remedy and problem[-1] not in ".!?:;…":
        problem += "."
    return f"{problem} {remedy}".strip()


class KeyTrouble(enum.Enum):
    """A cause that hits every file of a profile alike, and what became of the key for the file that met it (BEY-20)."""

    UNUSED = "unused"
    """The key certainly signed nothing for the file."""
    PERHAPS_USED = "perhaps-used"


class BulkSignerError(Exception):
    """Say what went wrong, where, and what to do.

    `code` is a key of `contract.codes`, or None where no code exists for it. `trouble` is None where the cause lies in
    the one file, or nobody knows.
    """

    default_code: str | None = None
    default_trouble: KeyTrouble | None = None

    def __init__(self, message: str, *, code: str | None = None, trouble: KeyTrouble | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code if code is not None else self.default_code
        self.trouble = trouble if trouble is not None else self.default_trouble


@attrs.frozen
class Failure:
    """One wrong setting: which key, from where, what is wrong with it and how to mend it (CFG-12).

    `key` is empty where a file or directory is wrong as a whole; `origin` then names it.
    """

    key: str
    problem: str
    remedy: str
    origin: str = ""

    @property
    def variable(self) -> str:
        """Name the environment variable that sets the key (CFG-05)."""
        return self.key.replace("[", ":").replace("]", "").replace(":", "__")

    def line(self) -> str:
        """Render the failure as the one line a refusal prints."""
        told = join(self.problem, self.remedy)
        if not self.key:
            return f"{self.origin}: {told}"
        if self.variable == self.key:
            return f"{self.key}: {told}"
        where = f", from {self.origin}" if self.origin not in ("", f"variable {self.variable}") else ""
        return f"{self.key} (variable {self.variable}{where}): {told}"


class ConfigurationRefused(BulkSignerError):
    """Refuse the start, naming every wrong setting at once (CFG-12); exit code 78."""

    def __init__(self, failures: Sequence[Failure]) -> None:
        super().__init__("\n".join(failure.line() for failure in failures))
        self.failures = tuple(failures)


class StartRefused(BulkSignerError):
    """Refuse the start for a reason outside the settings; `exit_code` is one of OPS-24 to OPS-30."""

    def __init__(self, message: str, *, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Refusal(BulkSignerError):
    """Refuse what a person asked for; status and title follow from the code (API-76)."""

    default_code = "request.invalid"


class NotFound(Refusal):
    """Refuse because the thing asked for does not exist."""

    default_code = "job.not-found"


class NotAllowed(Refusal):
    """Refuse because the rules do not allow it in the present state."""


class RaceLost(Refusal):
    """Refuse because another writer was first; nothing was recorded (PIPE-04)."""

    default_code = "job.race-lost"


class PluginFailed(BulkSignerError):
    """Record that a plugin could not be loaded and why."""


class ProviderError(BulkSignerError):
    """Report a failure from inside a provider, in words an operator understands."""


class TemporaryFailure(ProviderError):
    """Report a failure that may pass; asking again is harmless."""


class PermanentFailure(ProviderError):
    """Report a failure that will not get better by itself."""


class HeldElsewhere(ProviderError):
    """Report that someone else holds the file; an expected outcome, not a fault."""

    default_code = "job.input-held"


class StepFailed(BulkSignerError):
    """End the job as Failed with a code and a message fit to be stored (PIPE-86)."""
