"""The table of the state machine holds what the design promises of it."""

from __future__ import annotations

import pytest

from bulksigner.contract.errors import NotAllowed
from bulksigner.jobs.states import ACTIVE, BIRTHS, TERMINAL, TRANSITIONS, Actor, JobStatus, find_transition


def test_each_event_leads_to_one_place() -> None:
    """PIPE-06 to PIPE-28: from one status, an event stands in one row only."""
    pairs = [(source, row.event) for row in TRANSITIONS for source in row.sources]
    assert len(pairs) == len(set(pairs))


def test_every_status_is_reachable() -> None:
    """A status nobody can enter would be a row too many."""
    reached = set(BIRTHS.values())
    for _ in JobStatus:
        reached |= {row.target for row in TRANSITIONS if reached.intersection(row.sources)}
    assert reached == set(JobStatus)


def test_every_active_status_leads_to_an_end() -> None:
    """Each status that is not final reaches a final one in finitely many rows."""
    ending = set(TERMINAL)
    for _ in JobStatus:
        ending |= {source for row in TRANSITIONS for source in row.sources if row.target in ending}
    assert ending == set(JobStatus)


def test_final_statuses_have_no_way_out() -> None:
    """PIPE-31: Failed and Canceled never change, and neither does Completed."""
    assert not [row.event for row in TRANSITIONS if TERMINAL.intersection(row.sources)]
    assert frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELED}) == TERMINAL
    assert set(JobStatus) == ACTIVE | TERMINAL
    assert not ACTIVE & TERMINAL


def test_running_jobs_cannot_be_canceled() -> None:
    """PIPE-30: no operator and no approver moves a job in Processing or Verifying."""
    running = {JobStatus.PROCESSING, JobStatus.VERIFYING}
    people = {Actor.OPERATOR, Actor.APPROVER}
    assert not [row.event for row in TRANSITIONS if running.intersection(row.sources) and people & row.actors]


def test_a_parked_job_never_fails() -> None:
    """PIPE-29: AwaitingApproval ends by release or cancel only."""
    targets = {row.target for row in TRANSITIONS if JobStatus.AWAITING_APPROVAL in row.sources}
    assert targets == {JobStatus.QUEUED, JobStatus.CANCELED}


def test_wire_names_are_the_contract() -> None:
    """The values are stored and shown; they are never renamed."""
    assert [status.value for status in JobStatus] == [
        "Queued",
        "Processing",
        "Verifying",
        "AwaitingSigner",
        "AwaitingApproval",
        "Completed",
        "Failed",
        "Canceled",
    ]


def test_an_unknown_event_is_refused_with_what_is_allowed() -> None:
    """PIPE-109: the refusal names status, event and the events there are."""
    with pytest.raises(NotAllowed, match=r"Queued knows no event 'complete'; allowed: cancel, claim, veto\."):
        find_transition(JobStatus.QUEUED, "complete", Actor.WORKER)
    with pytest.raises(NotAllowed, match="none, it is final"):
        find_transition(JobStatus.FAILED, "claim", Actor.WORKER)


def test_the_wrong_actor_is_refused() -> None:
    """PIPE-109: an event belongs to its actors."""
    with pytest.raises(NotAllowed, match="belongs to: worker; not to: operator"):
        find_transition(JobStatus.QUEUED, "claim", Actor.OPERATOR)
