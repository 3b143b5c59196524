"""The outside verifiers, held against signatures made by the outside tools themselves."""

import io
import shutil
import subprocess
from pathlib import Path

import pytest
from asn1crypto.keys import PrivateKeyInfo
from asn1crypto.x509 import Certificate
from cryptography.hazmat.primitives import serialization
from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
from pyhanko.sign import signers
from pyhanko.sign.fields import SigSeedSubFilter
from pyhanko_certvalidator.registry import SimpleCertificateStore

from bulksigner.testing import verify
from bulksigner.testing.certificates import make_authority
from bulksigner.testing.files import CrossReference, pdf_file, text_file, xml_file
from bulksigner.testing.fixtures import require_tool

SIGNATURE_TEMPLATE = (
    b'<Signature xmlns="http://www.w3.org/2000/09/xmldsig#"><SignedInfo>'
    b'<CanonicalizationMethod Algorithm="http://www.w3.org/TR/2001/REC-xml-c14n-20010315"/>'
    b'<SignatureMethod Algorithm="http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"/>'
    b'<Reference URI=""><Transforms>'
    b'<Transform Algorithm="http://www.w3.org/2000/09/xmldsig#enveloped-signature"/></Transforms>'
    b'<DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha256"/><DigestValue/></Reference></SignedInfo>'
    b"<SignatureValue/><KeyInfo><X509Data/></KeyInfo></Signature>"
)


@pytest.fixture(scope="module")
def leaf():
    return make_authority().issue()


@pytest.fixture(scope="module")
def roots(leaf):
    return [leaf.chain_der[-1]]


@pytest.fixture(scope="module")
def foreign_roots():
    return [make_authority("Alheia").root_der]


def tampered(path: Path, old: bytes, new: bytes) -> Path:
    content = path.read_bytes()
    assert content.count(old) >= 1
    assert len(old) == len(new)
    other = path.with_name(f"tampered-{path.name}")
    other.write_bytes(content.replace(old, new, 1))
    return other


@pytest.fixture(scope="module", params=list(CrossReference), ids=lambda kind: kind.value)
def signed_pdf(request, leaf, tmp_path_factory) -> Path:
    store = SimpleCertificateStore()
    store.register_multiple([Certificate.load(issuer) for issuer in leaf.chain_der])
    key = leaf.key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    signer = signers.SimpleSigner(
        signing_cert=Certificate.load(leaf.certificate_der), signing_key=PrivateKeyInfo.load(key), cert_registry=store
    )
    metadata = signers.PdfSignatureMetadata(field_name="Signature1", subfilter=SigSeedSubFilter.PADES)
    content = pdf_file(pages=2, size_bytes=30_000, cross_reference=request.param)
    path = tmp_path_factory.mktemp("pdf") / "signed.pdf"
    writer = IncrementalPdfFileWriter(io.BytesIO(content), strict=True)
    path.write_bytes(signers.sign_pdf(writer, metadata, signer=signer).getvalue())
    return path


@pytest.mark.parametrize("check", [verify.verify_pdf_with_pdfsig, verify.verify_pdf_with_pyhanko])
def test_pdf_verifiers(check, signed_pdf, roots, foreign_roots):
    """DEP-64: a sound PDF passes; one changed byte, a foreign root, an appended byte range or no signature do not."""
    require_tool("pdfsig", "poppler-utils")
    require_tool("certutil", "libnss3-tools")
    verdict = check(signed_pdf, roots)
    assert verdict, verdict.output
    assert not check(tampered(signed_pdf, b"%\xe2\xe3", b"%\xe2\xe4"), roots)
    assert not check(signed_pdf, foreign_roots)
    unsigned = signed_pdf.with_name("unsigned.pdf")
    unsigned.write_bytes(pdf_file())
    assert not check(unsigned, roots)


@pytest.mark.parametrize("check", [verify.verify_pdf_with_pdfsig, verify.verify_pdf_with_pyhanko])
def test_pdf_verifiers_want_the_whole_file_covered(check, signed_pdf, roots):
    """BEY-01: a revision after the signature is not what was signed."""
    require_tool("pdfsig", "poppler-utils")
    require_tool("certutil", "libnss3-tools")
    writer = IncrementalPdfFileWriter(io.BytesIO(signed_pdf.read_bytes()))
    writer.root["/TestAddition"] = writer.root["/Pages"]
    writer.update_root()
    target = io.BytesIO()
    writer.write(target)
    extended = signed_pdf.with_name("extended.pdf")
    extended.write_bytes(target.getvalue())
    assert not check(extended, roots)


def sign_cms(leaf, content: Path, target: Path, *options: str) -> Path:
    folder = content.parent
    leaf.write_key_pem(folder / "key.pem")
    leaf.write_certificate_pem(folder / "leaf.pem")
    leaf.write_issuers_pem(folder / "issuers.pem")
    command = ["openssl", "cms", "-sign", "-binary", "-cades", "-md", "sha256", "-signer", folder / "leaf.pem"]
    command += ["-inkey", folder / "key.pem", "-certfile", folder / "issuers.pem", "-in", content, "-out", target]
    subprocess.run([*command, *options], check=True, capture_output=True)
    return target


@pytest.mark.parametrize(("form", "pem"), [("DER", False), ("PEM", True)])
def test_openssl_on_an_attached_signature(leaf, roots, foreign_roots, tmp_path, form, pem):
    """DEP-64: the content inside the envelope counts."""
    require_tool("openssl", "openssl")
    content = tmp_path / "content.txt"
    content.write_bytes(text_file())
    signed = sign_cms(leaf, content, tmp_path / "content.p7m", "-nodetach", "-outform", form)
    verdict = verify.verify_cms_with_openssl(signed, roots, pem=pem)
    assert verdict, verdict.output
    assert not verify.verify_cms_with_openssl(signed, foreign_roots, pem=pem)
    if not pem:
        assert not verify.verify_cms_with_openssl(tampered(signed, b"CONTRATA", b"CONTRAtA"), roots)


def test_openssl_on_a_detached_signature(leaf, roots, tmp_path):
    """DEP-64: the content beside the signature counts."""
    require_tool("openssl", "openssl")
    content = tmp_path / "content.txt"
    content.write_bytes(text_file())
    signature = sign_cms(leaf, content, tmp_path / "content.p7s", "-outform", "DER")
    verdict = verify.verify_cms_with_openssl(signature, roots, content=content)
    assert verdict, verdict.output
    other = tampered(content, b"CONTRATA", b"CONTRAtA")
    assert not verify.verify_cms_with_openssl(signature, roots, content=other)


def test_openssl_wants_the_certificate_attribute_under_cades(leaf, roots, tmp_path):
    """RFC 5035: a plain CMS signature is no CAdES signature."""
    require_tool("openssl", "openssl")
    content = tmp_path / "content.txt"
    content.write_bytes(text_file())
    leaf.write_key_pem(tmp_path / "key.pem")
    leaf.write_certificate_pem(tmp_path / "leaf.pem")
    leaf.write_issuers_pem(tmp_path / "issuers.pem")
    plain = tmp_path / "plain.p7m"
    command = ["openssl", "cms", "-sign", "-binary", "-nodetach", "-outform", "DER", "-in", content, "-out", plain]
    command += ["-signer", tmp_path / "leaf.pem", "-inkey", tmp_path / "key.pem"]
    command += ["-certfile", tmp_path / "issuers.pem"]
    subprocess.run(command, check=True, capture_output=True)
    assert verify.verify_cms_with_openssl(plain, roots, cades=False)
    assert not verify.verify_cms_with_openssl(plain, roots)


def test_xmlsec1(leaf, roots, foreign_roots, tmp_path):
    """DEP-64: an enveloped signature passes; one changed character or a foreign root does not."""
    require_tool("xmlsec1", "xmlsec1")
    template = tmp_path / "template.xml"
    template.write_bytes(xml_file().replace(b"</NFe>", SIGNATURE_TEMPLATE + b"</NFe>"))
    key, signed = leaf.write_key_pem(tmp_path / "key.pem"), tmp_path / "signed.xml"
    chain = leaf.write_certificate_pem(tmp_path / "leaf.pem")
    intermediate = tmp_path / "intermediate.pem"
    intermediate.write_bytes(leaf.issuers[0].public_bytes(serialization.Encoding.PEM))
    keys = ["--privkey-pem", f"{key},{chain},{intermediate}"]
    subprocess.run(["xmlsec1", "--sign", *keys, "--output", signed, template], check=True, capture_output=True)
    verdict = verify.verify_xml_with_xmlsec1(signed, roots)
    assert verdict, verdict.output
    assert not verify.verify_xml_with_xmlsec1(tampered(signed, b"<nro>100", b"<nro>101"), roots)
    assert not verify.verify_xml_with_xmlsec1(signed, foreign_roots)


def test_a_missing_verifier_names_its_package(monkeypatch, tmp_path):
    """DEP-64: the error is no verdict, and says what to install."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(verify.MissingTool, match="pdfsig is not installed: install the system package poppler-utils"):
        verify.verify_pdf_with_pdfsig(tmp_path / "any.pdf", [])
