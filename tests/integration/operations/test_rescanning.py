"""A rescan by a person takes what it finds, counts it, and is told of."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bulksigner.contract.errors import NotFound
from bulksigner.operations.people import Person
from bulksigner.records.errors import StoreFailed
from bulksigner.records.prepared import Prepared
from bulksigner.records.tables import EventRow

OPERATOR = Person("operator", "ApiKey")
FACTS = Prepared(EventRow.select(EventRow.facts))


def test_a_rescan_takes_canceled_and_failed_files_and_records_itself(desk: Any) -> None:
    """PIPE-100, SEC-76: the event has the person and the counts of each folder."""
    desk.failed("failed.rem")
    desk.operations.operator.cancel(desk.queued("canceled.rem").id, OPERATOR)
    desk.queued("active.rem")
    desk.drop("new.rem")
    report = desk.operations.rescanning.rescan(None, OPERATOR)
    assert (report.total("scanned"), report.total("enqueued"), report.total("already_active")) == (4, 3, 1)
    [event] = desk.events()
    assert event.event_type == "RescanCompleted"
    assert event.message == (
        "Rescan by operator completed: in 4 scanned, 3 enqueued, 1 already active, 0 already processed, 0 ignored, "
        "0 error(s)."
    )
    assert json.loads(desk.store.read(lambda: desk.store.execute(FACTS).rows)[0][0]) == {
        "actor": "operator",
        "scheme": "ApiKey",
        "folders": [
            {
                "name": "in",
                "unassigned": False,
                "scanned": 4,
                "enqueued": 3,
                "alreadyActive": 1,
                "ignored": 0,
                "errors": 0,
                "alreadyProcessed": 0,
            }
        ],
    }


def test_a_folder_that_cannot_be_listed_is_one_error(desk: Any) -> None:
    """PIPE-100: the call answers all the same."""
    desk.inbox.rmdir()
    report = desk.operations.rescanning.rescan("in", OPERATOR)
    assert (report.total("errors"), report.total("scanned")) == (1, 0)


def test_an_unknown_folder_records_nothing(desk: Any) -> None:
    """API-36: `folder.not-found`, and no event of something that was not done."""
    with pytest.raises(NotFound) as caught:
        desk.operations.rescanning.rescan("nowhere", OPERATOR)
    assert caught.value.code == "folder.not-found"
    assert desk.events() == []


def test_the_counts_outlive_an_event_that_cannot_be_written(
    desk: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """PIPE-100: jobs are made by then; the log says that the record is missing."""
    desk.drop("new.rem")

    def refuse(*_: object) -> None:
        raise StoreFailed("away")

    monkeypatch.setattr("bulksigner.operations.rescanning.write_event", refuse)
    assert desk.operations.rescanning.rescan(None, OPERATOR).total("enqueued") == 1
    assert any(record.levelname == "ERROR" and "not be recorded" in record.getMessage() for record in caplog.records)
