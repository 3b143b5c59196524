"""What reading the settings turns up, collected so that one refusal names every failure (CFG-12)."""

from __future__ import annotations

import attrs

from bulksigner.contract.errors import ConfigurationRefused, Failure
from bulksigner.contract.settings import Secret

__all__ = ["Findings"]


@attrs.define
class Findings:
    """Failures, warnings and notices in the order found, and every secret met on the way (CFG-13)."""

    failures: list[Failure] = attrs.Factory(list)
    warnings: list[str] = attrs.Factory(list)
    notices: list[str] = attrs.Factory(list)
    secrets: list[Secret] = attrs.Factory(list)
    unknown: list[tuple[str, str, str]] = attrs.Factory(list)
    """Keys that nothing declares: the key, where it stands, and what may be meant."""

    def refuse(self, key: str, problem: str, remedy: str, origin: str = "") -> None:
        """Record a failure; a second one of the same key is a consequence of the first and is dropped."""
        if not key or all(failure.key != key for failure in self.failures):
            self.failures.append(Failure(key, problem, remedy, origin))

    def warn(self, text: str) -> None:
        """Record something that does not stop the start."""
        self.warnings.append(text)

    def meet_unknown(self, key: str, origin: str, hint: str) -> None:
        """Warn of a key that nothing declares (CFG-14)."""
        self.unknown.append((key, origin, hint))
        self.warn(f"The key {key} ({origin}) is unknown and has no effect{hint}.")

    def note(self, text: str) -> None:
        """Record a line of information."""
        self.notices.append(text)

    def keep_secret(self, secret: Secret) -> None:
        """Remember a secret for redaction; an empty one hides nothing."""
        if secret and secret not in self.secrets:
            self.secrets.append(secret)

    def raise_failures(self) -> None:
        """Raise `ConfigurationRefused` when there is any failure."""
        if self.failures:
            raise ConfigurationRefused(self.failures)
