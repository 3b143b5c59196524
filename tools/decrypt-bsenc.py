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
import io
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from typing import BinaryIO, NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import GCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

NOT_AN_ENVELOPE, DOES_NOT_OPEN, USAGE_OR_IO, INTERRUPTED = 1, 2, 3, 130
HEADER, TAG = 8 + 1 + 12, 16
PIECE = 1 << 20


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


def decrypt(envelope: BinaryIO, key: bytes, put: Callable[[bytes], object]) -> int:
    """Give the plaintext to `put` piece by piece and return its length, or raise `Ended`.

    What was put counts only once this returns: the tag comes last.
    """
    left = envelope.seek(0, os.SEEK_END) - HEADER - TAG
    envelope.seek(0)
    if left < 0:
        raise Ended(NOT_AN_ENVELOPE, "too short: an envelope has at least 37 bytes")
    header = envelope.read(HEADER)
    if header[0:8] != b"BSENC\x00\x00\x00":
        raise Ended(NOT_AN_ENVELOPE, "unknown magic: this is not a BSENC envelope")
    if header[8] != 1:
        raise Ended(NOT_AN_ENVELOPE, f"unsupported version {header[8]}: a newer tool is needed")
    decryptor = Cipher(AES(key), GCM(header[9:21])).decryptor()
    length = left
    while left:
        piece = envelope.read(min(left, PIECE))
        if not piece:
            raise Ended(NOT_AN_ENVELOPE, "it became shorter while it was read")
        put(decryptor.update(piece))
        left -= len(piece)
    try:
        decryptor.finalize_with_tag(envelope.read(TAG))
    except (InvalidTag, ValueError):
        raise Ended(
            DOES_NOT_OPEN, "it does not open: wrong password, salt or iterations, or the file is damaged or cut"
        ) from None
    return length


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
        try:
            with open(options.password_file, encoding="utf-8-sig", newline="") as file:
                text = file.read()
        except UnicodeDecodeError:
            raise Ended(USAGE_OR_IO, f"{options.password_file} is not UTF-8; save it in that encoding") from None
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


def read_envelope(path: str) -> BinaryIO:
    """Open the envelope; what can be read once only is kept in memory, as it is."""
    if path == "-":
        if sys.stdin is None:
            raise Ended(USAGE_OR_IO, "standard input is closed")
        return io.BytesIO(sys.stdin.buffer.read())
    file = open(path, "rb")  # noqa: SIM115 - the caller closes it
    if file.seekable():
        return file
    with file:
        return io.BytesIO(file.read())


def write_out(envelope: BinaryIO, key: bytes) -> int:
    """Write to standard output, after a first pass that found the tag to fit."""
    if sys.stdout is None:
        raise Ended(USAGE_OR_IO, "standard output is closed")
    decrypt(envelope, key, len)
    # A buffer of our own: where Python runs unbuffered, a full disk takes a part of a write and is no error.
    with open(sys.stdout.fileno(), "wb", closefd=False) as out:
        return decrypt(envelope, key, out.write)


def write_file(path: str, envelope: BinaryIO, key: bytes, *, replaces: bool) -> int:
    """Write a file under another name first, and never over an existing one unless asked to; mode 0600."""
    folder = os.path.dirname(path) or os.curdir  # noqa: PTH120 - a script of plain functions
    if not os.path.isdir(folder):  # noqa: PTH112
        raise Ended(USAGE_OR_IO, f"{path} cannot be written: its folder is not there")
    descriptor, beside = tempfile.mkstemp(prefix=".decrypt-", suffix=".tmp", dir=folder)
    try:
        with open(descriptor, "wb") as out:
            length = decrypt(envelope, key, out.write)
            out.flush()
            os.fsync(out.fileno())
        if replaces or not name_once(beside, path):
            os.replace(beside, path)  # noqa: PTH105
    finally:
        if os.path.lexists(beside):
            os.remove(beside)  # noqa: PTH107
    return length


def name_once(beside: str, path: str) -> bool:
    """Give a whole file its name, which fails where another was first; where there are no links, only take the name."""
    try:
        os.link(beside, path)
        return True
    except FileExistsError:
        raise
    except OSError:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        return False


def run() -> None:
    """Do what the options say."""
    options = read_options()
    salt = read_salt(options.salt_b64)
    if not 10_000 <= options.iterations <= 100_000_000:
        raise Ended(USAGE_OR_IO, "the iterations must be 10000 to 100000000")
    if options.target != "-":
        if os.path.isdir(options.target) or not os.path.basename(options.target):  # noqa: PTH112, PTH119
            raise Ended(USAGE_OR_IO, f"--out must name a file, which '{options.target}' is not")
        if not options.force and os.path.lexists(options.target):
            raise Ended(USAGE_OR_IO, f"{options.target} exists already; --force replaces it")
    password = read_password(options)
    if not password:
        raise Ended(USAGE_OR_IO, "the password is empty")
    with read_envelope(options.source) as envelope:
        try:
            key = derive_key(password, salt, options.iterations)
        except UnicodeEncodeError:
            raise Ended(USAGE_OR_IO, "the password is no Unicode text; see to the encoding of the terminal") from None
        if options.target == "-":
            length = write_out(envelope, key)
        else:
            length = write_file(options.target, envelope, key, replaces=options.force)
    say(f"{length} bytes written to {options.target}")


def say(text: str) -> None:
    """Tell on standard error, if there is one; `print` would take standard output in its place."""
    if sys.stderr is not None:
        print(text, file=sys.stderr)


def main() -> int:
    """Run, and return the exit code."""
    try:
        run()
    except Ended as error:
        say(f"decrypt-bsenc: {error}")
        return error.code
    except EOFError:
        say("decrypt-bsenc: no password was given")
        return USAGE_OR_IO
    except OSError as error:
        say(f"decrypt-bsenc: {error}")
        return USAGE_OR_IO
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    # As Ctrl+C does, so that no half-written clear file stays; under `nohup` a hang-up keeps its meaning.
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    sys.exit(main())
