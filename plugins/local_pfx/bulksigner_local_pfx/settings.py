"""The block `<Certificate>:Pfx` (CFG-70, CFG-71)."""

from __future__ import annotations

from pathlib import Path

import attrs

from bulksigner.contract.settings import Check, Secret, option

__all__ = ["PfxBlock"]

_ABSOLUTE = Check(lambda value: value is None or Path(value).is_absolute(), "an absolute path")


@attrs.frozen
class PfxBlock:
    """Where the PKCS#12 file is and what opens it."""

    path: str = option(check=_ABSOLUTE, help="Absolute path of the .pfx or .p12 file.", is_seed=True)
    password: Secret = option(Secret(""), help="Password of the file; empty where it has none.", is_seed=True)
    chain_path: str | None = option(
        None,
        check=_ABSOLUTE,
        help="Absolute path of a folder with issuers' certificates (PEM or DER) that the file itself lacks.",
        is_seed=True,
    )
