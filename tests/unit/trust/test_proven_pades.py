"""PDF signatures that prove themselves later: each level made, checked, validated by pyHanko, refused after damage."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import io

import attrs
import pytest
from asn1crypto import x509 as asn1_x509
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.validation import async_validate_pdf_signature, async_validate_pdf_timestamp
from pyhanko.sign.validation.dss import DocumentSecurityStore
from pyhanko_certvalidator import ValidationContext

from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.signing import Format, Measured
from bulksigner.formats.dispatch import check, signer_for
from bulksigner.formats.model import CheckFailed, Expectation
from bulksigner.formats.policies import PolicyTable, read_key, shipped_policies
from bulksigner.formats.spec import BASELINE_LT, BASELINE_LTA, BASELINE_T
from bulksigner.testing.certificates import KeyKind
from bulksigner.testing.fakes import MemoryKey
from bulksigner.testing.pdf_files import pdf_file
from bulksigner.testing.verify import verify_pdf_with_pdfsig

CONTENT = pdf_file()
LEVELS = ("AD-RC", "AD-RA", "B-LT", "B-LTA")


@pytest.fixture(autouse=True)
def artifacts(tmp_path, monkeypatch) -> list[bytes]:
    """Files in place of what ITI publishes: a policy, the list of approved policies, and its signature."""
    made = [b"a policy", b"a list of policies", b"the signature of a list"]
    paths = [tmp_path / name for name in ("PA_PAdES_AD_RA_v1_4.der", "LPA_PAdES.der", "LPA_PAdES.p7s")]
    for path, content in zip(paths, made, strict=True):
        path.write_bytes(content)
    rows = [attrs.evolve(row, artifacts=tuple(paths)) for row in shipped_policies().rows]
    monkeypatch.setattr(__name__ + ".TABLE", PolicyTable(rows, "test"))
    return made


TABLE = shipped_policies()


def spec_of(level: str, key, *, etsi: bool = False):
    if level.startswith("B-"):
        return {"B-T": BASELINE_T, "B-LT": BASELINE_LT, "B-LTA": BASELINE_LTA}[level]
    return TABLE.usable(Format.PADES, level, None, read_key(key))[0].spec(etsi_filter=etsi)


def sign(key, spec, stamping, content: bytes = CONTENT) -> bytes:
    target = io.BytesIO()
    expected = Measured(len(content), hashlib.sha256(content).digest())
    signer = signer_for(Format.PADES, key, spec, stamps=stamping.stamps, proofs=stamping.proofs)
    measured = signer.sign(
        io.BytesIO(content), target, expected=expected, signed_at=datetime.datetime.now(datetime.UTC)
    )
    assert measured == Measured(len(target.getvalue()), hashlib.sha256(target.getvalue()).digest())
    return target.getvalue()


def look(artifact: bytes, key, spec, stamping, content: bytes = CONTENT):
    measured = Measured(len(content), hashlib.sha256(content).digest())
    expectation = Expectation(
        Format.PADES,
        key.certificate,
        measured,
        spec,
        judge_stamp=stamping.judge,
        proof_judge=stamping.proof_judge,
    )
    return check(io.BytesIO(artifact), expectation)


def validate(artifact: bytes, root: bytes, *, knows_all: bool = True) -> None:
    """Let pyHanko prove signature and stamps from the file alone: nothing is fetched, all of it needs evidence.

    It calls foreign the entries that ICP-Brasil adds to the store; without `knows_all` it is not asked what changed.
    """
    reader = PdfFileReader(io.BytesIO(artifact))

    def context() -> ValidationContext:
        return DocumentSecurityStore.read_dss(reader).as_validation_context(
            {
                "trust_roots": [asn1_x509.Certificate.load(root)],
                "allow_fetching": False,
                "revocation_mode": "hard-fail",
            }
        )

    for signature in reader.embedded_regular_signatures:
        status = asyncio.run(
            async_validate_pdf_signature(signature, context(), ts_validation_context=context(), skip_diff=not knows_all)
        )
        assert status.bottom_line, status.pretty_print_details()
        assert status.timestamp_validity.trusted
        assert not knows_all or status.modification_level.name in ("NONE", "LTA_UPDATES", "FORM_FILLING")
    for stamp in reader.embedded_timestamp_signatures:
        found = asyncio.run(async_validate_pdf_timestamp(stamp, context()))
        assert (found.intact, found.valid, found.trusted) == (True, True, True)


@pytest.mark.parametrize(
    ("kind", "ocsp"), [(KeyKind.RSA_2048, False), (KeyKind.ECDSA_P256, True)], ids=["rsa-list", "ecdsa-answer"]
)
@pytest.mark.parametrize("level", LEVELS)
def test_each_level_proves_itself_to_a_validator_without_network(
    stamping, trust_bench, level, ocsp, kind, tmp_path, require_tool, artifacts
) -> None:
    """ICP-30 to ICP-33, EN 319 142-1: store, entry and document stamp; our check, pyHanko, pdfsig accept it."""
    require_tool("pdfsig", "poppler-utils")
    issued = trust_bench.issue(crl=not ocsp, ocsp=ocsp, kind=kind)
    key = MemoryKey(issued)
    specs = [spec_of(level, key), *([spec_of(level, key, etsi=True)] if level == "AD-RC" else [])]
    for spec in specs:
        artifact = sign(key, spec, stamping)
        assert artifact.startswith(CONTENT)
        assert look(artifact, key, spec, stamping).algorithm is key.algorithm
        asked = len(trust_bench.kit.requests)
        validate(artifact, issued.chain_der[-1], knows_all=level != "AD-RA")
        assert len(trust_bench.kit.requests) == asked
        reader = PdfFileReader(io.BytesIO(artifact))
        store = reader.root["/DSS"]
        signature = reader.embedded_regular_signatures[0]
        name = hashlib.sha1(signature.pkcs7_content).hexdigest().upper()
        assert (store["/Type"], list(store["/VRI"])) == ("/DSS", [f"/{name}"])
        assert store["/VRI"][f"/{name}"]["/Type"] == "/VRI"
        entry = store["/VRI"][f"/{name}"]
        named = ("/PBAD_PolicyArtifact", "/PBAD_LpaArtifact", "/PBAD_LpaSignature")
        inside = [entry[one].data for one in named if one in entry]
        assert inside == (artifacts if level == "AD-RA" else [])
        assert [one.get_object().data for key_ in named for one in store.get(f"{key_}s", ())] == inside
        assert len(reader.embedded_timestamp_signatures) == (level != "B-LT")
        if spec.pades_sub_filter.startswith("ETSI"):
            path = tmp_path / "signed.pdf"
            path.write_bytes(artifact)
            # It does not judge document time stamps, and does not take an OCSP answer for one.
            verdict = verify_pdf_with_pdfsig(path, [issued.chain_der[-1]])
            assert "Signature Validation: Signature is Valid." in verdict.output


def test_a_second_signature_keeps_the_proof_of_the_first(stamping, trust_bench) -> None:
    """ICP-31: the store grows by an entry; what the first one proved stays provable."""
    issued = trust_bench.issue()
    key, other = MemoryKey(issued), MemoryKey(trust_bench.issue())
    first = sign(key, BASELINE_LT, stamping)
    second = sign(other, BASELINE_LTA, stamping, first)
    assert second.startswith(first)
    assert look(second, other, BASELINE_LTA, stamping, first)
    assert len(PdfFileReader(io.BytesIO(second)).root["/DSS"]["/VRI"]) == 2
    validate(second, issued.chain_der[-1])


def test_without_the_files_of_the_policy_it_is_not_signed_with(trust_bench, artifacts) -> None:
    """ICP-03: AD-RA of a PDF carries files that the product does not bring; the reason names them."""
    key = MemoryKey(trust_bench.issue())
    with pytest.raises(PermanentFailure, match=r"LPA_PAdES\.p7s inside the PDF"):
        shipped_policies().usable(Format.PADES, "AD-RA", None, read_key(key))


@pytest.mark.parametrize("level", LEVELS)
def test_damage_behind_the_original_is_found(stamping, trust_bench, level) -> None:
    """ICP-34: a byte changed in signature, stamp, store or document stamp fails the check, and never otherwise."""
    key = MemoryKey(trust_bench.issue())
    spec = spec_of(level, key)
    artifact = sign(key, spec, stamping)
    begins = artifact.index(b"/VRI") - 9_000 if level == "B-LT" else len(CONTENT)
    for place in range(max(begins, len(CONTENT)), len(artifact), max(1, (len(artifact) - begins) // 40)):
        if artifact[place : place + 1].isspace():
            continue
        damaged = bytearray(artifact)
        damaged[place] ^= 0x04
        with pytest.raises(CheckFailed):
            look(bytes(damaged), key, spec, stamping)


def test_a_level_is_exactly_what_it_says(stamping, trust_bench) -> None:
    """ICP-34: no level passes as another one, and nothing hides behind the signature."""
    key = MemoryKey(trust_bench.issue())
    made = {level: sign(key, spec_of(level, key), stamping) for level in ("B-T", "B-LT", "B-LTA")}
    for level, artifact in made.items():
        for other in made:
            if other != level:
                with pytest.raises(CheckFailed):
                    look(artifact, key, spec_of(other, key), stamping)
    lasting = attrs.evolve(stamping, proof_judge=None)
    with pytest.raises(CheckFailed, match="nothing here tells who is trusted"):
        look(made["B-LT"], key, BASELINE_LT, lasting)
    more = made["B-LT"] + b"\n% a comment behind the end\n"
    with pytest.raises(CheckFailed):
        look(more, key, BASELINE_LT, stamping)
