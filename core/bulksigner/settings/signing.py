"""The section `Signing`: certificates, the profiles of the first boot, and where signing runs (CFG-65 to CFG-100)."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Any

import attrs

from bulksigner.contract.appearance import Appearance
from bulksigner.contract.settings import Check, Secret, between, matches_length, option
from bulksigner.contract.signing import Format
from bulksigner.settings.pdf_files import PdfFileChoice
from bulksigner.settings.signatures import DEFAULT_POLICY, POLICY, CadesChoice, PadesFilter, PolicySettings, XmlChoice
from bulksigner.settings.timestamps import TimestampSettings
from bulksigner.settings.trust import TrustSettings

__all__ = [
    "DEFAULT_NAME",
    "LOCAL_METHOD",
    "NAME",
    "CertificateChoice",
    "EngineChoice",
    "ProfileSeed",
    "SigningSettings",
]

DEFAULT_NAME = "default"
LOCAL_METHOD = "Local"
NAME = Check(
    lambda text: re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?", text) is not None,
    "1 to 40 lower-case letters, digits and inner hyphens",
)
_NOT_BLANK = Check(lambda value: bool(str(value).strip()), "not blank")


class EngineChoice(enum.Enum):
    """Where signing and checking run (CFG-205)."""

    AUTO = "Auto"
    IN_PROCESS = "InProcess"
    PROCESSES = "Processes"


@attrs.frozen
class CertificateChoice:
    """A certificate block: the source, and the chosen source's own block (CFG-69 to CFG-79).

    `block` is None where no installed plugin declares the source.
    """

    source: str = option(
        "Pfx", help="Where certificate and key come from: `Pfx`, `Pkcs11`, or what a plugin brings.", is_seed=True
    )
    block: object = None


@attrs.frozen
class ProfileSeed:
    """`Signing:Profiles[]`: read on the first boot only (CFG-81); `extras` are the classes of plugins."""

    name: str = option(help="Name of the profile.", check=NAME, is_seed=True)
    enabled: bool = option(True, help="False: the profile takes no new work.", is_seed=True)
    format: Format | None = option(
        None, help="Signature format; only `default` may leave it out and go by file extension.", is_seed=True
    )
    method: str = option(
        LOCAL_METHOD,
        help="How signatures come about: `Local`, or what a plugin brings.",
        check=_NOT_BLANK,
        is_seed=True,
    )
    verify: bool = option(True, help="Check every signature after it is made.", is_seed=True)
    validate_certificate: bool = option(
        True,
        help="Check chain, validity, key usage and revocation of the certificate before signing.",
        is_seed=True,
    )
    require_non_repudiation: bool = option(
        True,
        help="Ask for the key usage nonRepudiation in that check; false for seals that lack it.",
        is_seed=True,
    )
    preserve_file_extension: bool = option(
        False, help="Keep the extension of the input in the output's name; `Cades` and `Xades` only.", is_seed=True
    )
    save_as_pem: bool = option(False, help="Write signatures as PEM; `Cades` only.", is_seed=True)
    encrypt: bool = option(False, help="Encrypt outputs; needs `Encryption:Enabled`.", is_seed=True)
    pades_filter: PadesFilter | None = option(
        None,
        help="`/Filter` and `/SubFilter` of PDF signatures, not with `Cades` or `Xades`; without it `Pbad` where the "
        "policy is a national one, else `Etsi`.",
        is_seed=True,
    )
    policy: str = option(
        DEFAULT_POLICY,
        help="Signature policy: a level of ICP-Brasil, such as `AD-RB`, with a version where not the newest is wanted, "
        "such as `AD-RB 2.3`; or `B-B`, the ETSI baseline without a policy. `AD-RT` and `B-T` add a time stamp; "
        "`AD-RV`, `AD-RC`, `AD-RA`, `B-LT` and `B-LTA` also what proves the signature later.",
        check=POLICY,
        is_seed=True,
    )
    cross_check: tuple[str, ...] = option(
        (),
        help="Second engines that check every signed file too: `pdfsig`, `openssl cms`, `xmlsec1`, or the absolute "
        "path of a program with arguments, `{file}` among them. Needs `Verify`.",
        is_seed=True,
    )
    pdf: PdfFileChoice = option(PdfFileChoice())
    appearance: Appearance = option(Appearance())
    xml: XmlChoice = option(XmlChoice())
    cades: CadesChoice = option(CadesChoice())
    certificate: CertificateChoice | None = option(None, help="Certificate of the profile.", is_seed=True)
    extras: Mapping[type[Any], Any] = attrs.field(factory=dict)


@attrs.frozen
class SigningSettings:
    """`Signing`."""

    pki_sdk_license: Secret = option(Secret(""), help="Accepted from migrated settings and ignored.")
    profile_secrets_key: Secret = option(
        Secret(""), help="Key that seals the secrets of stored profiles.", check=matches_length(32)
    )
    trust_lacuna_test_root: bool = option(
        False, help="The spelling of `Signing:Trust:AllowTestRoots` in migrated settings."
    )
    trust: TrustSettings = option(TrustSettings())
    timestamps: tuple[TimestampSettings, ...] = option((), help="Time-stamp services.")
    engine: EngineChoice = option(
        EngineChoice.AUTO, help="Where signing runs; `Auto` takes processes with several cores and workers."
    )
    engine_workers: int | None = option(
        None, help="Processes that sign; without it one for each core.", check=between(1, 64)
    )
    policies: PolicySettings = option(PolicySettings())
    certificate: CertificateChoice | None = option(
        None, help="Certificate of the profile `default` when no profile is listed.", is_seed=True
    )
    profiles: tuple[ProfileSeed, ...] = option((), help="Profiles of the first boot.", is_seed=True)
