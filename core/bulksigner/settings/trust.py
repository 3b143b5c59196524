"""`Signing:Trust`: whose certificates are trusted, and how revocation is asked for (CFG-67, CFG-68)."""

from __future__ import annotations

from pathlib import Path

import attrs

from bulksigner.contract.settings import between, option

__all__ = ["TrustSettings"]


@attrs.frozen
class TrustSettings:
    """`Signing:Trust`."""

    roots_path: Path | None = option(
        None,
        help="Folder of trusted roots and of intermediates, as PEM, DER or PKCS #7; without it nothing is trusted.",
    )
    allow_test_roots: bool = option(
        False, help="Trust what lies in `TestRootsPath` as well; refused in the environment Production."
    )
    test_roots_path: Path | None = option(None, help="Folder of roots of tests, read with `AllowTestRoots` only.")
    offline: bool = option(
        False, help="Never fetch revocation lists or answers; only `CrlsPath` and what was fetched before count."
    )
    crls_path: Path | None = option(
        None, help="Folder of revocation lists (PEM or DER) that somebody else keeps fresh, read at each check."
    )
    fetch_timeout_seconds: int = option(10, help="How long one list or answer may take to come.", check=between(1, 120))
    recheck_minutes: int = option(
        60,
        help="How long the good result of a check counts before a certificate is checked again.",
        check=between(1, 1440),
    )
