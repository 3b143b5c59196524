"""The shipped policy table and the choice of a row (ICP-01 to ICP-06, ICP-11)."""

from __future__ import annotations

import datetime
import pickle

import attrs
import pytest

from bulksigner.contract.certificate import KeyAlgorithm
from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.signing import Format
from bulksigner.formats.policies import KeyFacts, Policy, PolicyTable, parse_table, shipped_policies

TODAY = datetime.datetime(2026, 3, 4, tzinfo=datetime.UTC)
V5, V12 = "Autoridade Certificadora Raiz Brasileira v5", "Autoridade Certificadora Raiz Brasileira v12"
RSA = KeyFacts(KeyAlgorithm.RSA, 2048, "Test Root")
# The hashes that the requirements print, hexadecimal; for XAdES the base64 of the policy file turned into it.
PUBLISHED = {
    "2.16.76.1.7.1.1.2.4": "1f3c904c44c392feef447e21faa7a04e85d9c0153346320f557b7042af5dcf13",
    "2.16.76.1.7.1.1.2.3": "b16e88bbf77322a67995b79078778ed3d0ea7c88587b6f6d518b715e8f76a3d5",
    "2.16.76.1.7.1.5.2.5": "0531ee338acb53364c8b316a11d90423ee33e714cb365d9c4562b90fa47d9099",
    "2.16.76.1.7.1.6.2.5": "ebc306b7e3f100eca1ea62f088083206c6ec5ac40c3ae18d426951f656e1ee18",
    "2.16.76.1.7.1.11.1.3": "23e4be4b9b362172e4ebb0e72b86a133ece5aad843d8651c6e38a0ba3f08fc60",
    "2.16.76.1.7.1.11.1.1": "44fc5816eb2d705d8c8f022a7f93b3fb49edfae1a7b9149ef6fab833e9bb63f8",
    "2.16.76.1.7.1.14.1.4": "ffa9fd474812f6ce63d625679c9ef235a6547b017be941b2c094aa868e67e123",
}


def newest(format: Format, key: KeyFacts, level: str = "AD-RB", version: str | None = None) -> Policy:
    return next(row for row in shipped_policies().usable(format, level, version, key) if row.is_valid_at(TODAY))


def test_the_shipped_table_is_whole() -> None:
    """ICP-01, ICP-06: every version of every family once, with the published hash, a period and an address."""
    rows = shipped_policies().rows
    by_oid = {row.identifier.oid: row for row in rows}
    assert len(by_oid) == len(rows) == 59
    assert {oid: by_oid[oid].identifier.value.hex() for oid in PUBLISHED} == PUBLISHED
    for row in rows:
        assert len(row.identifier.value) == 32
        assert row.not_before < row.not_after
        assert row.identifier.uri.startswith("http://politicas.icpbrasil.gov.br/PA_")
        assert row.key_rules
        assert row.roots
        assert bool(row.required_unsigned) == (row.level != "AD-RB")


@pytest.mark.parametrize(
    ("format", "version", "oid"),
    [
        (Format.CADES, "2.4", "2.16.76.1.7.1.1.2.4"),
        (Format.XADES, "2.5", "2.16.76.1.7.1.6.2.5"),
        (Format.PADES, "1.3", "2.16.76.1.7.1.11.1.3"),
    ],
)
@pytest.mark.parametrize("key", [RSA, KeyFacts(KeyAlgorithm.ECDSA, 256, "Test Root"), KeyFacts(KeyAlgorithm.RSA, 4096)])
def test_the_newest_is_chosen(format: Format, version: str, oid: str, key: KeyFacts) -> None:
    """ICP-03: AD-RB in force today, for each key that it allows; never the faulty PAdES 1.2 (ICP-01)."""
    row = newest(format, key)
    assert (row.version, row.identifier.oid) == (version, oid)
    assert "1.2" not in {one.version for one in shipped_policies().usable(Format.PADES, "AD-RB", None, key)}


def test_the_root_decides() -> None:
    """ICP-02: a certificate under v12 has no version before 2.4; one under v5 has both."""
    v12 = attrs.evolve(RSA, root=V12, is_national=True)
    v5 = attrs.evolve(RSA, root=V5, is_national=True)
    assert [row.version for row in shipped_policies().usable(Format.CADES, "AD-RB", None, v12)] == ["2.4"]
    assert [row.version for row in shipped_policies().usable(Format.CADES, "AD-RB", None, v5)] == ["2.4", "2.3", "2.2"]
    with pytest.raises(PermanentFailure, match=r"does not list the root of the certificate"):
        newest(Format.CADES, v12, version="2.3")


@pytest.mark.parametrize(
    ("key", "level", "version", "text"),
    [
        (attrs.evolve(RSA, bits=1024), "AD-RB", None, "the key is RSA of 1024 bits"),
        (KeyFacts(KeyAlgorithm.ECDSA, 256), "AD-RB", "2.3", "the key is ECDSA of 256 bits"),
        (RSA, "AD-RB", "2.1", "revoked on 2017-02-26"),
        (RSA, "AD-RB", "2.0", "revoked on 2012-03-23"),
        (RSA, "AD-RB", "9.9", "has no version 9.9; known are 2.4, 2.3, 2.2, 2.1, 2.0"),
        (RSA, "AD-RX", None, "known are AD-RA, AD-RB, AD-RC, AD-RT, AD-RV"),
    ],
)
def test_what_cannot_be_used_says_why(key: KeyFacts, level: str, version: str | None, text: str) -> None:
    """ICP-03, ICP-11: no fallback to a signature without policy, but the reason."""
    with pytest.raises(PermanentFailure, match=text):
        shipped_policies().usable(Format.CADES, level, version, key)


def test_the_faulty_versions_are_withdrawn() -> None:
    """ICP-01: PAdES RB and RT 1.2, RC and RA 1.3 are in the table and never signed with."""
    faulty = {(row.level, row.version) for row in shipped_policies().rows if "blank" in row.withdrawn}
    assert faulty == {("AD-RB", "1.2"), ("AD-RT", "1.2"), ("AD-RC", "1.3"), ("AD-RA", "1.3")}


def test_versions_are_numbers() -> None:
    """ICP-03: 2.10 is newer than 2.9."""
    row = newest(Format.CADES, RSA)
    table = PolicyTable([attrs.evolve(row, version=version) for version in ("2.9", "2.10", "2.1")], "test")
    assert [one.version for one in table.usable(Format.CADES, "AD-RB", None, RSA)] == ["2.10", "2.9", "2.1"]


def test_an_unknown_algorithm_is_no_row() -> None:
    """ICP-33: a rule that nobody could apply is a fault of the file."""
    with pytest.raises(ValueError, match="md5"):
        parse_table({"algorithms": {"a": {"rsa-md5": 1}}, "signed": {}, "unsigned": {}, "policy": []})


def test_a_specification_travels_as_it_is() -> None:
    """PERF-06: what a worker gets is equal to what was sent, and is the same object each time."""
    for row in shipped_policies().rows:
        spec = row.spec(etsi_filter=True)
        first, second = (pickle.loads(pickle.dumps(spec)) for _ in range(2))
        assert first == spec
        assert first is second
