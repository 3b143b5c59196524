"""Long-term data in finished signatures: what others read out of them, and that they are still valid."""

from __future__ import annotations

import datetime
import hashlib
import io

import pytest
from asn1crypto import x509
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.validation import validate_pdf_signature
from pyhanko.sign.validation.dss import DocumentSecurityStore

from bulksigner.contract.signing import Measured, ValidationData
from bulksigner.formats.chain import ChainProblem, ChainRefused
from bulksigner.formats.long_term import (
    add_pdf_validation_data,
)
from bulksigner.formats.pades import PadesSigner
from bulksigner.formats.spec import BASELINE_B
from bulksigner.testing.fakes import MemoryKey

CONTENT = b"what stays provable"


def sign(signer, content: bytes) -> bytes:
    target = io.BytesIO()
    expected = Measured(len(content), hashlib.sha256(content).digest())
    signer.sign(io.BytesIO(content), target, expected=expected, signed_at=datetime.datetime.now(datetime.UTC))
    return target.getvalue()


def collect(trust_bench, issued) -> ValidationData:
    return trust_bench.validation().collect(issued.certificate_der, issued.chain_der, moment=trust_bench.clock())[0]


@pytest.mark.parametrize("ocsp", [False, True])
def test_the_proof_of_a_chain_is_collected(trust_bench, ocsp) -> None:
    """Signer, issuers, root, and the list or the answer."""
    issued = trust_bench.issue(crl=not ocsp, ocsp=ocsp)
    data = collect(trust_bench, issued)
    assert data.certificates == (issued.certificate_der, *issued.chain_der)
    assert (len(data.lists), len(data.answers)) == ((0, 1) if ocsp else (1, 0))
    assert data.join(data) == data


def test_a_revoked_signer_has_no_proof(trust_bench) -> None:
    """Nothing is embedded that proves the contrary."""
    issued = trust_bench.issue()
    trust_bench.kit.revoked[issued.certificate.serial_number] = datetime.datetime.now(datetime.UTC)
    with pytest.raises(ChainRefused) as refused:
        collect(trust_bench, issued)
    assert refused.value.problem is ChainProblem.REVOKED


@pytest.mark.parametrize("ocsp", [False, True])
def test_a_pdf_with_its_proof_is_valid_to_a_validator_without_network(trust_bench, pdf_file, ocsp) -> None:
    """PAdES B-LT: pyHanko proves the signature from the store alone, hard-fail; the revision signed is untouched."""
    issued = trust_bench.issue(crl=not ocsp, ocsp=ocsp)
    data = collect(trust_bench, issued)
    plain = sign(PadesSigner(MemoryKey(issued), BASELINE_B), pdf_file(pages=1))
    embedded = PdfFileReader(io.BytesIO(plain)).embedded_signatures[0]
    proved = add_pdf_validation_data(plain, embedded.pkcs7_content, data)
    assert proved.startswith(plain)
    reader = PdfFileReader(io.BytesIO(proved))
    store = DocumentSecurityStore.read_dss(reader)
    assert (len(store.certs), len(store.crls), len(store.ocsps)) == (3, len(data.lists), len(data.answers))
    assert len(store.vri_entries) == 1
    asked = len(trust_bench.kit.requests)
    context = store.as_validation_context(
        {
            "trust_roots": [x509.Certificate.load(issued.chain_der[-1])],
            "allow_fetching": False,
            "revocation_mode": "hard-fail",
        }
    )
    status = validate_pdf_signature(reader.embedded_signatures[0], signer_validation_context=context)
    assert status.valid, status.pretty_print_details()
    assert status.trusted, status.pretty_print_details()
    assert len(trust_bench.kit.requests) == asked
