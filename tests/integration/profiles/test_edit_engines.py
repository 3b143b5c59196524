"""Saves of profiles on each engine: one transaction, and exactly one winner of a race."""

from __future__ import annotations

import datetime
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.contract.errors import RaceLost
from bulksigner.contract.settings import Secret
from bulksigner.contract.signing import Format
from bulksigner.profiles import editor as editing
from bulksigner.profiles.change import ProfileChange, ProfileRefused
from bulksigner.profiles.editor import ProfileEditor
from bulksigner.profiles.store import ProfileStore
from bulksigner.records.engines import EngineKind, open_postgresql, open_sqlite
from bulksigner.records.errors import CommitUnknown
from bulksigner.records.prepared import Prepared, slot
from bulksigner.records.store import Store
from bulksigner.records.tables import EventRow, ProfileRow
from bulksigner.testing.rows import stored_profile

ROUNDS, MANY_ROUNDS = 5, 200
PROFILE = stored_profile("", id="", format=Format.CADES, certificate_block={"Path": "/a.pfx"})
_EVENTS = Prepared(EventRow.select(EventRow.event_type).order_by(EventRow.id))


def put(store: Store, *names: str) -> ProfileStore:
    """Store profiles as an import does."""
    profiles = ProfileStore(store)
    for name in names:
        profile = attrs.evolve(PROFILE, id=name, name=name)
        store.write(lambda profile=profile: profiles.insert(profile, datetime.datetime.now(datetime.UTC)))
    return profiles


def event_types(store: Store) -> list[str]:
    return [row[0] for row in store.read(lambda: store.execute(_EVENTS).rows)]


def race(acts: Sequence[Callable[[], Any]]) -> list[Any]:
    """Start every act at the same moment; return what each gave or raised, in their order."""
    gate, outcomes = threading.Barrier(len(acts)), dict[int, Any]()

    def run(number: int) -> None:
        gate.wait(timeout=10)
        try:
            outcomes[number] = acts[number]()
        except (ProfileRefused, RaceLost) as refused:
            outcomes[number] = refused

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [outcomes[number] for number in range(len(acts))]


@pytest.fixture
def second_store(store: Store, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Another process's view of the same database: connections and committer of its own."""
    if store.kind is EngineKind.SQLITE:
        second: Store = open_sqlite(tmp_path / "db" / "bulksigner.db")
    else:
        second = open_postgresql(Secret(request.getfixturevalue("postgres_url")), 5, sleep=lambda _: None)
    yield second
    second.close()


def test_an_edit_comes_back_as_it_was_saved(store: Store, editor_of: Any) -> None:
    """CFG-85: columns and the count of saves survive either engine."""
    profiles = put(store, "a")
    saves = profiles.saves()
    keys = {"SaveAsPem": "true", "Verify": "false", "ValidateCertificate": "true", "RequireNonRepudiation": "false"}
    change = ProfileChange(keys, folder="in")
    saved = editor_of(store).edit("A", change, by="operator").profile
    assert profiles.all() == [saved]
    assert profiles.by_folder("in") == saved
    assert profiles.saves() == saves + 1
    assert event_types(store) == ["SigningProfileEdited"]


def test_second_engines_come_back_as_they_were_saved(store: Store, editor_of: Any) -> None:
    """CFG-198: the list survives either engine, and a row that has none any more is damaged, not empty."""
    profiles = put(store, "a")
    texts = (f"{sys.executable} '{{file}}' ação", f"{sys.executable} {{file}}")
    change = ProfileChange({f"CrossCheck:{number}": text for number, text in enumerate(texts)})
    saved = editor_of(store).edit("a", change, by="operator").profile
    assert saved.cross_check == texts
    assert profiles.all() == [saved]
    broken = Prepared(ProfileRow.update({ProfileRow.cross_check: '{"a": 1}'}).where(ProfileRow.id == slot("id")))
    store.write(lambda: store.execute(broken, id="a"))
    assert "cross_check" in (profiles.all()[0].damage or "")


def test_row_count_and_event_are_one_transaction(store: Store, editor_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-73: an event that cannot be written leaves the profile, and the count, as they were."""
    profiles = put(store, "a")
    before, saves = profiles.all(), profiles.saves()

    def fail(*_: object) -> None:
        raise RuntimeError("no room for events")

    monkeypatch.setattr(editing, "write_event", fail)
    with pytest.raises(RuntimeError, match="no room"):
        editor_of(store).edit("a", ProfileChange({"Verify": "false"}), by="operator")
    assert (profiles.all(), profiles.saves(), event_types(store)) == (before, saves, [])


def test_a_save_whose_answer_was_lost_is_found_in_its_row(
    store: Store, editor_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DEP-29: committed or not is read from the rows, and neither is taken for the other."""
    profiles = put(store, "a")
    real = store.write

    def lose_the_answer(act: Any, *, settle: Any = None) -> Any:
        real(act)
        found = settle()
        if found is None:
            raise CommitUnknown("the answer was lost")
        return found

    monkeypatch.setattr(store, "write", lose_the_answer)
    saved = editor_of(store).edit("a", ProfileChange({"Verify": "false"}), by="operator")
    assert saved.profile == profiles.get("a")

    def lose_the_save(_: Any, *, settle: Any = None) -> Any:
        assert settle() is None
        raise CommitUnknown("the answer was lost")

    monkeypatch.setattr(store, "write", lose_the_save)
    with pytest.raises(CommitUnknown):
        editor_of(store).edit("a", ProfileChange({"Verify": "true"}), by="operator")


def race_for_one_folder(store: Store, second: Store, editor_of: Any, rounds: int) -> None:
    profiles = put(store, "a", "b")
    for number in range(rounds):
        editors: list[ProfileEditor] = [editor_of(store), editor_of(second if number % 2 else store)]
        outcomes = race(
            [
                partial(one.edit, name, ProfileChange(folder="in"), by="operator")
                for one, name in zip(editors, ("a", "b"), strict=True)
            ]
        )
        owner = profiles.by_folder("in")
        assert owner is not None
        loser = outcomes["ab".index("b" if owner.name == "a" else "a")]
        assert isinstance(loser, ProfileRefused), outcomes
        assert [one.code for one in loser.objections] == ["profile.folder-taken"]
        assert f"'{owner.name}'" in str(loser)
        assert sum(profile.input_folder == "in" for profile in profiles.all()) == 1
        editor_of(store).edit(owner.name, ProfileChange(folder=None), by="operator")
    assert event_types(store) == ["SigningProfileEdited"] * (2 * rounds)


def test_two_saves_of_one_folder_leave_one_owner(store: Store, second_store: Store, editor_of: Any) -> None:
    """PIPE-58, PIPE-110: the other is told who has it, from one process or from two."""
    race_for_one_folder(store, second_store, editor_of, ROUNDS)


@pytest.mark.soak
def test_two_saves_of_one_folder_leave_one_owner_each_time(store: Store, second_store: Store, editor_of: Any) -> None:
    """PIPE-58, PIPE-110: two hundred rounds."""
    race_for_one_folder(store, second_store, editor_of, MANY_ROUNDS)


def race_for_one_profile(store: Store, second: Store, editor_of: Any, rounds: int) -> None:
    profiles = put(store, "a")
    for _ in range(rounds):
        version = profiles.all()[0].row_version
        is_verified = profiles.all()[0].verify
        change = ProfileChange({"Verify": "false" if is_verified else "true"}, read_version=version)
        outcomes = race([partial(editor_of(one).edit, "a", change, by="operator") for one in (store, second, store)])
        lost = [one for one in outcomes if isinstance(one, RaceLost)]
        assert len(lost) == 2, outcomes
        assert {one.code for one in lost} == {"profile.race-lost"}
        (stored,) = profiles.all()
        assert (stored.row_version, stored.verify) == (version + 1, not is_verified)


def test_saves_of_one_profile_do_not_undo_each_other(store: Store, second_store: Store, editor_of: Any) -> None:
    """DSH-110, PIPE-110: of saves made on the same look, one is stored."""
    race_for_one_profile(store, second_store, editor_of, ROUNDS)


@pytest.mark.soak
def test_saves_of_one_profile_never_undo_each_other(store: Store, second_store: Store, editor_of: Any) -> None:
    """DSH-110, PIPE-110: two hundred rounds."""
    race_for_one_profile(store, second_store, editor_of, MANY_ROUNDS)


def test_two_profiles_of_one_name_are_made_once(store: Store, second_store: Store, editor_of: Any) -> None:
    """CFG-86: unique without regard to who was first by a moment."""
    change = ProfileChange({"Format": "Cades", "Certificate:Source": "Pfx"})
    for number in range(ROUNDS):
        name = f"new-{number}"
        outcomes = race([partial(editor_of(one).create, name, change, by="operator") for one in (store, second_store)])
        (refused,) = [one for one in outcomes if isinstance(one, ProfileRefused)]
        assert [one.code for one in refused.objections] == ["profile.name-taken"]
    assert [profile.name for profile in ProfileStore(store).all()] == [f"new-{number}" for number in range(ROUNDS)]
    assert event_types(store) == ["SigningProfileCreated"] * ROUNDS
