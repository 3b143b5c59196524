"""Second engines: programs of others that say whether a signed file is valid, each under limits (BEY-02).

A program gets the signed file and the staged copy, no shell, no input, an environment of its own and an empty folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from xml.parsers import expat

import attrs

from bulksigner.contract.signing import Format
from bulksigner.pipeline.limited import Overdue, call_within
from bulksigner.settings.cross_check import SecondEngine

__all__ = ["CROSS_CHECK_LIMIT_SECONDS", "Opinion", "Subject", "ask_engine", "end_programs"]

CROSS_CHECK_LIMIT_SECONDS = 60.0
"""A second engine that takes longer is ended, and has no verdict."""

_MOST_BYTES = 256 * 1024
_SHOWN_CHARACTERS = 600
_CHUNK_BYTES = 64 * 1024
_KILL_PATIENCE_SECONDS = 5.0
_VERSION = re.compile(r"\d+(?:\.\d+)+\w*")
_VERSION_ARGUMENTS: Mapping[str, str] = MappingProxyType(
    {"pdfsig": "-v", "openssl cms": "version", "xmlsec1": "--version"}
)
_COVERS_ALL, _IS_VALID = "  - Total document signed", "  - Signature Validation: Signature is Valid."
_PROPERTIES = "http://uri.etsi.org/01903/v1.3.2#:SignedProperties"
_LAST_SIGNATURE = '(//*[local-name()="Signature" and namespace-uri()="http://www.w3.org/2000/09/xmldsig#"])[last()]'


@attrs.frozen
class Subject:
    """What is checked: the signed file as it will be delivered in the clear, and what was signed."""

    file: Path
    original: Path
    format: Format
    pem: bool = False
    is_plain_xml: bool = False
    xml_element: str = ""
    """Local name of the element that is signed by its `Id`, where a XAdES signature is of one."""
    is_extended: bool = False
    """Whether something is added to the file after our signature, as the higher levels do."""


@attrs.frozen
class Opinion:
    """What one engine says: True for valid, False for not, None where it came to no verdict; and why."""

    engine: str
    accepts: bool | None
    reason: str = ""

    def line(self) -> str:
        """Render the opinion for a history line."""
        if self.accepts:
            return f"{self.engine} accepts it"
        return f"{self.engine} {'gives no verdict' if self.accepts is None else 'refuses it'}: {self.reason}"


@attrs.frozen
class _Ran:
    code: int
    output: str


class _NoVerdict(Exception):
    """Say why a program came to no end of its own."""


def ask_engine(engine: SecondEngine, subject: Subject, folder: Path, limit_seconds: float) -> Opinion:
    """Ask one engine, in this thread; `folder` is empty, and its home. A hung one costs no more than the limit."""
    program = engine.locate()
    if program is None:
        return Opinion(engine.name, None, f"{engine.program} is no program that this account may run here.")
    ends_at = time.monotonic() + limit_seconds
    name = engine.name

    def run(command: list[str]) -> _Ran:
        return _run(command, folder, ends_at, limit_seconds)

    try:
        name = _describe(engine, program, run)
        ran = run([program, *_arguments(engine, subject)])
    except _NoVerdict as error:
        return Opinion(name, None, str(error))
    except (OSError, expat.ExpatError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Opinion(name, None, f"it could not be asked: {reason}.")
    if ran.code < 0:
        return Opinion(name, None, f"it was ended by signal {-ran.code}.")
    accepts = _judge_pdfsig(ran, subject) if engine.format is Format.PADES else ran.code == 0
    return Opinion(name, accepts, f"exit code {ran.code}: {_show(ran.output)}")


def _arguments(engine: SecondEngine, subject: Subject) -> list[str]:
    if engine.format is None:
        values = {"file": str(subject.file), "original": str(subject.original), "format": subject.format.value}
        # In one pass, since a file may be called {original}.
        return [re.sub(r"\{(\w+)\}", lambda found: values[found[1]], one) for one in engine.arguments]
    if engine.format is Format.PADES:
        # Certificates are judged before signing, against the roots of this host (CFG-92).
        return ["-nocert", "-no-ocsp", str(subject.file)]
    if engine.format is Format.CADES:
        form = "PEM" if subject.pem else "DER"
        arguments = ["cms", "-verify", "-binary", "-noverify", "-inform", form, "-in", str(subject.file)]
        return [*arguments, "-out", os.devnull]
    arguments = ["--verify", "--insecure", "--enabled-key-data", "x509", "--node-xpath", _LAST_SIGNATURE]
    identified = [] if subject.is_plain_xml else [("Id", _PROPERTIES)]
    if subject.is_plain_xml or subject.xml_element:
        identified += _list_identified(subject.file, subject.xml_element)
    for attribute, element in identified:
        arguments += [f"--id-attr:{attribute}", element]
    return [*arguments, str(subject.file)]


def _list_identified(file: Path, wanted: str) -> list[tuple[str, str]]:
    """Return the elements, as `namespace:name` after the name of the attribute, that a reference may point at.

    They are those of a `wanted` local name that have an `Id`, `ID` or `id`, or with none all that have an `Id`.
    """
    found: dict[tuple[str, str], None] = {}

    def begin(name: str, attributes: Mapping[str, str]) -> None:
        if not wanted and "Id" in attributes:
            found["Id", name] = None
        elif wanted and name.rpartition(":")[2] == wanted:
            found.update({(kind, name): None for kind in ("Id", "ID", "id") if kind in attributes})

    parser = expat.ParserCreate(namespace_separator=":")
    parser.StartElementHandler = begin
    with file.open("rb") as source:
        parser.ParseFile(source)
    return list(found)


def _judge_pdfsig(ran: _Ran, subject: Subject) -> bool:
    """Find our signature, the one that covers the whole file; the exit code tells nothing.

    Where revocation data were added after it, it is the one that covers most, time stamps of the document apart.
    """
    sections = [section.splitlines() for section in re.split(r"^Signature #", ran.output, flags=re.MULTILINE)[1:]]
    if ran.code != 0 or not subject.is_extended:
        return ran.code == 0 and any({_COVERS_ALL, _IS_VALID}.issubset(section) for section in sections)
    ours = [section for section in sections if not any("RFC3161" in line for line in section)]
    return _IS_VALID in max(ours, key=_find_end, default=[])


def _find_end(section: list[str]) -> int:
    numbers = [int(number) for line in section if "Signed Ranges:" in line for number in re.findall(r"\d+", line)]
    return max(numbers, default=0)


def _describe(engine: SecondEngine, program: str, run: Callable[[list[str]], _Ran]) -> str:
    """Name an engine with the version it tells, or the beginning of its digest; asked once for each state of it."""
    facts = Path(program).stat()
    state = (program, facts.st_mtime_ns, facts.st_size)
    version = _versions.get(state)
    if version is None and engine.format is None:
        with Path(program).open("rb") as source:
            version = f"(SHA-256 {hashlib.file_digest(source, 'sha256').hexdigest()[:16]})"
    elif version is None:
        found = _VERSION.search(run([program, _VERSION_ARGUMENTS[engine.name]]).output)
        version = found[0] if found else "of unknown version"
    _versions[state] = str(version)
    return f"{engine.name} {version}"


_versions: dict[tuple[str, int, int], str] = {}


def _run(command: list[str], folder: Path, ends_at: float, limit_seconds: float) -> _Ran:
    """Run a program to its end; raises `_NoVerdict` past a limit, after it and all that it started were killed."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        cwd=folder,
        # Nothing else: the variables of the service have secrets.
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": str(folder)},
        start_new_session=True,
    )
    is_over = False
    _under_way.add(child)
    try:
        output = call_within(_left(ends_at), "cross-check-output", lambda: _read(child))
        code = child.wait(_left(ends_at))
        is_over = True
    except (Overdue, subprocess.TimeoutExpired):
        raise _NoVerdict(f"it gave no answer within {limit_seconds:g} s and was ended.") from None
    finally:
        if not is_over:
            _kill(child)
        _under_way.discard(child)
    return _Ran(code, output.decode("utf-8", "replace"))


_under_way: set[subprocess.Popen[bytes]] = set()


def end_programs() -> None:
    """Kill every program under way, for a service that ends without waiting for its jobs."""
    for child in list(_under_way):
        if child.poll() is None:
            _kill(child)


def _left(ends_at: float) -> float:
    return max(0.0, ends_at - time.monotonic())


def _read(child: subprocess.Popen[bytes]) -> bytes:
    output = bytearray()
    assert child.stdout is not None
    # Closed by the thread that reads: where a stranger keeps the other end, this thread is abandoned with it.
    with child.stdout as source:
        while chunk := source.read(_CHUNK_BYTES):
            output += chunk
            if len(output) > _MOST_BYTES:
                raise _NoVerdict(f"it printed more than {_MOST_BYTES // 1024} KiB and was ended.")
    return bytes(output)


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill a program that was not waited for, with its process group, which nobody else can have meanwhile."""
    if sys.platform == "win32":
        child.kill()
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    # A process that even this does not end hangs in the kernel.
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_KILL_PATIENCE_SECONDS)


def _show(output: str) -> str:
    """Render what a program printed as one short line."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in output).split())
    return line[:_SHOWN_CHARACTERS] or "it printed nothing"
