"""Output names: what a signed file is called (PIPE-89, PIPE-90)."""

from __future__ import annotations

import os

from bulksigner.contract.errors import StepFailed
from bulksigner.contract.signing import Format

__all__ = ["output_name"]

_NAME_LIMIT_BYTES = 255


def output_name(
    file_name: str, format: Format, *, pem: bool, preserve: bool, detached: bool = False, suffix: str = ""
) -> str:
    """Return the name of the artifact of `file_name`; `pem` concerns CAdES only, `preserve` not PAdES.

    `detached` concerns CAdES and XAdES: the signature is then `<file_name>.p7s` or `<file_name>.signature.xml`, beside
    a content that keeps its name.
    `suffix` is put behind it, such as that of an envelope (ENC-22 to ENC-24).

    Raises `StepFailed` naming it when it is longer than 255 bytes.
    """
    stem, extension = _split(file_name)
    if format is Format.PADES:
        name = f"{stem}.signed.pdf"
    elif preserve:
        name = f"{stem}.signed{extension}"
    elif format is Format.XADES:
        name = f"{file_name}.signature.xml" if detached else f"{stem}.signed.xml"
    else:
        name = f"{file_name}.pem" if pem else f"{file_name}.p7s" if detached else f"{file_name}.p7m"
    name += suffix
    if len(os.fsencode(name)) > _NAME_LIMIT_BYTES:
        spare = _NAME_LIMIT_BYTES - (len(os.fsencode(name)) - len(os.fsencode(file_name)))
        raise StepFailed(
            f"The output name is longer than {_NAME_LIMIT_BYTES} bytes: {name}. Give the file a name of at most "
            f"{spare} bytes and submit it again; a retry would take the same name."
        )
    return name


def _split(file_name: str) -> tuple[str, str]:
    stem, dot, rest = file_name.rpartition(".")
    return (stem, dot + rest) if dot else (file_name, "")
