"""Time stamps: the client against a service on loopback, what it refuses, and their place in finished signatures."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import io
import subprocess

import attrs
import pytest
from asn1crypto import cms, tsp
from asn1crypto import x509 as asn1_x509
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from pyhanko.sign.validation.generic_cms import async_validate_detached_cms
from pyhanko_certvalidator import ValidationContext

from bulksigner.contract.certificate import Digest
from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.signing import Measured
from bulksigner.formats import der
from bulksigner.formats.cades import CadesSigner
from bulksigner.formats.spec import BASELINE_B
from bulksigner.formats.timestamp import TimestampRefused, read_token
from bulksigner.formats.unsigned import (
    SIGNATURE_TIMESTAMP,
    add_cms_timestamp,
    add_xml_timestamp,
    list_cms_unsigned,
    list_xml_timestamps,
    stamp_room,
    stamped_in_cms,
    stamped_in_xml,
)
from bulksigner.formats.xades import XadesSigner
from bulksigner.settings.trust import TrustSettings
from bulksigner.testing.authority_server import make_timestamp_identity
from bulksigner.testing.certificates import KeyKind, make_authority
from bulksigner.testing.fakes import MemoryKey
from bulksigner.testing.proving import open_stamping
from bulksigner.testing.verify import verify_cms_with_openssl, verify_xml_with_xmlsec1
from bulksigner.trust.roots import load_trust
from bulksigner.trust.stamping import SignatureStamps
from bulksigner.trust.timestamping import TimestampClient, TimestampService, TimestampsFailed

CONTENT = b"what is stamped"
XML = b'<?xml version="1.0"?>\r\n<nota  xml:lang="pt"><a/>\t<b><![CDATA[<]]></b></nota>\r\n'
PENALTY = datetime.timedelta(seconds=5)


@pytest.fixture
def client(trust_bench):
    """A maker of clients that trust the bench's root; without addresses they ask the bench's service."""

    def make(*services, roots=True) -> TimestampClient:
        trust = load_trust(TrustSettings(roots_path=trust_bench.roots if roots else None))
        asked = services or (TimestampService(trust_bench.kit.tsa_url),)
        timed = [attrs.evolve(one, limit_seconds=2.0) for one in asked]
        return TimestampClient(timed, trust, clock=trust_bench.clock)

    return make


def sign(signer, content: bytes) -> bytes:
    target = io.BytesIO()
    expected = Measured(len(content), hashlib.sha256(content).digest())
    signer.sign(io.BytesIO(content), target, expected=expected, signed_at=datetime.datetime.now(datetime.UTC))
    return target.getvalue()


@pytest.mark.parametrize("digest", [Digest.SHA256, Digest.SHA512])
def test_openssl_accepts_the_token_that_the_client_took(client, trust_bench, tmp_path, require_tool, digest) -> None:
    """RFC 3161: imprint, nonce and certificate are right by a verifier that is not ours."""
    require_tool("openssl", "openssl")
    stamp = client().stamp(CONTENT, digest)
    assert abs(stamp.time - trust_bench.clock()) < datetime.timedelta(minutes=1)
    assert read_token(stamp.token, CONTENT) == stamp
    token, data, root = tmp_path / "token", tmp_path / "data", trust_bench.roots / "root.pem"
    intermediate = tmp_path / "between.pem"
    token.write_bytes(stamp.token)
    data.write_bytes(CONTENT)
    intermediate.write_bytes(trust_bench.kit.authority.intermediate.public_bytes(Encoding.PEM))
    ran = subprocess.run(
        ["openssl", "ts", "-verify", "-token_in", "-in", token, "-data", data, "-CAfile", root,
         "-untrusted", intermediate],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Verification: OK" in ran.stdout + ran.stderr, ran.stderr


def doctored(change):
    """Return a doctor that changes the parsed token's TSTInfo or CMS after it was signed."""

    def act(response: bytes) -> bytes:
        parsed = tsp.TimeStampResp.load(response)
        change(parsed)
        return parsed.dump(force=True)

    return act


def reject(parsed) -> None:
    parsed["status"] = {"status": "rejection", "status_string": ["sem saldo"]}


def flip_signature(parsed) -> None:
    signer = parsed["time_stamp_token"]["content"]["signer_infos"][0]
    value = bytearray(signer["signature"].native)
    value[-1] ^= 1
    signer["signature"] = bytes(value)


def drop_certificates(parsed) -> None:
    parsed["time_stamp_token"]["content"]["certificates"] = cms.CertificateSet([])


@pytest.mark.parametrize(
    ("doctor", "told"),
    [
        (doctored(reject), "rejection: sem saldo"),
        (doctored(flip_signature), "signature of its token is not valid"),
        (doctored(drop_certificates), "does not hold the certificate"),
        (lambda _: b"<html>busy</html>", "no time-stamp response"),
        (lambda _: b"", "no time-stamp response"),
        (lambda response: response[:-40], "no time-stamp response"),
    ],
    ids=["rejected", "signature", "no-certificate", "html", "empty", "cut"],
)
def test_a_bad_answer_is_refused_in_words(client, trust_bench, doctor, told) -> None:
    """RFC 3161 2.4.2: each defect by its name, with the address."""
    trust_bench.kit.doctor = doctor
    with pytest.raises(TimestampsFailed) as failed:
        client().stamp(CONTENT)
    assert told in failed.value.message
    assert trust_bench.kit.tsa_url in failed.value.message


def test_an_answer_to_another_request_is_refused(client, trust_bench) -> None:
    """RFC 3161 2.4.1: the nonce tells a replay, the imprint another content."""
    answers: list[bytes] = []
    trust_bench.kit.doctor = lambda response: answers.append(response) or response
    first = client().stamp(CONTENT)
    trust_bench.kit.doctor = lambda _: answers[0]
    with pytest.raises(TimestampsFailed, match="another nonce"):
        client().stamp(CONTENT)
    with pytest.raises(TimestampRefused, match="something else"):
        read_token(first.token, CONTENT + b"!")


def test_a_certificate_that_is_not_for_stamps_is_refused(client, trust_bench) -> None:
    """RFC 3161 2.3."""
    trust_bench.kit.stamps = make_timestamp_identity(trust_bench.kit.authority, for_stamping=False)
    with pytest.raises(TimestampsFailed, match="not one for time stamps alone"):
        client().stamp(CONTENT)


def test_a_service_of_a_stranger_is_refused(client, trust_bench) -> None:
    """CFG-68: its root must be in the trust set as well."""
    trust_bench.kit.stamps = make_timestamp_identity(make_authority("Outra hora"))
    with pytest.raises(TimestampsFailed, match="leads to no trusted root"):
        client().stamp(CONTENT)
    with pytest.raises(TimestampsFailed, match="leads to no trusted root"):
        client(roots=False).stamp(CONTENT)


def test_another_policy_than_the_one_asked_for_is_refused(client, trust_bench) -> None:
    """RFC 3161 2.4.2."""
    service = TimestampService(trust_bench.kit.tsa_url, policy="2.16.76.1.6.1")
    with pytest.raises(TimestampsFailed, match=r"and 2\.16\.76\.1\.6\.1 was asked for"):
        client(service).stamp(CONTENT)


def test_clocks_that_differ_are_told_of(client, trust_bench) -> None:
    """A signature must not be given a time that nobody would believe."""
    trust_bench.clock.ahead = datetime.timedelta(hours=1)
    with pytest.raises(TimestampsFailed, match=r"-3\d\d\d s off this host's"):
        client().stamp(CONTENT)


def test_a_service_that_was_revoked_is_not_believed(trust_bench) -> None:
    """RFC 3161 4: its stamps are refused in words, and the look at its standing is not made for each stamp."""

    def open_stamps():
        return open_stamping(trust_bench.kit, trust_bench.roots.parent, clock=trust_bench.clock).stamps

    stamps = open_stamps()
    service = x509.load_der_x509_certificate(read_token(stamps.stamp(CONTENT), CONTENT).certificate)
    looks = trust_bench.kit.requests.count("/list.crl")
    assert looks
    assert stamps.stamp(CONTENT)
    assert trust_bench.kit.requests.count("/list.crl") == looks
    trust_bench.kit.revoked[service.serial_number] = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    for kept in trust_bench.cache.iterdir():
        kept.unlink()
    with pytest.raises(TimestampsFailed, match="revoked"):
        open_stamps().stamp(CONTENT)


def test_a_service_whose_standing_nobody_tells_still_stamps(stamping, trust_bench) -> None:
    """BEY-20: a list that is away stops none of the levels that carry no proof."""
    trust_bench.kit.broken.add("/list.crl")
    assert stamping.stamps.stamp(CONTENT)


def test_the_next_service_stands_in_and_the_first_rests(client, trust_bench) -> None:
    """Several services in order; one that failed is left alone for a while that doubles, then asked again."""
    kit = trust_bench.kit
    first, second = TimestampService(f"{kit.url}/nowhere"), TimestampService(kit.tsa_url)
    both = client(first, second)
    both.stamp(CONTENT)
    both.stamp(CONTENT)
    assert kit.requests == ["/nowhere", "/tsa", "/tsa"]
    trust_bench.clock.ahead = PENALTY
    both.stamp(CONTENT)
    trust_bench.clock.ahead = PENALTY * 2
    both.stamp(CONTENT)
    assert kit.requests[3:] == ["/nowhere", "/tsa", "/tsa"]


def test_every_service_is_named_with_its_reason(client, trust_bench) -> None:
    """A clear message each, also for one that rests."""
    kit = trust_bench.kit
    kit.broken.add("/tsa")
    both = client(TimestampService(f"{kit.url}/nowhere"), TimestampService(kit.tsa_url))
    for _ in range(2):
        with pytest.raises(TimestampsFailed) as failed:
            both.stamp(CONTENT)
        assert f"{kit.url}/nowhere answers HTTP 404" in failed.value.message
        assert f"{kit.tsa_url} answers HTTP 503" in failed.value.message
    assert "not asked again before" in failed.value.message
    assert len(kit.requests) == 2


@pytest.mark.parametrize("kind", [KeyKind.RSA_2048, KeyKind.ECDSA_P256])
def test_a_stamped_cms_is_still_valid_and_carries_the_stamp(client, trust_bench, kind, tmp_path) -> None:
    """CAdES-T: the signature before the stamp is unchanged in every byte, and OpenSSL goes on accepting it."""
    issued = trust_bench.kit.authority.issue(kind=kind)
    plain = sign(CadesSigner(MemoryKey(issued), BASELINE_B), CONTENT)
    stamp = client().stamp(stamped_in_cms(plain))
    stamped = add_cms_timestamp(plain, stamp.token)
    ((found, token),) = list_cms_unsigned(stamped)
    assert (found, token) == (der.object_identifier(SIGNATURE_TIMESTAMP), stamp.token)
    assert read_token(token, stamped_in_cms(stamped)).time == stamp.time
    assert list_cms_unsigned(add_cms_timestamp(stamped, stamp.token)) == [(found, token)] * 2
    signer = cms.ContentInfo.load(stamped)["content"]["signer_infos"][0]
    assert signer["unsigned_attrs"][0]["type"].native == "signature_time_stamp_token"
    before = cms.ContentInfo.load(plain)["content"]["signer_infos"][0]
    assert signer["signed_attrs"].dump() == before["signed_attrs"].dump()
    assert len(stamped) - len(plain) <= stamp_room(client().stamp(b"a probe").token)
    path = tmp_path / "stamped.p7m"
    path.write_bytes(stamped)
    verdict = verify_cms_with_openssl(path, [issued.chain_der[-1]])
    assert verdict, verdict.output


def test_an_addition_has_the_room_it_asked_for(client, trust_bench) -> None:
    """PAdES-T: room is known before the signature, from one stamp; the attribute is that of a stamped CMS."""
    stamps = SignatureStamps(client())
    room = stamps.room
    assert stamps.room == room
    assert trust_bench.kit.requests == ["/tsa"]
    plain = sign(CadesSigner(MemoryKey(trust_bench.kit.authority.issue()), BASELINE_B), CONTENT)
    attributes = stamps.make(stamped_in_cms(plain))
    assert len(attributes) <= room
    _, values = der.members(der.members(attributes)[0])
    (token,) = der.members(values)
    assert read_token(token, stamped_in_cms(plain)).token == token
    signer = cms.ContentInfo.load(add_cms_timestamp(plain, token))["content"]["signer_infos"][0]
    assert signer["unsigned_attrs"].dump() == attributes


def test_room_cannot_be_told_while_no_service_answers(client, trust_bench) -> None:
    """Nothing is signed that could not be stamped; the next try asks again."""
    trust_bench.kit.broken.add("/tsa")
    stamps = SignatureStamps(client())
    with pytest.raises(TimestampsFailed):
        stamps.room  # noqa: B018
    trust_bench.kit.broken.clear()
    trust_bench.clock.ahead = PENALTY
    assert stamps.room > 0


def test_a_validator_of_others_believes_the_time(client, trust_bench) -> None:
    """CAdES-T: pyHanko finds signature and stamp valid and trusted."""
    issued = trust_bench.kit.authority.issue()
    plain = sign(CadesSigner(MemoryKey(issued), BASELINE_B, detached=True), CONTENT)
    stamp = client().stamp(stamped_in_cms(plain))
    signed = cms.ContentInfo.load(add_cms_timestamp(plain, stamp.token))["content"]
    roots = [asn1_x509.Certificate.load(issued.chain_der[-1])]

    def context() -> ValidationContext:
        return ValidationContext(trust_roots=roots, allow_fetching=False)

    status = asyncio.run(
        async_validate_detached_cms(
            CONTENT, signed, signer_validation_context=context(), ts_validation_context=context()
        )
    )
    assert status.valid, status.pretty_print_details()
    assert status.trusted, status.pretty_print_details()
    assert status.timestamp_validity.valid
    assert status.timestamp_validity.trusted
    assert status.timestamp_validity.timestamp == stamp.time


def test_what_is_no_signature_is_not_stamped() -> None:
    """Bytes in, bytes out, or a clear refusal."""
    for damaged in (b"", b"\x30\x00", b"\x30\x80\x01", b"nothing"):
        with pytest.raises(PermanentFailure):
            add_cms_timestamp(damaged, b"\x30\x00")
    with pytest.raises(PermanentFailure):
        add_xml_timestamp(b"<a></a>", b"\x30\x00")


@pytest.mark.parametrize("codec", ["utf-8", "utf-16", "iso-8859-1"])
def test_a_stamped_document_is_still_valid_and_carries_the_stamp(client, trust_bench, codec, tmp_path) -> None:
    """XAdES-T, BEY-12: bytes outside the added element are unchanged, and xmlsec1 goes on accepting it."""
    issued = trust_bench.kit.authority.issue()
    text = XML.decode().replace('version="1.0"', f'version="1.0" encoding="{codec}"')
    plain = sign(XadesSigner(MemoryKey(issued), BASELINE_B), text.encode(codec))
    stamp = client().stamp(stamped_in_xml(plain))
    stamped = add_xml_timestamp(plain, stamp.token)
    assert list_xml_timestamps(plain) == []
    assert list_xml_timestamps(stamped) == [stamp.token]
    assert read_token(stamp.token, stamped_in_xml(stamped)) == stamp
    assert list_xml_timestamps(add_xml_timestamp(stamped, stamp.token)) == [stamp.token] * 2
    inner = "utf-16-le" if codec == "utf-16" else codec
    start = stamped.index("<xades:UnsignedProperties>".encode(inner))
    end = stamped.index("</xades:UnsignedProperties>".encode(inner)) + len("</xades:UnsignedProperties>".encode(inner))
    assert stamped[:start] + stamped[end:] == plain
    path = tmp_path / "stamped.xml"
    path.write_bytes(stamped)
    verdict = verify_xml_with_xmlsec1(path, [issued.chain_der[-1]])
    assert verdict, verdict.output
