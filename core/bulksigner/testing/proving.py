"""Time stamps and the proof of chains from the loopback services of the kit, as a worker process gets them."""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Callable
from pathlib import Path

from bulksigner.jobs.model import utc_now
from bulksigner.settings.trust import TrustSettings
from bulksigner.testing.authority_server import AuthorityServer
from bulksigner.trust.proving import EvidencePlan
from bulksigner.trust.roots import load_trust
from bulksigner.trust.stamping import Stamping, StampingPlan
from bulksigner.trust.timestamping import TimestampService

__all__ = ["open_stamping"]

_LIMIT_SECONDS = 5.0


def open_stamping(kit: AuthorityServer, folder: Path, *, clock: Callable[[], datetime.datetime] = utc_now) -> Stamping:
    """Return what a worker has of a host that trusts the kit's authority and names its time-stamp service.

    `folder` takes the trust folder and the cache of revocation data.
    """
    roots = folder / "roots"
    if not roots.exists():
        roots.mkdir(parents=True)
        kit.authority.issue().write_root_pem(roots / "root.pem")
    evidence = EvidencePlan(folder / "cache", datetime.timedelta(minutes=60), limit_seconds=_LIMIT_SECONDS)
    service = TimestampService(kit.tsa_url, limit_seconds=_LIMIT_SECONDS)
    plan = StampingPlan((service,), load_trust(TrustSettings(roots_path=roots)), evidence)
    travelled: StampingPlan = pickle.loads(pickle.dumps(plan))
    return travelled.open(clock)
