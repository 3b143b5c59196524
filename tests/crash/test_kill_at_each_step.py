"""Kill the service at each durable step, start it again, and see that nothing is lost, doubled or unexplained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bulksigner.testing.files import pdf_file, text_file, xml_file
from bulksigner.testing.kill import KEY, Moment

pytestmark = pytest.mark.slow

ENGINES = ("sqlite", "postgresql")
PDF, XML, TEXT = pdf_file(pages=1), xml_file(items=1), text_file(size_bytes=500)
ENCRYPTED = {
    "Encryption:Enabled": True,
    "Encryption:Password": "correct horse battery staple",
    "Encryption:Salt": "AAECAwQFBgcICQoLDA0ODw==",
    "Encryption:Iterations": 10_000,
    "Signing:Profiles:0:Encrypt": True,
}
CROSS_CHECKED = {"Signing:Profiles:0:CrossCheck:0": "openssl cms"}
RECEIPTS = {"Receipts:Enabled": True}
DETACHED = {
    "Storage:Inputs:0:Profile": "beside",
    "Signing:Profiles:0:Name": "beside",
    "Signing:Profiles:0:Format": "Cades",
    "Signing:Profiles:0:Cades:Content": "Detached",
}
SIDECARS = {"Storage:Inputs:0:Sidecar": True}


def first(step: str, side: str, *, about: str = "") -> Callable[[Sequence[Moment]], Moment]:
    """Find the first call of a step on a path that contains `about`."""
    return lambda trace: next(
        moment for moment in trace if (moment.step, moment.side) == (step, side) and about in moment.subject
    )


STORIES = {
    "a PDF": {"drops": {"contract.pdf": PDF}},
    "an XML": {"drops": {"invoice.xml": XML}},
    "a text": {"drops": {"report.txt": TEXT}},
    "a refused name": {"drops": {"report.txt": TEXT, "REPORT.txt": TEXT[::-1]}},
    "a sidecar": {"drops": {"report.txt": TEXT}, "sidecars": {"report.txt": b'{"a": "b"}'}, "settings": SIDECARS},
    "a refused sidecar": {"drops": {"report.txt": TEXT}, "sidecars": {"report.txt": b"no"}, "settings": SIDECARS},
    "an upload": {"upload": ("contract.pdf", PDF)},
    "a retry": {"drops": {"contract.pdf": PDF}, "retries": True, "earlier": first(KEY, "before")},
    "a first boot": {"drops": {"report.txt": TEXT}, "is_first_boot": True},
    "an encrypted text": {"drops": {"report.txt": TEXT}, "settings": ENCRYPTED},
    "a signature beside its content": {"drops": {"report.txt": TEXT}, "settings": DETACHED},
    "a recovery between content and signature": {
        "drops": {"report.txt": TEXT},
        "settings": DETACHED,
        "earlier": first("files.durable.promote", "after", about="report.txt"),
    },
    "a recovery after the delivery": {
        "drops": {"report.txt": TEXT},
        "earlier": first("files.durable.promote", "after", about=".p7m"),
    },
    "a recovery amid the removal": {
        "drops": {"report.txt": TEXT},
        "earlier": first("os.rename", "after", about="/inbox/"),
    },
    "a recovery of a finished job": {
        "drops": {"report.txt": TEXT},
        "earlier": first("files.durable.remove_folder", "before"),
    },
    "a recovery of an upload": {
        "upload": ("report.txt", TEXT),
        "earlier": first("files.durable.promote", "after", about="/landing/"),
    },
}


# A server's database differs in its commits, not in the files: the stories that differ most stand for the others there,
# which `make soak` tells call by call on both.
ON_A_SERVER = ("a PDF", "an upload", "a first boot", "a recovery after the delivery", "an encrypted text")
TOLD = [(name, ENGINES[0]) for name in STORIES] + [(name, ENGINES[1]) for name in ON_A_SERVER]


@pytest.mark.parametrize(("name", "engine"), TOLD)
def test_no_step_is_a_bad_one_to_die_at(crash: Any, name: str, engine: str) -> None:
    """BEY-51, CLU-73, CLU-09: one death at each change of files, rows and key; everything is accounted for."""
    story = crash.Story(name, **STORIES[name])
    lanes = crash.make_lanes(story, engine)
    moments = crash.choose_moments(lanes[0].trace(), with_boot=story.is_first_boot or story.earlier is not None)
    assert len(moments) >= 8
    assert crash.die_everywhere(lanes, moments) == {}


@pytest.mark.soak
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", STORIES)
def test_no_call_is_a_bad_one_to_die_at(crash: Any, name: str, engine: str) -> None:
    """BEY-51: as above, before and after every single call, those that change nothing included."""
    lanes = crash.make_lanes(crash.Story(name, **STORIES[name]), engine)
    assert crash.die_everywhere(lanes, lanes[0].trace()) == {}


WORKERS = {"Signing:Engine": "Processes", "Signing:EngineWorkers": 1, "Pipeline:MaxConcurrency": 2}
IN_A_WORKER = (
    "files.durable.copy_measured",
    "files.durable.write_new",
    KEY,
    "files.durable.promote",
    "files.durable.remove_file",
    "files.durable.remove_folder",
)


@pytest.mark.parametrize("plan", [{}, {"kills_parent": True}, {"kills_parent": True, "pause_seconds": 0.4}])
def test_a_worker_or_its_service_may_die_in_any_task(crash: Any, plan: dict[str, Any]) -> None:
    """BEY-51, PERF-06: the worker alone, the service alone, and the service long before its orphan goes on."""
    lanes = crash.make_lanes(crash.Story("a worker", drops={"contract.pdf": PDF}, settings=WORKERS))
    trace = lanes[0].trace(plans_workers=True)
    moments = [moment for moment in trace if moment.step in IN_A_WORKER]
    assert {moment.step for moment in moments} == set(IN_A_WORKER)
    assert crash.die_everywhere(lanes, moments, plans_workers=True, **plan) == {}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_service_may_die_while_a_second_engine_judges(crash: Any, engine: str) -> None:
    """BEY-02, BEY-51: before and after the folder of a program is made and removed; nothing is lost or signed twice."""
    story = crash.Story("a cross-check", drops={"report.txt": TEXT}, settings=CROSS_CHECKED)
    lanes = crash.make_lanes(story, engine)
    moments = [moment for moment in lanes[0].trace() if "/.cross-check-" in moment.subject]
    assert len({moment.step for moment in moments}) >= 2
    assert crash.die_everywhere(lanes, moments) == {}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_service_may_die_while_it_writes_a_receipt(crash: Any, engine: str) -> None:
    """BEY-03, BEY-51: from the delivery on; each completed job has one receipt afterwards, signed, in one chain."""
    lanes = crash.make_lanes(crash.Story("a receipt", drops={"report.txt": TEXT}, settings=RECEIPTS), engine)
    trace = lanes[0].trace()
    delivered = trace.index(first("files.durable.promote", "after", about="report.txt.p7m")(trace))
    moments = [one for one in crash.choose_moments(trace, with_boot=False) if trace.index(one) > delivered]
    assert any(moment.subject.endswith(".receipt.tmp") for moment in moments)
    assert crash.die_everywhere(lanes, moments) == {}


@pytest.mark.soak
@pytest.mark.parametrize("engine", ENGINES)
def test_no_call_around_a_receipt_is_a_bad_one_to_die_at(crash: Any, engine: str) -> None:
    """BEY-03, BEY-51: as above, at every single call of two jobs, whose receipts follow one another."""
    drops = {"report.txt": TEXT, "other.txt": TEXT[::-1]}
    lanes = crash.make_lanes(crash.Story("two receipts", drops=drops, settings=RECEIPTS), engine)
    assert crash.die_everywhere(lanes, lanes[0].trace()) == {}


def test_a_worker_or_its_service_may_die_between_content_and_signature(crash: Any) -> None:
    """BEY-12, BEY-51: both files are promoted in one task; nothing of them is lost, doubled or unexplained."""
    story = crash.Story("a pair", drops={"report.txt": TEXT}, settings=WORKERS | DETACHED)
    lanes = crash.make_lanes(story)
    moments = [moment for moment in lanes[0].trace(plans_workers=True) if moment.step == "files.durable.promote"]
    assert len(moments) == 4
    assert crash.die_everywhere(lanes, moments, plans_workers=True) == {}
    assert crash.die_everywhere(lanes, moments, plans_workers=True, kills_parent=True) == {}


WRITING_AN_ENVELOPE = ("os.fsync", "files.durable.promote")


def test_a_service_may_die_while_its_worker_encrypts(crash: Any) -> None:
    """ENC-02, ENC-10, ENC-12: whenever the service dies around the envelope, nothing clear is in output/."""
    lanes = crash.make_lanes(crash.Story("an envelope", drops={"report.txt": TEXT}, settings=WORKERS | ENCRYPTED))
    trace = lanes[0].trace(plans_workers=True)
    moments = [moment for moment in trace if ".enc" in moment.subject and moment.step in WRITING_AN_ENVELOPE]
    assert {moment.step for moment in moments} == set(WRITING_AN_ENVELOPE)
    assert crash.die_everywhere(lanes, moments, plans_workers=True, kills_parent=True) == {}


def test_an_envelope_is_whole_before_it_is_promised(crash: Any) -> None:
    """ENC-12, PIPE-85: flushed, read back, recorded, and only then moved to output/."""
    [lane] = crash.make_lanes(crash.Story("a PDF", drops={"contract.pdf": PDF}, settings=ENCRYPTED), count=1)
    seen = lane.trace(database=lane.folder / "data" / "db" / "bulksigner.db")

    def at(step: str, side: str, about: str) -> int:
        return seen.index(first(step, side, about=about)(seen))

    envelope = "contract.signed.pdf.enc"
    order = {
        "the use of the key": at(KEY, "before", ""),
        "the flush": at("os.fsync", "after", envelope),
        "the reading back": at("files.durable.open_regular", "after", envelope),
        "the intent": next(index for index, moment in enumerate(seen) if "output" in moment.recorded),
        "the promotion": at("files.durable.promote", "before", envelope),
    }
    assert list(order) == sorted(order, key=lambda name: order[name])
    promoted = [moment.subject for moment in seen if moment.step == "files.durable.promote" and moment.side == "before"]
    assert not [subject for subject in promoted if subject.endswith("contract.signed.pdf")]


def test_everything_is_on_disk_before_what_relies_on_it(crash: Any) -> None:
    """BEY-51, CLU-11, PIPE-82, PIPE-85, PERF-07: the order of flushes and commits, as a power cut would find it."""
    [lane] = crash.make_lanes(crash.Story("a PDF", drops={"contract.pdf": PDF}), count=1)
    seen = lane.trace(database=lane.folder / "data" / "db" / "bulksigner.db")

    def at(step: str, side: str, about: str) -> int:
        return seen.index(first(step, side, about=about)(seen))

    def committed(text: str) -> int:
        return next(index for index, moment in enumerate(seen) if text in moment.recorded)

    signed, output, inbox = "contract.signed.pdf", "/data/output", "/inbox"
    in_output = [
        index for index, moment in enumerate(seen) if moment.step == "os.fsync" and moment.subject.endswith(output)
    ]
    promoted = at("files.durable.promote", "before", signed)
    delivered = next(index for index in in_output if index > promoted)
    order = {
        "the mark": committed("signing"),
        "the use of the key": at(KEY, "before", ""),
        "the flush of the signed file": at("os.fsync", "after", signed),
        "the intent": committed("output"),
        "the promotion": promoted,
        "the flush of the output folder": delivered,
        "the removal of the input": at("os.rename", "before", inbox),
        "the flush of the input folder": at("os.fsync", "after", inbox),
        "Completed": committed("Completed"),
        "the removal of the job's folder": at("os.rmdir", "before", "/processing/"),
    }
    assert list(order) == sorted(order, key=lambda name: order[name])


@pytest.mark.soak
@pytest.mark.parametrize("plan", [{}, {"kills_parent": True}, {"kills_parent": True, "pause_seconds": 0.4}])
@pytest.mark.parametrize("content", [PDF, XML, TEXT], ids=["pdf", "xml", "txt"])
@pytest.mark.parametrize("settings", [WORKERS, WORKERS | ENCRYPTED], ids=["clear", "encrypted"])
def test_every_call_of_a_signing_worker_is_survived(
    crash: Any, content: bytes, settings: dict[str, Any], plan: dict[str, Any]
) -> None:
    """BEY-51, PERF-06, ENC-02: as above, at every call that a worker makes."""
    lanes = crash.make_lanes(crash.Story("a worker", drops={"contract.pdf": content}, settings=settings))
    assert crash.die_everywhere(lanes, lanes[0].trace(plans_workers=True), plans_workers=True, **plan) == {}
