"""Rules across sections, over values that are already typed and resolved (CFG-41 to CFG-100)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Format
from bulksigner.settings.cross_check import check_engines
from bulksigner.settings.findings import Findings
from bulksigner.settings.grammar import quote
from bulksigner.settings.hosting import check_hosting
from bulksigner.settings.model import LOCAL_PROVIDER, CoreSettings, DatabaseProvider
from bulksigner.settings.shapes import Kind, members_of
from bulksigner.settings.signatures import (
    BASELINE_POLICIES,
    DEFAULT_POLICY,
    CadesContent,
    ExistingSignature,
    PadesFilter,
    XmlFlavor,
    XmlPlacement,
    asks_for_proof,
    asks_for_stamp,
)
from bulksigner.settings.signing import DEFAULT_NAME, LOCAL_METHOD, CertificateChoice, ProfileSeed
from bulksigner.settings.timestamps import LONGEST_WAIT_SECONDS

__all__ = ["SHORTEST_MASKED", "check_profile", "check_rules", "list_certificates"]

_SPARE_CONNECTIONS = 3
SHORTEST_MASKED = 12
"""A secret below this length cannot be masked in logs wherever it appears (SEC-56)."""

_SINGLE_SESSION_SOURCES = ("Pkcs11", "WindowsStore")


def check_rules(core: CoreSettings, findings: Findings) -> None:
    """Apply the rules on intervals, database and profiles; those on places are in `folders`."""
    _check_intervals(core, findings)
    check_hosting(core.hosting, findings)
    _check_connections(core, findings)
    _check_profiles(core, findings)
    _check_timestamps(core, findings)
    tokens = []
    for key, choice in list_certificates(core):
        _warn_of_short_secrets(key, choice, findings)
        if choice.source in _SINGLE_SESSION_SOURCES:
            tokens.append(f"{key}:Source is {choice.source}")
    if core.pipeline.max_concurrency > 1 and tokens:
        more = f" (as of {len(tokens) - 1} more profile(s))" if len(tokens) > 1 else ""
        findings.warn(
            f"Pipeline:MaxConcurrency is {core.pipeline.max_concurrency} and {tokens[0]}{more}: "
            "a token with a single session may hang or fail. Set Pipeline:MaxConcurrency to 1 if it does (CFG-80)."
        )
    if core.pdf.ignore_owner_restrictions:
        findings.warn(
            "Pdf:IgnoreOwnerRestrictions is on: PDF files are signed although their owners forbid changes to them "
            "(CFG-201). Set it to false where that is not wanted."
        )
    if core.signing.pki_sdk_license:
        findings.note("Signing:PkiSdkLicense is ignored: signing here needs no licence (CFG-65).")


def _check_intervals(core: CoreSettings, findings: Findings) -> None:
    if core.watched_folder.poll_interval_seconds is not None:
        return
    for index, folder in enumerate(core.storage.inputs):
        if folder.provider != LOCAL_PROVIDER and folder.poll_interval_seconds is None:
            findings.refuse(
                f"Storage:Inputs[{index}]:PollIntervalSeconds",
                f"is missing, as is WatchedFolder:PollIntervalSeconds, and {folder.provider} reports no changes.",
                "Set one of them.",
            )


def _check_connections(core: CoreSettings, findings: Findings) -> None:
    if core.database.provider is not DatabaseProvider.POSTGRESQL:
        return
    needed = core.pipeline.max_concurrency + core.hosting.threads + _SPARE_CONNECTIONS
    if core.database.max_connections < needed:
        findings.refuse(
            "Database:MaxConnections",
            f"is {core.database.max_connections}, and {needed} are needed: Pipeline:MaxConcurrency "
            f"({core.pipeline.max_concurrency}) + Hosting:Threads ({core.hosting.threads}) + {_SPARE_CONNECTIONS}.",
            f"Set it to {needed} or more, or lower the others.",
        )


def _check_profiles(core: CoreSettings, findings: Findings) -> None:
    names = Counter(seed.name.casefold() for seed in core.signing.profiles)
    for index, seed in enumerate(core.signing.profiles):
        key = f"Signing:Profiles[{index}]"
        if seed.name and names[seed.name.casefold()] > 1:
            findings.refuse(
                f"{key}:Name", f"is {quote(seed.name)}, as is another profile's.", "Give each its own name."
            )
        check_profile(
            f"{key}:",
            seed,
            findings,
            is_encryption_on=core.encryption.enabled,
            has_timestamps=bool(core.signing.timestamps),
        )


def check_profile(
    prefix: str, seed: ProfileSeed, findings: Findings, *, is_encryption_on: bool, has_timestamps: bool
) -> None:
    """Apply the rules on one profile, at the import and at every save (CFG-81); keys are shown after `prefix`."""
    if seed.name == DEFAULT_NAME and not seed.enabled:
        findings.refuse(f"{prefix}Enabled", "is false, but default cannot be disabled.", "Leave it enabled.")
    if seed.encrypt and not is_encryption_on:
        findings.refuse(
            f"{prefix}Encrypt",
            "is true, and Encryption:Enabled is false.",
            "Enable Encryption with its password and salt, or set it to false where plaintext outputs are meant.",
        )
    _check_format(prefix, seed, findings)
    _check_policy(prefix, seed, findings)
    _check_detached(prefix, seed, findings)
    _check_placement(prefix, seed, findings)
    if asks_for_stamp(seed.policy):
        _check_stamped(prefix, seed, findings, has_timestamps=has_timestamps)
    check_engines(prefix, seed, findings)
    if seed.appearance.enabled and not seed.appearance.text and seed.appearance.image_path is None:
        findings.refuse(
            f"{prefix}Appearance:Text",
            "is empty, and there is no Appearance:ImagePath; nothing would be shown.",
            "Give one of them.",
        )
    if seed.method == LOCAL_METHOD and seed.certificate is None:
        findings.refuse(
            f"{prefix}Certificate",
            f"is missing, and the method {LOCAL_METHOD} signs with it.",
            "Add the block, such as Certificate:Source and Certificate:Pfx:Path.",
        )


def _check_format(prefix: str, seed: ProfileSeed, findings: Findings) -> None:
    if seed.format is None and seed.name != DEFAULT_NAME:
        findings.refuse(
            f"{prefix}Format",
            f"is missing; only the profile {DEFAULT_NAME} may go by file extension.",
            f"Give one of {', '.join(known.value for known in Format)}.",
        )
    for name, given, allowed in (
        ("PreserveFileExtension", seed.preserve_file_extension, (Format.CADES, Format.XADES)),
        ("SaveAsPem", seed.save_as_pem, (Format.CADES,)),
        ("PadesFilter", seed.pades_filter is not None, (Format.PADES, None)),
        ("Appearance:Enabled", seed.appearance.enabled, (Format.PADES, None)),
        ("Pdf:Passwords", bool(seed.pdf.passwords), (Format.PADES, None)),
        ("Cades:Existing", seed.cades.existing is not ExistingSignature.WRAP, (Format.CADES,)),
        ("Cades:Content", seed.cades.content is not CadesContent.ATTACHED, (Format.CADES,)),
        ("Xml:Flavor", seed.xml.flavor is not XmlFlavor.XADES, (Format.XADES,)),
        ("Xml:Placement", seed.xml.placement is not XmlPlacement.ENVELOPED, (Format.XADES,)),
    ):
        if given and seed.format not in allowed:
            formats = " or ".join(known.value for known in allowed if known is not None)
            found = "not set" if seed.format is None else seed.format.value
            findings.refuse(f"{prefix}{name}", f"needs Format {formats}, and Format is {found}.", "Take it out.")


def _check_detached(prefix: str, seed: ProfileSeed, findings: Findings) -> None:
    """Refuse what a signature without its content cannot go with."""
    if seed.cades.content is CadesContent.DETACHED:
        choice = "Cades:Content"
    elif seed.xml.placement is XmlPlacement.DETACHED:
        choice = "Xml:Placement"
    else:
        return
    for name, given, reason in (
        ("Encrypt", seed.encrypt, "an envelope holds one file, and the signature and its content are two"),
        ("PreserveFileExtension", seed.preserve_file_extension, "the name of the input is that of the content"),
        ("CrossCheck", bool(seed.cross_check), "second engines are given one file, and the content is another"),
        (
            "Cades:Existing",
            seed.cades.existing is not ExistingSignature.WRAP,
            "files that arrive signed are signed further with their content inside",
        ),
    ):
        if given:
            findings.refuse(f"{prefix}{name}", f"does not go with {choice} Detached: {reason}.", "Take one out.")


def _check_placement(prefix: str, seed: ProfileSeed, findings: Findings) -> None:
    """Demand the name of the element where one element is signed, and only there."""
    is_named = seed.xml.sign_element is not None
    if seed.xml.placement is XmlPlacement.DETACHED and asks_for_proof(seed.policy):
        findings.refuse(
            f"{prefix}Policy",
            f"is {seed.policy}, and what proves a signature later is not put beside a file (Xml:Placement Detached).",
            "Choose a level up to AD-RT or B-T, or another Placement.",
        )
    if seed.xml.placement is XmlPlacement.DETACHED and seed.xml.flavor is not XmlFlavor.XADES:
        findings.refuse(
            f"{prefix}Xml:Placement",
            f"is Detached, and Xml:Flavor {seed.xml.flavor.value} has its signature in the document.",
            "Take Placement out, or write Xml:Flavor Xades.",
        )
    if seed.xml.placement is not XmlPlacement.BY_ID:
        if is_named:
            findings.refuse(
                f"{prefix}Xml:SignElement",
                f"needs Xml:Placement ById, and Xml:Placement is {seed.xml.placement.value}.",
                "Take it out, or write ById.",
            )
        return
    if seed.xml.flavor is not XmlFlavor.XADES:
        findings.refuse(
            f"{prefix}Xml:Placement",
            f"is ById, and Xml:Flavor {seed.xml.flavor.value} finds the element to sign by itself.",
            "Take Placement and SignElement out, or write Xml:Flavor Xades.",
        )
    elif not is_named:
        findings.refuse(
            f"{prefix}Xml:SignElement",
            "is missing, and Xml:Placement ById signs the element of that name.",
            "Name it, such as evtAdmissao, without a prefix.",
        )


def _check_policy(prefix: str, seed: ProfileSeed, findings: Findings) -> None:
    """Apply the rules on policy, filter and flavour; whether a version exists the policy table knows (CFG-188, 190)."""
    level, _, version = seed.policy.partition(" ")
    if version and seed.format is None:
        findings.refuse(
            f"{prefix}Policy",
            f"is {seed.policy}, and versions differ between formats, which this profile chooses by file.",
            f"Write {level}, or give the profile a Format.",
        )
    if seed.cades.existing is not ExistingSignature.WRAP and seed.save_as_pem:
        findings.refuse(
            f"{prefix}SaveAsPem", "is true, and Cades:Existing keeps the form in which files arrive.", "Take it out."
        )
    if level in BASELINE_POLICIES and seed.pades_filter is PadesFilter.PBAD:
        findings.refuse(
            f"{prefix}PadesFilter",
            f"is Pbad, which belongs to the national policies, and Policy is {seed.policy}.",
            "Write Etsi, or remove the key.",
        )
    if seed.xml.flavor is not XmlFlavor.NFE:
        if seed.xml.sha1_until is not None:
            findings.refuse(
                f"{prefix}Xml:Sha1Until", "needs Xml:Flavor Nfe; nothing else signs with SHA-1.", "Take it out."
            )
    elif seed.policy != DEFAULT_POLICY:
        findings.refuse(
            f"{prefix}Policy",
            f"is {seed.policy}, and Xml:Flavor Nfe makes signatures without a policy.",
            "Take it out.",
        )


def _check_stamped(prefix: str, seed: ProfileSeed, findings: Findings, *, has_timestamps: bool) -> None:
    if not has_timestamps:
        findings.refuse(
            f"{prefix}Policy",
            f"is {seed.policy}, which asks for a time stamp, and Signing:Timestamps names no service.",
            "Name one, such as Signing:Timestamps[0]:Url, or choose a policy without a time stamp.",
        )
    if seed.cades.existing is not ExistingSignature.WRAP:
        findings.refuse(
            f"{prefix}Cades:Existing",
            f"is {seed.cades.existing.value}, and a signature on a file that arrives signed gets no time stamp, which "
            f"{seed.policy} asks for.",
            "Take it out, or choose a policy without a time stamp.",
        )


def _check_timestamps(core: CoreSettings, findings: Findings) -> None:
    for index, service in enumerate(core.signing.timestamps):
        if (service.user is None) != (not service.password):
            missing, given = ("User", "Password") if service.user is None else ("Password", "User")
            findings.refuse(
                f"Signing:Timestamps[{index}]:{missing}", f"is missing, and {given} is set.", "Set both, or neither."
            )
    waits = sum(service.timeout_seconds for service in core.signing.timestamps)
    if waits > LONGEST_WAIT_SECONDS:
        findings.refuse(
            "Signing:Timestamps",
            f"names services that may take {waits} s together, more than {LONGEST_WAIT_SECONDS} s.",
            "Name fewer, or give them less TimeoutSeconds.",
        )


def list_certificates(core: CoreSettings) -> Iterator[tuple[str, CertificateChoice]]:
    """Yield the certificate blocks that count, with their keys: those of the profiles, else the single one (CFG-69)."""
    if core.signing.profiles:
        for index, seed in enumerate(core.signing.profiles):
            if seed.certificate is not None:
                yield f"Signing:Profiles[{index}]:Certificate", seed.certificate
    elif core.signing.certificate is not None:
        yield "Signing:Certificate", core.signing.certificate


def _warn_of_short_secrets(key: str, choice: CertificateChoice, findings: Findings) -> None:
    if choice.block is None:
        return
    for member in members_of(type(choice.block)):
        value = getattr(choice.block, member.name)
        if member.kind is Kind.SCALAR and isinstance(value, Secret) and 0 < len(value.reveal()) < SHORTEST_MASKED:
            findings.warn(
                f"{key}:{choice.source}:{member.key} is shorter than {SHORTEST_MASKED} characters: "
                "logs cannot mask it wherever it appears (CFG-71)."
            )
