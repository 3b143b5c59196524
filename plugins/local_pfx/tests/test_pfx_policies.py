"""Format × policy × kind of key, with keys of PKCS#12 files: signed, checked, read by others (ICP-30 to -33)."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Format
from bulksigner.testing.authority_server import running_authority
from bulksigner.testing.certificates import Authority, KeyKind
from bulksigner.testing.policy_facts import sign_every_way
from bulksigner.testing.proving import open_stamping
from bulksigner_local_pfx.settings import PfxBlock
from bulksigner_local_pfx.source import PfxSource

PASSWORD = "correct horse"


@pytest.mark.parametrize("kind", KeyKind, ids=lambda kind: kind.name)
def test_each_policy_with_each_key_of_a_file(authority: Authority, kind: KeyKind, tmp_path: Path) -> None:
    """ICP-30 to ICP-33, ICP-43: every policy that the key may sign with, and no other."""
    issued = authority.issue(kind=kind)
    key = PfxSource().open(PfxBlock(str(issued.write_pfx(tmp_path / "key.pfx", PASSWORD)), Secret(PASSWORD)))
    signed = list(sign_every_way(key, issued.root.public_bytes(Encoding.DER), tmp_path))
    # Earlier versions of the policies know no ECDSA: PDF 1 + 2, the others 1 + 1; with RSA three versions of each.
    assert len(signed) == (7 if kind is KeyKind.ECDSA_P256 else 15)


@pytest.mark.parametrize("kind", KeyKind, ids=lambda kind: kind.name)
def test_each_level_with_proof_with_each_key_of_a_file(authority: Authority, kind: KeyKind, tmp_path: Path) -> None:
    """ICP-30 to ICP-33: the levels with time stamps and what proves them later, of each version in force."""
    with running_authority(authority) as kit:
        issued = authority.issue(kind=kind, crl_url=kit.crl_url)
        key = PfxSource().open(PfxBlock(str(issued.write_pfx(tmp_path / "key.pfx", PASSWORD)), Secret(PASSWORD)))
        stamping = open_stamping(kit, tmp_path)
        signed = list(sign_every_way(key, issued.root.public_bytes(Encoding.DER), tmp_path, stamping=stamping))
    names = {(made, spec.name.partition(" ")[0]) for made, spec in signed}
    levels = {"B-B", "B-T", "B-LT", "B-LTA", "AD-RB", "AD-RT", "AD-RV", "AD-RC", "AD-RA"}
    assert names == {(made, level) for made in Format for level in levels} - {(Format.PADES, "AD-RV")}
