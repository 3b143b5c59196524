"""The certificate of a finished signature against the roots of the host and of the policy."""

from __future__ import annotations

import datetime
import timeit
from pathlib import Path

import pytest
from cryptography import x509

from bulksigner.contract.errors import StepFailed
from bulksigner.jobs.model import utc_now
from bulksigner.testing.certificates import Authority, make_authority
from bulksigner.trust import signer_chains
from bulksigner.trust.roots import TrustedCertificate, TrustSet
from bulksigner.trust.signer_chains import SignerChains

ROOT = "Autoridade Certificadora Raiz Teste"


@pytest.fixture(scope="module")
def trust(authority: Authority) -> TrustSet:
    parsed = x509.load_der_x509_certificate(authority.root_der)
    return TrustSet((TrustedCertificate(authority.root_der, parsed, Path("root.pem")),))


def test_a_path_to_a_root_of_the_host_is_found_once(authority: Authority, trust: TrustSet) -> None:
    """BEY-01, PERF-04: then known for ten minutes, at less than 0.02 ms a file; not for another list of roots."""
    chains, issued, now = SignerChains(trust), authority.issue(), utc_now()
    leaf = issued.certificate_der
    assert not chains.is_known(leaf, (), now)
    chains.require(leaf, issued.chain_der, (), now)
    assert chains.is_known(leaf, (), now + datetime.timedelta(minutes=9))
    assert not chains.is_known(leaf, (), now + datetime.timedelta(minutes=10))
    assert not chains.is_known(leaf, ("another",), now)
    assert min(timeit.repeat(lambda: chains.is_known(leaf, (), now), number=1000)) < 0.02


def test_a_stranger_is_refused_each_time(trust: TrustSet) -> None:
    """BEY-01: its own chain makes it no more trusted, and a refusal is not remembered as good."""
    stranger, now = make_authority("Estranha").issue(), utc_now()
    chains = SignerChains(trust)
    for _ in range(2):
        with pytest.raises(StepFailed, match="leads to no root of this host"):
            chains.require(stranger.certificate_der, stranger.chain_der, (), now)
        assert not chains.is_known(stranger.certificate_der, (), now)


def test_the_time_of_the_signature_counts(authority: Authority, trust: TrustSet) -> None:
    """BEY-01: valid then is good, whenever it is looked at; not valid then is not."""
    now = utc_now()
    issued = authority.issue(not_after=now + datetime.timedelta(days=1))
    chains = SignerChains(trust)
    chains.require(issued.certificate_der, issued.chain_der, (), now)
    with pytest.raises(StepFailed, match="is valid from"):
        chains.require(issued.certificate_der, issued.chain_der, (), now + datetime.timedelta(days=2))


def test_a_root_that_the_policy_does_not_list_is_refused(
    authority: Authority, trust: TrustSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ICP-33: of roots of ICP-Brasil alone; what else the host trusts is a matter of the host (ICP-03)."""
    issued, now = authority.issue(), utc_now()
    chains = SignerChains(trust)
    chains.require(issued.certificate_der, issued.chain_der, ("Another Root",), now)
    [organization] = authority.root.subject.get_attributes_for_oid(x509.NameOID.ORGANIZATION_NAME)
    monkeypatch.setattr(signer_chains, "_NATIONAL", str(organization.value))
    chains = SignerChains(trust)
    [common] = authority.root.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    with pytest.raises(StepFailed, match="does not list the root"):
        chains.require(issued.certificate_der, issued.chain_der, ("Another Root",), now)
    chains.require(issued.certificate_der, issued.chain_der, ("Another Root", str(common.value)), now)
