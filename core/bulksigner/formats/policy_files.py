"""A folder of signature-policy files as ITI publishes them, which replaces the shipped table (ICP-04 to ICP-06).

DER files have the shape of ETSI TR 102 272, XML files that of ETSI TR 102 038. The hash that goes into signatures is
stored inside each file and computed again here; a file whose hash does not come out is refused.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import attrs
from cryptography import x509
from cryptography.x509.oid import NameOID
from lxml import etree

from bulksigner.contract.certificate import Digest, KeyAlgorithm
from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.policy import KeyRule, PolicyIdentifier
from bulksigner.contract.signing import Format
from bulksigner.formats import der
from bulksigner.formats.policies import Policy, PolicyTable

__all__ = ["read_folder", "read_policy"]

_SITE = "http://politicas.icpbrasil.gov.br/"
_OID = re.compile(r"2\.16\.76\.1\.7\.1\.(?P<family>\d{1,2})\.(?P<version>\d{1,3}(?:\.\d{1,3})?)")
_LEVELS = ("AD-RB", "AD-RT", "AD-RV", "AD-RC", "AD-RA")
_FAMILIES: Mapping[int, tuple[Format, str]] = MappingProxyType(
    {
        **{number: (Format.CADES, level) for number, level in enumerate(_LEVELS, start=1)},
        **{number: (Format.XADES, level) for number, level in enumerate(_LEVELS, start=6)},
        **{
            number: (Format.PADES, level)
            for number, level in enumerate((one for one in _LEVELS if one != "AD-RV"), start=11)
        },
    }
)
_DIGESTS = MappingProxyType(
    {
        "2.16.840.1.101.3.4.2.1": Digest.SHA256,
        "2.16.840.1.101.3.4.2.3": Digest.SHA512,
        "http://www.w3.org/2001/04/xmlenc#sha256": Digest.SHA256,
        "http://www.w3.org/2001/04/xmlenc#sha512": Digest.SHA512,
    }
)
_RULES = MappingProxyType(
    {
        "1.2.840.113549.1.1.11": (KeyAlgorithm.RSA, Digest.SHA256),
        "1.2.840.113549.1.1.13": (KeyAlgorithm.RSA, Digest.SHA512),
        "1.2.840.10045.4.3.2": (KeyAlgorithm.ECDSA, Digest.SHA256),
        "1.2.840.10045.4.3.4": (KeyAlgorithm.ECDSA, Digest.SHA512),
        "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256": (KeyAlgorithm.RSA, Digest.SHA256),
        "http://www.w3.org/2001/04/xmldsig-more#rsa-sha512": (KeyAlgorithm.RSA, Digest.SHA512),
        "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256": (KeyAlgorithm.ECDSA, Digest.SHA256),
        "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha512": (KeyAlgorithm.ECDSA, Digest.SHA512),
    }
)
"""What of the allowed algorithms this product signs with; others, such as Ed25519, are passed over."""

_PA = "{http://www.iti.gov.br/PA#}"
_ETSI = "{http://uri.etsi.org/01903/v1.3.2#}"
_DS = "{http://www.w3.org/2000/09/xmldsig#}"
_EXCLUSIVE = "http://www.w3.org/2001/10/xml-exc-c14n#WithComments"
_STRANGE = (
    "it has not the shape of one; lists of approved policies (LPA) and certificates do not belong into this folder"
)
_LARGEST_BYTES = 1024 * 1024
_LISTS = frozenset({"LPA_CAdES.der", "LPA_PAdES.der", "LPA_XAdES.xml"})
_ARTIFACTS = ("LPA_PAdES.der", "LPA_PAdES.p7s")
"""The list of approved policies for PDF files and its signature, as ITI names them (ICP-04)."""
_FAULT = "the values it requires of a PDF signature end with a blank (ICP-01)"


def read_folder(folder: Path) -> PolicyTable:
    """Read every `.der` and `.xml` file of a folder.

    Raises `PermanentFailure` naming the folder or the file that cannot be used.
    """
    try:
        files = sorted(
            path for path in folder.iterdir() if path.suffix.lower() in (".der", ".xml") and path.name not in _LISTS
        )
    except OSError as error:
        raise PermanentFailure(f"{folder} cannot be read: {error.strerror}.") from error
    if not files:
        raise PermanentFailure(f"{folder} holds no policy file (.der or .xml).")
    rows: dict[str, Policy] = {}
    for path in files:
        row = attrs.evolve(read_policy(path), artifacts=_find_artifacts(path))
        if row.identifier.oid in rows:
            raise PermanentFailure(f"{path}: another file of the folder has the policy {row.identifier.oid} already.")
        rows[row.identifier.oid] = row
    return PolicyTable(rows.values(), str(folder))


def _find_artifacts(policy: Path) -> tuple[Path, ...]:
    """Return a policy file with the list of approved policies and its signature, where all are there."""
    beside = tuple(policy.with_name(name) for name in _ARTIFACTS)
    return (policy, *beside) if all(path.is_file() for path in beside) else ()


def read_policy(path: Path) -> Policy:
    """Read one policy file. Raises `PermanentFailure` naming it."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise PermanentFailure(f"{path} cannot be read: {error.strerror}.") from error
    try:
        if len(data) > _LARGEST_BYTES:
            raise ValueError(f"it is longer than {_LARGEST_BYTES} bytes")
        read = _read_der if path.suffix.lower() == ".der" else _read_xml
        return read(data, _SITE + path.name)
    except (LookupError, TypeError) as error:
        raise PermanentFailure(f"{path} is not a signature policy that can be used: {_STRANGE}.") from error
    except (ValueError, etree.LxmlError) as error:
        raise PermanentFailure(f"{path} is not a signature policy that can be used: {error}.") from error


def _first(data: bytes, count: int) -> list[bytes]:
    found = der.members(data)[:count]
    if len(found) < count:
        raise ValueError(_STRANGE)
    return found


def _read_der(data: bytes, uri: str) -> Policy:
    algorithm, info, stored = _first(data, 3)
    digest = _DIGESTS[der.dotted(der.members(algorithm)[0])]
    value = der.content(stored)
    _require_hash(digest, algorithm + info, value)
    oid, _issued, _issuer, _field, validation = _first(info, 5)
    period, common = _first(validation, 2)
    begins, ends = (_day(der.content(moment).decode("ascii")) for moment in _first(period, 2))
    parts = {part[0]: part for part in der.members(common)}
    signer_rules, _verifier_rules = _first(der.members(parts[0xA0])[0], 2)
    rules = [part for part in der.members(signer_rules) if part[0] == 0x30]
    signed, unsigned = ([der.dotted(one) for one in der.members(part)] for part in (rules[0], rules[1]))
    constraints = der.members(der.members(parts[0xA4])[0])[0]
    sizes = [der.members(pair) for pair in der.members(der.members(constraints)[0])]
    trees = der.members(der.members(der.members(parts[0xA1])[0])[0])
    roots = [_root_name(der.members(point)[0]) for point in trees]
    return _make(
        der.dotted(oid),
        PolicyIdentifier(der.dotted(oid), digest, value, uri),
        (begins, ends),
        (signed, unsigned),
        {der.dotted(name): int.from_bytes(der.content(bits), "big") for name, bits in sizes},
        roots,
        _FAULT if b"PBAD_PAdES " in data else "",
    )


def _read_xml(data: bytes, uri: str) -> Policy:
    parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False)
    root = etree.fromstring(data, parser)
    digest = _DIGESTS[_find(root, f"{_PA}SignPolicyDigestAlg").get("Algorithm", "")]
    value = base64.b64decode(_text(root, f"{_PA}SignPolicyDigest"), validate=True)
    info = _find(root, f"{_PA}SignPolicyInfo")
    _require_hash(digest, etree.tostring(info, method="c14n", exclusive=True, with_comments=True), value)
    oid = _text(info, f".//{_ETSI}Identifier").rpartition(":")[2]
    named = _find(root, f"{_DS}Transforms/{_DS}Transform").get("Algorithm", "")
    rules = _find(info, f".//{_PA}SignerRules")
    sizes = {
        _text(pair, f"{_PA}AlgId"): int(_text(pair, f"{_PA}MinKeyLength"))
        for pair in info.iterfind(f".//{_PA}SignerAlgConstraints/{_PA}AlgAndLength")
    }
    certificates = info.iterfind(f".//{_PA}SignerTrustTrees/{_PA}CertificateTrustPoint/{_PA}TrustPoint/*")
    return _make(
        oid,
        # Files before 2.5 name a transform that no library knows; a signature then names none.
        PolicyIdentifier(oid, digest, value, uri, named if named == _EXCLUSIVE else ""),
        tuple(_day(_text(info, f".//{_PA}{name}").replace("-", "")) for name in ("NotBefore", "NotAfter")),
        (_names(rules, "MandatedSignedQProperties"), _names(rules, "MandatedUnsignedQProperties")),
        sizes,
        [_root_name(base64.b64decode("".join((one.text or "").split()))) for one in certificates],
        "",
    )


def _find(element: etree._Element, path: str) -> etree._Element:
    found = element.find(path)
    if found is None:
        raise ValueError(f"it has no {path.rpartition('}')[2]}")
    return found


def _text(element: etree._Element, path: str) -> str:
    return (_find(element, path).text or "").strip()


def _names(rules: etree._Element, group: str) -> list[str]:
    return [one.text or "" for one in rules.iterfind(f"{_PA}{group}/{_PA}QPropertyID")]


def _require_hash(digest: Digest, hashed: bytes, stored: bytes) -> None:
    if hashlib.new(digest.value, hashed).digest() != stored:
        raise ValueError("the hash stored inside it does not come out; the file is damaged or was edited")


def _day(text: str) -> datetime.date:
    return datetime.datetime.strptime(text[:8], "%Y%m%d").replace(tzinfo=datetime.UTC).date()


def _root_name(certificate: bytes) -> str:
    subject = x509.load_der_x509_certificate(certificate).subject
    return str(subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def _make(
    oid: str,
    identifier: PolicyIdentifier,
    period: tuple[datetime.date, ...],
    attributes: tuple[list[str], list[str]],
    sizes: Mapping[str, int],
    roots: list[str],
    withdrawn: str,
) -> Policy:
    match = _OID.fullmatch(oid)
    if match is None or int(match["family"]) not in _FAMILIES:
        raise ValueError(f"its object identifier {oid} is not of a policy family that is known")
    family, level = _FAMILIES[int(match["family"])]
    version = match["version"] if "." in match["version"] else f"{match['version']}.0"
    return Policy(
        format=family,
        level=level,
        version=version,
        identifier=identifier,
        not_before=period[0],
        not_after=period[1],
        required_signed=tuple(attributes[0]),
        required_unsigned=tuple(attributes[1]),
        key_rules=tuple(KeyRule(*_RULES[name], bits) for name, bits in sizes.items() if name in _RULES),
        roots=tuple(roots),
        withdrawn=withdrawn,
    )
