"""The one scrubber: nothing secret leaves in a log line, a message that is stored, or a readiness detail."""

from __future__ import annotations

import base64
import functools
import html
import json
import re
import threading
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from bulksigner.contract.settings import Secret

__all__ = [
    "MASK",
    "Scrubber",
    "is_sensitive",
    "list_block_secrets",
    "list_environment_secrets",
    "mask_cpf",
    "mask_emails",
]

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
_ESCAPE = re.compile("%[0-9A-F]{2}")
_CREDENTIALS = re.compile(r"://|password|pwd", re.IGNORECASE)
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_EMAIL = re.compile(r"([\w.+-])[\w.+-]*@((?:[\w-]+\.)*[\w-]+)")
# Ids, digests and serial numbers first, whose digits are nobody's.
_CPF = re.compile(
    r"[0-9a-f-]{32,}|(?<![0-9A-Za-z])(?:[0-9a-f]{16,}|[0-9A-F]{16,})(?![0-9A-Za-z])"
    r"|(?<!\d)\d{3}\.?\d{3}\.?\d{3}-?(\d{2})(?!\d)"
)
_LINK = re.compile(r"(/approvals/link/)[^/?\s\"']+|(/approvals/cloud/return\?)[^\s\"']+")


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
    return _CPF.sub(lambda match: match[0] if match[1] is None else f"{MASK}.{MASK}.{MASK}-{match[1]}", text)


def _mask_real_cpf(text: str) -> str:
    """Reduce what is a CPF by its form or by its check digits; eleven digits of another kind are left."""

    def mask(match: re.Match[str]) -> str:
        is_cpf = match[1] is not None and ("." in match[0] or _is_cpf(match[0]))
        return mask_cpf(match[0]) if is_cpf else match[0]

    return _CPF.sub(mask, text)


def _is_cpf(text: str) -> bool:
    digits = [int(character) for character in text if character.isdigit()]

    def check(count: int) -> int:
        return (
            sum(weight * digit for weight, digit in zip(range(count + 1, 1, -1), digits, strict=False)) * 10 % 11 % 10
        )

    return len(set(digits)) > 1 and digits[9:] == [check(9), check(10)]


def _mask_links(text: str) -> str:
    """Take the token out of a link and every value out of a return (SEC-58)."""
    if "/approvals/" not in text:
        return text
    return _LINK.sub(lambda match: f"{match[1] or match[2]}{MASK}", text)


def list_environment_secrets(environ: Mapping[str, str]) -> Iterator[Secret]:
    """Yield the values of variables whose name says that they are secret, such as a PIN or a database's password.

    A value that is the path of something that is there names a secret, and is none; nor is a connection string that
    names a file, which every line about that file would lose.
    """
    for name, value in environ.items():
        if not is_sensitive(name) or (value.startswith("/") and _is_there(value)):
            continue
        if "connectionstring" not in name.lower().replace("_", "") or _CREDENTIALS.search(value):
            yield Secret(value)


def list_block_secrets(block: object, environ: Mapping[str, str]) -> Iterator[Secret]:
    """Yield the secrets of a block of settings, and what the variables hold that it names, as by `PinEnvVar`.

    Such a variable may have any name, so `list_environment_secrets` need not know it.
    """
    cls = type(block)
    for field in attrs.fields(cls) if attrs.has(cls) else ():
        value = getattr(block, field.name)
        if isinstance(value, Secret):
            yield value
        elif field.name.endswith("_env_var") and isinstance(value, str) and environ.get(value):
            yield Secret(environ[value])


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


class Scrubber:
    """Replaces the literal text of every registered secret by `***` (SEC-56).

    Also found: the secret as it looks inside a URL, inside base64 (at any of the three alignments), inside a quoted
    text and inside HTML. Secrets shorter than 12 characters are left alone: they would mask ordinary words.
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
        """Return `text` without secrets, with e-mail addresses and links reduced (SEC-56, SEC-58, SEC-59)."""
        return _mask_links(mask_emails(self._without_secrets(text)))

    def clean_text(self, text: str) -> str:
        """Return a message as it may be stored for good: scrubbed, and with each CPF reduced (SEC-57, SEC-59)."""
        return _mask_real_cpf(self.scrub(text))

    def clean_facts(self, facts: Mapping[str, object]) -> Mapping[str, object]:
        """Return the facts of an event as they may be stored: no secrets, and `***` for what is named like one.

        E-mail addresses and numbers stay: facts hold paths and names that programs look up again.
        """
        return {name: MASK if is_sensitive(name) else self._clean(value) for name, value in facts.items()}

    def _clean(self, value: object) -> object:
        if isinstance(value, str):
            return self._without_secrets(value)
        if isinstance(value, Mapping):
            return self.clean_facts(value)
        if isinstance(value, Sequence):
            return [self._clean(item) for item in value]
        return value

    def _without_secrets(self, text: str) -> str:
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return text


def _forms_of(secret: str) -> set[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    in_urls = {urllib.parse.quote(raw, safe=""), urllib.parse.quote(raw), urllib.parse.quote_plus(raw)}
    forms = {
        secret,
        *in_urls,
        *(_ESCAPE.sub(lambda match: match[0].lower(), form) for form in in_urls),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        ascii(secret)[1:-1],
        html.escape(secret),
    }
    for offset in range(3):
        # Only the characters that depend on nothing but the secret: the first ones mix with what stands before it,
        # the last one with what follows.
        encoded = base64.b64encode(b"\0" * offset + raw)
        whole = encoded[(offset * 8 + 5) // 6 : (offset + len(raw)) * 8 // 6].decode("ascii")
        forms |= {whole, whole.replace("+", "-").replace("/", "_")}
    return {form for form in forms if len(form) >= SHORTEST_SECRET}
