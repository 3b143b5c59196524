"""An authority on loopback, a trust folder, and a validation that uses both."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from bulksigner.settings.trust import TrustSettings
from bulksigner.testing.authority_server import AuthorityServer, running_authority
from bulksigner.testing.certificates import Authority, Issued, make_authority
from bulksigner.testing.proving import open_stamping
from bulksigner.trust.evidence import EvidenceDesk
from bulksigner.trust.roots import load_trust
from bulksigner.trust.stamping import Stamping
from bulksigner.trust.validation import CertificateValidation


@attrs.define
class RealClock:
    """The time of this moment, and what a test adds to it: certificates are made at real times."""

    ahead: datetime.timedelta = datetime.timedelta()

    def __call__(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC) + self.ahead


@attrs.define
class Bench:
    """What a test of validation needs at hand."""

    kit: AuthorityServer
    clock: RealClock
    roots: Path
    cache: Path

    def validation(self, **desk: object) -> CertificateValidation:
        """Return a validation with nothing in its memory; the cache on disk stays."""
        given = EvidenceDesk(self.cache, self.clock, limit_seconds=2.0)
        trust = load_trust(TrustSettings(roots_path=self.roots))
        return CertificateValidation(
            trust, attrs.evolve(given, **desk), recheck=datetime.timedelta(minutes=60), clock=self.clock
        )

    def issue(self, *, crl: bool = True, ocsp: bool = False, **given: object) -> Issued:
        """Issue a leaf that names the places of the kit."""
        return self.kit.authority.issue(
            crl_url=self.kit.crl_url if crl else None, ocsp_url=self.kit.ocsp_url if ocsp else None, **given
        )


@pytest.fixture(scope="session")
def own_authority() -> Authority:
    """An authority with keys of its own."""
    return make_authority("Confianca")


@pytest.fixture
def kit(own_authority: Authority) -> Iterator[AuthorityServer]:
    """The authority's places on the network."""
    with running_authority(own_authority) as server:
        yield server


@pytest.fixture
def trust_bench(kit: AuthorityServer, tmp_path: Path) -> Bench:
    """A bench whose trust folder holds the root of the authority."""
    roots = tmp_path / "roots"
    roots.mkdir()
    kit.authority.issue().write_root_pem(roots / "root.pem")
    return Bench(kit, RealClock(), roots, tmp_path / "cache")


@pytest.fixture
def stamping(trust_bench: Bench) -> Stamping:
    """Stamps, proofs and judges of the bench, as a worker process gets them."""
    return open_stamping(trust_bench.kit, trust_bench.roots.parent, clock=trust_bench.clock)


@pytest.fixture
def bare_key() -> Callable[[Issued], object]:
    """A maker of opened keys whose PKCS #12 had no chain."""
    from bulksigner.testing.fakes import MemoryKey

    return lambda issued: MemoryKey(attrs.evolve(issued, issuers=()))
