"""The end of certificates, told once for a deployment, on either engine."""

from __future__ import annotations

import datetime
import threading

import attrs
import pytest

from bulksigner.contract.signing import Format
from bulksigner.profiles.expiry import DAYS, ExpiryWatch, find_threshold
from bulksigner.profiles.model import KeyHold, KeyReference, OpenedProfile, StoredProfile
from bulksigner.profiles.opened import OpenedProfiles
from bulksigner.records.prepared import Prepared
from bulksigner.records.store import Store
from bulksigner.records.tables import EventRow
from bulksigner.testing.certificates import Authority
from bulksigner.testing.fakes import MemoryKey

EVENTS = Prepared(EventRow.select(EventRow.event_type, EventRow.message).order_by(EventRow.id))
STORED = StoredProfile(
    id="p", name="p", enabled=True, format=Format.CADES, method="Local", verify=True, preserve_file_extension=False,
    save_as_pem=False, certificate_source="Memory", certificate_block={}, sealed={}, extras={}, input_folder=None,
)  # fmt: skip


@pytest.fixture
def profiles(authority: Authority) -> OpenedProfiles:
    """One profile whose certificate ends in a year."""
    issued = authority.issue()
    certificate = issued.certificate
    opened = OpenedProfile(
        STORED,
        MemoryKey(issued),
        KeyReference("p", "Memory", issued, portable=False),
        certificate_not_before=certificate.not_valid_before_utc,
        certificate_not_after=certificate.not_valid_after_utc,
        hold=KeyHold(),
    )
    return OpenedProfiles([opened])


def told(store: Store) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in store.read(lambda: store.execute(EVENTS).rows)]


def at(profiles: OpenedProfiles, days_before: float) -> datetime.datetime:
    ends = profiles.all[0].certificate_not_after
    assert ends is not None
    return ends - datetime.timedelta(days=days_before)


@pytest.mark.parametrize(
    ("days_before", "expected"),
    [(61, None), (60, 60), (31, 60), (30, 30), (14, 14), (13, 14), (7, 7), (1, 1), (0.1, 1), (0, 0), (-5, 0)],
)
def test_the_nearest_threshold_counts(days_before: float, expected: int | None) -> None:
    """BEY-21: 60, 30, 14, 7, 1 days, and the end itself."""
    ends = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)
    assert find_threshold(ends, ends - datetime.timedelta(days=days_before)) == expected


def test_each_threshold_is_told_once_whoever_looks(store: Store, profiles: OpenedProfiles) -> None:
    """BEY-21: not again by the same watch, after a restart, or by another instance."""
    for days_before in (100, *DAYS[::-1], -1):
        for _ in range(2):
            watch = ExpiryWatch(store, profiles, lambda day=days_before: at(profiles, day))  # type: ignore[misc]
            watch.look()
            watch.look()
    assert [kind for kind, _ in told(store)] == ["CertificateExpiring"] * 5 + ["CertificateExpired"]
    assert "ends in 60 day(s)" in told(store)[0][1]


def test_of_instances_that_look_at_once_one_tells(store: Store, profiles: OpenedProfiles) -> None:
    """BEY-21, CLU-61: the record is unique in the database."""
    watches = [ExpiryWatch(store, profiles, lambda: at(profiles, 6)) for _ in range(4)]
    threads = [threading.Thread(target=watch.look) for watch in watches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [kind for kind, _ in told(store)] == ["CertificateExpiring"]


def test_a_renewed_certificate_is_told_of_anew_and_a_disabled_profile_never(
    store: Store, profiles: OpenedProfiles, authority: Authority
) -> None:
    """BEY-21: the record is of one certificate of one profile."""
    before = profiles.all[0]
    clock = lambda: at(profiles, 6)  # noqa: E731
    ExpiryWatch(store, profiles, clock).look()
    renewed = attrs.evolve(before, key=MemoryKey(authority.issue()), hold=KeyHold())
    profiles.replace([renewed])
    ExpiryWatch(store, profiles, clock).look()
    assert len(told(store)) == 2
    disabled = attrs.evolve(before.stored, id="other", enabled=False)
    profiles.replace([attrs.evolve(renewed, stored=disabled)])
    ExpiryWatch(store, profiles, clock).look()
    assert len(told(store)) == 2
