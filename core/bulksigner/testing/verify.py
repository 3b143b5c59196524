"""Verifiers written by others, as a second opinion on our signatures: pdfsig, openssl, xmlsec1, pyHanko.

Each answers with a `Verdict` that keeps what the tool printed; a failing test shows it.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from bulksigner.contract.errors import BulkSignerError

__all__ = [
    "PACKAGES",
    "Command",
    "MissingTool",
    "Verdict",
    "nss_commands",
    "openssl_command",
    "pdfsig_command",
    "verify_cms_with_openssl",
    "verify_pdf_with_pdfsig",
    "verify_pdf_with_pyhanko",
    "verify_xml_with_xmlsec1",
    "xmlsec1_command",
]

Command = list[str | Path]

_TIMEOUT_SECONDS = 60
PACKAGES = {
    "certutil": "libnss3-tools",
    "openssl": "openssl",
    "pdfsig": "poppler-utils",
    "xmlsec1": "xmlsec1",
}
"""The Debian package of each tool (DEP-64)."""
_XADES_IDS = ("http://uri.etsi.org/01903/v1.3.2#:SignedProperties",)


class MissingTool(BulkSignerError):
    """Report that an outside verifier is not installed, with the Debian package that has it (DEP-64)."""


@attrs.frozen
class Verdict:
    """What one verifier said: `accepted`, the tool's name, and all that it printed."""

    accepted: bool
    tool: str
    output: str

    def __bool__(self) -> bool:
        return self.accepted


def nss_commands(folder: Path, roots: Sequence[Path]) -> list[Command]:
    """Build the commands that make an NSS store, in an existing folder, which trusts nothing but `roots` (PEM)."""
    commands: list[Command] = [["certutil", "-N", "-d", f"sql:{folder}", "--empty-password"]]
    for number, root in enumerate(roots):
        # One name per root; a second one of the same name would replace the first.
        command: Command = ["certutil", "-A", "-d", f"sql:{folder}", "-n", f"root-{number}", "-t", "C,C,C"]
        commands.append([*command, "-a", "-i", root])
    return commands


def pdfsig_command(file: Path, nss_folder: Path) -> Command:
    """Build the command that checks a PDF under the store of `nss_commands`."""
    return ["pdfsig", "-nssdir", f"sql:{nss_folder}", file]


def openssl_command(
    signature: Path,
    roots: Path,
    extracted: Path,
    *,
    content: Path | None = None,
    pem: bool = False,
    cades: bool = True,
) -> Command:
    """Build the command that checks a CMS signature and writes what was signed to `extracted`.

    `cades` also checks the signing-certificate attribute (RFC 5035). Certificate purpose is not asked: ICP-Brasil
    leaves are no S/MIME certificates.
    """
    command: Command = ["openssl", "cms", "-verify", "-binary", "-inform", "PEM" if pem else "DER", "-in", signature]
    command += ["-CAfile", roots, "-purpose", "any", "-out", extracted]
    command += ["-cades"] if cades else []
    command += ["-content", content] if content is not None else []
    return command


def xmlsec1_command(file: Path, roots: Sequence[Path], *, id_attributes: Sequence[str] = ()) -> Command:
    """Build the command that checks the first signature of a document.

    `id_attributes` names the elements whose attribute `Id` references may point at, as `namespace:element`; XAdES
    SignedProperties are always among them.
    """
    command: Command = ["xmlsec1", "--verify", "--enabled-key-data", "x509"]
    for root in roots:
        command += ["--trusted-pem", root]
    for element in (*_XADES_IDS, *id_attributes):
        command += ["--id-attr:Id", element]
    return [*command, file]


def _require(tool: str) -> None:
    if shutil.which(tool) is None:
        raise MissingTool(f"{tool} is not installed: install the system package {PACKAGES[tool]}")


def _run(command: Command) -> tuple[int, str]:
    _require(str(command[0]))
    done = subprocess.run(
        [str(argument) for argument in command], capture_output=True, timeout=_TIMEOUT_SECONDS, check=False
    )
    # The locale of the host is not ours to choose, and certificate names may be in any encoding.
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", errors="replace")


def _write_pem(path: Path, certificates: Sequence[bytes]) -> Path:
    loaded = [x509.load_der_x509_certificate(certificate) for certificate in certificates]
    path.write_bytes(b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in loaded))
    return path


def _write_pems(folder: str, roots: Sequence[bytes]) -> list[Path]:
    return [_write_pem(Path(folder) / f"root-{number}.pem", [root]) for number, root in enumerate(roots)]


def verify_pdf_with_pdfsig(file: Path, roots: Sequence[bytes], *, covers_all: bool = True) -> Verdict:
    """Ask poppler's pdfsig whether every signature is valid, trusted under `roots` (DER) and covers the whole file.

    The trust store is an NSS store of its own, so nothing that the host trusts counts. Without `covers_all` more may
    lie behind a signature, and a document time stamp is passed over: pdfsig does not know its kind.
    """
    _require("pdfsig")
    with tempfile.TemporaryDirectory() as folder:
        for command in nss_commands(Path(folder), _write_pems(folder, roots)):
            code, output = _run(command)
            if code:
                raise BulkSignerError(f"certutil could not make the trust store: {output}")
        code, output = _run(pdfsig_command(file, Path(folder)))
    count = output.count("Signature #") - (0 if covers_all else output.count("Signature Type: unknown"))
    accepted = (
        code == 0
        and count > 0
        and output.count("Signature is Valid.") == count
        and output.count("Certificate is Trusted.") == count
        and (not covers_all or "Total document signed" in output)
    )
    return Verdict(accepted, "pdfsig", output)


def verify_cms_with_openssl(
    signature: Path, roots: Sequence[bytes], *, content: Path | None = None, pem: bool = False, cades: bool = True
) -> Verdict:
    """Ask `openssl cms -verify` about an attached signature or a detached one over `content`; see `openssl_command`."""
    with tempfile.TemporaryDirectory() as folder:
        trusted, extracted = _write_pem(Path(folder) / "roots.pem", roots), Path(folder) / "content"
        code, output = _run(openssl_command(signature, trusted, extracted, content=content, pem=pem, cades=cades))
    return Verdict(code == 0, "openssl", output)


def verify_xml_with_xmlsec1(file: Path, roots: Sequence[bytes], *, id_attributes: Sequence[str] = ()) -> Verdict:
    """Ask `xmlsec1 --verify` about the first signature in a document; see `xmlsec1_command`."""
    with tempfile.TemporaryDirectory() as folder:
        code, output = _run(xmlsec1_command(file, _write_pems(folder, roots), id_attributes=id_attributes))
    return Verdict(code == 0, "xmlsec1", output)


def verify_pdf_with_pyhanko(
    file: Path, roots: Sequence[bytes], *, covers_all: bool = True, knows_all: bool = True
) -> Verdict:
    """Ask pyHanko's validator about every signature of a PDF: intact, trusted under `roots`, whole file covered.

    Revocation is not asked and nothing is fetched: throw-away authorities publish no lists. Without `covers_all` more
    may lie behind a signature, and without `knows_all` it is not asked whether that is harmless.
    """
    from asn1crypto.x509 import Certificate
    from pyhanko.pdf_utils.reader import PdfFileReader
    from pyhanko.sign.validation import validate_pdf_signature
    from pyhanko.sign.validation.status import SignatureCoverageLevel
    from pyhanko_certvalidator import ValidationContext

    context = ValidationContext(
        trust_roots=[Certificate.load(root) for root in roots], allow_fetching=False, revocation_mode="soft-fail"
    )
    lines, accepted = [], False
    with file.open("rb") as stream:
        signatures = PdfFileReader(stream, strict=False).embedded_regular_signatures
        accepted = bool(signatures)
        for signature in signatures:
            status = validate_pdf_signature(signature, context, skip_diff=not knows_all)
            whole = status.coverage == SignatureCoverageLevel.ENTIRE_FILE or not covers_all
            accepted = accepted and status.bottom_line and whole
            lines.append(f"{signature.field_name}: {status.summary()}, coverage {status.coverage}")
    return Verdict(accepted, "pyHanko", "\n".join(lines) or "no signature")
