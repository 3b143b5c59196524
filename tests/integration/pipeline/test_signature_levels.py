"""Levels with a time stamp through a whole service on both engines, and what becomes of jobs without a stamp."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asn1crypto import tsp

from bulksigner.contract.errors import ConfigurationRefused
from bulksigner.jobs.model import utc_now
from bulksigner.jobs.states import JobStatus
from bulksigner.profiles.change import ProfileChange, ProfileRefused
from bulksigner.profiles.editor import ProfileEditor
from bulksigner.profiles.seal import Sealer
from bulksigner.profiles.store import ProfileStore
from bulksigner.testing.authority_server import AuthorityServer, make_timestamp_identity, running_authority
from bulksigner.testing.certificates import make_authority
from bulksigner.testing.harness import Harness
from bulksigner.testing.verify import verify_cms_with_openssl, verify_pdf_with_pyhanko, verify_xml_with_xmlsec1

ENGINES = ["InProcess", "Processes"]
POLICY = "Signing:Profiles:0:Policy"
URL, TIMEOUT = "Signing:Timestamps:0:Url", "Signing:Timestamps:0:TimeoutSeconds"


@pytest.fixture
def kit() -> Iterator[AuthorityServer]:
    with running_authority(make_authority("Carimbos")) as server:
        yield server


@pytest.fixture
def start(make_harness: Callable[..., Harness], kit: AuthorityServer) -> Callable[..., Harness]:
    """Make a service whose profile `default` is of a level, with the kit's time-stamp service and its root."""

    def make(policy: str = "AD-RT", engine: str = "InProcess", **settings: Any) -> Harness:
        given = {POLICY: policy, URL: kit.tsa_url, "Pipeline:MaxConcurrency": 2, **settings}
        return make_harness(issued=kit.authority.issue(), engine=engine, settings=given)

    return make


@pytest.mark.parametrize("policy", ["AD-RT", "B-T"])
@pytest.mark.parametrize("engine", ENGINES)
def test_files_leave_with_a_time_stamp(
    start: Any, kit: AuthorityServer, engine: str, policy: str, pdf_file: Any, require_tool: Any
) -> None:
    """ICP-03, ICP-30 to ICP-34: three formats, made and checked in the engine, accepted by others."""
    for tool, package in (("openssl", "openssl"), ("xmlsec1", "xmlsec1")):
        require_tool(tool, package)
    harness = start(policy, engine)
    harness.drop("slip.bin", b"content of a slip")
    harness.drop("nota.xml", b"<nota><a>1</a></nota>")
    harness.drop("contract.pdf", pdf_file())
    jobs = harness.run_until_idle()
    assert {job.status for job in jobs} == {JobStatus.COMPLETED}, [job.error_message for job in jobs]
    assert harness.outputs() == ["contract.signed.pdf", "nota.signed.xml", "slip.bin.p7m"]
    roots = [kit.authority.root_der]
    for verdict in (
        verify_cms_with_openssl(harness.output("slip.bin.p7m"), roots),
        verify_xml_with_xmlsec1(harness.output("nota.signed.xml"), roots),
        verify_pdf_with_pyhanko(harness.output("contract.signed.pdf"), roots),
    ):
        assert verdict, verdict.output
    assert b"<xades:SignatureTimeStamp>" in harness.output("nota.signed.xml").read_bytes()
    # One stamp for each file, and for each process one that tells how long they are.
    assert 4 <= kit.requests.count("/tsa") <= 6


def _go_silent(kit: AuthorityServer, over: threading.Event) -> None:
    def wait(response: bytes) -> bytes:
        over.wait(30)
        return response

    kit.doctor = wait


def _stamp_something_else(kit: AuthorityServer, over: threading.Event) -> None:
    def doctor(response: bytes) -> bytes:
        stamper, kit.doctor = kit.doctor, None
        try:
            imprint = {"hash_algorithm": {"algorithm": "sha256"}, "hashed_message": bytes(32)}
            nonce = tsp.TimeStampResp.load(response)["time_stamp_token"]["content"]["encap_content_info"]["content"]
            asked = {"version": 1, "message_imprint": imprint, "nonce": nonce.parsed["nonce"].native, "cert_req": True}
            return kit.stamp(tsp.TimeStampReq(asked).dump())
        finally:
            kit.doctor = stamper

    kit.doctor = doctor


def _break(kit: AuthorityServer, over: threading.Event) -> None:
    kit.broken.add("/tsa")


def _let_expire(kit: AuthorityServer, over: threading.Event) -> None:
    kit.stamps = make_timestamp_identity(kit.authority, is_over=True)


def _leave_usage_out(kit: AuthorityServer, over: threading.Event) -> None:
    kit.stamps = make_timestamp_identity(kit.authority, for_stamping=False)


TROUBLES = {
    "answers HTTP 503": _break,
    "did not (answer|end) within 1 s": _go_silent,
    "stamps something else": _stamp_something_else,
    "outside the validity": _let_expire,
    "not one for time stamps": _leave_usage_out,
}


@pytest.mark.parametrize(
    ("told", "engine"), [*((told, "InProcess") for told in TROUBLES), ("did not (answer|end) within 1 s", "Processes")]
)
def test_without_a_stamp_the_job_fails_with_its_code(start: Any, kit: AuthorityServer, told: str, engine: str) -> None:
    """PIPE-86, BEY-20: nothing is delivered, the input stays, and a person's retry is the only second signature."""
    over = threading.Event()
    harness = start("B-T", engine, **{TIMEOUT: 1, "Signing:EngineWorkers": 2})
    TROUBLES[told](kit, over)
    harness.drop("slip.bin", b"content of a slip")
    [job] = harness.run_until_idle()
    assert (job.status, job.error_code) == (JobStatus.FAILED, "sign.timestamp-failed"), job.error_message
    assert re.search(told, job.error_message or ""), job.error_message
    assert harness.outputs() == []
    assert (harness.input_folder() / "slip.bin").read_bytes() == b"content of a slip"
    over.set()
    assert [one.status for one in harness.run_until_idle()] == [JobStatus.FAILED]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_service_that_is_lost_after_the_key_was_used(
    start: Any, kit: AuthorityServer, engine: str, pdf_file: Any
) -> None:
    """PIPE-86, CLU-11: no restart signs again; a person's retry does, once the service answers."""
    harness = start("AD-RT", engine, **{"Signing:EngineWorkers": 1, "Pipeline:MaxConcurrency": 2})
    harness.drop("first.pdf", pdf_file())
    [first] = harness.run_until_idle()
    assert first.status is JobStatus.COMPLETED, first.error_message
    asked = len(kit.requests)
    kit.broken.add("/tsa")
    harness.drop("second.pdf", pdf_file())
    second = harness.run_until_idle()[-1]
    assert (second.status, second.error_code) == (JobStatus.FAILED, "sign.timestamp-failed"), second.error_message
    assert second.sign_call_started_at is not None
    assert len(kit.requests) > asked
    kit.broken.clear()
    asked = len(kit.requests)
    harness.restart()
    assert harness.run_until_idle()[-1].status is JobStatus.FAILED
    assert harness.outputs() == ["first.signed.pdf"]
    assert len(kit.requests) == asked
    harness.retry(second)
    again = harness.run_until_idle()[-1]
    assert again.status is JobStatus.COMPLETED, again.error_message
    assert harness.outputs() == ["first.signed.pdf", "second.signed.pdf"]


def test_the_next_service_is_asked(start: Any, kit: AuthorityServer) -> None:
    """BEY-20: services in their order; one that is down costs no job."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{closed.getsockname()[1]}/tsa"
        harness = start(**{URL: dead, "Signing:Timestamps:1:Url": kit.tsa_url})
        harness.drop("slip.bin", b"content of a slip")
        [job] = harness.run_until_idle()
    assert job.status is JobStatus.COMPLETED, job.error_message


def test_other_levels_ask_nobody(start: Any, kit: AuthorityServer) -> None:
    """PERF-06: a configured service is no cost to a level without a stamp."""
    harness = start("AD-RB")
    harness.drop("slip.bin", b"content of a slip")
    [job] = harness.run_until_idle()
    assert job.status is JobStatus.COMPLETED, job.error_message
    assert kit.requests == []


def _restart_with(harness: Harness, **changed: object) -> None:
    harness.close()
    keys = {**harness.keys, **changed}
    given = {key: value for key, value in keys.items() if value is not None}
    (harness.folder / "settings.json").write_text(json.dumps(given), encoding="utf-8")


def test_a_start_without_services_or_roots_is_refused(start: Any) -> None:
    """CFG-12, CFG-68: on the first boot nothing is stored; later the stored profiles are named."""
    for missing, told in (({URL: None}, "Signing:Timestamps names no service"), ({}, "ask for time stamps")):
        harness = start(**missing, **{"Signing:Profiles:0:ValidateCertificate": False})
        if not missing:
            (harness.folder / "trust" / "root.pem").unlink()
        with pytest.raises(ConfigurationRefused, match=told):
            harness.service  # noqa: B018
    harness = start()
    harness.service  # noqa: B018
    # A first boot reads profiles from the settings; what is stored is refused by itself.
    _restart_with(harness, **{URL: None, POLICY: None})
    with pytest.raises(ConfigurationRefused, match="names no service, and these profiles ask for time stamps: default"):
        harness.service  # noqa: B018


def test_a_profile_is_given_the_level_only_where_it_can_sign(start: Any) -> None:
    """CFG-81: at a save; each of the two that it needs is named, and what it cannot have is refused."""
    service = start("AD-RB").service

    def save(policy: str, *, has_roots: bool = True, has_timestamps: bool = True) -> Any:
        editor = ProfileEditor(
            ProfileStore(service.store),
            service.foundation.registry,
            Sealer(service.foundation.settings.core.signing.profile_secrets_key, lambda: b"salt"),
            {"inbox"},
            utc_now,
            lambda _: None,
            has_roots=has_roots,
            has_timestamps=has_timestamps,
        )
        return editor.edit("default", ProfileChange({"Policy": policy}), by="x")

    for policy, given, code, told in (
        ("AD-RT", {"has_timestamps": False}, "profile.invalid", "Signing:Timestamps names no service"),
        ("B-T", {"has_roots": False}, "profile.no-trust", "trusts no root"),
        ("AD-RC", {"has_timestamps": False}, "profile.invalid", "Signing:Timestamps names no service"),
        ("AD-RV", {"has_timestamps": False}, "profile.invalid", "Signing:Timestamps names no service"),
        ("B-LTA", {"has_roots": False}, "profile.no-trust", "trusts no root"),
    ):
        with pytest.raises(ProfileRefused) as refused:
            save(policy, **given)
        (objection,) = refused.value.objections
        assert (objection.code, objection.key) == (code, "Policy")
        assert told in objection.text
    assert save("AD-RT").profile.policy == "AD-RT"
