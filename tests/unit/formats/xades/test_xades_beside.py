"""XAdES signatures beside a file of any kind (BEY-01, BEY-12, ICP-32)."""

from __future__ import annotations

import hashlib
import io
import subprocess
from pathlib import Path
from typing import Any

import attrs
import pytest
from lxml import etree

from bulksigner.contract.signing import Format
from bulksigner.formats.dispatch import check, signer_for
from bulksigner.formats.model import CheckFailed, ContentChanged, Expectation, PdfRules
from bulksigner.formats.policies import read_key, shipped_policies
from bulksigner.formats.preflight import find_defects
from bulksigner.formats.spec import BASELINE_B

CONTENT = b"\x00\x01 any octets <a> & \xff\r\n" * 1000
DS = "{http://www.w3.org/2000/09/xmldsig#}"


def beside(name: str, spec: Any = BASELINE_B) -> Any:
    return attrs.evolve(spec, xml_file=name)


@pytest.mark.parametrize("name", ["slip.bin", "nota fiscal ç (1)#2%.pdf"])
@pytest.mark.parametrize("kind", ["rsa", "p256"])
def test_others_verify_it_beside_the_file(
    name: str, kind: str, request: Any, sign: Any, measure: Any, tmp_path: Path, require_tool: Any
) -> None:
    """BEY-12, XMLDSig 4.4.3: xmlsec1 finds the file by its name and accepts the two, and not after one changed byte."""
    key = request.getfixturevalue(f"{kind}_key")
    spec = beside(name)
    artifact = sign(CONTENT, key, spec)
    checked = check(io.BytesIO(artifact), Expectation(Format.XADES, key.certificate, measure(CONTENT), spec))
    assert checked.measured == measure(artifact)
    assert CONTENT not in artifact
    root = etree.fromstring(artifact)
    assert root.tag == f"{DS}Signature"
    (tmp_path / "signature.xml").write_bytes(artifact)
    (tmp_path / "root.pem").write_bytes(key.root_pem)
    command = [require_tool("xmlsec1", "xmlsec1"), "--verify", "--trusted-pem", "root.pem", "--id-attr:Id"]
    command += ["http://uri.etsi.org/01903/v1.3.2#:SignedProperties", "signature.xml"]
    for content, is_accepted in ((CONTENT, True), (CONTENT + b".", False)):
        (tmp_path / name).write_bytes(content)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=60)
        assert (done.returncode == 0) == is_accepted, done.stderr


def test_a_policy_goes_with_it(rsa_key: Any, sign: Any, measure: Any) -> None:
    """ICP-32: properties, policy and certificate are those of the specification."""
    row = shipped_policies().usable(Format.XADES, "AD-RB", None, read_key(rsa_key))[0]
    spec = beside("slip.bin", row.spec(etsi_filter=False))
    artifact = sign(CONTENT, rsa_key, spec)
    expectation = Expectation(Format.XADES, rsa_key.certificate, measure(CONTENT), spec)
    assert check(io.BytesIO(artifact), expectation)
    for wrong, text in (
        (attrs.evolve(expectation, original=measure(CONTENT[1:])), "digest of the file"),
        (attrs.evolve(expectation, spec=beside("other.bin", spec)), "not to the file"),
        (attrs.evolve(expectation, spec=beside("slip.bin")), "SigningCertificateV2|policy"),
    ):
        with pytest.raises(CheckFailed, match=text):
            check(io.BytesIO(artifact), wrong)


def test_any_change_is_found(rsa_key: Any, sign: Any, measure: Any) -> None:
    """BEY-01: no byte of the signature can differ, but for the certificates that nobody vouches for here."""
    spec = beside("slip.bin")
    artifact = sign(CONTENT, rsa_key, spec)
    expectation = Expectation(Format.XADES, rsa_key.certificate, measure(CONTENT), spec)
    last = artifact.rindex(b"<ds:X509Certificate>")
    end = artifact.index(b"</ds:X509Certificate>", last)
    for place in range(0, len(artifact) - 1, 7):
        if last < place < end:
            continue
        damaged = bytearray(artifact)
        damaged[place] ^= 1
        with pytest.raises(CheckFailed):
            check(io.BytesIO(bytes(damaged)), expectation)
    for damaged in (b"<!-- x -->" + artifact, artifact + b"<?x y?>", b"", b"<a/>"):
        with pytest.raises(CheckFailed):
            check(io.BytesIO(damaged), expectation)


def test_the_octets_are_hashed_again_before_the_key_is_used(rsa_key: Any, measure: Any) -> None:
    """PIPE-77: a file that changed after it was staged never meets the key; any content passes the look (BEY-10)."""
    key, spec = attrs.evolve(rsa_key, uses=0), beside("slip.bin")
    with pytest.raises(ContentChanged):
        signer_for(Format.XADES, key, spec).sign(
            io.BytesIO(CONTENT),
            io.BytesIO(),
            expected=measure(CONTENT[::-1]),
            signed_at=None,  # type: ignore[arg-type]
        )
    assert key.uses == 0
    assert find_defects(io.BytesIO(CONTENT), Format.XADES, measure(CONTENT), PdfRules(), spec) == ()
    assert hashlib.sha256(CONTENT).digest() == measure(CONTENT).sha256
