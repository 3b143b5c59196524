"""What the signatures of a profile carry, by format, key and day (ICP-03, ICP-11, CFG-188, CFG-190, CFG-197)."""

from __future__ import annotations

import datetime
from typing import Any

import attrs
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from bulksigner.contract.certificate import Digest, KeyAlgorithm
from bulksigner.contract.errors import PermanentFailure, StepFailed
from bulksigner.contract.signing import Format
from bulksigner.formats.policies import shipped_policies
from bulksigner.formats.spec import BASELINE_B
from bulksigner.profiles.rules import find_absent_policy, make_rules
from bulksigner.settings.signatures import PadesFilter, XmlFlavor

TODAY = datetime.datetime(2026, 3, 4, 12, tzinfo=datetime.UTC)


@attrs.frozen
class Choice:
    name: str = "one"
    format: Format | None = None
    policy: str = "AD-RB"
    pades_filter: PadesFilter | None = None
    xml_flavor: XmlFlavor = XmlFlavor.XADES
    xml_sha1_until: datetime.date | None = None
    xml_sign_element: str | None = None


class Key:
    """An opened key of which only the certificate is looked at."""

    chain = ()

    def __init__(self, private: Any) -> None:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test")])
        builder = x509.CertificateBuilder(
            name, name, private.public_key(), 1, TODAY, TODAY + datetime.timedelta(days=9)
        )
        self.certificate = builder.sign(private, hashes.SHA256()).public_bytes(Encoding.DER)
        self.algorithm = KeyAlgorithm.RSA if isinstance(private, rsa.RSAPrivateKey) else KeyAlgorithm.ECDSA

    def sign(self, data: bytes, digest: Digest) -> bytes:
        raise NotImplementedError

    def sign_digest(self, value: bytes, digest: Digest) -> bytes:
        raise NotImplementedError

    def close(self) -> None:
        """Hold nothing."""


@pytest.fixture(scope="module")
def p256() -> Key:
    return Key(ec.generate_private_key(ec.SECP256R1()))


@pytest.fixture(scope="module")
def rsa2048() -> Key:
    return Key(rsa.generate_private_key(65537, 2048))


def test_a_profile_signs_the_national_policy(p256: Key) -> None:
    """ICP-03, CFG-188: AD-RB in each format, PDF signatures with the entries that the policy asks for."""
    rules = make_rules(Choice(), p256, shipped_policies())
    found = {known: rules.spec(known, TODAY) for known in Format}
    assert {known.value: spec.name for known, spec in found.items()} == {
        "Pades": "AD-RB 1.3", "Cades": "AD-RB 2.4", "Xades": "AD-RB 2.5"
    }  # fmt: skip
    assert found[Format.PADES].pades_sub_filter == "PBAD.PAdES"
    assert rules.find_fault(TODAY) is None
    etsi = make_rules(Choice(format=Format.PADES, pades_filter=PadesFilter.ETSI), p256, shipped_policies())
    assert etsi.spec(Format.PADES, TODAY).pades_filter == "Adobe.PPKLite"


def test_a_profile_signs_without_a_policy(p256: Key) -> None:
    """CFG-188: the baseline B-B, always with the entries of ETSI."""
    rules = make_rules(Choice(policy="B-B"), p256, shipped_policies())
    assert {rules.spec(known, TODAY) for known in Format} == {BASELINE_B}


def test_the_day_decides(rsa2048: Key) -> None:
    """ICP-03, ICP-33: the newest that is valid on the day; none before or after, which is said with what to do."""
    rules = make_rules(Choice(format=Format.CADES), rsa2048, shipped_policies())
    for year, name in ((2020, "AD-RB 2.3"), (2017, "AD-RB 2.2"), (2026, "AD-RB 2.4"), (2036, "AD-RB 2.4")):
        assert rules.spec(Format.CADES, TODAY.replace(year=year)).name == name
    for year in (2012, 2038):
        moment = TODAY.replace(year=year)
        with pytest.raises(
            StepFailed, match=f"no policy that is valid on {year}-03-04.*Signing:Policies:Path"
        ) as raised:
            rules.spec(Format.CADES, moment)
        assert raised.value.code == "sign.policy-invalid"
        assert rules.find_fault(moment) == raised.value.message


def test_a_key_that_no_policy_allows_degrades(p256: Key) -> None:
    """ICP-11: with the reason of each version; a profile for all formats goes on in those that allow the key."""
    with pytest.raises(PermanentFailure, match=r"2\.3: it allows RSA from 2048 bits, and the key is ECDSA of 256 bits"):
        make_rules(Choice(format=Format.CADES, policy="AD-RB 2.3"), p256, shipped_policies())
    with pytest.raises(PermanentFailure, match=r"LPA_PAdES\.p7s"):
        make_rules(Choice(format=Format.PADES, policy="AD-RA"), p256, shipped_policies())


def test_levels_with_a_time_stamp_ask_for_it(rsa2048: Key) -> None:
    """ICP-03: AD-RT and B-T, in each format, with and without a version; no other level asks."""
    for policy, asks in (("AD-RT", True), ("B-T", True), ("AD-RB", False), ("B-B", False)):
        rules = make_rules(Choice(policy=policy), rsa2048, shipped_policies())
        assert [rules.spec(one, TODAY).is_stamped for one in Format] == [asks] * 3
    rules = make_rules(Choice(format=Format.CADES, policy="AD-RT 2.3"), rsa2048, shipped_policies())
    spec = rules.spec(Format.CADES, TODAY)
    assert (spec.name, spec.is_stamped) == ("AD-RT 2.3", True)
    assert spec.policy is not None
    assert spec.policy.oid == "2.16.76.1.7.1.2.2.3"


def test_sha1_ends_with_its_day(rsa2048: Key, p256: Key) -> None:
    """BEY-13, CFG-197: allowed until the named day, that day included; then nothing is signed."""
    last = TODAY.astimezone().date()
    choice = Choice(format=Format.XADES, xml_flavor=XmlFlavor.NFE, xml_sha1_until=last)
    rules = make_rules(choice, rsa2048, shipped_policies())
    assert rules.spec(Format.XADES, TODAY).digest is Digest.SHA1
    with pytest.raises(StepFailed, match="which is over") as raised:
        rules.spec(Format.XADES, TODAY + datetime.timedelta(days=1))
    assert raised.value.code == "sign.policy-invalid"
    with pytest.raises(PermanentFailure, match="is for RSA keys"):
        make_rules(choice, p256, shipped_policies())
    plain = make_rules(attrs.evolve(choice, xml_sha1_until=None), p256, shipped_policies())
    assert (plain.spec(Format.XADES, TODAY).digest, plain.spec(Format.XADES, TODAY).is_plain_xml) == (
        Digest.SHA256,
        True,
    )
    with pytest.raises(StepFailed, match="makes no Cades signatures"):
        plain.spec(Format.CADES, TODAY)


def test_absent_versions_are_found_without_a_key() -> None:
    """CFG-81: a save or an import names what the table has not."""
    table = shipped_policies()
    assert find_absent_policy(Choice(), table) is None
    assert find_absent_policy(Choice(policy="B-B"), table) is None
    assert find_absent_policy(Choice(format=Format.PADES, policy="AD-RB 1.1"), table) is None
    assert "no version 2.4" in (find_absent_policy(Choice(format=Format.PADES, policy="AD-RB 2.4"), table) or "")
    assert "no policy AD-RV for Pades" in (find_absent_policy(Choice(format=Format.PADES, policy="AD-RV"), table) or "")


def test_what_is_signed_can_be_told(p256: Key) -> None:
    """ICP-04: policy, identifier and last day of each format."""
    lines = list(make_rules(Choice(), p256, shipped_policies()).describe(TODAY))
    assert "Cades: AD-RB 2.4, 2.16.76.1.7.1.1.2.4, until 2037-10-22" in lines
    assert len(lines) == 3
