"""What settings say of the kind of signature: policy, filter of PDF signatures, flavour of XML (CFG-187 to CFG-197)."""

from __future__ import annotations

import datetime
import enum
import re
from pathlib import Path

import attrs

from bulksigner.contract.settings import Check, option

__all__ = [
    "BASELINE_POLICIES",
    "BASELINE_POLICY",
    "DEFAULT_POLICY",
    "POLICY",
    "CadesChoice",
    "ExistingSignature",
    "PadesFilter",
    "PolicySettings",
    "XmlChoice",
    "XmlFlavor",
    "XmlPlacement",
    "asks_for_proof",
    "asks_for_stamp",
]

DEFAULT_POLICY = "AD-RB"
BASELINE_POLICY = "B-B"
BASELINE_POLICIES = (BASELINE_POLICY, "B-T", "B-LT", "B-LTA")
POLICY = Check(
    lambda text: re.fullmatch(r"AD-R[BTVCA](?: \d{1,3}\.\d{1,3})?|B-(?:B|T|LT|LTA)", text) is not None,
    "AD-RB, AD-RT, AD-RV, AD-RC or AD-RA, or one of their versions such as AD-RB 2.3; or B-B, B-T, B-LT or B-LTA",
)


def asks_for_stamp(policy: str) -> bool:
    """Tell whether signatures of a policy, with or without a version, carry a time stamp."""
    return policy.partition(" ")[0] not in (DEFAULT_POLICY, BASELINE_POLICY)


def asks_for_proof(policy: str) -> bool:
    """Tell whether signatures of a policy, with or without a version, carry what proves them later."""
    return asks_for_stamp(policy) and policy.partition(" ")[0] not in ("AD-RT", "B-T")


class PadesFilter(enum.Enum):
    """`/Filter` and `/SubFilter` of PDF signatures (CFG-188, ICP-10)."""

    PBAD = "Pbad"
    ETSI = "Etsi"


class XmlFlavor(enum.Enum):
    """Kind of XML signature (CFG-190)."""

    XADES = "Xades"
    NFE = "Nfe"


class XmlPlacement(enum.Enum):
    """Whether a XAdES signature is of the document it is in, of one element there, or of the file beside it."""

    ENVELOPED = "Enveloped"
    BY_ID = "ById"
    DETACHED = "Detached"


_ELEMENT = Check(
    lambda text: len(text) <= 255 and re.fullmatch(r"[^\W\d][\w.-]*", text) is not None,
    "a local name of XML: letters, digits, '.', '-' and '_', and no prefix",
)


class ExistingSignature(enum.Enum):
    """What becomes of a `.p7m` file that arrives."""

    WRAP = "Wrap"
    PARALLEL = "Parallel"
    COUNTER = "Counter"


class CadesContent(enum.Enum):
    """Where the content of a CAdES signature is."""

    ATTACHED = "Attached"
    DETACHED = "Detached"


@attrs.frozen
class CadesChoice:
    """`Signing:Profiles[]:Cades`."""

    existing: ExistingSignature = option(
        ExistingSignature.WRAP,
        help="What becomes of a `.p7m` file that arrives: `Wrap` signs it as any other file, `Parallel` adds a "
        "signature beside those in it, `Counter` signs each of those; `Cades` only.",
        is_seed=True,
    )
    content: CadesContent = option(
        CadesContent.ATTACHED,
        help="`Detached` leaves the content out of the signature: the file is delivered as it came, and its signature "
        "beside it as `<name>.p7s`; `Cades` only.",
        is_seed=True,
    )


@attrs.frozen
class XmlChoice:
    """`Signing:Profiles[]:Xml`."""

    flavor: XmlFlavor = option(
        XmlFlavor.XADES,
        help="`Nfe` makes the plain XML signature of the NF-e family in place of XAdES; `Xades` only.",
        is_seed=True,
    )
    sha1_until: datetime.date | None = option(
        None,
        help="Last day, by the host's clock and zone, on which `Nfe` signs with SHA-1; without it SHA-256.",
        is_seed=True,
    )
    placement: XmlPlacement = option(
        XmlPlacement.ENVELOPED,
        help="`Enveloped` signs the whole document, `ById` the one element `SignElement` by its Id, `Detached` a file "
        "of any kind, which the signature lies beside; `Xades` only.",
        is_seed=True,
    )
    sign_element: str | None = option(
        None,
        help="Local name of the element that `ById` signs: there once, with an `Id`, `ID` or `id` of its own.",
        check=_ELEMENT,
        is_seed=True,
    )


@attrs.frozen
class PolicySettings:
    """`Signing:Policies`."""

    path: Path | None = option(
        None,
        help="Folder of signature-policy files (`.der`, `.xml`), which replaces the policies that come with the "
        "product; a relative path is under the content root.",
    )
