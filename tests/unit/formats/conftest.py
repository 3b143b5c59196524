"""Throw-away keys and PDF files for the tests of the signature formats, all made in memory."""

from __future__ import annotations

import datetime
import hashlib
import io
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from asn1crypto import x509 as asn1_x509
from asn1crypto.keys import PrivateKeyInfo
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.fields import SigFieldSpec
from pyhanko.sign.signers import PdfSignatureMetadata, PdfSigner, SimpleSigner
from pyhanko.sign.validation import validate_pdf_signature
from pyhanko_certvalidator import ValidationContext
from pyhanko_certvalidator.registry import SimpleCertificateStore

from bulksigner.contract.certificate import Digest, KeyAlgorithm
from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Format, Measured
from bulksigner.formats.dispatch import check
from bulksigner.formats.model import Expectation, FileSigner
from bulksigner.testing.pdf_sample import PdfSample
from bulksigner.testing.verify import nss_commands, pdfsig_command

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
_HASHES: dict[Digest, hashes.HashAlgorithm] = {
    Digest.SHA1: hashes.SHA1(),
    Digest.SHA256: hashes.SHA256(),
    Digest.SHA512: hashes.SHA512(),
}


@attrs.define
class HeldKey:
    """An opened key in memory that counts its uses."""

    certificate: bytes
    chain: tuple[bytes, ...]
    algorithm: KeyAlgorithm
    private: PrivateKey
    calls: int = 0

    def sign(self, data: bytes, digest: Digest) -> bytes:
        self.calls += 1
        if isinstance(self.private, rsa.RSAPrivateKey):
            return self.private.sign(data, padding.PKCS1v15(), _HASHES[digest])
        return self.private.sign(data, ec.ECDSA(_HASHES[digest]))

    def sign_digest(self, value: bytes, digest: Digest) -> bytes:
        raise NotImplementedError

    def close(self) -> None:
        pass


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.COUNTRY_NAME, "BR"), x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    )


def _issue(subject: str, public: PrivateKey, issuer: str, private: PrivateKey, *, authority: bool) -> bytes:
    usage = x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=not authority,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder(_name(issuer), _name(subject), public.public_key(), x509.random_serial_number())
        .not_valid_before(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(datetime.datetime(2040, 1, 1, tzinfo=datetime.UTC))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(private.public_key()), critical=False)
    )
    return builder.sign(private, hashes.SHA256()).public_bytes(Encoding.DER)


def issue_key(make: Callable[[], PrivateKey]) -> HeldKey:
    """Issue a chain of three: root, intermediate and a signer with a name beyond ASCII."""
    root, intermediate, signer = make(), make(), make()
    root_certificate = _issue("Test Root", root, "Test Root", root, authority=True)
    intermediate_certificate = _issue("Test Issuer", intermediate, "Test Root", root, authority=True)
    certificate = _issue("João Signer:52998224725", signer, "Test Issuer", intermediate, authority=False)
    algorithm = KeyAlgorithm.RSA if isinstance(signer, rsa.RSAPrivateKey) else KeyAlgorithm.ECDSA
    return HeldKey(certificate, (intermediate_certificate, root_certificate), algorithm, signer)


@pytest.fixture(scope="session")
def rsa_held() -> HeldKey:
    """An RSA-2048 key; shared, so its count of uses is not looked at."""
    return issue_key(lambda: rsa.generate_private_key(65537, 2048))


@pytest.fixture(scope="session")
def ecdsa_held() -> HeldKey:
    """An ECDSA P-256 key; shared, so its count of uses is not looked at."""
    return issue_key(lambda: ec.generate_private_key(ec.SECP256R1()))


@pytest.fixture
def rsa_key(rsa_held: HeldKey) -> HeldKey:
    """An RSA-2048 key that was not used yet."""
    return attrs.evolve(rsa_held, calls=0)


@pytest.fixture
def ecdsa_key(ecdsa_held: HeldKey) -> HeldKey:
    """An ECDSA P-256 key that was not used yet."""
    return attrs.evolve(ecdsa_held, calls=0)


@pytest.fixture(params=["rsa", "ecdsa"])
def any_key(request: pytest.FixtureRequest) -> HeldKey:
    """Each kind of key in turn."""
    held: HeldKey = request.getfixturevalue(f"{request.param}_key")
    return held


def measure(content: bytes) -> Measured:
    """Measure bytes as staging does."""
    return Measured(len(content), hashlib.sha256(content).digest())


SIGNED_AT = datetime.datetime(2026, 3, 4, 5, 6, 7, tzinfo=datetime.UTC)


def sign(signer: FileSigner, content: bytes) -> bytes:
    """Sign bytes, holding what the signer measured against what it wrote."""
    target = io.BytesIO()
    measured = signer.sign(io.BytesIO(content), target, expected=measure(content), signed_at=SIGNED_AT)
    assert measured == measure(target.getvalue())
    return target.getvalue()


@pytest.fixture(name="sign")
def sign_fixture() -> Callable[[FileSigner, bytes], bytes]:
    """`sign`, for test modules."""
    return sign


@pytest.fixture
def signed_at() -> datetime.datetime:
    """The time at which `sign` signs."""
    return SIGNED_AT


@pytest.fixture(scope="session")
def pem_of() -> Callable[[bytes], bytes]:
    """Turn a DER certificate into PEM."""
    return lambda certificate: x509.load_der_x509_certificate(certificate).public_bytes(Encoding.PEM)


@pytest.fixture
def run() -> Callable[..., str]:
    """Run an outside tool and return what it printed; skip where it is not installed."""

    def call(*arguments: object) -> str:
        if shutil.which(str(arguments[0])) is None:
            pytest.skip(f"{arguments[0]} is not installed")
        done = subprocess.run([str(part) for part in arguments], capture_output=True, timeout=60, check=False)
        output = (done.stdout + done.stderr).decode(errors="replace")
        assert done.returncode == 0, output
        return output

    return call


def mutate(data: bytes, chance: random.Random, start: int = 0) -> bytes:
    """Change, remove or repeat bytes at a few places from `start` on; a file that got shorter is filled up."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5))):
        position = chance.randrange(start, len(changed))
        length = chance.choice((1, 1, 2, 8, 64))
        kind = chance.randrange(4)
        if kind == 0:
            changed[position : position + length] = chance.randbytes(len(changed[position : position + length]))
        elif kind == 1:
            del changed[position : position + length]
        elif kind == 2:
            changed[position:position] = changed[position : position + length]
        else:
            changed[position : position + length] = chance.choice((b"<<", b">>", b"[", b"]", b"9", b" R", b"/A ", b"("))
        changed += b"\n" * (len(data) - len(changed))
    return bytes(changed)


@pytest.fixture(name="mutate")
def mutate_fixture() -> Callable[..., bytes]:
    """`mutate`, for test modules."""
    return mutate


@pytest.fixture(name="measure")
def measure_fixture() -> Callable[[bytes], Measured]:
    """`measure`, for test modules."""
    return measure


@pytest.fixture(scope="session")
def pdf_sample() -> type[PdfSample]:
    """The builder, for test modules."""
    return PdfSample


@pytest.fixture(scope="session")
def issue() -> Callable[[Callable[[], PrivateKey]], HeldKey]:
    """`issue_key`, for test modules."""
    return issue_key


@pytest.fixture(scope="session")
def trusting(rsa_held: Any, pem_of: Callable[[bytes], bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trust store that has the root of the test's key alone."""
    folder = tmp_path_factory.mktemp("trust")
    (folder / "root.pem").write_bytes(pem_of(rsa_held.chain[1]))
    for command in nss_commands(folder, [folder / "root.pem"]):
        subprocess.run([str(part) for part in command], check=True, timeout=60, capture_output=True)
    return folder


@pytest.fixture
def accept(rsa_key: Any, trusting: Path, tmp_path: Path, run: Any, measure: Any) -> Callable[..., None]:
    """Hold a signed file against its original: our check, poppler, and pyHanko find every signature valid."""

    def hold(original: bytes, artifact: bytes, signatures: int = 1, password: str = "") -> None:
        assert artifact.startswith(original)
        known = (Secret(password),) if password else ()
        check(io.BytesIO(artifact), Expectation(Format.PADES, rsa_key.certificate, measure(original), passwords=known))
        path = tmp_path / "signed.pdf"
        path.write_bytes(artifact)
        # Poppler takes the bytes as they are, and only AES-256 has passwords in UTF-8.
        given = password.encode("utf-8" if b"/R 6" in artifact else "latin-1").decode("utf-8", "surrogateescape")
        program, *rest = pdfsig_command(path, trusting)
        output = run(program, *(("-upw", given, "-opw", given) if password else ()), *rest)
        assert output.count("Signature is Valid.") == output.count("Signature Validation:") == signatures, output
        # NSS does not always judge a certificate that it meets again.
        assert output.count("Certificate is Trusted.") >= 1, output
        assert output.replace("Not total", "").count("Total document signed") == 1, output
        roots = [asn1_x509.Certificate.load(rsa_key.chain[1])]
        # Strict, pyHanko validates no hybrid file, whatever is in it.
        reader = PdfFileReader(io.BytesIO(artifact), strict=False)
        if reader.encrypted:
            reader.decrypt(password)
        # A table goes on a table and a stream on a stream: part 1 of PDF/A knows no streams, old readers no mixture.
        assert reader.has_xref_stream == PdfFileReader(io.BytesIO(original), strict=False).has_xref_stream
        found = reader.embedded_signatures
        assert len(found) == signatures
        for signature in found:
            trust = ValidationContext(trust_roots=roots, allow_fetching=False, revocation_mode="soft-fail")
            status = validate_pdf_signature(signature, trust)
            assert status.bottom_line, status.pretty_print_details()
            assert status.docmdp_ok is not False
        assert found[-1].evaluate_signature_coverage().name == "ENTIRE_FILE"

    return hold


@pytest.fixture
def sign_by_other(rsa_key: Any) -> Callable[..., bytes]:
    """Sign by pyHanko, with the same key, so that one root is trusted."""
    private = rsa_key.private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    other = SimpleSigner(
        signing_cert=asn1_x509.Certificate.load(rsa_key.certificate),
        signing_key=PrivateKeyInfo.load(private),
        cert_registry=SimpleCertificateStore.from_certs([asn1_x509.Certificate.load(rsa_key.chain[0])]),
    )

    def sign_it(content: bytes, field: SigFieldSpec | None = None, name: str = "Other", **options: Any) -> bytes:
        writer = IncrementalPdfFileWriter(io.BytesIO(content), strict=False)
        metadata = PdfSignatureMetadata(field_name=name, md_algorithm="sha256", **options)
        return PdfSigner(metadata, other, new_field_spec=field).sign_pdf(writer).getvalue()

    return sign_it
