"""The holder of a certificate: CPF, CNPJ, kind."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from bulksigner.formats.icp_brasil import HolderKind, read_holder
from bulksigner.testing.certificates import ANA, AURORA, cnpj

KEY = ec.generate_private_key(ec.SECP256R1())
PERSON, COMPANY, RESPONSIBLE = (f"2.16.76.1.3.{arc}" for arc in (1, 3, 4))


def make(*names, subject=("ALGUEM",), serial=None, policy=None) -> bytes:
    """A self-signed certificate with otherName values, a common name, a subject serial number and a policy."""
    attributes = [x509.NameAttribute(x509.NameOID.COMMON_NAME, one) for one in subject]
    attributes += [x509.NameAttribute(x509.NameOID.SERIAL_NUMBER, serial)] if serial else []
    name = x509.Name(attributes)
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(KEY.public_key())
        .serial_number(9)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
    )
    if names:
        others = [x509.OtherName(x509.ObjectIdentifier(oid), value) for oid, value in names]
        builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
    if policy:
        information = x509.PolicyInformation(x509.ObjectIdentifier(policy), None)
        builder = builder.add_extension(x509.CertificatePolicies([information]), critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


def text(content: str, tag: int = 0x04) -> bytes:
    encoded = content.encode("utf-8" if tag == 0x0C else "latin-1")
    return bytes([tag, len(encoded)]) + encoded


def test_a_person(leaf) -> None:
    """ICP-20, ICP-22, ICP-26: e-CPF of kind A1; what is shown has the check digits only."""
    holder = read_holder(leaf.certificate_der)
    assert (holder.kind, holder.cpf, holder.cnpj) == (HolderKind.E_CPF, ANA.number, "")
    assert holder.describe() == f"e-CPF · A1 · CPF ***.***.***-{ANA.number[-2:]}"


def test_a_company_and_who_answers_for_it(authority) -> None:
    """ICP-20: the CNPJ, and the CPF of the responsible person."""
    holder = read_holder(authority.issue(AURORA).certificate_der)
    assert (holder.kind, holder.cpf, holder.cnpj) == (HolderKind.E_CNPJ, ANA.number, AURORA.number)
    assert holder.responsible_name == ANA.name
    assert holder.shown_cnpj == "11.222.333/0001-81"
    assert ANA.number not in holder.describe()


@pytest.mark.parametrize("tag", [0x04, 0x0C, 0x13])
def test_each_kind_of_string_is_read(tag) -> None:
    """ICP section 3: OCTET STRING, UTF8String, PrintableString."""
    assert read_holder(make((PERSON, text(ANA.record, tag)))).cpf == ANA.number


@pytest.mark.parametrize(
    ("subject", "serial", "expected"),
    [
        (f"FULANO:{ANA.number}", None, (HolderKind.E_CPF, ANA.number, "")),
        ("A:B:11222333000181", None, (HolderKind.E_CNPJ, "", "11222333000181")),
        ("SELO", "CNPJ:11222333000181", (HolderKind.E_CNPJ, "", "11222333000181")),
        ("SELO", ANA.number, (HolderKind.E_CPF, ANA.number, "")),
        (ANA.number, None, (HolderKind.OTHER, "", "")),
        ("FULANO:123", "x", (HolderKind.OTHER, "", "")),
    ],
)
def test_the_subject_stands_in(subject, serial, expected) -> None:
    """ICP-21: after the last colon of the common name, then the subject's serial number."""
    holder = read_holder(make(subject=(subject,), serial=serial))
    assert (holder.kind, holder.cpf, holder.cnpj) == expected


def test_zeros_are_no_number() -> None:
    """ICP-20: missing data is filled with zeros; the CPF is then that of the responsible person."""
    empty = ANA.record.replace(ANA.number, "0" * 11)
    holder = read_holder(make((PERSON, text(empty)), (RESPONSIBLE, text(ANA.record)), (COMPANY, text("0" * 14))))
    assert (holder.cpf, holder.cnpj) == (ANA.number, "")


def test_letters_in_a_cnpj() -> None:
    """CNAB-38: twelve digits or letters and two check digits."""
    number = cnpj("12ABC34501DE")
    assert read_holder(make((COMPANY, text(number)))).cnpj == number


@pytest.mark.parametrize(
    ("policy", "told"),
    [("2.16.76.1.2.3.17", "A3"), ("2.16.76.1.2.202.1", "SE-H"), ("2.16.76.1.2.777.1", "2.16.76.1.2.777.1")],
)
def test_an_unknown_policy_is_shown_and_never_refused(policy, told) -> None:
    """ICP-22, ICP-23."""
    assert read_holder(make(policy=policy)).policies == (told,)


@pytest.mark.parametrize("value", [b"\x30\x00", b"\x04\x02ab", b"\x05\x00"])
def test_a_damaged_field_is_only_not_told(value) -> None:
    """ICP-23: no shape of a field is a reason to fail."""
    assert read_holder(make((PERSON, value))).cpf == ""


def test_what_is_no_certificate_has_no_holder() -> None:
    """The caller need not know whether a key's certificate can be read."""
    assert read_holder(b"nothing").describe() == ""
