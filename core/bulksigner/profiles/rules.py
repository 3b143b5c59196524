"""What the signatures of a profile carry: its policy, chosen by format, key and day (ICP-03, ICP-11, CFG-188, 190)."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import attrs

from bulksigner.contract.certificate import KeyAlgorithm, OpenedKey
from bulksigner.contract.errors import PermanentFailure, StepFailed
from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.signing import Format
from bulksigner.formats.policies import KeyFacts, PolicyTable, read_key
from bulksigner.formats.spec import BASELINE_B, BASELINE_LT, BASELINE_LTA, BASELINE_T, PLAIN_XML, PLAIN_XML_SHA1
from bulksigner.settings.signatures import PadesFilter, XmlFlavor

__all__ = ["CODE", "SigningRules", "find_absent_policy", "make_rules"]

CODE = "sign.policy-invalid"
_BASELINES = {spec.name: spec for spec in (BASELINE_B, BASELINE_T, BASELINE_LT, BASELINE_LTA)}


class Choice(Protocol):
    """What a profile says of its signatures."""

    @property
    def name(self) -> str:
        """Return the profile's name."""
        ...

    @property
    def format(self) -> Format | None:
        """Return the one format, or None where it goes by file."""
        ...

    @property
    def policy(self) -> str:
        """Return the name of the policy, with or without a version."""
        ...

    @property
    def pades_filter(self) -> PadesFilter | None:
        """Return the wished filter of PDF signatures."""
        ...

    @property
    def xml_flavor(self) -> XmlFlavor:
        """Return the kind of XML signature."""
        ...

    @property
    def xml_sha1_until(self) -> datetime.date | None:
        """Return the last day of SHA-1."""
        ...

    @property
    def xml_sign_element(self) -> str | None:
        """Return the local name of the element that XAdES signs by its `Id`, where it does not sign the document."""
        ...


@attrs.frozen
class SigningRules:
    """The specifications of one profile with one key; `specs` are by format, the newest policy first.

    `reasons` say why a format has none. `sha1_until` is the last day of an exception that is switched on.
    """

    profile: str
    specs: Mapping[Format, Sequence[SignatureSpec]]
    reasons: Mapping[Format, str] = attrs.field(factory=dict)
    sha1_until: datetime.date | None = None
    roots: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    """Common names of the roots that a policy lists, by its identifier (ICP-33)."""

    def list_roots(self, spec: SignatureSpec | None) -> tuple[str, ...]:
        """Return the common names of the roots that the policy of a signature lists; empty where there is none."""
        return () if spec is None or spec.policy is None else self.roots.get(spec.policy.oid, ())

    def spec(self, format: Format, now: datetime.datetime) -> SignatureSpec:
        """Return what a signature carries that is made now, an aware moment.

        Raises `StepFailed` where no policy is valid, or the time of the SHA-1 exception is over.
        """
        day = now.astimezone(datetime.UTC).date()
        for spec in self.specs.get(format, ()):
            if (spec.not_before or day) <= day <= (spec.not_after or day):
                self._require_exception(spec, now)
                return spec
        raise StepFailed(self._explain(format, day), code=CODE)

    def find_fault(self, now: datetime.datetime) -> str | None:
        """Say why no file can be signed now, or None where files of some format can."""
        faults = []
        for known in (*self.specs, *self.reasons):
            try:
                self.spec(known, now)
            except StepFailed as error:
                faults.append(error.message)
            else:
                return None
        return faults[0] if faults else None

    def describe(self, now: datetime.datetime) -> Iterator[str]:
        """Yield, for each format, what is signed with now and until when, or why nothing is (ICP-04)."""
        for known in (*self.specs, *self.reasons):
            try:
                spec = self.spec(known, now)
            except StepFailed as error:
                yield f"{known.value}: {error.message}"
                continue
            name = "none (plain XML)" if spec.is_plain_xml else spec.name
            oid = "" if spec.policy is None else f", {spec.policy.oid}"
            until = self.sha1_until or spec.not_after
            yield f"{known.value}: {name}{oid}{'' if until is None else f', until {until}'}"

    def _require_exception(self, spec: SignatureSpec, now: datetime.datetime) -> None:
        # The day is that of the people who set it, by the host's clock.
        if spec is PLAIN_XML_SHA1 and self.sha1_until is not None and now.astimezone().date() > self.sha1_until:
            raise StepFailed(
                f"Signing profile '{self.profile}' may sign with SHA-1 until {self.sha1_until} (Xml:Sha1Until), which "
                "is over. Set a later day if the tax authority still asks for it, or remove the key to sign with "
                "SHA-256.",
                code=CODE,
            )

    def _explain(self, format: Format, day: datetime.date) -> str:
        if format in self.reasons:
            return self.reasons[format]
        known = self.specs.get(format, ())
        if not known:
            return f"Signing profile '{self.profile}' makes no {format.value} signatures."
        latest = known[0]
        return (
            f"Signing profile '{self.profile}' has no policy that is valid on {day}: {latest.name} is valid from "
            f"{latest.not_before} to {latest.not_after}. Put newer policy files into the folder of "
            "Signing:Policies:Path, or choose another Policy."
        )


def find_absent_policy(choice: Choice, table: PolicyTable) -> str | None:
    """Say which policy that a profile names is not in the table, or None."""
    if choice.policy in _BASELINES or choice.xml_flavor is XmlFlavor.NFE:
        return None
    level, version = _split(choice.policy)
    formats = list(Format) if choice.format is None else [choice.format]
    return next((found for one in formats if (found := table.explain_absent(one, level, version)) is not None), None)


def make_rules(choice: Choice, key: OpenedKey, table: PolicyTable) -> SigningRules:
    """Choose the policies that a key may sign with.

    Raises `PermanentFailure` with the reason where there is none for any format of the profile (ICP-03, ICP-11).
    """
    rules = _choose_rules(choice, key, table)
    element = choice.xml_sign_element
    if element is None or Format.XADES not in rules.specs:
        return rules
    named = tuple(attrs.evolve(spec, xml_element=element) for spec in rules.specs[Format.XADES])
    return attrs.evolve(rules, specs={**rules.specs, Format.XADES: named})


def _choose_rules(choice: Choice, key: OpenedKey, table: PolicyTable) -> SigningRules:
    formats = list(Format) if choice.format is None else [choice.format]
    if choice.xml_flavor is XmlFlavor.NFE:
        return _plain_rules(choice, key)
    if choice.policy in _BASELINES:
        return SigningRules(choice.name, dict.fromkeys(formats, (_BASELINES[choice.policy],)), {})
    facts = read_key(key)
    specs: dict[Format, Sequence[SignatureSpec]] = {}
    reasons: dict[Format, str] = {}
    for wanted in formats:
        try:
            specs[wanted] = _list_specs(choice, wanted, facts, table)
        except PermanentFailure as error:
            reasons[wanted] = error.message
    if not specs:
        raise PermanentFailure(next(iter(reasons.values())))
    roots = {row.identifier.oid: row.roots for row in table.rows if row.format in specs}
    return SigningRules(choice.name, specs, reasons, roots=roots)


def _list_specs(choice: Choice, format: Format, key: KeyFacts, table: PolicyTable) -> Sequence[SignatureSpec]:
    level, version = _split(choice.policy)
    rows = table.usable(format, level, version, key)
    return tuple(row.spec(etsi_filter=choice.pades_filter is PadesFilter.ETSI) for row in rows)


def _plain_rules(choice: Choice, key: OpenedKey) -> SigningRules:
    if choice.xml_sha1_until is None:
        return SigningRules(choice.name, {Format.XADES: (PLAIN_XML,)})
    if key.algorithm is not KeyAlgorithm.RSA:
        raise PermanentFailure("Xml:Sha1Until is for RSA keys, and the key is ECDSA; remove it to sign with SHA-256.")
    return SigningRules(choice.name, {Format.XADES: (PLAIN_XML_SHA1,)}, sha1_until=choice.xml_sha1_until)


def _split(policy: str) -> tuple[str, str | None]:
    level, _, version = policy.partition(" ")
    return level, version or None
