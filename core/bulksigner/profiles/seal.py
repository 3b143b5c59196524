"""Seals the secrets of stored profiles: AES-256-GCM under a key derived from `Signing:ProfileSecretsKey` (SEC-47)."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable, Iterable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.settings import Secret

__all__ = ["PDF_PASSWORD", "SECRETS_KEY", "Sealer", "field_of", "key_of"]

SECRETS_KEY = "Signing:ProfileSecretsKey"
PDF_PASSWORD = "Pdf:Passwords"  # noqa: S105 - the name of a field
"""The field of every password of PDF files; their order is that of the list."""

_ITERATIONS = 600_000
_KEY_BYTES = 32
_NONCE_BYTES = 12
_VERSION = b"\x01"

# SEC-48 names these fields; what other plugins keep secret goes by source and key.
_FIELDS = {"Pfx:Password": "Pkcs12Password", "AzureKeyVault:AppSecret": "KeyVaultAppSecret"}
_KEYS = {field: path for path, field in _FIELDS.items()}


def field_of(source: str, key: str) -> str:
    """Return the field under which a secret key of a certificate block is sealed."""
    path = f"{source}:{key}"
    return _FIELDS.get(path, path)


def key_of(field: str) -> str:
    """Return the key inside the block again."""
    return _KEYS.get(field, field).partition(":")[2]


class Sealer:
    """Seals and opens values; the key is derived at the first use, once, and never leaves this object.

    `salt` is asked for then, so that a deployment without secrets needs neither.
    """

    def __init__(self, profile_secrets_key: Secret, salt: Callable[[], bytes]) -> None:
        self._secret = profile_secrets_key
        self._salt = salt
        self._cipher: AESGCM | None = None
        self._deriving = threading.Lock()

    @property
    def has_key(self) -> bool:
        """Tell whether `Signing:ProfileSecretsKey` is set."""
        return bool(self._secret)

    def seal(self, profile_id: str, field: str, value: bytes) -> bytes:
        """Return the envelope of SEC-48: version, nonce, ciphertext and tag."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return _VERSION + nonce + self._derived().encrypt(nonce, value, _bind(profile_id, field))

    def seal_all(self, profile_id: str, field: str, secrets: Iterable[Secret]) -> tuple[bytes, ...]:
        """Return an envelope for each secret of a list, all of one field."""
        return tuple(self.seal(profile_id, field, secret.reveal().encode("utf-8")) for secret in secrets)

    def open_all(self, profile_id: str, field: str, envelopes: Iterable[bytes]) -> tuple[Secret, ...]:
        """Return the secrets of a list again; raises `PermanentFailure` as `open` does."""
        return tuple(Secret(self.open(profile_id, field, one).decode("utf-8", "replace")) for one in envelopes)

    def open(self, profile_id: str, field: str, envelope: bytes) -> bytes:
        """Return the value; raises `PermanentFailure` that names key and field and shows neither value nor path."""
        nonce, sealed = envelope[1 : 1 + _NONCE_BYTES], envelope[1 + _NONCE_BYTES :]
        if envelope[:1] != _VERSION or len(nonce) != _NONCE_BYTES:
            raise _refuse(field)
        try:
            return self._derived().decrypt(nonce, sealed, _bind(profile_id, field))
        except InvalidTag as error:
            raise _refuse(field) from error

    def _derived(self) -> AESGCM:
        with self._deriving:
            if self._cipher is None:
                if not self._secret:
                    raise PermanentFailure(f"{SECRETS_KEY} is not set, and a stored secret needs it.")
                password = self._secret.reveal().encode("utf-8")
                key = hashlib.pbkdf2_hmac("sha256", password, self._salt(), _ITERATIONS, _KEY_BYTES)
                self._cipher = AESGCM(key)
            return self._cipher


def _bind(profile_id: str, field: str) -> bytes:
    """Return the associated data that ties a value to its row and column (SEC-48)."""
    return f"profile-secret|1|{profile_id}|{field}".encode()


def _refuse(field: str) -> PermanentFailure:
    """Make the one refusal there is: a wrong key and an edited row cannot be told apart (SEC-49)."""
    return PermanentFailure(
        f"the stored secret {field} does not open: {SECRETS_KEY} is not the key it was sealed with, "
        "or the row was edited. Set the former key, or enter the secret again."
    )
