"""Keys of a small certificate hierarchy, an invoice to sign, and xmlsec1 as the outside judge."""

from __future__ import annotations

import datetime
import hashlib
import io
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from bulksigner.contract.certificate import Digest, KeyAlgorithm
from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.signing import Format, Measured
from bulksigner.formats.model import Expectation
from bulksigner.formats.spec import BASELINE_B
from bulksigner.formats.xades import XadesSigner

SIGNED_AT = datetime.datetime(2025, 9, 1, 12, 30, 15, tzinfo=datetime.timezone(datetime.timedelta(hours=-3)))
HASHES = {Digest.SHA1: hashes.SHA1(), Digest.SHA256: hashes.SHA256(), Digest.SHA512: hashes.SHA512()}


@attrs.define
class HeldKey:
    """An opened key in memory that counts how often it was used."""

    private: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
    certificate: bytes
    chain: tuple[bytes, ...]
    root_pem: bytes
    uses: int = 0

    @property
    def algorithm(self) -> KeyAlgorithm:
        return KeyAlgorithm.RSA if isinstance(self.private, rsa.RSAPrivateKey) else KeyAlgorithm.ECDSA

    def sign(self, data: bytes, digest: Digest) -> bytes:
        return self.sign_digest(hashlib.new(digest.value, data).digest(), digest)

    def sign_digest(self, value: bytes, digest: Digest) -> bytes:
        self.uses += 1
        prehashed = utils.Prehashed(HASHES[digest])
        if isinstance(self.private, rsa.RSAPrivateKey):
            return self.private.sign(value, padding.PKCS1v15(), prehashed)
        return self.private.sign(value, ec.ECDSA(prehashed))

    def close(self) -> None:
        """Hold nothing that needs letting go."""


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "BR"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, 'ICP-Teste <& "Cia">'),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _certificate(subject: str, public_key, issuer: str, issuer_key, *, authority: bool) -> x509.Certificate:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(datetime.datetime(2045, 1, 1, tzinfo=datetime.UTC))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .sign(issuer_key, hashes.SHA256())
    )


@pytest.fixture(scope="session")
def make_key() -> Callable[..., HeldKey]:
    """Issue a certificate for a new key (`rsa`, `p256`, `p384`, `p521`) or a given one, under the same two issuers."""
    root_key, middle_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = _certificate("AC Raiz", root_key.public_key(), "AC Raiz", root_key, authority=True)
    middle = _certificate("AC Certificação Única", middle_key.public_key(), "AC Raiz", root_key, authority=True)
    curves = {"p256": ec.SECP256R1(), "p384": ec.SECP384R1(), "p521": ec.SECP521R1()}

    def make(kind: str, private: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | None = None) -> HeldKey:
        if private is None:
            private = rsa.generate_private_key(65537, 2048) if kind == "rsa" else ec.generate_private_key(curves[kind])
        leaf = _certificate(
            "JOÃO DA SILVA:52998224725", private.public_key(), "AC Certificação Única", middle_key, authority=False
        )
        return HeldKey(
            private,
            leaf.public_bytes(Encoding.DER),
            (middle.public_bytes(Encoding.DER), root.public_bytes(Encoding.DER)),
            root.public_bytes(Encoding.PEM),
        )

    return make


@pytest.fixture(scope="session")
def rsa_key(make_key: Callable[..., HeldKey]) -> HeldKey:
    return make_key("rsa")


@pytest.fixture(scope="session")
def p256_key(make_key: Callable[..., HeldKey]) -> HeldKey:
    return make_key("p256")


@pytest.fixture(scope="session")
def measure() -> Callable[[bytes], Measured]:
    return lambda data: Measured(len(data), hashlib.sha256(data).digest())


@pytest.fixture(scope="session")
def sign(measure: Callable[[bytes], Measured]) -> Callable[..., bytes]:
    """Sign bytes and return the artifact, whose measure must be the one that the signer returned."""

    def run(data: bytes, key: HeldKey, spec: SignatureSpec = BASELINE_B) -> bytes:
        target = io.BytesIO()
        measured = XadesSigner(key, spec).sign(io.BytesIO(data), target, expected=measure(data), signed_at=SIGNED_AT)
        assert measured == measure(target.getvalue())
        return target.getvalue()

    return run


@pytest.fixture(scope="session")
def expectation(measure: Callable[[bytes], Measured]) -> Callable[[bytes, HeldKey], Expectation]:
    return lambda data, key: Expectation(Format.XADES, key.certificate, measure(data))


@pytest.fixture(scope="session")
def invoice() -> Callable[..., str]:
    """Build an invoice in the shape of an NF-e; `items` sets its size (about 450 characters each)."""

    def build(items: int = 3, *, attributes: str = "", declaration: str = "") -> str:
        lines = "".join(
            f'<det nItem="{number}"><prod><cProd>{number:06}</cProd><cEAN>SEM GTIN</cEAN><xProd>Parafuso sextavado aço '
            f"inox &lt;{number}&gt; &amp; arruela</xProd><NCM>73181500</NCM><CFOP>5102</CFOP><uCom>UN</uCom>"
            "<qCom>10.0000</qCom><vUnCom>1.5000000000</vUnCom><vProd>15.00</vProd></prod><imposto><ICMS><ICMS00>"
            "<orig>0</orig><CST>00</CST><modBC>3</modBC><vBC>15.00</vBC><pICMS>18.00</pICMS><vICMS>2.70</vICMS>"
            "</ICMS00></ICMS></imposto></det>"
            for number in range(1, items + 1)
        )
        return (
            f'{declaration}<NFe xmlns="http://www.portalfiscal.inf.br/nfe"{attributes}>'
            '<infNFe Id="NFe35250911222333000181550010000000011000000017" versao="4.00"><ide><cUF>35</cUF>'
            "<natOp>Venda de mercadoria à vista</natOp></ide><emit><CNPJ>11222333000181</CNPJ><xNome>Exportação São "
            f"João Ltda</xNome></emit>{lines}</infNFe></NFe>"
        )

    return build


@pytest.fixture
def xmlsec1(tmp_path: Path) -> Callable[..., bool]:
    """Have xmlsec1 verify the last signature of an artifact against a trusted root."""
    command = shutil.which("xmlsec1")
    if command is None:
        pytest.skip("xmlsec1 is not installed (tests/system-packages.txt)")

    def verify(
        artifact: bytes, key: HeldKey, *extra: str, node: str = "(//*[local-name()='Signature'])[last()]"
    ) -> bool:
        document, trusted = tmp_path / "artifact.xml", tmp_path / "root.pem"
        document.write_bytes(artifact)
        trusted.write_bytes(key.root_pem)
        options = ["--trusted-pem", str(trusted), "--node-xpath", node, *extra]
        options += ["--id-attr:Id", "http://uri.etsi.org/01903/v1.3.2#:SignedProperties"]
        result = subprocess.run([command, "--verify", *options, str(document)], capture_output=True, check=False)
        return result.returncode == 0

    return verify


@pytest.fixture
def xmlsec1_sign(tmp_path: Path) -> Callable[..., bytes]:
    """Have xmlsec1 fill in the one signature template of a document."""
    command = shutil.which("xmlsec1")
    if command is None:
        pytest.skip("xmlsec1 is not installed (tests/system-packages.txt)")

    def fill(template: bytes, key: HeldKey, *extra: str) -> bytes:
        document, private = (tmp_path / name for name in ("template.xml", "key.pem"))
        document.write_bytes(template)
        private.write_bytes(key.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        paths = [str(private)]
        for number, der in enumerate((key.certificate, *key.chain)):
            path = tmp_path / f"{number}.pem"
            path.write_bytes(x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM))
            paths.append(str(path))
        arguments = [command, "--sign", "--privkey-pem", ",".join(paths), *extra, str(document)]
        return subprocess.run(arguments, capture_output=True, check=True).stdout

    return fill
