"""The block `<Certificate>:Pkcs11` (CFG-73 to CFG-75) and the section `Pkcs11` (CFG-204)."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

from bulksigner.contract.settings import Check, between, option

__all__ = ["CHAIN_KEY", "DEFAULT_VARIABLE", "Pkcs11Block", "Pkcs11Section"]

CHAIN_KEY = "Certificate:Pkcs11:ChainPath"
DEFAULT_VARIABLE = "BULK_SIGNER_PKCS11_PIN"
_ABSOLUTE = Check(lambda value: value is None or Path(value).is_absolute(), "an absolute path")
_THUMBPRINT = Check(
    lambda value: re.fullmatch(r"[0-9A-Fa-f]{40}", value) is not None,
    "the SHA-1 of the certificate: 40 hexadecimal digits without separators",
)
_VARIABLE = Check(
    lambda value: re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value) is not None,
    "the name of an environment variable, never the PIN itself",
)


@attrs.frozen
class Pkcs11Block:
    """Which key of which token signs; the PIN is in the environment and nowhere else."""

    module_path: str = option(check=_ABSOLUTE, help="Absolute path of the vendor's PKCS #11 library.", is_seed=True)
    thumbprint: str = option(check=_THUMBPRINT, help="SHA-1 of the certificate that signs.", is_seed=True)
    pin_env_var: str = option(
        DEFAULT_VARIABLE, check=_VARIABLE, help="Name of the environment variable that holds the PIN.", is_seed=True
    )
    chain_path: str | None = option(
        None,
        check=_ABSOLUTE,
        help="Absolute path of a folder with issuers' certificates (PEM or DER) that the token lacks.",
        is_seed=True,
    )


@attrs.frozen
class Pkcs11Section:
    """What holds for every token of this host."""

    call_timeout_seconds: int = option(
        30, check=between(1, 600), help="Longest time that one call of a vendor's library may take."
    )
