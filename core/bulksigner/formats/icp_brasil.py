"""What a certificate of ICP-Brasil says of its holder: CPF, CNPJ, kind (ICP-20 to ICP-23, ICP-26).

Nothing here refuses a certificate: an unknown policy, a field in another shape or none at all is only not told.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator

import attrs
from cryptography import x509

from bulksigner.formats.der_reader import Reader
from bulksigner.formats.model import CheckFailed

__all__ = ["Holder", "HolderKind", "read_holder"]

_PREFIX = "2.16.76.1.3."
_PERSON, _COMPANY, _RESPONSIBLE = f"{_PREFIX}1", f"{_PREFIX}3", f"{_PREFIX}4"
_NAME_OF_RESPONSIBLE, _NAME_OF_COMPANY = f"{_PREFIX}2", f"{_PREFIX}8"
# OCTET STRING, UTF8String, PrintableString and their kin; latin-1 reads every byte of the others.
_UTF8 = 0x0C
_TEXTS = frozenset({0x04, _UTF8, 0x13, 0x14, 0x16})
_CPF_COLUMNS = slice(8, 19)
_CPF_LENGTH, _CNPJ_LENGTH = 11, 14
_NOT_ALPHANUMERIC = re.compile(r"[^0-9A-Z]")
_POLICY = re.compile(r"2\.16\.76\.1\.2\.(\d+)\.\d+")
_POLICY_KINDS = {
    1: "A1",
    2: "A2",
    3: "A3",
    4: "A4",
    101: "S1",
    102: "S2",
    103: "S3",
    104: "S4",
    201: "SE-S",
    202: "SE-H",
    203: "AE-S",
    204: "AE-H",
    303: "T3",
    304: "T4",
}


class HolderKind(enum.Enum):
    """Whose certificate it is."""

    E_CPF = "e-CPF"
    E_CNPJ = "e-CNPJ"
    OTHER = "other"


@attrs.frozen
class Holder:
    """The holder of a certificate, as far as the certificate tells; empty texts where it does not.

    CPF and CNPJ are bare. A CPF is personal data: what is shown is `shown_cpf` (ICP-26).
    """

    kind: HolderKind
    cpf: str = ""
    cnpj: str = ""
    responsible_name: str = ""
    company_name: str = ""
    policies: tuple[str, ...] = ()
    """Kinds of certificate, such as `A1`; the OID itself where the kind is unknown."""

    @property
    def shown_cpf(self) -> str:
        """Return the CPF with all but its check digits masked, or an empty text."""
        return f"***.***.***-{self.cpf[-2:]}" if self.cpf else ""

    @property
    def shown_cnpj(self) -> str:
        """Return the CNPJ with its punctuation, or an empty text."""
        number = self.cnpj
        return f"{number[:2]}.{number[2:5]}.{number[5:8]}/{number[8:12]}-{number[12:]}" if number else ""

    def describe(self) -> str:
        """Return the holder in a few words fit for a log; an empty text where there is nothing to tell."""
        parts = [] if self.kind is HolderKind.OTHER else [self.kind.value]
        parts += [", ".join(self.policies)] if self.policies else []
        parts += [f"CNPJ {self.shown_cnpj}"] if self.cnpj else []
        parts += [f"CPF {self.shown_cpf}"] if self.cpf else []
        return " · ".join(parts)


def read_holder(certificate: bytes) -> Holder:
    """Read the holder out of a DER certificate."""
    try:
        return _read(x509.load_der_x509_certificate(certificate))
    except (ValueError, x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return Holder(HolderKind.OTHER)


def _read(parsed: x509.Certificate) -> Holder:
    extensions = parsed.extensions
    fields = dict(_read_other_names(extensions))
    cpf = _digits(fields.get(_PERSON, "")[_CPF_COLUMNS], _CPF_LENGTH)
    cpf = cpf or _digits(fields.get(_RESPONSIBLE, "")[_CPF_COLUMNS], _CPF_LENGTH)
    cnpj = _cnpj(fields.get(_COMPANY, ""))
    if not cpf and not cnpj:
        cpf, cnpj = _read_subject(parsed.subject)
    if cnpj or _COMPANY in fields:
        kind = HolderKind.E_CNPJ
    else:
        kind = HolderKind.E_CPF if cpf or _PERSON in fields else HolderKind.OTHER
    return Holder(
        kind,
        cpf,
        cnpj,
        fields.get(_NAME_OF_RESPONSIBLE, "").strip(),
        fields.get(_NAME_OF_COMPANY, "").strip(),
        tuple(_read_policies(extensions)),
    )


def _read_other_names(extensions: x509.Extensions) -> Iterator[tuple[str, str]]:
    try:
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    for name in names.get_values_for_type(x509.OtherName):
        text = _read_text(name.value)
        if name.type_id.dotted_string.startswith(_PREFIX) and text is not None:
            yield name.type_id.dotted_string, text


def _read_text(value: bytes) -> str | None:
    """Read the string inside the explicit [0]; None where it is something else."""
    try:
        element = Reader(value, "otherName").take()
    except CheckFailed:
        return None
    if element.tag not in _TEXTS:
        return None
    return bytes(element.content).decode("utf-8" if element.tag == _UTF8 else "latin-1", "replace")


def _read_policies(extensions: x509.Extensions) -> Iterator[str]:
    try:
        policies = extensions.get_extension_for_class(x509.CertificatePolicies).value
    except x509.ExtensionNotFound:
        return
    for policy in policies:
        identifier = policy.policy_identifier.dotted_string
        found = _POLICY.fullmatch(identifier)
        if identifier.startswith("2.16.76.1.2."):
            yield _POLICY_KINDS.get(int(found[1]), identifier) if found else identifier


def _read_subject(subject: x509.Name) -> tuple[str, str]:
    """Read CPF or CNPJ after the last colon of the common name, else out of the serial number (ICP-21)."""
    for kind, needs_colon in ((x509.NameOID.COMMON_NAME, True), (x509.NameOID.SERIAL_NUMBER, False)):
        for attribute in subject.get_attributes_for_oid(kind):
            _, colon, number = str(attribute.value).rpartition(":")
            if needs_colon and not colon:
                continue
            cpf, cnpj = _digits(number, _CPF_LENGTH), _cnpj(number)
            if cpf or cnpj:
                return cpf, cnpj
    return "", ""


def _digits(text: str, length: int) -> str:
    found = re.sub(r"\D", "", text)
    return found if len(found) == length and found.isascii() and found.strip("0") else ""


def _cnpj(text: str) -> str:
    """Return a CNPJ of digits, or of the letters it may have from 2026 on (CNAB-38), or an empty text."""
    found = _NOT_ALPHANUMERIC.sub("", text.upper())
    return found if len(found) == _CNPJ_LENGTH and found[-2:].isdigit() and found.strip("0") else ""
