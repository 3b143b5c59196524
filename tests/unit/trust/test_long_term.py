"""What is collected to prove a chain later."""

from __future__ import annotations

import datetime

import pytest

from bulksigner.contract.signing import ValidationData
from bulksigner.formats.chain import ChainProblem, ChainRefused


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
