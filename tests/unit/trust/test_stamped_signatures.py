"""Signatures of the levels with a time stamp, in each format: made, checked, refused where the stamp is not right."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import io
import subprocess

import attrs
import pytest
from asn1crypto import cms
from asn1crypto import x509 as asn1_x509
from cryptography.hazmat.primitives.serialization import Encoding
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.validation import async_validate_pdf_signature
from pyhanko_certvalidator import ValidationContext

from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.policy import Joining
from bulksigner.contract.signing import Format, Measured
from bulksigner.formats.dispatch import check, signer_for
from bulksigner.formats.model import CheckFailed, Expectation
from bulksigner.formats.policies import read_key, shipped_policies
from bulksigner.formats.spec import BASELINE_B, BASELINE_T
from bulksigner.formats.unsigned import (
    add_cms_timestamp,
    add_cms_unsigned,
    add_xml_timestamp,
    encode_timestamp,
    list_cms_unsigned,
    list_xml_timestamps,
    stamped_in_cms,
    stamped_in_xml,
)
from bulksigner.settings.trust import TrustSettings
from bulksigner.testing.authority_server import make_timestamp_identity
from bulksigner.testing.certificates import KeyKind, make_authority
from bulksigner.testing.fakes import MemoryKey
from bulksigner.testing.pdf_files import pdf_file
from bulksigner.testing.verify import verify_cms_with_openssl, verify_pdf_with_pdfsig, verify_xml_with_xmlsec1
from bulksigner.trust.roots import load_trust
from bulksigner.trust.stamping import StampingPlan
from bulksigner.trust.timestamping import TimestampService, TimestampsFailed

CONTENTS = {
    Format.CADES: b"0001 payment\r\n\x00\xff",
    Format.XADES: b'<?xml version="1.0"?>\r\n<n:a xmlns:n="urn:n" xml:lang="pt" xmlns="u:d">\t<b>\xc3\xa1</b></n:a>\n',
    Format.PADES: pdf_file(),
}
FORMATS = list(Format)


def sign(format: Format, key, spec, stamps, **given) -> bytes:
    target, content = io.BytesIO(), CONTENTS[format]
    expected = Measured(len(content), hashlib.sha256(content).digest())
    signer = signer_for(format, key, spec, stamps=stamps, **given)
    signer.sign(io.BytesIO(content), target, expected=expected, signed_at=datetime.datetime.now(datetime.UTC))
    return target.getvalue()


def look(format: Format, artifact: bytes, key, spec, judge, **given):
    content = CONTENTS[format]
    measured = Measured(len(content), hashlib.sha256(content).digest())
    expectation = Expectation(format, key.certificate, measured, spec, judge_stamp=judge)
    return check(io.BytesIO(artifact), expectation, **given)


def list_specs(format: Format, key) -> list:
    rows = shipped_policies().usable(format, "AD-RT", None, read_key(key))
    return [BASELINE_T, *(row.spec(etsi_filter=False) for row in rows), rows[0].spec(etsi_filter=True)]


def tokens_of(format: Format, artifact: bytes) -> list[tuple[bytes, bytes]]:
    """Return what is stamped and the token, by readers that the checks do not use."""
    if format is Format.XADES:
        return [(stamped_in_xml(artifact), token) for token in list_xml_timestamps(artifact)]
    if format is Format.PADES:
        signer = PdfFileReader(io.BytesIO(artifact)).embedded_signatures[0].signer_info
    else:
        (signer,) = cms.ContentInfo.load(artifact)["content"]["signer_infos"]
    assert [one["type"].native for one in signer["unsigned_attrs"]] == ["signature_time_stamp_token"]
    return [(signer["signature"].native, one.dump()) for one in signer["unsigned_attrs"][0]["values"]]


@pytest.mark.parametrize("kind", [KeyKind.RSA_2048, KeyKind.ECDSA_P256], ids=lambda one: one.name)
@pytest.mark.parametrize("format", FORMATS, ids=lambda one: one.value)
def test_each_level_with_a_time_stamp(stamping, trust_bench, format, kind, tmp_path, require_tool) -> None:
    """ICP-30 to ICP-33: B-T and each AD-RT; our check and verifiers of others accept signature and stamp."""
    for tool, package in (("openssl", "openssl"), ("pdfsig", "poppler-utils"), ("xmlsec1", "xmlsec1")):
        require_tool(tool, package)
    issued = trust_bench.kit.authority.issue(kind=kind)
    key, root = MemoryKey(issued), issued.chain_der[-1]
    for number, spec in enumerate(list_specs(format, key)):
        artifact = sign(format, key, spec, stamping.stamps)
        assert look(format, artifact, key, spec, stamping.judge).algorithm is key.algorithm
        file = tmp_path / f"{number}"
        file.write_bytes(artifact)
        [(covered, token)] = tokens_of(format, artifact)
        verify_stamp(trust_bench, covered, token, tmp_path)
        if format is Format.CADES:
            verdict = verify_cms_with_openssl(file, [root])
            assert verdict, verdict.output
        elif format is Format.XADES:
            verdict = verify_xml_with_xmlsec1(file, [root])
            assert verdict, verdict.output
        else:
            verify_pdf(artifact, root)
            assert not spec.pades_sub_filter.startswith("ETSI") or verify_pdf_with_pdfsig(file, [root])


def verify_stamp(trust_bench, covered: bytes, token: bytes, folder) -> None:
    """Ask openssl whether the token stamps what it should, by a service under the bench's root."""
    (folder / "covered").write_bytes(covered)
    (folder / "token").write_bytes(token)
    between = folder / "between.pem"
    between.write_bytes(trust_bench.kit.authority.intermediate.public_bytes(Encoding.PEM))
    command = ["openssl", "ts", "-verify", "-token_in", "-in", "token", "-data", "covered"]
    command += ["-CAfile", str(trust_bench.roots / "root.pem"), "-untrusted", "between.pem"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def verify_pdf(artifact: bytes, root: bytes) -> None:
    def context() -> ValidationContext:
        return ValidationContext(trust_roots=[asn1_x509.Certificate.load(root)], allow_fetching=False)

    (signature,) = PdfFileReader(io.BytesIO(artifact)).embedded_signatures
    status = asyncio.run(async_validate_pdf_signature(signature, context(), ts_validation_context=context()))
    assert status.bottom_line, status.pretty_print_details()
    assert status.timestamp_validity.valid
    assert status.timestamp_validity.trusted


@pytest.mark.parametrize("given", [{"pem": True}, {"detached": True}], ids=["pem", "detached"])
def test_the_other_forms_of_cades(stamping, trust_bench, given) -> None:
    """CFG-95, ICP-30: a stamp in PEM, and in a signature beside its content."""
    key = MemoryKey(trust_bench.kit.authority.issue())
    artifact = sign(Format.CADES, key, BASELINE_T, stamping.stamps, **given)
    assert look(Format.CADES, artifact, key, BASELINE_T, stamping.judge, **given)


@pytest.mark.parametrize("format", FORMATS, ids=lambda one: one.value)
def test_a_level_is_exactly_what_it_says(stamping, trust_bench, format) -> None:
    """ICP-34: no stamp where one is asked for, a stamp where none is, and no trust are each refused."""
    key = MemoryKey(trust_bench.kit.authority.issue())
    plain = sign(format, key, BASELINE_B, None)
    with pytest.raises(CheckFailed, match=r"no time stamp|QualifyingProperties"):
        look(format, plain, key, BASELINE_T, stamping.judge)
    stamped = sign(format, key, attrs.evolve(BASELINE_T, name="B-B"), stamping.stamps)
    assert look(format, stamped, key, BASELINE_T, stamping.judge)
    for spec in (BASELINE_B, None):
        with pytest.raises(CheckFailed):
            look(format, stamped, key, spec, stamping.judge)
    with pytest.raises(CheckFailed, match="nothing here tells whose are trusted"):
        look(format, stamped, key, BASELINE_T, None)


@attrs.define
class Forger:
    """Hands out what it is given, whatever is to be stamped."""

    token: bytes
    room: int = 20_000

    def prepare(self) -> None:
        """Let the key be used."""

    def stamp(self, content: bytes) -> bytes:
        return self.token

    def make(self, signature: bytes) -> bytes:
        return encode_timestamp(self.token)


@pytest.mark.parametrize("format", FORMATS, ids=lambda one: one.value)
def test_a_stamp_of_something_else_does_not_count(stamping, trust_bench, format) -> None:
    """ICP-34: the imprint is that of this signature value."""
    key = MemoryKey(trust_bench.kit.authority.issue())
    artifact = sign(format, key, BASELINE_T, Forger(stamping.stamps.stamp(b"something else")))
    with pytest.raises(CheckFailed, match="does not count: its token stamps something else"):
        look(format, artifact, key, BASELINE_T, stamping.judge)


@pytest.mark.parametrize("format", FORMATS, ids=lambda one: one.value)
def test_bytes_that_are_no_token_are_a_verdict(stamping, trust_bench, format) -> None:
    """ICP-34: never another error."""
    key = MemoryKey(trust_bench.kit.authority.issue())
    for token in (b"\x30\x00", b"\x30\x03\x02\x01\x01", stamping.stamps.stamp(b"x")[:-40] + bytes(40)):
        artifact = sign(format, key, BASELINE_T, Forger(token))
        with pytest.raises(CheckFailed):
            look(format, artifact, key, BASELINE_T, stamping.judge)


def test_a_stamp_of_a_stranger_does_not_count(stamping, trust_bench, tmp_path) -> None:
    """ICP-34: the chain leads to a root of this host; a service that is not asked for its policy does not count."""
    key = MemoryKey(trust_bench.kit.authority.issue())
    artifact = sign(Format.CADES, key, BASELINE_T, stamping.stamps)
    make_authority("Alheia").issue().write_root_pem(tmp_path / "root.pem")
    service = TimestampService(trust_bench.kit.tsa_url)
    other = StampingPlan((service,), load_trust(TrustSettings(roots_path=tmp_path))).open(trust_bench.clock)
    with pytest.raises(CheckFailed, match="does not count"):
        look(Format.CADES, artifact, key, BASELINE_T, other.judge)
    wants = attrs.evolve(service, policy="1.2.3.4")
    strict = StampingPlan((wants,), stamping.trust).open(trust_bench.clock)
    with pytest.raises(CheckFailed, match="of the policy"):
        look(Format.CADES, artifact, key, BASELINE_T, strict.judge)
    lax = StampingPlan((wants, service), stamping.trust).open(trust_bench.clock)
    assert look(Format.CADES, artifact, key, BASELINE_T, lax.judge)


def test_nothing_hides_beside_the_stamp(stamping, trust_bench) -> None:
    """ICP-34: another attribute, and a second stamp, are refused though each is well made."""
    key = MemoryKey(trust_bench.kit.authority.issue())
    plain = sign(Format.CADES, key, BASELINE_B, None)
    token = stamping.stamps.stamp(stamped_in_cms(plain))
    stamped = add_cms_timestamp(plain, token)
    assert list_cms_unsigned(stamped)[0][1] == token
    assert look(Format.CADES, stamped, key, BASELINE_T, stamping.judge)
    for artifact in (
        add_cms_timestamp(stamped, token),
        add_cms_unsigned(stamped, "1.2.3.4", b"\x30\x00"),
        add_cms_unsigned(plain, "1.2.3.4", token),
    ):
        with pytest.raises(CheckFailed, match="something unsigned"):
            look(Format.CADES, artifact, key, BASELINE_T, stamping.judge)
    document = sign(Format.XADES, key, BASELINE_T, stamping.stamps)
    twice = add_xml_timestamp(document, stamping.stamps.stamp(stamped_in_xml(document)))
    end = b"</xades:SignatureTimeStamp>"
    for artifact in (twice, document.replace(end, end + b"<xades:CertificateValues></xades:CertificateValues>")):
        with pytest.raises(CheckFailed):
            look(Format.XADES, artifact, key, BASELINE_T, stamping.judge)


def test_a_service_whose_certificate_is_over_gives_no_stamp(stamping, trust_bench) -> None:
    """BEY-20: said by the client, before the key is used."""
    trust_bench.kit.stamps = make_timestamp_identity(trust_bench.kit.authority, is_over=True)
    with pytest.raises(TimestampsFailed, match="outside the validity") as failed:
        stamping.stamps.prepare()
    assert failed.value.code == "sign.timestamp-failed"


def test_a_service_that_just_failed_is_not_asked_again(stamping, trust_bench) -> None:
    """BEY-20: while every service rests the key is not used, and the network neither."""
    stamping.stamps.prepare()
    trust_bench.kit.broken.add("/tsa")
    with pytest.raises(TimestampsFailed):
        stamping.stamps.stamp(b"content")
    asked = len(trust_bench.kit.requests)
    with pytest.raises(TimestampsFailed, match="not asked again before"):
        stamping.stamps.prepare()
    assert len(trust_bench.kit.requests) == asked
    trust_bench.clock.ahead += datetime.timedelta(seconds=6)
    stamping.stamps.prepare()


def test_a_pdf_has_room_for_the_longer_token_of_the_next_service(stamping, trust_bench) -> None:
    """BEY-20: a service that takes over costs no file, although it sends more certificates."""
    key, own = MemoryKey(trust_bench.kit.authority.issue()), make_timestamp_identity(trust_bench.kit.authority)
    services = [TimestampService(f"{trust_bench.kit.url}/{place}", limit_seconds=5.0) for place in ("gone", "tsa")]
    several = StampingPlan(tuple(services), stamping.trust).open(trust_bench.clock)
    trust_bench.kit.stamps = attrs.evolve(own, issuers=own.issuers[:1])
    several.stamps.prepare()
    others = [make_authority(f"Outra {number}").root for number in range(4)]
    trust_bench.kit.stamps = attrs.evolve(own, issuers=(*own.issuers, *others))
    artifact = sign(Format.PADES, key, BASELINE_T, several.stamps)
    assert look(Format.PADES, artifact, key, BASELINE_T, several.judge)


def test_what_has_no_stamps_makes_no_such_signer(trust_bench) -> None:
    """ICP-03: no service, and signatures on files that arrive signed, are refused before anything is read."""
    key = MemoryKey(trust_bench.kit.authority.issue())
    with pytest.raises(PermanentFailure, match="no service is configured") as refused:
        signer_for(Format.CADES, key, BASELINE_T)
    assert refused.value.code == "sign.timestamp-failed"
    joining = attrs.evolve(BASELINE_T, joining=Joining.PARALLEL)
    with pytest.raises(PermanentFailure, match="get no time stamp"):
        signer_for(Format.CADES, key, joining, stamps=Forger(b""))
