"""Instances that boot together import the profiles once, on each engine."""

from __future__ import annotations

import datetime
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Format
from bulksigner.profiles.deployment import deployment_salt
from bulksigner.profiles.seal import Sealer
from bulksigner.profiles.seed import SeedReport, seed_profiles
from bulksigner.profiles.store import ProfileStore
from bulksigner.records.errors import UniqueViolation
from bulksigner.records.store import Store
from bulksigner.settings.model import InputFolder
from bulksigner.settings.signing import ProfileSeed

INSTANCES = 4


def now() -> datetime.datetime:
    """Return the present time."""
    return datetime.datetime.now(datetime.UTC)


def run_together(act: Callable[[int], object]) -> list[Any]:
    """Call `act` with a number from each of several threads at the same moment and return what it gave."""
    gate, answers = threading.Barrier(INSTANCES), []

    def run(number: int) -> None:
        gate.wait(timeout=10)
        answers.append(act(number))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(INSTANCES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_one_instance_imports_and_the_others_find_its_rows(store: Store) -> None:
    """CFG-81, CFG-82: each instance has other seeds; the rows are those of one, with their folder."""
    profiles, sealer = ProfileStore(store), Sealer(Secret(""), lambda: b"")

    def boot(number: int) -> SeedReport:
        seeds = tuple(ProfileSeed(name=f"p{number}-{one}", format=Format.CADES) for one in range(3))
        folder = InputFolder(name="in", path=Path("/in"), profile=f"p{number}-1")
        core: Any = types.SimpleNamespace(
            signing=types.SimpleNamespace(profiles=seeds, certificate=None),
            storage=types.SimpleNamespace(inputs=(folder,)),
        )
        return seed_profiles(profiles, core, sealer, now)

    reports = run_together(boot)
    assert len(reports) == INSTANCES
    (winner,) = [report for report in reports if report.profiles]
    assert [profile.name for profile in profiles.all()] == list(winner.profiles)
    bound = profiles.by_folder("in")
    assert bound is not None
    assert winner.bound == {"in": bound.name}
    assert all(len(report.warnings) == 2 for report in reports if not report.profiles)


def test_all_instances_share_one_salt(store: Store) -> None:
    """SEC-48: whoever was first."""
    salts = run_together(lambda _number: deployment_salt(store, now))
    assert len(salts) == INSTANCES
    assert len(set(salts)) == 1


def test_a_profile_comes_back_as_it_was_stored(store: Store) -> None:
    """CFG-81: booleans, JSON and envelopes survive either engine; name and folder are unique."""
    profiles = ProfileStore(store)
    core: Any = types.SimpleNamespace(
        signing=types.SimpleNamespace(profiles=(ProfileSeed(name="default"),), certificate=None),
        storage=types.SimpleNamespace(inputs=()),
    )
    seed_profiles(profiles, core, Sealer(Secret(""), lambda: b""), now)
    first = attrs.evolve(
        profiles.all()[0],
        id="second",
        name="Other",
        enabled=False,
        format=Format.XADES,
        preserve_file_extension=True,
        certificate_block={"Path": "/ção.pfx", "Depth": 3, "Chain": None},
        sealed={"Pkcs12Password": bytes(range(256))},
        extras={"CheckCard": True},
        input_folder="in",
    )
    store.write(lambda: profiles.insert(first, now()))
    assert profiles.get("oTHER") == first
    assert profiles.by_folder("in") == first
    with pytest.raises(UniqueViolation):
        store.write(lambda: profiles.insert(attrs.evolve(first, id="third", name="third"), now()))
