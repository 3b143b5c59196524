"""What goes by age and what stays, whoever wishes it (STA-59 to STA-79)."""

from __future__ import annotations

import datetime
import errno
import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bulksigner.contract.errors import NotAllowed
from bulksigner.jobs.store import Jobs
from bulksigner.records.prepared import Prepared
from bulksigner.records.store import Store
from bulksigner.records.tables import RetentionLeaseRow
from bulksigner.retention import run as run_module
from bulksigner.retention.policy import ClassRule, RetentionClass
from bulksigner.retention.records import acknowledge, find_acknowledgement, last_run, take_lease
from bulksigner.retention.run import BATCH

DAY = datetime.timedelta(days=1)


def counts(run: Any) -> dict[str, tuple[int, int, int, int]]:
    return {
        kind: (tally["matched"], tally["removed"], sum(tally["kept"].values()), sum(tally["failed"].values()))
        for kind, tally in run.tallies.items()
    }


def furnish(ground: Any) -> dict[str, Any]:
    """One old and one young thing of each class."""
    made = {
        "old output": ground.complete(11),
        "young output": ground.complete(9),
        "old error": ground.fail(31),
        "young error": ground.fail(29),
        "old orphan": ground.folder("processing", "orphan-1", 31),
        "old orphan in error": ground.folder("error", "orphan-2", 31),
        "young orphan": ground.folder("error", "orphan-3", 29),
        "old job": ground.collect(91),
        "young job": ground.collect(89),
    }
    ground.event(366)
    ground.event(364)
    (ground.roots.output / "stranger.pdf").write_text("not ours")
    return made


def test_old_things_go_and_young_ones_stay(ground: Any) -> None:
    """STA-59, STA-61 to STA-64: by class, each from its own age; never a file in `output/` that no job names."""
    made = furnish(ground)
    before, retention = ground.tree(), ground.accepted()
    assert ground.tree() == before
    run = retention.apply("person")
    gone = {
        f"output/{Path(made['old output'].output_path).name}",
        *(f"{place}{end}" for end in ("", "/file") for place in
            (f"error/{made['old error'].id}", "processing/orphan-1", "error/orphan-2")),
    }  # fmt: skip
    assert before - ground.tree() == gone
    assert counts(run) == {
        "Jobs": (1, 1, 0, 0),
        "Output": (1, 1, 0, 0),
        "Error": (1, 1, 0, 0),
        "Orphans": (2, 2, 0, 0),
        "Events": (1, 1, 0, 0),
    }
    assert ground.events().count("ServiceStarted") == 1
    assert run.tallies["Orphans"]["bytes"] == 10
    assert run.tallies["Output"]["samples"] == [Path(made["old output"].output_path).name]
    jobs = Jobs(ground.store)
    for name in ("old output", "old error", "young job"):
        assert jobs.get(made[name].id) == made[name]
    assert jobs.get(made["old job"].id) is None


def test_a_preview_names_exactly_what_the_run_lets_go(ground: Any) -> None:
    """STA-72, STA-101: one routine for both; the preview has the same counts, and nothing happened to anything."""
    furnish(ground)
    seen: list[str] = []
    retention = ground.retention()
    preview = retention.preview("person", lambda item, reason: seen.append(item.name) if reason is None else None)
    acknowledge(ground.store, "policy", preview.id, "person", ground.clock)
    run = retention.apply("person")
    assert run.tallies == preview.tallies
    assert [line["name"] for line in ground.manifests()[0][:-1]] == seen
    again = retention.apply("person")
    assert {tally["matched"] for tally in again.tallies.values()} == {0}


@pytest.mark.parametrize("kind", list(RetentionClass))
def test_a_class_without_days_is_never_touched(ground: Any, kind: RetentionClass) -> None:
    """STA-108: the others go, and of this one there is as much as before."""
    furnish(ground)
    only = ground.retention(fingerprint="only", classes=[kind])
    before = only.preview("person").tallies[kind.value]
    assert before["matched"] >= 1
    run = ground.accepted(classes=[one for one in RetentionClass if one is not kind]).apply("person")
    assert all(tally["removed"] for tally in run.tallies.values())
    assert only.preview("person").tallies[kind.value] == before


def swap(path: Path, make: Callable[[], object]) -> None:
    path.unlink()
    make()


OUTPUTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "grown": (lambda path: path.write_bytes(b"signed and more"), "not the file its job delivered"),
    "touched": (lambda path: os.utime(path, (1, 1)), "not the file its job delivered"),
    "a link": (lambda path: swap(path, lambda: path.symlink_to("/etc/hostname")), "not a regular file"),
    "a folder": (lambda path: swap(path, path.mkdir), "not a regular file"),
}


@pytest.mark.parametrize("change", OUTPUTS)
def test_an_output_that_is_not_what_was_delivered_stays(ground: Any, change: str) -> None:
    """STA-59, STA-69: same path is not enough; size, time and kind must be as recorded."""
    path = Path(ground.complete(11).output_path)
    act, reason = OUTPUTS[change]
    act(path)
    run = ground.accepted(classes=[RetentionClass.OUTPUT]).apply("person")
    assert run.tallies["Output"]["kept"] == {reason: 1}
    assert os.path.lexists(path)


def test_a_path_that_leads_out_of_the_folder_stays(ground: Any, tmp_path: Path) -> None:
    """STA-69: whatever the row says, only files directly in `output/` go."""
    outside = tmp_path / "outside.pdf"
    outside.write_bytes(b"signed")
    for path in (outside, ground.roots.output / ".." / ".." / "outside.pdf", ground.roots.output / "deep" / "x.pdf"):
        job = ground.complete(11)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"signed")
        Jobs(ground.store, lambda: ground.clock - 11 * DAY).record(job, output_path=str(path))
    run = ground.accepted(classes=[RetentionClass.OUTPUT]).apply("person")
    assert run.tallies["Output"]["kept"] == {"outside its folder": 3}
    assert outside.exists()


def test_what_changes_between_selection_and_act_is_looked_at_again(ground: Any, monkeypatch: Any) -> None:
    """STA-72: a file that is put in the place of another while the run is on stays."""
    paths = [Path(ground.complete(age).output_path) for age in (13, 12, 11)]
    retention = ground.accepted(classes=[RetentionClass.OUTPUT])
    original = run_module.delete_item

    def delete(path: Path) -> None:
        original(path)
        paths[2].write_bytes(b"another")

    monkeypatch.setattr(run_module, "delete_item", delete)
    run = retention.apply("person")
    assert (run.tallies["Output"]["removed"], run.tallies["Output"]["kept"]) == (
        2,
        {"not the file its job delivered": 1},
    )
    assert paths[2].read_bytes() == b"another"
    assert [line["name"] for line in ground.manifests()[0][:-1] if line["action"] == "Keep"] == [paths[2].name]


@pytest.mark.parametrize("end", ["parent", "child", "grandchild"])
@pytest.mark.parametrize("hindrance", ["young", "unfinished"])
def test_a_chain_of_retries_goes_as_a_whole(ground: Any, end: str, hindrance: str) -> None:
    """STA-65: if one member is young or not ended, all stay, in whichever direction it is related."""
    first = ground.fail(40)
    second = ground.fail(35, first.id)
    third = ground.fail(31, second.id) if end == "child" else None
    last = (third or second).id
    if hindrance == "young":
        ground.fail(1, last if end != "parent" else first.id)
    else:
        ground.take(1, last if end != "parent" else first.id)
    run = ground.accepted(classes=[RetentionClass.ERROR]).apply("person")
    assert run.tallies["Error"]["removed"] == 0
    assert sum(run.tallies["Error"]["kept"].values()) == run.tallies["Error"]["matched"] >= 2
    ground.clock += 60 * DAY
    if hindrance == "young":
        later = ground.accepted(classes=[RetentionClass.ERROR]).apply("person")
        assert later.tallies["Error"]["kept"] == {}
        assert ground.tree() == set()


def test_a_twin_folder_goes_with_its_job(ground: Any) -> None:
    """STA-61: the folder that got a time behind its name is the same job's."""
    job = ground.fail(31)
    ground.folder("error", f"{job.id}-20260701T120000.000000Z", 31)
    run = ground.accepted().apply("person")
    assert run.tallies["Error"]["removed"] == 2
    assert run.tallies["Orphans"]["matched"] == 0
    assert ground.tree() == set()


def test_an_orphan_that_was_written_to_lately_stays(ground: Any) -> None:
    """STA-64: the last write anywhere in it counts."""
    path = ground.folder("error", "orphan", 60)
    (path / "deep").mkdir()
    (path / "deep" / "new").write_text("x")
    at = (ground.clock - 40 * DAY).timestamp()
    for one in (path / "deep", path):
        os.utime(one, (at, at))
    lately = (ground.clock - 2 * DAY).timestamp()
    os.utime(path / "deep" / "new", (lately, lately))
    assert ground.accepted().apply("person").tallies["Orphans"]["matched"] == 0


@pytest.mark.parametrize(
    "kind",
    ["ApprovalRecorded", "ApprovalRejected", "ApproverFactorReset", "RejectedFileHandedBack", "JobDeleted",
        "JobsCleared", "JobTakenOver", "SigningProfileCertificateEdited", "RetentionApplied",
        "RetentionPolicyAcknowledged", "FileNameReleased"],
)  # fmt: skip
def test_events_that_tell_who_decided_stay_for_ever(ground: Any, kind: str) -> None:
    """STA-67, SEC-74: however old."""
    ground.event(5000, kind)
    ground.event(5000)
    run = ground.accepted().apply("person")
    assert run.tallies["Events"]["removed"] == 1
    assert kind in ground.events()
    assert "ServiceStarted" not in ground.events()


# -- control --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["no preview", "not acknowledged", "dry run", "another policy"])
def test_nothing_goes_before_a_person_has_accepted_it(ground: Any, step: str) -> None:
    """STA-70: mode, a finished preview and its acknowledgement, all for this fingerprint."""
    ground.complete(11)
    before = ground.tree()
    if step == "dry run":
        retention = ground.accepted(enforces=False)
    elif step == "another policy":
        ground.accepted(fingerprint="as it was")
        retention = ground.retention()
    else:
        retention = ground.retention()
        if step == "not acknowledged":
            retention.preview("person")
    with pytest.raises(NotAllowed) as refused:
        retention.apply("person")
    assert refused.value.code == "retention.not-acknowledged"
    assert ground.tree() == before
    assert ground.manifests() == []


def test_only_the_newest_preview_of_the_policy_can_be_accepted(ground: Any) -> None:
    """STA-70, STA-71: not one of another policy, and not one that was replaced."""
    retention = ground.retention()
    with pytest.raises(NotAllowed, match="There is no preview"):
        acknowledge(ground.store, "policy", "x", "person", ground.clock)
    first = retention.preview("person")
    ground.clock += DAY
    second = retention.preview("person")
    other = ground.retention(fingerprint="other").preview("person")
    for wrong in (first, other):
        with pytest.raises(NotAllowed, match=second.id):
            acknowledge(ground.store, "policy", wrong.id, "person", ground.clock)
    acknowledge(ground.store, "policy", second.id, "somebody", ground.clock)
    found = find_acknowledgement(ground.store, "policy", ground.clock)
    assert found is not None
    assert (found.actor, found.preview_id, found.at) == ("somebody", second.id, ground.clock)
    assert "RetentionPolicyAcknowledged" in ground.events()


def test_an_acknowledgement_lapses_without_previews(ground: Any) -> None:
    """STA-71: ninety days without one; a preview within them keeps it, one that comes later does not bring it back."""
    retention = ground.accepted()
    for _ in range(3):
        ground.clock += 90 * DAY
        assert retention.is_in_force
        retention.preview("Schedule")
    ground.clock += 91 * DAY
    assert not retention.is_in_force
    retention.preview("Schedule")
    assert not retention.is_in_force


def test_two_never_run_together_and_a_dead_one_is_replaced(ground: Any) -> None:
    """STA-75: one in the deployment; who does not renew the lease for a quarter of an hour is taken for dead."""
    retention = ground.accepted()
    assert take_lease(ground.store, "another", ground.clock)
    for act in (retention.preview, retention.apply):
        with pytest.raises(NotAllowed) as refused:
            act("person")
        assert refused.value.code == "retention.already-running"
    ground.clock += datetime.timedelta(minutes=16)
    retention.apply("person")
    assert take_lease(ground.store, "the next", ground.clock)


def test_one_that_lost_its_lease_ends(ground: Any, monkeypatch: Any) -> None:
    """STA-75: before the next batch; what it did is in its manifest, which says that it is not complete."""
    monkeypatch.setattr(run_module, "BATCH", 2)
    for _ in range(4):
        ground.complete(11)
    retention = ground.accepted(classes=[RetentionClass.OUTPUT])
    original, calls = run_module.delete_item, 0
    steal = Prepared(RetentionLeaseRow.update({RetentionLeaseRow.holder: "thief"}))

    def delete(path: Path) -> None:
        nonlocal calls
        calls += 1
        original(path)
        if calls == 2:
            ground.store.write(lambda: ground.store.execute(steal))

    monkeypatch.setattr(run_module, "delete_item", delete)
    run = retention.apply("person")
    assert run.tallies["Output"]["removed"] == 2
    assert ground.manifests()[0][-1]["complete"] is False


@pytest.mark.parametrize("reason", ["stop", "pause"])
def test_a_run_ends_between_batches(ground: Any, monkeypatch: Any, reason: str) -> None:
    """STA-75: on shutdown and on a pause the batch is finished and the next not begun."""
    monkeypatch.setattr(run_module, "BATCH", 2)
    for _ in range(5):
        ground.complete(11)
    is_over = threading.Event()
    options: dict[str, Any] = {"stopping": is_over} if reason == "stop" else {"is_paused": is_over.is_set}
    retention = ground.accepted(classes=[RetentionClass.OUTPUT], **options)
    original = run_module.delete_item

    def delete(path: Path) -> None:
        original(path)
        is_over.set()

    monkeypatch.setattr(run_module, "delete_item", delete)
    assert retention.apply("person").tallies["Output"]["removed"] == 2
    assert len(list(ground.roots.output.iterdir())) == 3
    if reason == "stop":
        newest = last_run(ground.store, is_preview=True)
        retention.preview("person")
        assert last_run(ground.store, is_preview=True) == newest


def test_the_rest_waits_for_the_next_run(ground: Any) -> None:
    """STA-107: at most so many items, over all classes; the oldest first."""
    jobs = [ground.complete(20 - number) for number in range(5)]
    for _ in range(3):
        ground.event(400)
    retention = ground.accepted(max_items=4, classes=[RetentionClass.OUTPUT, RetentionClass.EVENTS])
    for left in ([4], []):
        run = retention.apply("person")
        names = {Path(jobs[number].output_path).name for number in left}
        assert {path.name for path in ground.roots.output.iterdir()} == names
    assert sum(tally["removed"] for tally in run.tallies.values()) == 4
    assert BATCH == 200


# -- files ----------------------------------------------------------------------------------------------------------


def test_what_is_moved_is_there_before_the_source_goes(ground: Any, tmp_path: Path) -> None:
    """STA-78: files and folders, byte for byte; a taken name gets the job's id before the extension."""
    archive = tmp_path / "archive"
    archive.mkdir()
    job, failed = ground.complete(11, content=b"the signature"), ground.fail(31)
    name = Path(job.output_path).name
    (archive / name).write_text("somebody else's")
    rules = {kind: ClassRule(10, archive) for kind in (RetentionClass.OUTPUT, RetentionClass.ERROR)}
    run = ground.accepted(rules=rules, classes=[]).apply("person")
    stem, _, extension = name.partition(".")
    assert (archive / f"{stem}.{job.id}.{extension}").read_bytes() == b"the signature"
    assert (archive / name).read_text() == "somebody else's"
    assert (archive / failed.id / "file").read_bytes() == b"12345"
    assert ground.tree() == set()
    assert [(tally["removed"], tally["moved"]) for tally in run.tallies.values()] == [(0, 1), (0, 1)]
    assert ground.manifests()[0][0]["result"] == f"moved to {archive / f'{stem}.{job.id}.{extension}'}"


def test_a_move_that_fails_leaves_the_source_and_no_copy(ground: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """STA-75, STA-78: a folder with a link in it, and a disk that is full: counted as failed, the others go on."""
    linked, good = ground.fail(31), ground.fail(31)
    (ground.roots.error / linked.id / "zlink").symlink_to("/etc/hostname")
    rules = {RetentionClass.ERROR: ClassRule(30, tmp_path / "archive")}
    run = ground.accepted(rules=rules, classes=[]).apply("person")
    assert (run.tallies["Error"]["moved"], sum(run.tallies["Error"]["failed"].values())) == (1, 1)
    assert {path.name for path in (tmp_path / "archive").iterdir()} == {good.id}
    assert (ground.roots.error / linked.id / "file").exists()


def test_a_file_that_cannot_be_removed_is_counted_and_stays(ground: Any, monkeypatch: Any) -> None:
    """STA-75: nothing is forced."""
    ground.complete(11)

    def refuse(path: Path) -> None:
        raise OSError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(run_module, "delete_item", refuse)
    run = ground.accepted(classes=[RetentionClass.OUTPUT]).apply("person")
    assert run.tallies["Output"]["failed"] == {"Permission denied": 1}
    assert len(list(ground.roots.output.iterdir())) == 1
    assert ground.manifests()[0][0]["result"] == "failed: Permission denied"


# -- manifest and events --------------------------------------------------------------------------------------------


def test_the_manifest_names_every_item_and_is_chained(ground: Any) -> None:
    """STA-76: a line for each, a last one with the counts and the SHA-256 of the manifest before; none for previews."""
    job = ground.complete(11)
    ground.event(400)
    retention = ground.accepted(classes=[RetentionClass.OUTPUT, RetentionClass.EVENTS])
    first = retention.apply("person")
    ground.clock += DAY
    second = retention.apply("person")
    output, event, closing = ground.manifests()[0]
    assert (output["class"], output["jobId"], output["path"], output["bytes"], output["sha256"], output["result"]) == (
        "Output", job.id, job.output_path, 6, "aa", "removed",
    )  # fmt: skip
    assert (event["class"], event["name"], event["result"]) == ("Events", "ServiceStarted", "removed")
    assert closing == {"closed": True, "complete": True, "previousSha256": None, "classes": first.tallies}
    folder = ground.roots.root / "retention"
    assert first.manifest == f"20260812-120000-{first.id}.jsonl"
    digest = hashlib.sha256((folder / str(first.manifest)).read_bytes()).hexdigest()
    assert ground.manifests()[1] == [
        {"closed": True, "complete": True, "previousSha256": digest, "classes": second.tallies}
    ]
    assert len(list(folder.iterdir())) == 2
    assert ground.events()[-4:] == [
        "RetentionPreviewed", "RetentionPolicyAcknowledged", "RetentionApplied", "RetentionApplied",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [RetentionClass.OUTPUT, RetentionClass.EVENTS])
def test_after_a_kill_the_list_misses_nothing_that_is_gone(
    ground: Any, store: Store, monkeypatch: Any, kind: RetentionClass
) -> None:
    """STA-76, STA-101: it has a line for all that went, no last line, and the next run goes on."""
    for _ in range(3):
        ground.complete(11)
        ground.event(400)
    retention = ground.accepted(classes=[kind])
    outputs, events = len(list(ground.roots.output.iterdir())), ground.events().count("ServiceStarted")
    original, calls = run_module.delete_item, 0

    def delete(path: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        original(path)

    with monkeypatch.context() as patched:
        patched.setattr(run_module, "delete_item", delete)
        if kind is RetentionClass.EVENTS:
            patched.setattr(type(store), "execute_each", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            retention.apply("person")
    gone = outputs - len(list(ground.roots.output.iterdir())) + events - ground.events().count("ServiceStarted")
    [lines] = ground.manifests()
    assert len(lines) >= gone
    assert not any("closed" in line for line in lines)
    ground.clock += datetime.timedelta(minutes=16)
    assert retention.apply("person").tallies[kind.value]["removed"] == 3 - gone


def test_content_beside_a_signature_goes_with_it(ground: Any) -> None:
    """BEY-12, STA-59: both go; content that was changed stays, and so does one without its signature."""
    contents = []
    for _ in range(3):
        job = ground.complete(11)
        content = Path(job.output_path).with_suffix(".txt")
        content.write_bytes(b"content")
        Jobs(ground.store, lambda: ground.clock - 11 * DAY).record(
            job,
            companion_path=str(content),
            staged_length=7,
            staged_sha256=hashlib.sha256(b"content").hexdigest(),
        )
        contents.append((content, Path(job.output_path)))
    contents[1][0].write_bytes(b"CONTENT")
    contents[2][1].unlink()
    run = ground.accepted(classes=[RetentionClass.OUTPUT]).apply("person")
    assert (run.tallies["Output"]["removed"], run.tallies["Output"]["kept"]) == (
        3,
        {"not the file its job delivered": 1},
    )
    left = [(content.exists(), signature.exists()) for content, signature in contents]
    assert left == [(False, False), (True, False), (True, False)]
