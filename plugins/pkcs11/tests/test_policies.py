"""Format × policy × kind of key, with keys that stay on the token: signed, checked, read by others (ICP-30 to -33)."""

from __future__ import annotations

import datetime
import hashlib
import io
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.signing import Format, Measured
from bulksigner.formats.dispatch import check, signer_for
from bulksigner.formats.model import Expectation
from bulksigner.formats.policies import read_key, shipped_policies
from bulksigner.formats.spec import BASELINE_B
from bulksigner.testing.certificates import Authority, Issued, KeyKind
from bulksigner.testing.files import pdf_file, xml_file
from bulksigner.testing.policy_facts import require_facts

CONTENTS = {Format.CADES: b"0001 payment\r\n\x00\xff", Format.XADES: xml_file(), Format.PADES: pdf_file()}
LARGE = "04"


@pytest.fixture(scope="session")
def large(authority: Authority) -> Issued:
    """A key that takes a while to make."""
    return authority.issue(kind=KeyKind.RSA_4096)


def list_specs(format: Format, key: Any) -> list[SignatureSpec]:
    """Every specification the key may sign with."""
    filters = [False, True] if format is Format.PADES else [False]
    rows = shipped_policies().usable(format, "AD-RB", None, read_key(key))
    return [BASELINE_B, *(row.spec(etsi_filter=etsi) for row in rows for etsi in filters)]


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
    root, now = issued.root.public_bytes(Encoding.DER), datetime.datetime.now(datetime.UTC)
    tried = 0
    for chosen, content in CONTENTS.items():
        original = Measured(len(content), hashlib.sha256(content).digest())
        for spec in list_specs(chosen, key):
            before, target = around.count("C_SignInit"), io.BytesIO()
            signer_for(chosen, key, spec).sign(io.BytesIO(content), target, expected=original, signed_at=now)
            assert around.count("C_SignInit") == before + 1
            check(target, Expectation(chosen, issued.certificate_der, original, spec))
            file = tmp_path / f"{chosen.value}-{tried}"
            file.write_bytes(target.getvalue())
            require_facts(chosen, file, spec, [root])
            tried += 1
    # Earlier versions of the policies know no ECDSA: PDF 1 + 2, the others 1 + 1; with RSA three versions of each.
    assert tried == (7 if kind == "ecdsa" else 15)
