"""The check of a certificate before signing: chain, usage, revocation, and how long a verdict counts."""

from __future__ import annotations

import datetime
import os
import threading

import pytest

from bulksigner.formats.chain import ChainProblem
from bulksigner.testing.certificates import make_authority
from bulksigner.testing.fakes import MemoryKey

HOUR = datetime.timedelta(hours=1)


def judge(validation, issued_or_key, require=True):
    key = issued_or_key if hasattr(issued_or_key, "sign") else MemoryKey(issued_or_key)
    return validation.judge(key, require_non_repudiation=require)


@pytest.mark.parametrize(("crl", "ocsp"), [(True, False), (False, True), (True, True)])
def test_a_good_certificate_passes_by_list_and_by_answer(trust_bench, crl, ocsp) -> None:
    """CFG-92: an answer of OCSP makes the list needless."""
    verdict = judge(trust_bench.validation(), trust_bench.issue(crl=crl, ocsp=ocsp))
    assert (verdict.refused, verdict.path_length) == (None, 3)
    assert trust_bench.kit.requests == (["/ocsp"] if ocsp else ["/list.crl"])


@pytest.mark.parametrize("ocsp", [False, True])
def test_a_revoked_certificate_is_refused_with_the_day(trust_bench, ocsp) -> None:
    """CFG-92, OPS-117, SEC-59: the reason, the serial number, and no CPF in it."""
    issued = trust_bench.issue(crl=not ocsp, ocsp=ocsp)
    at = datetime.datetime(2026, 2, 3, 4, 5, tzinfo=datetime.UTC)
    trust_bench.kit.revoked[issued.certificate.serial_number] = at
    validation = trust_bench.validation()
    verdict = judge(validation, issued)
    assert verdict.problem is ChainProblem.REVOKED
    assert "revoked at 2026-02-03 04:05 UTC" in verdict.refused
    assert f"{issued.certificate.serial_number:X}" in verdict.refused
    assert "12345678909" not in verdict.refused


def test_an_unknown_issuer_is_refused_and_nothing_is_fetched(trust_bench) -> None:
    """CFG-68: addresses are taken from certificates of trusted authorities only."""
    stranger = make_authority("Estranha").issue(crl_url=trust_bench.kit.crl_url)
    verdict = judge(trust_bench.validation(), stranger)
    assert verdict.problem is ChainProblem.UNKNOWN_ISSUER
    assert trust_bench.kit.requests == []


def test_a_chain_is_completed_from_the_folder(trust_bench, bare_key) -> None:
    """ICP-25: PKCS #12 files often lack the intermediates."""
    issued = trust_bench.issue()
    assert judge(trust_bench.validation(), bare_key(issued)).problem is ChainProblem.UNKNOWN_ISSUER
    issued.write_issuers_pem(trust_bench.roots / "all.pem")
    assert judge(trust_bench.validation(), bare_key(issued)).refused is None


def test_an_end_is_refused_whichever_certificate_it_is_of(trust_bench) -> None:
    """BEY-21: by the clock of the check."""
    trust_bench.clock.ahead = datetime.timedelta(days=366)
    verdict = judge(trust_bench.validation(), trust_bench.issue(crl=False))
    assert verdict.problem is ChainProblem.OUTSIDE_VALIDITY


def test_the_key_usage_is_asked_for_as_the_profile_says(trust_bench) -> None:
    """CFG-189, ICP-24: a key that may sign nothing is refused either way."""
    issued = trust_bench.issue(crl=False, for_signing=False)
    for require in (True, False):
        assert judge(trust_bench.validation(), issued, require).problem is ChainProblem.KEY_USAGE
    assert "RequireNonRepudiation" in judge(trust_bench.validation(), issued, True).refused


def test_a_list_that_cannot_be_had_refuses_and_names_the_address(trust_bench) -> None:
    """OPS-117: list not obtainable, and why."""
    trust_bench.kit.broken.add("/list.crl")
    verdict = judge(trust_bench.validation(), trust_bench.issue())
    assert verdict.problem is ChainProblem.NOT_OBTAINABLE
    assert f"{trust_bench.kit.crl_url} answers HTTP 503" in verdict.refused


def test_a_responder_that_fails_is_made_up_for_by_the_list(trust_bench) -> None:
    """CFG-92: one of the two is enough."""
    trust_bench.kit.broken.add("/ocsp")
    assert judge(trust_bench.validation(), trust_bench.issue(ocsp=True)).refused is None
    assert trust_bench.kit.requests == ["/ocsp", "/list.crl"]


def test_a_list_of_somebody_else_is_no_evidence(trust_bench) -> None:
    """RFC 5280 6.3: the list must be signed by the issuer."""
    issued = trust_bench.issue()
    trust_bench.kit.authority = make_authority("Impostora")
    verdict = judge(trust_bench.validation(), issued)
    assert verdict.problem is ChainProblem.NOT_OBTAINABLE


def test_a_list_past_its_end_is_no_evidence(trust_bench) -> None:
    """RFC 5280 5.1.2.5."""
    trust_bench.kit.lists_end = -HOUR
    verdict = judge(trust_bench.validation(), trust_bench.issue())
    assert verdict.problem is ChainProblem.NOT_OBTAINABLE
    assert "no fresh list" in verdict.refused


def test_a_verdict_counts_for_a_while_and_then_is_made_anew(trust_bench) -> None:
    """PERF: no job pays for the check; a revocation is seen at the next one."""
    validation, issued = trust_bench.validation(), trust_bench.issue()
    key = MemoryKey(issued)
    assert judge(validation, key).refused is None
    trust_bench.kit.revoked[issued.certificate.serial_number] = datetime.datetime.now(datetime.UTC)
    assert validation.known(key, require_non_repudiation=True).refused is None
    assert judge(validation, key).refused is None
    assert len(trust_bench.kit.requests) == 1
    trust_bench.clock.ahead = HOUR
    assert validation.known(key, require_non_repudiation=True) is None
    assert judge(validation, key).problem is ChainProblem.REVOKED


def test_a_verdict_ends_with_its_evidence(trust_bench) -> None:
    """A list that ends in a minute makes no verdict of an hour."""
    trust_bench.kit.lists_end = datetime.timedelta(minutes=1)
    verdict = judge(trust_bench.validation(), trust_bench.issue())
    assert verdict.until - trust_bench.clock() <= datetime.timedelta(minutes=1)


def test_a_list_kept_on_disk_outlasts_a_failure_until_its_end(trust_bench) -> None:
    """Revocation goes on to be known while the authority is away, across restarts."""
    issued = trust_bench.issue()
    assert judge(trust_bench.validation(), issued).refused is None
    trust_bench.kit.broken.add("/list.crl")
    trust_bench.clock.ahead = 2 * HOUR
    assert judge(trust_bench.validation(), issued).refused is None
    assert trust_bench.kit.requests == ["/list.crl"] * 2
    trust_bench.clock.ahead = 25 * HOUR
    assert judge(trust_bench.validation(), issued).problem is ChainProblem.NOT_OBTAINABLE


def test_what_is_damaged_on_disk_is_fetched_anew(trust_bench) -> None:
    """A file of the cache is no reason to refuse."""
    issued = trust_bench.issue()
    assert judge(trust_bench.validation(), issued).refused is None
    (kept,) = trust_bench.cache.iterdir()
    kept.write_bytes(kept.read_bytes()[:-1] + b"\0")
    assert judge(trust_bench.validation(), issued).refused is None
    assert len(trust_bench.kit.requests) == 2


def test_offline_takes_the_lists_of_the_operator_and_asks_nobody(trust_bench, tmp_path) -> None:
    """SEC-04: no connection is opened; the refusal says which switch forbids it."""
    issued, lists = trust_bench.issue(), tmp_path / "lists"
    lists.mkdir()
    offline = {"offline": True, "lists_folder": lists}
    verdict = judge(trust_bench.validation(**offline), issued)
    assert verdict.problem is ChainProblem.NOT_OBTAINABLE
    assert "Signing:Trust:Offline" in verdict.refused
    (lists / "ac.crl").write_bytes(trust_bench.kit.make_list())
    assert judge(trust_bench.validation(**offline), issued).refused is None
    assert trust_bench.kit.requests == []


def test_old_evidence_leaves_the_disk(trust_bench) -> None:
    """The cache does not grow for ever."""
    judge(trust_bench.validation(), trust_bench.issue())
    (kept,) = trust_bench.cache.iterdir()
    os.utime(kept, (0, 0))
    trust_bench.validation().prune()
    assert list(trust_bench.cache.iterdir()) == []


def test_of_many_that_ask_at_once_one_fetches(trust_bench) -> None:
    """PIPE-67: sixteen jobs begin together, and the authority hears of it once."""
    validation, key = trust_bench.validation(), MemoryKey(trust_bench.issue())
    verdicts = []
    threads = [threading.Thread(target=lambda: verdicts.append(judge(validation, key))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [verdict.refused for verdict in verdicts] == [None] * 16
    assert trust_bench.kit.requests == ["/list.crl"]
