#!/usr/bin/env python3
"""Open a BSENC v1 envelope. One file; needs Python 3.9 or later and the package `cryptography`, nothing else.

    python decrypt-bsenc.py --in report.pdf.enc --out report.pdf --salt-b64 SALT --password-env VAR

The format: 8 bytes `BSENC` and three zeros, 1 byte version (1), 12 bytes nonce, then AES-256-GCM ciphertext with its
16-byte tag at the end; no associated data. The key is PBKDF2-HMAC-SHA256 of password (UTF-8, exactly as given), salt
and iterations, 32 bytes. Exit codes: 0 done, 1 not such an envelope, 2 it does not open, 3 wrong options or I/O.
"""

import argparse
import base64
import getpass
import os
import sys
from typing import NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

NOT_AN_ENVELOPE, DOES_NOT_OPEN, USAGE_OR_IO = 1, 2, 3
SHORTEST_ENVELOPE = 8 + 1 + 12 + 16


class Ended(Exception):
    """End with a code and a message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Parser(argparse.ArgumentParser):
    """End with 3 for wrong options."""

    def error(self, message: str) -> NoReturn:
        raise Ended(USAGE_OR_IO, message)


def derive_key(password: str, salt: bytes, iterations: int) -> bytes:
    """Derive the 32 bytes of the key."""
    return PBKDF2HMAC(algorithm=SHA256(), length=32, salt=salt, iterations=iterations).derive(password.encode("utf-8"))


def decrypt(envelope: bytes, key: bytes) -> bytes:
    """Return the plaintext of an envelope, or raise `Ended`."""
    if len(envelope) < SHORTEST_ENVELOPE:
        raise Ended(NOT_AN_ENVELOPE, "too short: an envelope has at least 37 bytes")
    if envelope[0:8] != b"BSENC\x00\x00\x00":
        raise Ended(NOT_AN_ENVELOPE, "unknown magic: this is not a BSENC envelope")
    if envelope[8] != 1:
        raise Ended(NOT_AN_ENVELOPE, f"unsupported version {envelope[8]}: a newer tool is needed")
    nonce, ciphertext_and_tag = envelope[9:21], envelope[21:]
    try:
        return AESGCM(key).decrypt(nonce, ciphertext_and_tag, None)
    except InvalidTag:
        raise Ended(
            DOES_NOT_OPEN, "it does not open: wrong password, salt or iterations, or the file is damaged or cut"
        ) from None


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = Parser(description="Open a BSENC v1 envelope.")
    parser.add_argument("--in", dest="source", required=True, metavar="PATH", help="the envelope, or - for stdin")
    parser.add_argument(
        "--out", dest="target", required=True, metavar="PATH", help="the file to write, or - for stdout"
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--password", metavar="TEXT", help="the password; other users of the machine may see it")
    group.add_argument("--password-env", metavar="VAR", help="variable that holds the password")
    group.add_argument("--password-file", metavar="FILE", help="file that holds it (UTF-8)")
    parser.add_argument("--salt-b64", required=True, metavar="TEXT", help="the salt, in base64")
    parser.add_argument("--iterations", type=int, default=600000, metavar="N", help="default 600000")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    return parser.parse_args()


def read_password(options: argparse.Namespace) -> str:
    """Take the password from where the options say, or ask for it."""
    if options.password is not None:
        return str(options.password)
    if options.password_env is not None:
        if options.password_env not in os.environ:
            raise Ended(USAGE_OR_IO, f"the variable {options.password_env} is not set")
        return os.environ[options.password_env]
    if options.password_file is not None:
        with open(options.password_file, encoding="utf-8-sig", newline="") as file:
            text = file.read()
        return text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")
    if options.source == "-":
        raise Ended(USAGE_OR_IO, "name the password with --password-env or --password-file")
    return getpass.getpass("Password: ")


def read_salt(text: str) -> bytes:
    """Decode the salt strictly."""
    try:
        salt = base64.b64decode(text, validate=True)
    except ValueError:
        raise Ended(USAGE_OR_IO, "the salt is not standard base64") from None
    if len(salt) < 16:
        raise Ended(USAGE_OR_IO, "the salt must be at least 16 bytes in standard base64")
    return salt


def write(path: str, content: bytes, *, replaces: bool) -> None:
    """Write a file under another name first, and never over an existing one unless asked to."""
    if path == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    beside = f"{path}.{os.getpid()}.tmp"
    created = [beside]
    try:
        with open(
            os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600), "wb"
        ) as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        if not replaces:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.replace(beside, path)  # noqa: PTH105 - a script of plain functions
        created.clear()
    finally:
        for leftover in created:
            if os.path.exists(leftover):  # noqa: PTH110
                os.remove(leftover)  # noqa: PTH107


def run() -> None:
    """Do what the options say."""
    options = read_options()
    salt = read_salt(options.salt_b64)
    if not 10_000 <= options.iterations <= 100_000_000:
        raise Ended(USAGE_OR_IO, "the iterations must be 10000 to 100000000")
    if options.target != "-" and not options.force and os.path.lexists(options.target):
        raise Ended(USAGE_OR_IO, f"{options.target} exists already; --force replaces it")
    password = read_password(options)
    if not password:
        raise Ended(USAGE_OR_IO, "the password is empty")
    if options.source == "-":
        envelope = sys.stdin.buffer.read()
    else:
        with open(options.source, "rb") as file:
            envelope = file.read()
    content = decrypt(envelope, derive_key(password, salt, options.iterations))
    write(options.target, content, replaces=options.force)
    print(f"{len(content)} bytes written to {options.target}", file=sys.stderr)


def main() -> int:
    """Run, and return the exit code."""
    try:
        run()
    except Ended as error:
        print(f"decrypt-bsenc: {error}", file=sys.stderr)
        return error.code
    except EOFError:
        print("decrypt-bsenc: no password was given", file=sys.stderr)
        return USAGE_OR_IO
    except (OSError, UnicodeError) as error:
        print(f"decrypt-bsenc: {error}", file=sys.stderr)
        return USAGE_OR_IO
    return 0


if __name__ == "__main__":
    sys.exit(main())
