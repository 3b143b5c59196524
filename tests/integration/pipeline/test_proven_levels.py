"""Levels that prove themselves later through a whole service on both engines, and jobs whose proof is not to be had."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyhanko.pdf_utils.reader import PdfFileReader

from bulksigner.jobs.states import JobStatus
from bulksigner.testing.authority_server import AuthorityServer, running_authority
from bulksigner.testing.certificates import Issued, make_authority
from bulksigner.testing.harness import Harness
from bulksigner.testing.verify import verify_cms_with_openssl


@pytest.fixture
def kit() -> Iterator[AuthorityServer]:
    with running_authority(make_authority("Provas")) as server:
        yield server


@pytest.fixture
def issued(kit: AuthorityServer) -> Issued:
    """A signer whose certificate names the kit's list."""
    return kit.authority.issue(crl_url=kit.crl_url)


@pytest.fixture
def start(make_harness: Callable[..., Harness], kit: AuthorityServer, issued: Issued) -> Callable[..., Harness]:
    """Make a service whose profile `default` is of a level, with the kit's time stamps, list and root."""

    def make(policy: str, engine: str = "InProcess") -> Harness:
        given = {
            "Signing:Profiles:0:Policy": policy,
            "Signing:Timestamps:0:Url": kit.tsa_url,
            # What proves the signature is asked for itself.
            "Signing:Profiles:0:ValidateCertificate": False,
            "Signing:EngineWorkers": 2,
            "Pipeline:MaxConcurrency": 2,
        }
        return make_harness(issued=issued, engine=engine, settings=given)

    return make


@pytest.mark.parametrize("engine", ["InProcess", "Processes"])
@pytest.mark.parametrize("policy", ["AD-RC", "B-LTA"])
def test_files_leave_with_their_proof(
    start: Any, kit: AuthorityServer, engine: str, policy: str, pdf_file: Any, require_tool: Any
) -> None:
    """ICP-03, ICP-30 to ICP-34: made and checked in the engine, accepted by others; the list is fetched once."""
    require_tool("openssl", "openssl")
    harness = start(policy, engine)
    for number in range(3):
        harness.drop(f"slip{number}.bin", b"content of a slip %d" % number)
    harness.drop("contract.pdf", pdf_file())
    jobs = harness.run_until_idle()
    assert {job.status for job in jobs} == {JobStatus.COMPLETED}, [job.error_message for job in jobs]
    roots = [kit.authority.root_der]
    verdict = verify_cms_with_openssl(harness.output("slip0.bin.p7m"), roots)
    assert verdict, verdict.output
    with harness.output("contract.signed.pdf").open("rb") as stream:
        assert len(PdfFileReader(stream).embedded_timestamp_signatures) == 1
    assert b"/DSS" in harness.output("contract.signed.pdf").read_bytes()
    # At most once for each process that starts with nothing on disk.
    assert kit.requests.count("/list.crl") <= 3


def _fall_silent(kit: AuthorityServer, issued: Issued) -> None:
    kit.broken.add("/list.crl")


def _revoke(kit: AuthorityServer, issued: Issued) -> None:
    kit.revoked[issued.certificate.serial_number] = datetime.datetime.now(datetime.UTC)


@pytest.mark.parametrize(
    ("trouble", "code", "told"),
    [
        (_fall_silent, "sign.revocation-data-missing", "answers HTTP 503"),
        (_revoke, "sign.certificate-invalid", "was revoked"),
    ],
)
def test_a_file_without_proof_is_not_signed(
    start: Any, kit: AuthorityServer, issued: Issued, trouble: Any, code: str, told: str
) -> None:
    """BEY-20: said with its code before the key is used; nothing is delivered and the input stays."""
    harness = start("B-LT")
    trouble(kit, issued)
    harness.drop("slip.bin", b"content of a slip")
    (job,) = harness.run_until_idle()
    assert (job.status, job.error_code) == (JobStatus.FAILED, code), job.error_message
    assert told in str(job.error_message)
    assert harness.outputs() == []
    # The one stamp that tells how long they are; none over a signature.
    assert kit.requests.count("/tsa") <= 1
