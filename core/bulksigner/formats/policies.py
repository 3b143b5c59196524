"""Signature policies as data: the shipped table, and the choice of a row by name, date, key and root (ICP-01 to -05).

A row says which object identifier, digest and attributes a signature of its policy has; signers and checks read it and
know no policy by name. The table is replaced by a folder of policy files (`policy_files`).
"""

from __future__ import annotations

import datetime
import functools
import re
import tomllib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

import attrs
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from bulksigner.contract.certificate import Digest, KeyAlgorithm, OpenedKey
from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.policy import CertificateElement, KeyRule, PolicyIdentifier, Proof, SignatureSpec
from bulksigner.contract.signing import Format

__all__ = ["KeyFacts", "Policy", "PolicyTable", "parse_table", "read_key", "shipped_policies"]

_SIGNING_CERTIFICATE = "1.2.840.113549.1.9.16.2.12"
_FORBIDDEN_IN_PDF = (
    "1.2.840.113549.1.9.5",
    _SIGNING_CERTIFICATE,
    "1.2.840.113549.1.9.16.2.17",
    "1.2.840.113583.1.1.8",
)
"""signingTime, signingCertificate, signerLocation, adbe-revocationInfoArchival (DOC-ICP-15.03, table A.14)."""


_MADE_IN_CMS = frozenset(
    {
        "1.2.840.113549.1.9.3",
        "1.2.840.113549.1.9.4",
        "1.2.840.113549.1.9.16.2.15",
        "1.2.840.113549.1.9.16.2.47",
    }
)
_MADE_IN_XML = frozenset({"SigningCertificate", "SignaturePolicyIdentifier", "SigningTime", "DataObjectFormat"})
"""What the signers make of any policy; one that requires more is not signed with."""
_PROOFS = {
    "1.2.840.113549.1.9.16.2.14": Proof.STAMP,
    "1.2.840.113549.1.9.16.2.21": Proof.REFERENCES,
    "1.2.840.113549.1.9.16.2.22": Proof.REFERENCES,
    "1.2.840.113549.1.9.16.2.25": Proof.REFERENCES,
    "1.2.840.113549.1.9.16.2.23": Proof.VALUES,
    "1.2.840.113549.1.9.16.2.24": Proof.VALUES,
    "1.2.840.113549.1.9.16.2.48": Proof.ARCHIVE,
    "SignatureTimeStamp": Proof.STAMP,
    "CompleteCertificateRefs": Proof.REFERENCES,
    "CompleteRevocationRefs": Proof.REFERENCES,
    "SigAndRefsTimeStamp": Proof.REFERENCES,
    "CertificateValues": Proof.VALUES,
    "RevocationValues": Proof.VALUES,
    "ArchiveTimeStamp": Proof.ARCHIVE,
}
_PROOFS_OF_STORES = {"AD-RC": Proof.VALUES, "AD-RA": Proof.ARCHIVE}
"""Levels whose proof lies in the PDF and not in its signature (DOC-ICP-15.03, tables A.18 to A.22)."""


@attrs.frozen
class Policy:
    """One version of one policy.

    `required_unsigned` are what it wants beside the signature, such as a time stamp. `withdrawn` says why nothing new
    is signed with it, empty where there is no such reason. `roots` are common names of the roots it lists. `artifacts`
    are the files that a PDF of it carries, empty where they are not at hand.
    """

    format: Format
    level: str
    version: str
    identifier: PolicyIdentifier
    not_before: datetime.date
    not_after: datetime.date
    required_signed: tuple[str, ...]
    required_unsigned: tuple[str, ...]
    key_rules: tuple[KeyRule, ...]
    roots: tuple[str, ...] = ()
    withdrawn: str = ""
    artifacts: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        """Return level and version, as `Policy` of a profile spells them."""
        return f"{self.level} {self.version}"

    @property
    def order(self) -> tuple[int, ...]:
        """Return the version as numbers, for comparison."""
        return tuple(int(part) for part in self.version.split("."))

    def is_valid_at(self, moment: datetime.datetime) -> bool:
        """Tell whether signatures may be made with it at an aware moment."""
        return self.not_before <= moment.astimezone(datetime.UTC).date() <= self.not_after

    @property
    def proof(self) -> Proof:
        """Return what stands unsigned beside its signatures."""
        inside = max((_PROOFS.get(name, Proof.ARCHIVE) for name in self.required_unsigned), default=Proof.NONE)
        return max(inside, _PROOFS_OF_STORES.get(self.level, inside)) if self.format is Format.PADES else inside

    def object_to(self, key: KeyFacts) -> str | None:
        """Say why no signature of the policy is made with a key, or None (ICP-02, ICP-11)."""
        made = _MADE_IN_XML if self.format is Format.XADES else _MADE_IN_CMS
        if not made.issuperset(self.required_signed):
            return "it requires signed attributes that are not made here"
        if not _PROOFS.keys() >= set(self.required_unsigned):
            return "it requires revocation data or time stamps of an archive"
        if self.format is Format.PADES and self.proof is Proof.ARCHIVE and not self.artifacts:
            return (
                "it requires its own file, LPA_PAdES.der and LPA_PAdES.p7s inside the PDF, which the folder of "
                "Signing:Policies:Path must hold"
            )
        if not any(rule.algorithm is key.algorithm and rule.least_bits <= key.bits for rule in self.key_rules):
            allowed = sorted({f"{rule.algorithm.name} from {rule.least_bits} bits" for rule in self.key_rules})
            return f"it allows {' and '.join(allowed)}, and the key is {key.algorithm.name} of {key.bits} bits"
        if key.root in self.roots or not key.is_national:
            return None
        return f"it does not list the root of the certificate, {key.root}"

    def spec(self, *, etsi_filter: bool) -> SignatureSpec:
        """Return what signatures of this policy carry."""
        is_pdf = self.format is Format.PADES
        return SignatureSpec(
            name=self.name,
            digest=Digest.SHA256,
            policy=self.identifier,
            cades_signing_time=True,
            xades_signing_time=True,
            xades_certificate_element=CertificateElement.SIGNING_CERTIFICATE,
            pades_filter="Adobe.PPKLite" if etsi_filter else "PBAD_PAdES",
            pades_sub_filter="ETSI.CAdES.detached" if etsi_filter else "PBAD.PAdES",
            required_signed=self.required_signed,
            forbidden_signed=_FORBIDDEN_IN_PDF if is_pdf else (),
            key_rules=self.key_rules,
            not_before=self.not_before,
            not_after=self.not_after,
            artifacts=self.artifacts,
            proof=self.proof,
            required_unsigned=self.required_unsigned,
        )


@attrs.frozen
class KeyFacts:
    """What a policy asks about a key; `root` is the common name at the top of its chain as far as that is known."""

    algorithm: KeyAlgorithm
    bits: int
    root: str = ""
    is_national: bool = False
    """Whether the chain is of ICP-Brasil; other roots are a matter of the trust set (ICP-03)."""


def read_key(key: OpenedKey) -> KeyFacts:
    """Read what policies ask about a key; raises `PermanentFailure` where its certificate cannot be read."""
    try:
        certificates = [x509.load_der_x509_certificate(der) for der in (key.certificate, *key.chain)]
        public = certificates[0].public_key()
        by_subject = {certificate.subject.public_bytes(): certificate for certificate in reversed(certificates)}
        top = by_subject.pop(certificates[0].subject.public_bytes())
        while issuer := by_subject.pop(top.issuer.public_bytes(), None):
            top = issuer
        root = _common_name(top.issuer)
        organizations = [str(one.value) for one in top.issuer.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    except (ValueError, x509.InvalidVersion, UnsupportedAlgorithm) as error:
        raise PermanentFailure(f"The signer's certificate is not an X.509 certificate: {error}.") from error
    bits = public.key_size if isinstance(public, rsa.RSAPublicKey | ec.EllipticCurvePublicKey) else 0
    return KeyFacts(key.algorithm, bits, root, "ICP-Brasil" in organizations)


def _common_name(name: x509.Name) -> str:
    return next((str(one.value) for one in name.get_attributes_for_oid(NameOID.COMMON_NAME)), name.rfc4514_string())


class PolicyTable:
    """The policies this host knows, by format and level, newest first."""

    def __init__(self, rows: Iterable[Policy], origin: str) -> None:
        self.origin = origin
        self.rows = tuple(sorted(rows, key=lambda row: (row.format.value, row.level, row.order)))

    def versions(self, format: Format, level: str, version: str | None = None) -> list[Policy]:
        """Return the rows of a level, newest first; of one version where it is named."""
        return [
            row
            for row in reversed(self.rows)
            if row.format is format and row.level == level and version in (None, row.version)
        ]

    def explain_absent(self, format: Format, level: str, version: str | None) -> str | None:
        """Say why a policy cannot be named for a format, or None where it can."""
        if not self.versions(format, level):
            known = sorted({row.level for row in self.rows if row.format is format})
            if not known:
                return f"there is no policy for {format.value} at all ({self.origin})"
            return f"there is no policy {level} for {format.value}; known are {', '.join(known)}"
        if not self.versions(format, level, version):
            known = [row.version for row in self.versions(format, level)]
            return f"{level} for {format.value} has no version {version}; known are {', '.join(known)}"
        return None

    def usable(self, format: Format, level: str, version: str | None, key: KeyFacts) -> list[Policy]:
        """Return the rows that a key may sign with, newest first, at whatever time (ICP-03).

        Raises `PermanentFailure` with the reason where there is none.
        """
        absent = self.explain_absent(format, level, version)
        if absent is not None:
            raise PermanentFailure(f"{absent[0].upper()}{absent[1:]}.")
        rows = self.versions(format, level, version)
        reasons = [(row, row.withdrawn or row.object_to(key)) for row in rows]
        usable = [row for row, reason in reasons if not reason]
        if not usable:
            by_reason: dict[str, list[str]] = {}
            for row, reason in reasons:
                by_reason.setdefault(reason or "", []).append(row.version)
            told = "; ".join(f"{', '.join(versions)}: {reason}" for reason, versions in by_reason.items())
            can = "can" if version is None else "cannot"
            which = "No version of the policy" if version is None else f"Version {version} of the policy"
            advice = "" if version is None else f"Policy={level} for the newest that can, "
            raise PermanentFailure(
                f"{which} {level} {can} be used for {format.value} with this certificate ({told}). Choose another "
                f"certificate, {advice}or Policy=B-B to sign without a policy."
            )
        return usable


@functools.cache
def shipped_policies() -> PolicyTable:
    """Return the table that comes with the product."""
    text = resources.files("bulksigner.formats").joinpath("policies.toml").read_text("utf-8")
    return PolicyTable(parse_table(tomllib.loads(text)), "shipped")


_GROUP = re.compile(r"(?P<algorithm>rsa|ecdsa)-(?P<digest>sha256|sha512|sha1)")


def parse_table(table: dict[str, Any]) -> list[Policy]:
    """Read rows from the parsed data file; raises `KeyError` or `ValueError` where it does not have its shape."""
    algorithms = {name: _parse_rules(rules) for name, rules in table["algorithms"].items()}
    signed = {name: tuple(one) for name, one in table["signed"].items()}
    unsigned = {name: tuple(one) for name, one in table["unsigned"].items()}
    return [
        Policy(
            format=Format(row["format"]),
            level=row["level"],
            version=row["version"],
            identifier=PolicyIdentifier(
                row["oid"],
                Digest(row.get("digest", "sha256")),
                bytes.fromhex(row["hash"]),
                row["uri"],
                row.get("transform", ""),
            ),
            not_before=row["not_before"],
            not_after=row["not_after"],
            required_signed=signed[row["signed"]],
            required_unsigned=unsigned[row["unsigned"]],
            key_rules=algorithms[row["algorithms"]],
            roots=tuple(row["roots"]),
            withdrawn=row.get("withdrawn", ""),
        )
        for row in table["policy"]
    ]


def _parse_rules(rules: dict[str, int]) -> tuple[KeyRule, ...]:
    found = []
    for name, bits in rules.items():
        match = _GROUP.fullmatch(name)
        if match is None:
            raise ValueError(f"{name} is no signature algorithm")
        found.append(KeyRule(KeyAlgorithm(match["algorithm"]), Digest(match["digest"]), bits))
    return tuple(found)
