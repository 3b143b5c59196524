"""Policies, flavours and further signatures through a whole service (ICP-03, CFG-187 to CFG-197)."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from bulksigner.boot import lay_foundation
from bulksigner.contract.errors import ConfigurationRefused
from bulksigner.jobs.states import JobStatus
from bulksigner.testing.certificates import Authority
from bulksigner.testing.harness import Harness, prepare
from bulksigner.testing.verify import verify_cms_with_openssl, verify_pdf_with_pdfsig, verify_xml_with_xmlsec1

NFE = "http://www.portalfiscal.inf.br/nfe"
INVOICE = f'<NFe xmlns="{NFE}"><infNFe Id="NFe1"><a>1</a></infNFe></NFe>'.encode()
ESOCIAL = "http://www.esocial.gov.br/schema/evt/evtAdmissao/v1"
EVENT = f'<eSocial xmlns="{ESOCIAL}"><evtAdmissao Id="ID1"><a>1</a></evtAdmissao><b>1</b></eSocial>'.encode()
PROFILES: dict[str, Mapping[str, object]] = {
    "default": {},
    "further": {"Format": "Cades", "Cades:Existing": "Parallel"},
    "counter": {"Format": "Cades", "Cades:Existing": "Counter", "Policy": "B-B"},
    "invoices": {"Format": "Xades", "Xml:Flavor": "Nfe", "Xml:Sha1Until": "2999-12-31"},
    "events": {"Format": "Xades", "Xml:Placement": "ById", "Xml:SignElement": "evtAdmissao"},
    "closed": {"Format": "Xades", "Xml:Flavor": "Nfe", "Xml:Sha1Until": "2020-12-31"},
    "readers": {"Format": "Pades", "PadesFilter": "Etsi"},
    "older": {"Format": "Cades", "Policy": "AD-RB 2.3"},
}


@pytest.fixture
def make(tmp_path: Path, authority: Authority) -> Any:
    """Make a service with one folder for each profile; each certificate is of its own holder."""
    made: list[Harness] = []

    def run(names: list[str], **settings: object) -> Harness:
        keys: dict[str, object] = {}
        for number, name in enumerate(names):
            pfx = tmp_path / f"{name}.pfx"
            authority.issue().write_pfx(pfx, "senha de teste")
            keys |= {f"Storage:Inputs:{number}:{key}": value for key, value in (
                ("Name", name), ("Path", str(tmp_path / name)), ("Profile", name))}  # fmt: skip
            profile = {"Name": name, "Certificate:Source": "Pfx", "Certificate:Pfx:Path": str(pfx)}
            profile |= {"Certificate:Pfx:Password": "senha de teste", **PROFILES[name]}
            keys |= {f"Signing:Profiles:{number}:{key}": value for key, value in profile.items()}
        made.append(Harness(prepare(tmp_path / "service", settings=keys | settings)))
        return made[-1]

    yield run
    for harness in made:
        harness.close()


def test_each_kind_of_signature_leaves_the_service(
    make: Callable[..., Harness], authority: Authority, pdf_file: Any, require_tool: Any
) -> None:
    """CFG-188, CFG-190, BEY-13: what profiles ask for is made, checked, and accepted by others."""
    for tool, package in (("pdfsig", "poppler-utils"), ("certutil", "libnss3-tools"), ("xmlsec1", "xmlsec1")):
        require_tool(tool, package)
    harness = make(["default", "further", "counter", "invoices", "readers"])
    harness.drop("slip.bin", b"content of a slip", folder="default")
    [first] = harness.run_until_idle()
    assert first.status is JobStatus.COMPLETED, first.error_message
    arrived = harness.output("slip.bin.p7m").read_bytes()
    harness.drop("one.p7m", arrived, folder="further")
    harness.drop("two.p7m", arrived, folder="counter")
    harness.drop("plain.bin", b"not signed yet", folder="further")
    harness.drop("broken.p7m", b"no cms", folder="further")
    harness.drop("nota.xml", INVOICE, folder="invoices")
    harness.drop("contract.pdf", pdf_file(), folder="readers")
    jobs = {job.file_name: job for job in harness.run_until_idle()}
    broken = jobs.pop("broken.p7m")
    assert (broken.status, broken.error_code) == (JobStatus.FAILED, "sign.failed")
    assert {job.status for job in jobs.values()} == {JobStatus.COMPLETED}, [job.error_message for job in jobs.values()]
    names = ["contract.signed.pdf", "nota.signed.xml", "one.signed.p7m", "plain.bin.p7m", "slip.bin.p7m"]
    assert harness.outputs() == [*names, "two.signed.p7m"]
    roots = [authority.root_der]
    for name in ("one.signed.p7m", "two.signed.p7m", "plain.bin.p7m"):
        verdict = verify_cms_with_openssl(harness.output(name), roots)
        assert verdict, verdict.output
    assert verify_pdf_with_pdfsig(harness.output("contract.signed.pdf"), roots)
    assert b"#rsa-sha1" in harness.output("nota.signed.xml").read_bytes()
    # These signatures hold the certificate of the signer alone.
    issuers = [*roots, authority.intermediate.public_bytes(Encoding.DER)]
    verdict = verify_xml_with_xmlsec1(harness.output("nota.signed.xml"), issuers, id_attributes=[f"{NFE}:infNFe"])
    assert verdict, verdict.output


@pytest.mark.parametrize("engine", ["InProcess", "Processes"])
def test_one_element_is_signed_by_its_id(
    make: Callable[..., Harness], authority: Authority, require_tool: Any, engine: str
) -> None:
    """BEY-12, ICP-32: signed and checked in the engine, accepted by another; what is beside the element is not part."""
    require_tool("xmlsec1", "xmlsec1")
    harness = make(["events"], **{"Signing:Engine": engine})
    harness.drop("evento.xml", EVENT, folder="events")
    harness.drop("outro.xml", EVENT.replace(b"evtAdmissao", b"evtDeslig"), folder="events")
    jobs = {job.file_name: job for job in harness.run_until_idle()}
    refused = jobs["outro.xml"]
    assert (refused.status, refused.error_code) == (JobStatus.FAILED, "sign.failed")
    assert "no element evtAdmissao" in (refused.error_message or "")
    assert jobs["evento.xml"].status is JobStatus.COMPLETED, jobs["evento.xml"].error_message
    output = harness.output("evento.signed.xml")
    signed = output.read_bytes()
    assert signed.startswith(EVENT.removesuffix(b"</eSocial>"))
    for old, new, accepted in ((b"", b"", True), (b"<a>1", b"<a>2", False), (b"<b>1", b"<b>2", True)):
        output.write_bytes(signed.replace(old, new) if old else signed)
        verdict = verify_xml_with_xmlsec1(output, [authority.root_der], id_attributes=[f"{ESOCIAL}:evtAdmissao"])
        assert bool(verdict) is accepted, verdict.output


def test_a_file_is_judged_by_what_its_profile_signs(make: Callable[..., Harness]) -> None:
    """BEY-10: the verdict before a file is sent is that of its job, whatever the profile makes of it."""
    harness = make(["default", "further", "counter", "invoices", "closed", "events"])
    harness.drop("slip.bin", b"content of a slip", folder="default")
    [first] = harness.run_until_idle()
    assert first.status is JobStatus.COMPLETED, first.error_message
    signed = harness.output("slip.bin.p7m").read_bytes()
    files = {
        "further-good.p7m": ("further", signed),
        "further-none.p7m": ("further", b"no cms"),
        "further-plain.bin": ("further", b"not signed yet"),
        "counter-good.p7m": ("counter", signed),
        "counter-cut.p7m": ("counter", signed[:-1]),
        "invoice-good.xml": ("invoices", INVOICE),
        "invoice-no-id.xml": ("invoices", INVOICE.replace(b' Id="NFe1"', b"")),
        "invoice-twice.xml": ("invoices", INVOICE.replace(b"</infNFe>", b'</infNFe><infNFe Id="b"><a/></infNFe>')),
        "invoice-not.xml": ("invoices", b"<a>1</a>"),
        "closed.xml": ("closed", INVOICE),
        "event-good.xml": ("events", EVENT),
        "event-no-id.xml": ("events", EVENT.replace(b' Id="ID1"', b"")),
        "event-same-id.xml": ("events", EVENT.replace(b"<b>", b'<b id="ID1">')),
    }
    check = harness.service.file_check
    foretold = {
        name: check.receive(io.BytesIO(content), file_name=name, profile=profile, format=None)
        for name, (profile, content) in files.items()
    }
    for name, (profile, content) in files.items():
        harness.drop(name, content, folder=profile)
    harness.run_until_idle()
    jobs = [job for job in harness.jobs() if job.file_name in foretold]
    assert len(jobs) == len(foretold)
    for job in jobs:
        report = foretold[job.file_name]
        assert report.would_sign is (job.status is JobStatus.COMPLETED), (job.file_name, job.error_message, report)
        if not report.would_sign:
            [finding] = report.findings
            assert finding.code == job.error_code
            assert finding.text.rstrip(".") in (job.error_message or "")
    assert [name for name, report in foretold.items() if report.would_sign] == [
        "further-good.p7m",
        "further-plain.bin",
        "counter-good.p7m",
        "invoice-good.xml",
        "event-good.xml",
    ]


def test_what_is_over_signs_nothing(make: Callable[..., Harness]) -> None:
    """CFG-197, ICP-03: the exception has ended, so the job fails before its key is used, and a save mends it."""
    harness = make(["closed", "older"])
    (closed, older) = (harness.service.profiles.get(name) for name in ("closed", "older"))
    assert closed is not None
    assert older is not None
    assert "2020-12-31" in (closed.find_fault(datetime.datetime.now(datetime.UTC)) or "")
    assert older.find_fault(datetime.datetime.now(datetime.UTC)) is None
    assert older.rules is not None
    assert "valid on 2030" in (older.rules.find_fault(datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)) or "")
    harness.drop("nota.xml", INVOICE, folder="closed")
    [job] = harness.run_until_idle()
    assert (job.status, job.error_code) == (JobStatus.FAILED, "sign.policy-invalid")
    assert job.sign_call_started_at is None
    assert harness.outputs() == []


def test_a_folder_of_policies_that_is_wrong_refuses_the_start(tmp_path: Path, make: Callable[..., Harness]) -> None:
    """CFG-187: the folder and the file are named, with what to do."""
    folder = tmp_path / "policies"
    harness = make(["default"], **{"Signing:Policies:Path": str(folder)})
    with pytest.raises(ConfigurationRefused) as raised:
        lay_foundation(harness.environ, harness.folder)
    assert [failure.key for failure in raised.value.failures] == ["Signing:Policies:Path"]
    folder.mkdir()
    (folder / "PA_AD_RB_v9_9.der").write_bytes(b"junk")
    with pytest.raises(ConfigurationRefused, match=r"PA_AD_RB_v9_9\.der"):
        lay_foundation(harness.environ, harness.folder)


def test_a_version_that_is_none_is_not_imported(make: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch) -> None:
    """CFG-81, CFG-82: the first start names what the table has not, and nothing is stored."""
    monkeypatch.setitem(PROFILES, "older", {"Format": "Cades", "Policy": "AD-RB 7.7"})
    harness = make(["older"])
    with pytest.raises(ConfigurationRefused, match=r"no version 7\.7; known are 2\.4, 2\.3"):
        harness.service  # noqa: B018 - building it is the start
