"""A folder of policy files in place of the shipped table (ICP-05, ICP-06, CFG-187); the files are made here."""

from __future__ import annotations

import base64
import datetime
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from lxml import etree

from bulksigner.contract.certificate import Digest, KeyAlgorithm
from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.policy import KeyRule
from bulksigner.contract.signing import Format
from bulksigner.formats import der
from bulksigner.formats.policies import read_key
from bulksigner.formats.policy_files import read_folder, read_policy

SHA256 = der.sequence(der.object_identifier("2.16.840.1.101.3.4.2.1"))
SIGNED = ["1.2.840.113549.1.9.3", "1.2.840.113549.1.9.4", "1.2.840.113549.1.9.16.2.47", "1.2.840.113549.1.9.16.2.15"]
EXCLUSIVE = "http://www.w3.org/2001/10/xml-exc-c14n#WithComments"


def moment(text: str) -> bytes:
    return der.element(0x18, f"{text}000000Z".encode())


def der_policy(
    root: bytes, oid: str = "2.16.76.1.7.1.1.3.7", extra: bytes = b"", unsigned: tuple[str, ...] = ()
) -> bytes:
    """Write a policy as ETSI TR 102 272 has it: two algorithms that are known and one that is not."""
    attributes = der.sequence(*(der.object_identifier(one) for one in SIGNED))
    rules = der.sequence(
        extra,
        attributes,
        der.sequence(*(der.object_identifier(one) for one in unsigned)),
        der.explicit(1, der.element(0x0A, b"\x01")),
    )
    trees = der.sequence(der.sequence(root))
    need = der.sequence(der.sequence(der.element(0x0A, b"\x03")))
    sizes = [("1.2.840.113549.1.1.11", 3072), ("1.2.840.10045.4.3.2", 256), ("1.3.101.112", 256)]
    pairs = der.sequence(*(der.sequence(der.object_identifier(name), der.integer(bits)) for name, bits in sizes))
    common = der.sequence(
        der.explicit(0, der.sequence(rules, der.sequence(der.sequence()))),
        der.explicit(1, der.sequence(trees, need)),
        der.explicit(4, der.sequence(der.explicit(0, pairs))),
    )
    period = der.sequence(moment("20260101"), moment("20301231"))
    info = der.sequence(
        der.object_identifier(oid),
        moment("20260101"),
        der.sequence(),
        der.element(0x0C, b"for tests"),
        der.sequence(period, common, der.sequence()),
    )
    return der.sequence(SHA256, info, der.octet_string(hashlib.sha256(SHA256 + info).digest()))


def xml_policy(root: bytes, transform: str = EXCLUSIVE) -> bytes:
    """Write a policy as ITI does in XML."""
    certificate = base64.b64encode(root).decode()
    info = (
        '<pa:SignPolicyInfo><pa:SignPolicyIdentifier><XAdES:Identifier Qualifier="OIDAsURN">urn:oid:2.16.76.1.7.1.6.3'
        "</XAdES:Identifier></pa:SignPolicyIdentifier><pa:SignatureValidationPolicy><pa:SigningPeriod>"
        "<pa:NotBefore>2026-01-01T00:00:00.000Z</pa:NotBefore><pa:NotAfter>2030-12-31T00:00:00.000Z</pa:NotAfter>"
        "</pa:SigningPeriod><pa:CommonRules><pa:SignerRules><pa:MandatedSignedQProperties><pa:QPropertyID>"
        "SigningCertificate</pa:QPropertyID><pa:QPropertyID>SignaturePolicyIdentifier</pa:QPropertyID>"
        "</pa:MandatedSignedQProperties></pa:SignerRules><pa:SignerTrustTrees><pa:CertificateTrustPoint><pa:TrustPoint>"
        f"<X509Certificate>{certificate}</X509Certificate></pa:TrustPoint></pa:CertificateTrustPoint>"
        "</pa:SignerTrustTrees><pa:SignerAlgConstraints><pa:AlgAndLength><pa:AlgId>"
        "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256</pa:AlgId><pa:MinKeyLength>2048</pa:MinKeyLength>"
        "</pa:AlgAndLength></pa:SignerAlgConstraints></pa:CommonRules></pa:SignatureValidationPolicy></pa:SignPolicyInfo>"
    )
    head = (
        '<pa:SignaturePolicy xmlns:ds="http://www.w3.org/2000/09/xmldsig#" xmlns:XAdES="http://uri.etsi.org/01903/v1.3.2#"'
        ' xmlns:pa="http://www.iti.gov.br/PA#"><pa:SignPolicyDigestAlg '
        'Algorithm="http://www.w3.org/2001/04/xmlenc#sha256"/><ds:Transforms><ds:Transform '
        f'Algorithm="{transform}"/></ds:Transforms>'
    )
    tree = etree.fromstring(f"{head}{info}</pa:SignaturePolicy>")
    canonical = etree.tostring(tree[-1], method="c14n", exclusive=True, with_comments=True)
    digest = base64.b64encode(hashlib.sha256(canonical).digest()).decode()
    return f"{head}{info}<pa:SignPolicyDigest>{digest}</pa:SignPolicyDigest></pa:SignaturePolicy>".encode()


@pytest.fixture(scope="module")
def root(issue: Callable[[Callable[[], Any]], Any], ecdsa_held: Any) -> bytes:
    certificate: bytes = ecdsa_held.chain[1]
    assert x509.load_der_x509_certificate(certificate).public_bytes(Encoding.DER) == certificate
    return certificate


@pytest.fixture
def folder(tmp_path: Path, root: bytes) -> Path:
    (tmp_path / "PA_AD_RB_v3_7.der").write_bytes(der_policy(root))
    (tmp_path / "PA_AD_RB_v3_0.xml").write_bytes(xml_policy(root))
    (tmp_path / "README.txt").write_text("not a policy")
    return tmp_path


def test_a_folder_makes_a_table(folder: Path, ecdsa_held: Any) -> None:
    """ICP-05, ICP-06: identifier, hash, period, attributes, algorithms and roots are read from the files."""
    table = read_folder(folder)
    assert table.origin == str(folder)
    cms, xml = table.rows
    assert (cms.format, cms.name, cms.identifier.oid) == (Format.CADES, "AD-RB 3.7", "2.16.76.1.7.1.1.3.7")
    assert (xml.format, xml.name, xml.identifier.oid) == (Format.XADES, "AD-RB 3.0", "2.16.76.1.7.1.6.3")
    for row in table.rows:
        assert (row.not_before, row.not_after) == (datetime.date(2026, 1, 1), datetime.date(2030, 12, 31))
        assert row.roots == ("Test Root",)
    assert cms.identifier.uri == "http://politicas.icpbrasil.gov.br/PA_AD_RB_v3_7.der"
    assert cms.required_signed == tuple(SIGNED)
    assert cms.key_rules == (
        KeyRule(KeyAlgorithm.RSA, Digest.SHA256, 3072),
        KeyRule(KeyAlgorithm.ECDSA, Digest.SHA256, 256),
    )
    assert xml.identifier.transform == EXCLUSIVE
    assert table.usable(Format.CADES, "AD-RB", None, read_key(ecdsa_held)) == [cms]


def test_a_transform_that_no_library_knows_is_not_named(tmp_path: Path, root: bytes) -> None:
    """ICP section 2: policies before 2.5 name a URI that verifiers do not know."""
    (tmp_path / "a.xml").write_bytes(xml_policy(root, "http://www.w3.org/TR/xml-exc-c14n#"))
    assert read_policy(tmp_path / "a.xml").identifier.transform == ""


def test_faults_and_needs_are_seen(tmp_path: Path, root: bytes, ecdsa_held: Any) -> None:
    """ICP-01, ICP-03: the blank in the PDF values, and what needs revocation data, are never signed with."""
    blank = der.octet_string(b"PBAD_PAdES ")
    (tmp_path / "a.der").write_bytes(der_policy(root, "2.16.76.1.7.1.11.1.9", extra=blank))
    (tmp_path / "b.der").write_bytes(der_policy(root, "2.16.76.1.7.1.3.3.1", unsigned=("1.2.3.4",)))
    table = read_folder(tmp_path)
    for known, level, text in ((Format.PADES, "AD-RB", "blank"), (Format.CADES, "AD-RV", "revocation data")):
        with pytest.raises(PermanentFailure, match=text):
            table.usable(known, level, None, read_key(ecdsa_held))


def test_what_cannot_be_used_is_named(folder: Path, root: bytes) -> None:
    """CFG-187: a hash that does not come out, junk, an unknown family, the same policy twice: the file is named."""
    good = (folder / "PA_AD_RB_v3_7.der").read_bytes()
    at = good.index(b"for tests")
    damaged = {
        "edited.der": good[:at] + b"For" + good[at + 3 :],
        "junk.der": b"junk",
        "cut.der": good[:100],
        "empty.xml": b"",
        "other.xml": b"<a/>",
        "edited.xml": xml_policy(root).replace(b"2030-12-31", b"2040-12-31"),
        "family.der": der_policy(root, "2.16.76.1.7.1.99.1.1"),
        "twice.der": good,
    }
    for name, content in damaged.items():
        (folder / name).write_bytes(content)
        with pytest.raises(PermanentFailure, match=name.replace(".", r"\.") if name != "twice.der" else "another file"):
            read_folder(folder)
        (folder / name).unlink()
    assert len(read_folder(folder).rows) == 2


@pytest.mark.parametrize("content", [b"\x30\x00", bytes.fromhex("300430003000"), bytes.fromhex("3006300030003000")])
def test_der_of_another_kind_is_told_in_words(tmp_path: Path, content: bytes) -> None:
    """CFG-187: as a list of approved policies, which ITI publishes beside the policies, without words of Python."""
    (tmp_path / "approved.der").write_bytes(content)
    with pytest.raises(PermanentFailure, match="has not the shape of one; lists of approved policies"):
        read_folder(tmp_path)


def test_what_a_pdf_of_the_archive_carries_is_found(tmp_path: Path, root: bytes, ecdsa_held: Any) -> None:
    """ICP-03, ICP-04: the list of approved policies and its signature; without them it is not used."""
    policy = tmp_path / "PA_PAdES_AD_RA_v1_9.der"
    policy.write_bytes(der_policy(root, "2.16.76.1.7.1.14.1.9"))
    with pytest.raises(PermanentFailure, match=r"LPA_PAdES\.p7s inside the PDF"):
        read_folder(tmp_path).usable(Format.PADES, "AD-RA", None, read_key(ecdsa_held))
    files = (policy, tmp_path / "LPA_PAdES.der", tmp_path / "LPA_PAdES.p7s")
    for path in files[1:]:
        path.write_bytes(b"as ITI publishes it")
    (row,) = read_folder(tmp_path).usable(Format.PADES, "AD-RA", None, read_key(ecdsa_held))
    assert row.spec(etsi_filter=False).artifacts == files


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    """CFG-187: missing, or without a policy."""
    with pytest.raises(PermanentFailure, match="cannot be read"):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(PermanentFailure, match="holds no policy file"):
        read_folder(tmp_path)
