"""Second opinions on signed files: the verdicts of tools that are not ours, and the commands to ask them again."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from bulksigner.contract.errors import BulkSignerError
from bulksigner.contract.signing import Format
from bulksigner.testing import verify
from bulksigner.testing.demo.ground import Delivery, Ground

__all__ = ["Opinion", "ask_others", "check_commands", "missing_packages"]

_TOOLS = {Format.PADES: ("pdfsig", "certutil"), Format.XADES: ("xmlsec1",), Format.CADES: ("openssl",)}


@attrs.frozen
class Opinion:
    """What one tool said of one file; `accepted` is None when the tool is not installed."""

    tool: str
    accepted: bool | None
    output: str


def ask_others(delivery: Delivery, signed: Path, ground: Ground) -> list[Opinion]:
    """Ask every tool for the format of a file that is installed here, and pyHanko's validator about PDFs."""
    roots = [ground.root_der]
    asked: list[tuple[str, Callable[[], verify.Verdict]]]
    if delivery.format is Format.PADES:
        asked = [
            ("pdfsig", lambda: verify.verify_pdf_with_pdfsig(signed, roots)),
            ("pyHanko", lambda: verify.verify_pdf_with_pyhanko(signed, roots)),
        ]
    elif delivery.format is Format.XADES:
        asked = [("xmlsec1", lambda: verify.verify_xml_with_xmlsec1(signed, roots))]
    else:
        asked = [("openssl", lambda: verify.verify_cms_with_openssl(signed, roots))]
    return [_opinion(tool, ask) for tool, ask in asked]


def _opinion(tool: str, ask: Callable[[], verify.Verdict]) -> Opinion:
    try:
        verdict = ask()
    except verify.MissingTool as error:
        return Opinion(tool, None, error.message)
    except (BulkSignerError, OSError, ValueError) as error:
        return Opinion(tool, False, str(error))
    return Opinion(tool, verdict.accepted, verdict.output)


def check_commands(delivery: Delivery, signed: Path, ground: Ground) -> list[str]:
    """Write the shell commands that check a file and compare it with its original, as paths seen from here."""
    original, root = _seen(ground.original(delivery)), _seen(ground.root_pem)
    checked = _seen(ground.folder / "checked")
    commands: list[verify.Command]
    if delivery.format is Format.PADES:
        store = _seen(ground.folder / "nss")
        # certutil asks for a password when the store is there already, so a second round starts without it.
        commands = [["rm", "-rf", store], ["mkdir", store], *verify.nss_commands(store, [root])]
        commands += [verify.pdfsig_command(_seen(signed), store)]
        # A signed PDF is the original, byte for byte, with the signature added behind it.
        commands += [["cmp", "-n", str(original.stat().st_size), original, _seen(signed)]]
    elif delivery.format is Format.XADES:
        commands = [verify.xmlsec1_command(_seen(signed), [root])]
    else:
        extracted = checked / delivery.file_name
        commands = [["mkdir", "-p", checked], verify.openssl_command(_seen(signed), root, extracted)]
        commands += [["cmp", original, extracted]]
    return [shlex.join(str(part) for part in command) for command in commands]


def missing_packages(deliveries: Sequence[Delivery]) -> list[str]:
    """List the Debian packages of tools that are not installed here."""
    tools = {tool for delivery in deliveries for tool in _TOOLS[delivery.format]}
    return sorted({verify.PACKAGES[tool] for tool in tools if shutil.which(tool) is None})


def _seen(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
