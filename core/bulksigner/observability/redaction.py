"""The one scrubber: nothing secret leaves in a log line, a message that is stored, or a readiness detail."""

from __future__ import annotations

import base64
import functools
import json
import re
import threading
import urllib.parse
from collections.abc import Iterable

from bulksigner.contract.settings import Secret

__all__ = ["MASK", "Scrubber", "is_sensitive", "mask_cpf", "mask_emails"]

MASK = "***"
SHORTEST_SECRET = 12

_SENSITIVE = (
    "password",
    "license",
    "apikey",
    "secret",
    "accountkey",
    "salt",
    "token",
    "connectionstring",
    "authorization",
    "cookie",
    "cpf",
)
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_EMAIL = re.compile(r"([\w.+-])[\w.+-]*@((?:[\w-]+\.)*[\w-]+)")
_CPF = re.compile(r"(?<!\d)\d{3}\.?\d{3}\.?\d{3}-?(\d{2})(?!\d)")


@functools.lru_cache(maxsize=1024)
def is_sensitive(name: str) -> bool:
    """Tell whether a property of this name is written as `***` (SEC-55)."""
    flat = "".join(character for character in name.lower() if character.isalnum())
    if any(word in flat for word in _SENSITIVE):
        return True
    # `Pin` only as a part of its own, not inside `Mapping` (SEC-55).
    return any(part.lower() in ("pin", "pins") for part in _PART.findall(name))


def mask_emails(text: str) -> str:
    """Reduce each e-mail address to its first letter and domain (SEC-59)."""
    if "@" not in text:
        return text
    return _EMAIL.sub(rf"\1{MASK}@\2", text)


def mask_cpf(text: str) -> str:
    """Reduce each CPF, such as the one in a certificate's subject, to its check digits (SEC-59)."""
    return _CPF.sub(rf"{MASK}.{MASK}.{MASK}-\1", text)


class Scrubber:
    """Replaces the literal text of every registered secret by `***` (SEC-56).

    Also found: the secret as it looks inside a URL, inside base64 (at any of the three alignments) and inside a
    quoted text. Secrets shorter than 12 characters are left alone: they would mask ordinary words.
    """

    def __init__(self, secrets: Iterable[str | Secret] = ()) -> None:
        self._lock = threading.Lock()
        self._forms: tuple[str, ...] = ()
        for secret in secrets:
            self.register(secret)

    def register(self, secret: str | Secret) -> None:
        """Add a secret; every line rendered from now on is clean of it."""
        text = secret.reveal() if isinstance(secret, Secret) else secret
        if len(text) < SHORTEST_SECRET:
            return
        with self._lock:
            # Longest first, so that no form is broken up by a shorter one that it contains.
            self._forms = tuple(sorted({*self._forms, *_forms_of(text)}, key=lambda form: (-len(form), form)))

    def scrub(self, text: str) -> str:
        """Return `text` without any registered secret and with e-mail addresses reduced (SEC-56, SEC-59)."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return mask_emails(text)


def _forms_of(secret: str) -> set[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    forms = {
        secret,
        urllib.parse.quote(raw, safe=""),
        urllib.parse.quote(raw),
        urllib.parse.quote_plus(raw),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
    }
    for offset in range(3):
        # Only the characters that depend on nothing but the secret: the first ones mix with what stands before it,
        # the last one with what follows.
        encoded = base64.b64encode(b"\0" * offset + raw)
        whole = encoded[(offset * 8 + 5) // 6 : (offset + len(raw)) * 8 // 6].decode("ascii")
        forms |= {whole, whole.replace("+", "-").replace("/", "_")}
    return {form for form in forms if len(form) >= SHORTEST_SECRET}
