"""XAdES that proves itself, through a whole service on both engines with the kit's places on the network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bulksigner.jobs.states import JobStatus
from bulksigner.testing.authority_server import AuthorityServer, running_authority
from bulksigner.testing.certificates import make_authority
from bulksigner.testing.harness import Harness
from bulksigner.testing.verify import verify_xml_with_xmlsec1

LEVELS = {
    "AD-RV": "SigAndRefsTimeStamp",
    "AD-RC": "RevocationValues",
    "AD-RA": "xades:ArchiveTimeStamp",
    "B-LT": "RevocationValues",
    "B-LTA": "xades141:ArchiveTimeStamp",
}


@pytest.fixture
def kit() -> Iterator[AuthorityServer]:
    with running_authority(make_authority("Provas")) as server:
        yield server


@pytest.fixture
def start(make_harness: Callable[..., Harness], kit: AuthorityServer) -> Callable[..., Harness]:
    """Make a service whose profile `default` signs XAdES of a level, with the kit's services and its root."""

    def make(policy: str, engine: str, **settings: Any) -> Harness:
        given: dict[str, Any] = {
            "Signing:Profiles:0:Policy": policy,
            "Signing:Profiles:0:Format": "Xades",
            "Signing:Timestamps:0:Url": kit.tsa_url,
            "Pipeline:MaxConcurrency": 2,
            **settings,
        }
        issued = kit.authority.issue(crl_url=kit.crl_url, ocsp_url=kit.ocsp_url)
        return make_harness(issued=issued, engine=engine, settings=given)

    return make


@pytest.mark.parametrize(
    ("policy", "engine"),
    [*((policy, "InProcess") for policy in LEVELS), ("AD-RA", "Processes"), ("B-LTA", "Processes")],
)
def test_files_leave_with_their_proof(
    start: Any, kit: AuthorityServer, policy: str, engine: str, require_tool: Any
) -> None:
    """ICP-03, ICP-32 to ICP-34: made and checked in the engine, accepted by others; nothing is asked per file."""
    require_tool("xmlsec1", "xmlsec1")
    harness = start(policy, engine)
    for number in range(3):
        harness.drop(f"{number}.xml", f"<nota>\r\n<a>{number}</a></nota>".encode())
    jobs = harness.run_until_idle()
    assert {job.status for job in jobs} == {JobStatus.COMPLETED}, [job.error_message for job in jobs]
    for number in range(3):
        file = harness.output(f"{number}.signed.xml")
        verdict = verify_xml_with_xmlsec1(file, [kit.authority.root_der])
        assert verdict, verdict.output
        assert LEVELS[policy].encode() in file.read_bytes()
    assert kit.requests.count("/ocsp") + kit.requests.count("/list.crl") < 3 * len(jobs)


@pytest.mark.parametrize("engine", ["InProcess", "Processes"])
def test_without_revocation_data_the_job_fails_before_the_key(start: Any, kit: AuthorityServer, engine: str) -> None:
    """PIPE-86, BEY-20: nothing is delivered, the input stays, and its code says what was missing."""
    harness = start("B-LT", engine, **{"Signing:Profiles:0:ValidateCertificate": False})
    kit.broken.update({"/ocsp", "/list.crl"})
    harness.drop("nota.xml", b"<nota><a>1</a></nota>")
    [job] = harness.run_until_idle()
    assert (job.status, job.error_code) == (JobStatus.FAILED, "sign.revocation-data-missing"), job.error_message
    assert harness.outputs() == []
    assert (harness.input_folder() / "nota.xml").read_bytes() == b"<nota><a>1</a></nota>"
