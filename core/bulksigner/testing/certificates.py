"""Throw-away certificates of Brazilian shape: root, intermediate, leaf with ICP-Brasil names (ICP-20 to ICP-25).

`python -m bulksigner.testing.certificates FILE.pfx PASSWORD` writes one, and its root beside it as FILE.root.pem.

Keys are made once per process and kind, because an RSA key takes longer to make than most tests take to run.
"""

from __future__ import annotations

import datetime
import enum
import functools
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID, NameOID

__all__ = [
    "ANA",
    "AURORA",
    "Authority",
    "Company",
    "Issued",
    "KeyKind",
    "Person",
    "PrivateKey",
    "cnpj",
    "cpf",
    "make_authority",
    "make_key",
]

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

_PERSON_RECORD = "2.16.76.1.3.1"
_RESPONSIBLE_NAME = "2.16.76.1.3.2"
_COMPANY_NUMBER = "2.16.76.1.3.3"
_RESPONSIBLE_RECORD = "2.16.76.1.3.4"
_VOTER_RECORD = "2.16.76.1.3.5"
_PERSON_CEI = "2.16.76.1.3.6"
_COMPANY_CEI = "2.16.76.1.3.7"
_POLICY_A1 = x509.ObjectIdentifier("2.16.76.1.2.1.1")


class KeyKind(enum.Enum):
    """Kinds of key that ICP-Brasil certificates carry."""

    RSA_2048 = "rsa-2048"
    RSA_4096 = "rsa-4096"
    ECDSA_P256 = "ecdsa-p256"


def cpf(base: str) -> str:
    """Complete nine digits to a CPF with its two check digits."""
    digits = base
    for _ in range(2):
        total = sum(int(digit) * weight for digit, weight in zip(digits, range(len(digits) + 1, 1, -1), strict=True))
        digits += str(total * 10 % 11 % 10)
    return digits


def cnpj(base: str) -> str:
    """Complete twelve digits or letters to a CNPJ with its two check digits (CNAB-38)."""
    text = base
    for _ in range(2):
        total = sum((ord(char) - 48) * (2 + place % 8) for place, char in enumerate(reversed(text)))
        text += "0" if total % 11 < 2 else str(11 - total % 11)
    return text


@attrs.frozen
class Person:
    """The holder of an e-CPF."""

    name: str
    number: str
    born: datetime.date = datetime.date(1980, 5, 17)

    @property
    def record(self) -> str:
        """Lay out birth date, CPF, NIS, RG and issuer in the fixed columns of the otherName."""
        return f"{self.born:%d%m%Y}{self.number}{'0' * 11}{'0' * 15}{'SSPSP':6}"


@attrs.frozen
class Company:
    """The holder of an e-CNPJ and the person who answers for it."""

    name: str
    number: str
    responsible: Person


ANA = Person("ANA FICTICIA DOS SANTOS", cpf("123456789"))
AURORA = Company("COMERCIO FICTICIO AURORA LTDA", cnpj("112223330001"), ANA)


@functools.cache
def make_key(kind: KeyKind, label: str = "leaf") -> PrivateKey:
    """Make the process's key of that kind and label, once."""
    del label
    if kind is KeyKind.ECDSA_P256:
        return ec.generate_private_key(ec.SECP256R1())
    return rsa.generate_private_key(65537, 4096 if kind is KeyKind.RSA_4096 else 2048)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


@attrs.frozen
class Issued:
    """A leaf certificate with its key and its issuers, nearest first."""

    certificate: x509.Certificate
    key: PrivateKey
    issuers: tuple[x509.Certificate, ...]

    @property
    def certificate_der(self) -> bytes:
        """Return the leaf certificate, DER."""
        return _der(self.certificate)

    @property
    def chain_der(self) -> tuple[bytes, ...]:
        """Return the issuers' certificates, DER, nearest first, the root last."""
        return tuple(_der(issuer) for issuer in self.issuers)

    @property
    def root(self) -> x509.Certificate:
        """Return the root that the leaf leads to."""
        return self.issuers[-1]

    def write_pfx(self, path: Path, password: str, *, legacy: bool = False, chain: bool = True) -> Path:
        """Write a PKCS#12 file; `legacy` takes the envelope of older tools: triple DES and SHA-1.

        With an empty password the file is not encrypted.
        """
        # As many rounds as openssl writes; more would be paid at every start of a service under test.
        builder = serialization.PrivateFormat.PKCS12.encryption_builder().kdf_rounds(2048)
        if legacy:
            builder = builder.key_cert_algorithm(pkcs12.PBES.PBESv1SHA1And3KeyTripleDESCBC).hmac_hash(hashes.SHA1())
        else:
            builder = builder.key_cert_algorithm(pkcs12.PBES.PBESv2SHA256AndAES256CBC).hmac_hash(hashes.SHA256())
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password:
            encryption = builder.build(password.encode())
        issuers = self.issuers if chain else None
        friendly_name = self.certificate.subject.rfc4514_string().encode()
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(friendly_name, self.key, self.certificate, issuers, encryption)
        )
        return path

    def write_certificate_pem(self, path: Path) -> Path:
        """Write the leaf certificate alone."""
        path.write_bytes(_pem(self.certificate))
        return path

    def write_chain_pem(self, path: Path) -> Path:
        """Write leaf, intermediate and root into one file, in this order."""
        path.write_bytes(b"".join(_pem(certificate) for certificate in (self.certificate, *self.issuers)))
        return path

    def write_issuers_pem(self, path: Path) -> Path:
        """Write intermediate and root without the leaf, as `openssl cms -certfile` wants them."""
        path.write_bytes(b"".join(_pem(issuer) for issuer in self.issuers))
        return path

    def write_root_pem(self, path: Path) -> Path:
        """Write the root certificate alone."""
        path.write_bytes(_pem(self.root))
        return path

    def write_key_pem(self, path: Path) -> Path:
        """Write the private key as unencrypted PKCS#8, for tools that take no PKCS#12 file."""
        path.write_bytes(
            self.key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return path


def _name(common_name: str, unit: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "BR"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "ICP-Brasil de Teste"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _other_name(identifier: str, text: str) -> x509.OtherName:
    content = text.encode("latin-1")
    # OCTET STRING in short form: no ICP-Brasil record reaches 128 bytes.
    return x509.OtherName(x509.ObjectIdentifier(identifier), bytes([0x04, len(content)]) + content)


def _alternative_names(holder: Person | Company) -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = [x509.RFC822Name("assinatura@exemplo.test")]
    if isinstance(holder, Person):
        names += [
            _other_name(_PERSON_RECORD, holder.record),
            _other_name(_VOTER_RECORD, "0" * 19 + f"{'SAO PAULOSP':22}"),
            _other_name(_PERSON_CEI, "0" * 12),
        ]
    else:
        names += [
            _other_name(_RESPONSIBLE_NAME, holder.responsible.name),
            _other_name(_COMPANY_NUMBER, holder.number),
            _other_name(_RESPONSIBLE_RECORD, holder.responsible.record),
            _other_name(_COMPANY_CEI, "0" * 12),
        ]
    return x509.SubjectAlternativeName(names)


def _revocation_places(crl_url: str | None, ocsp_url: str | None) -> Iterator[x509.ExtensionType]:
    if crl_url is not None:
        place = [x509.UniformResourceIdentifier(crl_url)]
        yield x509.CRLDistributionPoints([x509.DistributionPoint(place, None, None, None)])
    if ocsp_url is not None:
        access = AuthorityInformationAccessOID.OCSP, x509.UniformResourceIdentifier(ocsp_url)
        yield x509.AuthorityInformationAccess([x509.AccessDescription(*access)])


def _usage(*, signs_documents: bool, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=signs_documents,
        content_commitment=signs_documents,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(subject: x509.Name, issuer: x509.Name, key: PrivateKey, issuer_key: PrivateKey) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )


@attrs.frozen
class Authority:
    """A root and an intermediate that issue throw-away certificates."""

    root: x509.Certificate
    intermediate: x509.Certificate
    intermediate_key: PrivateKey

    @property
    def root_der(self) -> bytes:
        """Return the root certificate, DER."""
        return _der(self.root)

    def issue(
        self,
        holder: Person | Company = ANA,
        *,
        kind: KeyKind = KeyKind.RSA_2048,
        not_before: datetime.datetime | None = None,
        not_after: datetime.datetime | None = None,
        for_signing: bool = True,
        crl_url: str | None = None,
        ocsp_url: str | None = None,
    ) -> Issued:
        """Issue a leaf of kind A1 that is valid for one year from yesterday unless told otherwise.

        `for_signing=False` leaves digitalSignature and nonRepudiation out, for tests of refusals. The addresses are
        where its revocation can be asked for.
        """
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        begins = not_before or now - datetime.timedelta(days=1)
        ends = not_after or now + datetime.timedelta(days=365)
        key = make_key(kind)
        unit = "e-CPF A1" if isinstance(holder, Person) else "e-CNPJ A1"
        subject = _name(f"{holder.name}:{holder.number}", unit)
        builder = (
            _builder(subject, self.intermediate.subject, key, self.intermediate_key)
            .not_valid_before(begins)
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_documents=for_signing, signs_certificates=not for_signing), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.EMAIL_PROTECTION]),
                critical=False,
            )
            .add_extension(
                x509.CertificatePolicies([x509.PolicyInformation(_POLICY_A1, policy_qualifiers=None)]), critical=False
            )
            .add_extension(_alternative_names(holder), critical=False)
        )
        for extension in _revocation_places(crl_url, ocsp_url):
            builder = builder.add_extension(extension, critical=False)
        certificate = builder.sign(self.intermediate_key, hashes.SHA256())
        return Issued(certificate, key, (self.intermediate, self.root))


def make_authority(name: str = "Teste") -> Authority:
    """Make a root and an intermediate, valid for ten years from a month ago; keys of one `name` are shared."""
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    begins, ends = now - datetime.timedelta(days=30), now + datetime.timedelta(days=3650)
    root_key = make_key(KeyKind.RSA_2048, f"root {name}")
    intermediate_key = make_key(KeyKind.RSA_2048, f"intermediate {name}")
    root_name = _name(f"Autoridade Certificadora Raiz {name}", "Raiz de teste")
    intermediate_name = _name(f"AC {name} v1", "Intermediaria de teste")
    usage = _usage(signs_documents=False, signs_certificates=True)
    root = (
        _builder(root_name, root_name, root_key, root_key)
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .sign(root_key, hashes.SHA256())
    )
    intermediate = (
        _builder(intermediate_name, root_name, intermediate_key, root_key)
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(root_key, hashes.SHA256())
    )
    return Authority(root, intermediate, intermediate_key)


def main(arguments: list[str]) -> int:
    """Write a throw-away e-CPF as a PKCS#12 file, and its root beside it; print both paths."""
    if len(arguments) != 2:
        print("usage: python -m bulksigner.testing.certificates FILE.pfx PASSWORD", file=sys.stderr)
        return 2
    path, password = Path(arguments[0]), arguments[1]
    issued = make_authority().issue()
    print(issued.write_pfx(path, password))
    print(issued.write_root_pem(path.with_suffix(".root.pem")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
