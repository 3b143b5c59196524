"""`Encryption`: whether outputs leave encrypted, and with which key (CFG-115 to CFG-119, ENC-14 to ENC-20)."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

import attrs

from bulksigner.contract.settings import Secret, option
from bulksigner.encryption.key import (
    DEFAULT_ITERATIONS,
    FEWEST_ITERATIONS,
    MOST_ITERATIONS,
    SHORTEST_SALT_BYTES,
    find_iterations_fault,
    read_salt,
)
from bulksigner.settings.findings import Findings

__all__ = ["PASSWORD_VARIABLE", "EncryptionSettings", "resolve_encryption"]

PASSWORD_VARIABLE = "BULK_SIGNER_ENCRYPTION_PASSWORD"  # noqa: S105 - the name of a variable
ADVISED_PASSWORD_CHARACTERS = 16


@attrs.frozen
class EncryptionSettings:
    """`Encryption`; looked at only while it is enabled."""

    enabled: bool = option(False, help="Let profiles encrypt their outputs; without it none may.")
    password: Secret = option(Secret(""), help="Password of every envelope, unless the variable below has one.")
    password_env_var: str = option(
        PASSWORD_VARIABLE, help="Variable that holds the password; one that is not empty wins over `Password`."
    )
    salt: str = option(
        "",
        help=f"Salt of the deployment: standard base64, {SHORTEST_SALT_BYTES} bytes or more, 32 advised. Not secret; "
        "once it changes, earlier files open with the former one only.",
    )
    iterations: int = option(
        DEFAULT_ITERATIONS,
        help=f"Rounds of PBKDF2, {FEWEST_ITERATIONS} to {MOST_ITERATIONS}; each start pays for them.",
    )


def resolve_encryption(given: EncryptionSettings, environ: Mapping[str, str], findings: Findings) -> EncryptionSettings:
    """Take the password from where it is, and refuse all that is wrong at once (ENC-20)."""
    if not given.enabled:
        return given
    found = environ.get(given.password_env_var, "")
    password = Secret(found) if found else given.password
    findings.keep_secret(password)
    _check_password(password.reveal(), given.password_env_var if found else "Encryption:Password", given, findings)
    if not given.salt:
        findings.refuse(
            "Encryption:Salt",
            "is missing.",
            "Make one and keep it for good, such as with: openssl rand -base64 32",
        )
    else:
        try:
            read_salt(given.salt)
        except ValueError as error:
            findings.refuse("Encryption:Salt", f"{error}.", "Correct it; the files encrypted so far need the same one.")
    fault = find_iterations_fault(given.iterations)
    if fault is not None:
        findings.refuse(
            "Encryption:Iterations",
            f"{fault}.",
            f"Write {DEFAULT_ITERATIONS}, unless files are encrypted with another count already.",
        )
    return attrs.evolve(given, password=password)


def _check_password(password: str, where: str, given: EncryptionSettings, findings: Findings) -> None:
    if not password:
        variable = given.password_env_var
        other = f"as is the variable {variable}" if variable else "and Encryption:PasswordEnvVar names no variable"
        findings.refuse(
            "Encryption:Password",
            f"is empty, {other}.",
            "Set the variable, or the key, to a long random text, and keep it safe: no file opens without it.",
        )
        return
    try:
        password.encode("utf-8")
    except UnicodeEncodeError:
        findings.refuse(where, "is no Unicode text (not shown).", "Set it again, in UTF-8.")
        return
    if password != password.strip():
        findings.warn(f"{where} begins or ends with white space, which counts; one typed again may differ (ENC-15).")
    if not unicodedata.is_normalized("NFC", password):
        findings.warn(f"{where} is not in the Unicode form NFC; typed again on another machine it may differ (ENC-15).")
    if len(password) < ADVISED_PASSWORD_CHARACTERS:
        findings.warn(
            f"{where} is shorter than {ADVISED_PASSWORD_CHARACTERS} characters; choose a longer one before the first "
            "file is encrypted (ENC-16)."
        )
