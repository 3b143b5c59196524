"""CAdES signatures that prove themselves later: each level made, checked, read by others, refused after damage."""

from __future__ import annotations

import datetime
import hashlib
import io
import subprocess

import attrs
import pytest
from asn1crypto import cms
from cryptography.hazmat.primitives.serialization import Encoding

from bulksigner.contract.errors import BulkSignerError, PermanentFailure
from bulksigner.contract.signing import Format, Measured
from bulksigner.formats.dispatch import check, signer_for
from bulksigner.formats.model import CheckFailed, Expectation
from bulksigner.formats.policies import read_key, shipped_policies
from bulksigner.formats.spec import BASELINE_LT, BASELINE_LTA
from bulksigner.formats.unsigned import add_cms_unsigned
from bulksigner.testing.certificates import KeyKind
from bulksigner.testing.fakes import MemoryKey
from bulksigner.testing.verify import verify_cms_with_openssl
from bulksigner.trust.proving import ProofMissing

CONTENT = b"0001 payment\r\n\x00\xff"
AA = "1.2.840.113549.1.9.16.2."
NATIONAL = ("AD-RV", "AD-RC", "AD-RA")


def sign(key, spec, stamping, content: bytes = CONTENT, **given) -> bytes:
    target = io.BytesIO()
    expected = Measured(len(content), hashlib.sha256(content).digest())
    signer = signer_for(Format.CADES, key, spec, stamps=stamping.stamps, proofs=stamping.proofs, **given)
    signer.sign(io.BytesIO(content), target, expected=expected, signed_at=datetime.datetime.now(datetime.UTC))
    return target.getvalue()


def look(artifact: bytes, key, spec, stamping, content: bytes = CONTENT, **given):
    measured = Measured(len(content), hashlib.sha256(content).digest())
    expectation = Expectation(
        Format.CADES,
        key.certificate,
        measured,
        spec,
        judge_stamp=stamping.judge,
        proof_judge=stamping.proof_judge,
    )
    return check(io.BytesIO(artifact), expectation, **given)


def spec_of(level: str, key):
    if level.startswith("B-"):
        return {"B-LT": BASELINE_LT, "B-LTA": BASELINE_LTA}[level]
    return shipped_policies().usable(Format.CADES, level, None, read_key(key))[0].spec(etsi_filter=False)


def unsigned_of(artifact: bytes) -> dict[str, bytes]:
    """Return the unsigned attributes by a reader that the product does not use."""
    (signer,) = cms.ContentInfo.load(artifact)["content"]["signer_infos"]
    return {one["type"].dotted: one["values"][0].dump() for one in signer["unsigned_attrs"]}


def imprint_of(token: bytes) -> bytes:
    info = cms.ContentInfo.load(token)["content"]["encap_content_info"]["content"].parsed
    return info["message_imprint"]["hashed_message"].native


def wrap(tag: int, content: bytes) -> bytes:
    length = len(content)
    octets = b"" if length < 128 else length.to_bytes(4, "big").lstrip(b"\0")
    return bytes([tag, 0x80 | len(octets) if octets else length]) + octets + content


@pytest.mark.parametrize(
    ("kind", "ocsp"), [(KeyKind.RSA_2048, False), (KeyKind.ECDSA_P256, True)], ids=["rsa-list", "ecdsa-answer"]
)
@pytest.mark.parametrize("level", [*NATIONAL, "B-LT", "B-LTA"])
def test_each_level_carries_what_its_policy_lists(
    stamping, trust_bench, level, ocsp, kind, tmp_path, require_tool
) -> None:
    """ICP-30 to ICP-33: the attributes are those of the table; our check, OpenSSL and asn1crypto accept the file."""
    require_tool("openssl", "openssl")
    issued = trust_bench.issue(crl=not ocsp, ocsp=ocsp, kind=kind)
    key = MemoryKey(issued)
    spec = spec_of(level, key)
    artifact = sign(key, spec, stamping)
    assert look(artifact, key, spec, stamping).algorithm is key.algorithm
    wanted = set(spec.required_unsigned) or {AA + "14", *(["0.4.0.1733.2.4"] if level == "B-LTA" else [])}
    assert set(unsigned_of(artifact)) == wanted
    path = tmp_path / "signed.p7m"
    path.write_bytes(artifact)
    verdict = verify_cms_with_openssl(path, [issued.chain_der[-1]])
    assert verdict, verdict.output
    for number, (oid, token) in enumerate(unsigned_of(artifact).items()):
        if oid in (AA + "14", AA + "25", AA + "48", "0.4.0.1733.2.4"):
            verify_token(trust_bench, token, tmp_path / str(number))


def verify_token(trust_bench, token: bytes, folder) -> None:
    """Ask openssl whether the token is well signed by a service under the bench's root, over its own imprint."""
    folder.mkdir()
    (folder / "token").write_bytes(token)
    between = folder / "between.pem"
    between.write_bytes(trust_bench.kit.authority.intermediate.public_bytes(Encoding.PEM))
    command = ["openssl", "ts", "-verify", "-token_in", "-in", "token", "-digest", imprint_of(token).hex()]
    command += ["-CAfile", str(trust_bench.roots / "root.pem"), "-untrusted", "between.pem"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("detached", [False, True], ids=["attached", "detached"])
def test_each_stamp_covers_what_the_standards_say(stamping, trust_bench, detached) -> None:
    """RFC 5126 6.1.1, 6.3.5, 6.4.1 and EN 319 122-1 5.5.3, computed from the parsed file and not as it is written."""
    key = MemoryKey(trust_bench.issue())
    for level in ("AD-RC", "AD-RA", "B-LTA"):
        artifact = sign(key, spec_of(level, key), stamping, detached=detached)
        signed = cms.ContentInfo.load(artifact)["content"]
        (signer,) = signed["signer_infos"]
        found, value = unsigned_of(artifact), signer["signature"].native
        if level != "AD-RA":
            assert imprint_of(found[AA + "14"]) == hashlib.sha256(value).digest()
        if level == "AD-RC":
            parts = [
                one["type"].dump() + one["values"].dump()
                for oid in ("14", "21", "22")
                for one in signer["unsigned_attrs"]
                if one["type"].dotted == AA + oid
            ]
            assert imprint_of(found[AA + "25"]) == hashlib.sha256(value + b"".join(parts)).digest()
        members = [signer[name].dump() for name in list(signer)[:6]]
        if level == "AD-RA":
            others = sorted(one.dump() for one in signer["unsigned_attrs"] if one["type"].dotted != AA + "48")
            covered = signed["encap_content_info"].dump() + (CONTENT if detached else b"")
            covered += signed["certificates"].dump() + b"".join(members) + wrap(0xA1, b"".join(others))
            assert imprint_of(found[AA + "48"]) == hashlib.sha256(covered).digest()
        if level == "B-LTA":
            token = cms.ContentInfo.load(found["0.4.0.1733.2.4"])["content"]["signer_infos"][0]
            (index,) = token["unsigned_attrs"]
            assert index["type"].dotted == "0.4.0.19122.1.5"
            covered = signed["encap_content_info"]["content_type"].dump() + hashlib.sha256(CONTENT).digest()
            covered += b"".join(members) + index["values"][0].dump()
            assert imprint_of(found["0.4.0.1733.2.4"]) == hashlib.sha256(covered).digest()


@pytest.mark.parametrize("given", [{"pem": True}, {"detached": True}], ids=["pem", "detached"])
@pytest.mark.parametrize("level", ["AD-RV", "AD-RA", "B-LTA"])
def test_the_other_forms(stamping, trust_bench, level, given) -> None:
    """CFG-95, ICP-30: PEM, and a signature beside its content, which the archive's stamp covers all the same."""
    key = MemoryKey(trust_bench.issue())
    spec = spec_of(level, key)
    artifact = sign(key, spec, stamping, **given)
    assert look(artifact, key, spec, stamping, original=io.BytesIO(CONTENT), **given)


@pytest.mark.parametrize("level", [*NATIONAL, "B-LT", "B-LTA"])
def test_damage_anywhere_is_found(stamping, trust_bench, level) -> None:
    """ICP-34: a byte changed in each part, signed or not, of each level fails the check, and never otherwise."""
    key = MemoryKey(trust_bench.issue())
    spec = spec_of(level, key)
    artifact = sign(key, spec, stamping)
    assert look(artifact, key, spec, stamping)
    for place in range(40, len(artifact), max(1, len(artifact) // 60)):
        damaged = bytearray(artifact)
        damaged[place] ^= 0x04
        with pytest.raises(CheckFailed):
            look(bytes(damaged), key, spec, stamping)


def test_a_level_is_exactly_what_it_says(stamping, trust_bench) -> None:
    """ICP-34: each level is refused as each other one, and with one attribute more."""
    key = MemoryKey(trust_bench.issue())
    specs = {level: spec_of(level, key) for level in (*NATIONAL, "B-LT", "B-LTA")}
    made = {level: sign(key, spec, stamping) for level, spec in specs.items()}
    for level, artifact in made.items():
        for other, spec in specs.items():
            if other != level:
                with pytest.raises(CheckFailed):
                    look(artifact, key, attrs.evolve(spec, policy=specs[level].policy), stamping)
        with pytest.raises(CheckFailed):
            look(add_cms_unsigned(artifact, "1.2.3.4", b"\x30\x00"), key, specs[level], stamping)


def test_many_files_ask_once(stamping, trust_bench) -> None:
    """BEY-20: what was collected counts for the files that follow; the list is fetched once and kept in memory."""
    key = MemoryKey(trust_bench.issue())
    for _ in range(3):
        stamping.proofs.prepare(key.certificate, tuple(key.chain))
        sign(key, BASELINE_LT, stamping)
    assert trust_bench.kit.requests.count("/list.crl") == 1


def test_nothing_is_signed_without_proof(stamping, trust_bench) -> None:
    """BEY-20: silent places and revoked certificates, of signer or service, are said before the key is used."""
    key = MemoryKey(trust_bench.issue())
    trust_bench.kit.broken.add("/list.crl")
    with pytest.raises(ProofMissing, match=r"list\.crl answers HTTP 503") as missing:
        stamping.proofs.prepare(key.certificate, tuple(key.chain))
    assert missing.value.code == "sign.revocation-data-missing"
    asked = len(trust_bench.kit.requests)
    with pytest.raises(ProofMissing):
        stamping.proofs.prepare(key.certificate, tuple(key.chain))
    assert len(trust_bench.kit.requests) == asked
    trust_bench.kit.broken.clear()
    trust_bench.clock.ahead += datetime.timedelta(seconds=11)
    stamping.proofs.prepare(key.certificate, tuple(key.chain))
    service = trust_bench.kit.stamps.certificate.serial_number
    trust_bench.kit.revoked[service] = datetime.datetime.now(datetime.UTC)
    trust_bench.clock.ahead += datetime.timedelta(minutes=61)
    with pytest.raises(BulkSignerError, match="was revoked") as revoked:
        stamping.proofs.prepare(key.certificate, tuple(key.chain))
    assert revoked.value.code == "sign.certificate-invalid"


def test_a_host_without_proof_makes_no_such_signer(stamping, trust_bench) -> None:
    """ICP-03: said before anything is read."""
    key = MemoryKey(trust_bench.issue())
    with pytest.raises(PermanentFailure, match="asks for the proof of chains") as refused:
        signer_for(Format.CADES, key, BASELINE_LT, stamps=stamping.stamps)
    assert refused.value.code == "sign.revocation-data-missing"
