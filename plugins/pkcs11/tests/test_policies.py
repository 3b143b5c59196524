"""Format × policy × kind of key, with keys that stay on the token: signed, checked, read by others (ICP-30 to -33)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from bulksigner.contract.signing import Format
from bulksigner.testing.authority_server import running_authority
from bulksigner.testing.certificates import Authority, Issued, KeyKind
from bulksigner.testing.policy_facts import sign_every_way
from bulksigner.testing.proving import open_stamping

LARGE, PROVEN = "04", "05"


@pytest.fixture(scope="session")
def large(authority: Authority) -> Issued:
    """A key that takes a while to make."""
    return authority.issue(kind=KeyKind.RSA_4096)


@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "rsa4096"])
def test_each_policy_with_each_key_on_a_token(
    token: Any, source: Any, large: Issued, around: Any, kind: str, tmp_path: Path
) -> None:
    """ICP-30 to ICP-33, ICP-43: as with a PFX; the token is asked for exactly one signature a file."""
    if kind == "rsa4096":
        token.write_key(LARGE, large)
        token.write_certificate(LARGE, large.certificate_der)
    issued = {"rsa": token.rsa, "ecdsa": token.ecdsa, "rsa4096": large}[kind]
    key = source.open(token.block(module_path=around.module, thumbprint=token.thumbprint_of(issued)))
    before = around.count("C_SignInit")
    signed = list(sign_every_way(key, issued.root.public_bytes(Encoding.DER), tmp_path))
    assert around.count("C_SignInit") == before + len(signed)
    # Earlier versions of the policies know no ECDSA: PDF 1 + 2, the others 1 + 1; with RSA three versions of each.
    assert len(signed) == (7 if kind == "ecdsa" else 15)


@pytest.mark.parametrize(
    "kind",
    [KeyKind.RSA_2048, KeyKind.ECDSA_P256, pytest.param(KeyKind.RSA_4096, marks=pytest.mark.soak)],
    ids=lambda kind: kind.name,
)
def test_each_level_with_proof_with_each_key_on_a_token(
    token: Any, source: Any, authority: Authority, kind: KeyKind, tmp_path: Path
) -> None:
    """ICP-30 to ICP-33: the levels with time stamps and what proves them later, of each version in force."""
    with running_authority(authority) as kit:
        issued = authority.issue(kind=kind, crl_url=kit.crl_url)
        token.write_key(PROVEN, issued)
        token.write_certificate(PROVEN, issued.certificate_der)
        key = source.open(token.block(thumbprint=token.thumbprint_of(issued)))
        stamping = open_stamping(kit, tmp_path)
        signed = list(sign_every_way(key, issued.root.public_bytes(Encoding.DER), tmp_path, stamping=stamping))
    names = {(made, spec.name.partition(" ")[0]) for made, spec in signed}
    levels = {"B-B", "B-T", "B-LT", "B-LTA", "AD-RB", "AD-RT", "AD-RV", "AD-RC", "AD-RA"}
    assert names == {(made, level) for made in Format for level in levels} - {(Format.PADES, "AD-RV")}
