"""Certificate paths: from a signer up to a trusted root, and whether anything on the way was revoked (RFC 5280).

What certificates of ICP-Brasil need and TLS libraries refuse (no DNS name, no usage of servers) is why this goes
through pyhanko-certvalidator and not through `cryptography.x509.verification`.
"""

from __future__ import annotations

import asyncio
import datetime
import enum
import itertools
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import attrs
from asn1crypto import crl, ocsp, x509
from pyhanko_certvalidator import CertificateValidator, ValidationContext
from pyhanko_certvalidator.errors import (
    DisallowedAlgorithmError,
    ExpiredError,
    InsufficientRevinfoError,
    NotYetValidError,
    PathBuildingError,
    PathError,
    RevokedError,
    ValidationError,
)

from bulksigner.contract.errors import PermanentFailure

__all__ = [
    "ChainProblem",
    "ChainRefused",
    "Link",
    "build_chain",
    "check_revocation",
    "check_usage",
    "is_list_of",
    "next_update",
]

T = TypeVar("T")


class ChainProblem(enum.Enum):
    """What is wrong with a certificate, for programs."""

    UNREADABLE = "unreadable"
    UNKNOWN_ISSUER = "unknown-issuer"
    OUTSIDE_VALIDITY = "outside-validity"
    KEY_USAGE = "key-usage"
    WEAK_ALGORITHM = "weak-algorithm"
    BROKEN_RULE = "broken-rule"
    REVOKED = "revoked"
    NOT_OBTAINABLE = "not-obtainable"


class ChainRefused(PermanentFailure):
    """Refuse a certificate; the text says which one and why, and may hold the name of a person."""

    def __init__(self, problem: ChainProblem, message: str) -> None:
        super().__init__(message)
        self.problem = problem


@attrs.frozen
class Link:
    """One certificate of a path below its root, DER, with its issuer and where its revocation can be asked for."""

    certificate: bytes
    issuer: bytes
    name: str
    crl_urls: tuple[str, ...]
    ocsp_urls: tuple[str, ...]


def build_chain(
    certificate: bytes, others: Iterable[bytes], roots: Iterable[bytes], *, moment: datetime.datetime
) -> tuple[Link, ...]:
    """Return the path of a certificate, itself first; its root is the last one's issuer.

    Signatures, validity, basic constraints, name constraints and policies are checked; revocation is not. Raises
    `ChainRefused`.
    """
    leaf = _load(certificate)
    path = _validate(leaf, others, roots, moment=moment, mode="soft-fail")
    upwards: list[x509.Certificate] = list(path)[::-1]
    return tuple(_link(one, issuer) for one, issuer in itertools.pairwise(upwards))


def check_revocation(
    certificate: bytes,
    others: Iterable[bytes],
    roots: Iterable[bytes],
    *,
    crls: Sequence[bytes],
    ocsps: Sequence[bytes],
    moment: datetime.datetime,
) -> None:
    """Check that nothing on the path was revoked, by lists and answers at hand; raises `ChainRefused`.

    A certificate that names no place to ask needs no evidence; one that does is refused without it.
    """
    leaf = _load(certificate)
    _validate(leaf, others, roots, moment=moment, mode="hard-fail", crls=crls, ocsps=ocsps)


def check_usage(certificate: bytes, *, require_non_repudiation: bool) -> None:
    """Check that the key may sign documents (ICP-24, CFG-189); raises `ChainRefused`."""
    leaf = _load(certificate)
    if leaf.ca:
        raise ChainRefused(ChainProblem.KEY_USAGE, f"{_describe(leaf)} is that of an authority, not of a signer.")
    if leaf.key_usage_value is None:
        return
    usages = set(leaf.key_usage_value.native)
    if require_non_repudiation and "non_repudiation" not in usages:
        raise ChainRefused(
            ChainProblem.KEY_USAGE,
            f"{_describe(leaf)} lacks the key usage nonRepudiation. Where that is meant, as for a seal, set "
            "RequireNonRepudiation to false.",
        )
    if not usages & {"digital_signature", "non_repudiation"}:
        raise ChainRefused(ChainProblem.KEY_USAGE, f"{_describe(leaf)} may not sign documents by its key usage.")


def is_list_of(revoked: bytes, certificates: Iterable[bytes]) -> bool:
    """Tell whether a revocation list is of the issuer of one of some certificates."""
    issuer = crl.CertificateList.load(revoked).issuer.dump()
    return any(_load(one).issuer.dump() == issuer for one in certificates)


def next_update(evidence: bytes, *, is_list: bool) -> datetime.datetime | None:
    """Return until when a revocation list or an answer counts by its own word; None where it cannot be read."""
    try:
        if is_list:
            value = crl.CertificateList.load(evidence, strict=True)["tbs_cert_list"]["next_update"].native
        else:
            response = ocsp.OCSPResponse.load(evidence, strict=True)
            if response["response_status"].native != "successful":
                return None
            value = response.response_data["responses"][0]["next_update"].native
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None
    return value if isinstance(value, datetime.datetime) else None


def _validate(
    leaf: x509.Certificate,
    others: Iterable[bytes],
    roots: Iterable[bytes],
    *,
    moment: datetime.datetime,
    mode: str,
    crls: Sequence[bytes] = (),
    ocsps: Sequence[bytes] = (),
) -> Iterable[x509.Certificate]:
    trusted, between = [_load(root) for root in roots], [_load(other) for other in others]
    try:
        context = ValidationContext(
            trust_roots=trusted,
            other_certs=[],
            moment=moment,
            allow_fetching=False,
            crls=list(crls),
            ocsps=list(ocsps),
            revocation_mode=mode,
        )
        return _run(CertificateValidator(leaf, between, context).async_validate_path())
    except RevokedError as error:
        raise ChainRefused(
            ChainProblem.REVOKED,
            f"{_describe(_culprit(error, leaf))} was revoked at {error.revocation_dt:%Y-%m-%d %H:%M} UTC "
            f"({error.reason.human_friendly}).",
        ) from error
    except InsufficientRevinfoError as error:
        raise ChainRefused(
            ChainProblem.NOT_OBTAINABLE,
            f"whether {_describe(_culprit(error, leaf))} was revoked is not known: no list or answer that is fresh "
            "could be had.",
        ) from error
    except (ExpiredError, NotYetValidError) as error:
        culprit = _culprit(error, leaf)
        raise ChainRefused(
            ChainProblem.OUTSIDE_VALIDITY,
            f"{_describe(culprit)} is valid from {culprit.not_valid_before:%Y-%m-%d %H:%M} to "
            f"{culprit.not_valid_after:%Y-%m-%d %H:%M} UTC only.",
        ) from error
    except DisallowedAlgorithmError as error:
        raise ChainRefused(
            ChainProblem.WEAK_ALGORITHM, f"{_describe(_culprit(error, leaf))} is signed with a weak algorithm."
        ) from error
    except (PathBuildingError, PathError) as error:
        raise ChainRefused(
            ChainProblem.UNKNOWN_ISSUER,
            f"{_describe(leaf)}, issued by {_common_name(leaf.issuer)}, leads to no trusted root.",
        ) from error
    except ValidationError as error:
        raise ChainRefused(
            ChainProblem.BROKEN_RULE, f"{_describe(_culprit(error, leaf))} breaks a rule: {error.failure_msg}"
        ) from error
    except Exception as error:
        # The library's readers raise nearly anything for a certificate, a list or an answer that is damaged inside.
        raise ChainRefused(ChainProblem.UNREADABLE, f"{_describe(leaf)}, or its evidence, is damaged.") from error


def _run(validation: Coroutine[Any, Any, T]) -> T:
    """Drive a coroutine that waits for nothing, as nothing is fetched."""
    return asyncio.run(validation)


def _culprit(error: ValidationError, leaf: x509.Certificate) -> x509.Certificate:
    path = getattr(error, "current_path", None)
    found = None if path is None else path.leaf
    return found if isinstance(found, x509.Certificate) else leaf


def _link(certificate: x509.Certificate, issuer: x509.Certificate) -> Link:
    lists = (
        name.native
        for point in (certificate.crl_distribution_points or ())
        if point["distribution_point"].native
        for name in point["distribution_point"].chosen
        if name.name == "uniform_resource_identifier"
    )
    return Link(
        certificate.dump(), issuer.dump(), _describe(certificate), _usable(lists), _usable(certificate.ocsp_urls)
    )


def _usable(urls: Iterable[str]) -> tuple[str, ...]:
    return tuple(url for url in urls if url.casefold().startswith(("http://", "https://")))


def _load(certificate: bytes) -> x509.Certificate:
    try:
        loaded = x509.Certificate.load(certificate, strict=True)
        # Parsed lazily otherwise, deep inside the validation.
        loaded.native  # noqa: B018 - asn1crypto parses all of it only now
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ChainRefused(ChainProblem.UNREADABLE, "a certificate of the chain cannot be read.") from error
    return loaded


def _describe(certificate: x509.Certificate) -> str:
    return f"the certificate of {_common_name(certificate.subject)} (serial {certificate.serial_number:X})"


def _common_name(name: x509.Name) -> str:
    found = name.native.get("common_name")
    return str(found[-1] if isinstance(found, list) else found or "an unnamed holder")
