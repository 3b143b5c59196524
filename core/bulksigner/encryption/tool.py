"""`bulksigner decrypt` and `decrypt-bsenc`: open what the server encrypted (ENC-28 to ENC-32)."""

from __future__ import annotations

import argparse
import getpass
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from bulksigner.contract.errors import BulkSignerError
from bulksigner.encryption.arguments import SUMMARY, add_arguments
from bulksigner.encryption.envelope import SUFFIX, DoesNotOpen
from bulksigner.encryption.key import EnvelopeKey, find_iterations_fault, read_salt
from bulksigner.encryption.opening import open_file, say

__all__ = ["main"]

EXIT_FORMAT = 1
EXIT_DOES_NOT_OPEN = 2
EXIT_USAGE = 3
EXIT_INTERRUPTED = 130
LONGEST_PASSWORD_FILE_BYTES = 64 * 1024
SLOW_ITERATIONS = 2_000_000
_STANDARD = "-"
_SEPARATORS = (os.sep, os.altsep or os.sep)
Pair = tuple[Path | None, Path | None]


class _Misused(BulkSignerError):
    """Refuse the options, before anything was opened."""


class _Parser(argparse.ArgumentParser):
    """Ends with 3 where others end with 2, which here means that a file did not open (ENC-31)."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None, *, prog: str = "decrypt-bsenc") -> int:
    """Open one envelope, or those of a folder; return 0, or 1 format, 2 does not open, 3 usage or I/O (ENC-31).

    Of several failures the highest code counts. All messages go to standard error.
    """
    parser = _Parser(prog=prog, description=f"{SUMMARY[0].upper()}{SUMMARY[1:]}.")
    add_arguments(parser)
    parsed = parser.parse_args(arguments)
    try:
        with _ending_in_order():
            pairs = _list_pairs(parsed)
            key = _derive(parsed)
            try:
                return max(_open_one(source, target, key, parsed.force) for source, target in pairs)
            finally:
                key.wipe()
    except _Misused as error:
        say(error.message)
        return EXIT_USAGE
    except OSError as error:
        say(_describe(error))
        return EXIT_USAGE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Have a signal to end do what Ctrl+C does, so that no half-written clear file stays; `nohup` keeps its meaning."""
    heeded = [
        number
        for name in ("SIGTERM", "SIGHUP")
        if (number := getattr(signal, name, None)) is not None
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in heeded:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in heeded:
            signal.signal(number, signal.SIG_DFL)


def _open_one(source: Path | None, target: Path | None, key: EnvelopeKey, replaces: bool) -> int:
    name = "standard input" if source is None else str(source)
    try:
        count = open_file(source, target, key, replaces=replaces)
    except DoesNotOpen as error:
        say(f"{name}: {error.message}")
        return EXIT_DOES_NOT_OPEN
    except BulkSignerError as error:
        say(f"{name}: {error.message}")
        return EXIT_FORMAT
    except OSError as error:
        say(f"{name}: {_describe(error)}")
        return EXIT_USAGE
    say(f"{name}: {count} bytes written to {'standard output' if target is None else target}")
    return 0


def _list_pairs(parsed: argparse.Namespace) -> list[Pair]:
    """Say what is to be opened into what."""
    source, target = parsed.source, parsed.target
    for option, text in (("--in", source), ("--out", target)):
        if text == "":
            # What a variable of the shell gives that nobody set; taken for a path it is the current folder.
            raise _Misused(f"{option} is empty.")
    if source == _STANDARD:
        if target is None:
            raise _Misused("Standard input has no name to go by; name the file to write with --out, or write --out -.")
        return [(None, None if target == _STANDARD else Path(target))]
    path = Path(source)
    if path.is_dir():
        if target == _STANDARD:
            raise _Misused("Several files cannot go to standard output; name a folder with --out.")
        folder = path if target is None else Path(target)
        pairs: list[Pair] = [(file, folder / stem) for file, stem in _list_envelopes(path)]
        if not pairs:
            raise _Misused(f"{path} has no file whose name ends in {SUFFIX}.")
        folder.mkdir(parents=True, exist_ok=True)
        return pairs
    if target == _STANDARD:
        return [(path, None)]
    if target is not None:
        place = Path(target)
        if target.endswith(_SEPARATORS) and not place.is_dir():
            raise _Misused(f"{target} is no folder; make it first.")
        return [(path, place / _stem_of(path) if place.is_dir() else place)]
    return [(path, path.with_name(_stem_of(path)))]


def _list_envelopes(folder: Path) -> Iterator[tuple[Path, str]]:
    for file in sorted(folder.iterdir()):
        if file.name.lower().endswith(SUFFIX) and len(file.name) > len(SUFFIX) and file.is_file():
            yield file, file.name[: -len(SUFFIX)]


def _stem_of(path: Path) -> str:
    if not path.name.lower().endswith(SUFFIX) or len(path.name) == len(SUFFIX):
        raise _Misused(f"{path.name} does not end in {SUFFIX}; name the file to write with --out.")
    return path.name[: -len(SUFFIX)]


def _derive(parsed: argparse.Namespace) -> EnvelopeKey:
    try:
        salt = read_salt(parsed.salt_b64)
    except ValueError as error:
        raise _Misused(f"--salt-b64 {error}.") from None
    fault = find_iterations_fault(parsed.iterations)
    if fault is not None:
        raise _Misused(f"--iterations {fault}.")
    password = _read_password(parsed)
    if not password:
        raise _Misused("The password is empty.")
    if parsed.iterations >= SLOW_ITERATIONS:
        say(f"Deriving the key, {parsed.iterations} iterations …")
    try:
        return EnvelopeKey.derive(password, salt, parsed.iterations)
    except UnicodeEncodeError:
        raise _Misused("The password is no Unicode text; see to the encoding of the terminal or the file.") from None


def _read_password(parsed: argparse.Namespace) -> str:
    if parsed.password is not None:
        return str(parsed.password)
    if parsed.password_env is not None:
        found = os.environ.get(parsed.password_env)
        if found is None:
            raise _Misused(f"The variable {parsed.password_env} is not set.")
        return found
    if parsed.password_file is not None:
        return _read_password_file(Path(parsed.password_file))
    return _ask_password()


def _read_password_file(path: Path) -> str:
    with open(path, "rb") as file:
        content = file.read(LONGEST_PASSWORD_FILE_BYTES + 1)
    if len(content) > LONGEST_PASSWORD_FILE_BYTES:
        raise _Misused(f"{path} is longer than {LONGEST_PASSWORD_FILE_BYTES} bytes; it cannot be a password.")
    try:
        # Editors of Windows put a mark before UTF-8, which nobody typed.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _Misused(f"{path} is not UTF-8; save it in that encoding.") from None
    for ending in ("\r\n", "\n"):
        if text.endswith(ending):
            return text.removesuffix(ending)
    return text


def _ask_password() -> str:
    if not _has_terminal():
        raise _Misused("There is no terminal to ask for the password; use --password-env or --password-file.")
    try:
        return getpass.getpass("Password: ")
    except EOFError:
        raise _Misused("No password was given.") from None


def _has_terminal() -> bool:
    if sys.platform == "win32":
        return sys.stdin is not None and sys.stdin.isatty()
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _describe(error: OSError) -> str:
    return f"{error.filename or 'input or output'}: {error.strerror or error}"
