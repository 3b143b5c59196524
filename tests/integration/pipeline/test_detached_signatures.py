"""CAdES signatures beside their content, through a whole service on both engines (BEY-12, PIPE-82, PIPE-85)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from bulksigner.audit.accounts import Audit, Period, run_audit
from bulksigner.contract.errors import ConfigurationRefused, StepFailed
from bulksigner.contract.signing import Measured
from bulksigner.files import durable
from bulksigner.jobs.states import JobStatus
from bulksigner.operations.people import Person
from bulksigner.pipeline.tasks import Companion, DeliverTask, deliver_here
from bulksigner.testing.certificates import Authority
from bulksigner.testing.harness import Harness, prepare
from bulksigner.testing.verify import verify_cms_with_openssl

CONTENT = b"what is signed, and delivered as it came"
DETACHED = {
    "Storage:Inputs:0:Profile": "beside",
    "Signing:Profiles:0:Name": "beside",
    "Signing:Profiles:0:Format": "Cades",
    "Signing:Profiles:0:Cades:Content": "Detached",
}
XADES = {
    "Signing:Profiles:0:Format": "Xades",
    "Signing:Profiles:0:Cades:Content": "Attached",
    "Signing:Profiles:0:Xml:Placement": "Detached",
}
ENCRYPTION = {
    "Encryption:Enabled": True,
    "Encryption:Password": "correct horse battery staple",
    "Encryption:Salt": "AAECAwQFBgcICQoLDA0ODw==",
    "Encryption:Iterations": 10_000,
}


@pytest.fixture
def make(tmp_path: Path, authority: Authority) -> Any:
    """Make a service whose one profile leaves the content out."""
    made: list[Harness] = []

    def run(engine: str = "InProcess", settings: Mapping[str, object] | None = None) -> Harness:
        folder = prepare(
            tmp_path / "service", issued=authority.issue(), engine=engine, settings=DETACHED | dict(settings or {})
        )
        made.append(Harness(folder))
        return made[-1]

    yield run
    for harness in made:
        harness.close()


@pytest.mark.parametrize("engine", ["InProcess", "Processes"])
@pytest.mark.parametrize(("pem", "name"), [(False, "slip.bin.p7s"), (True, "slip.bin.pem")], ids=["der", "pem"])
def test_content_and_signature_leave_together(
    make: Callable[..., Harness], authority: Authority, engine: str, pem: bool, name: str
) -> None:
    """BEY-12, PIPE-89: the content as it came, its signature beside it, and OpenSSL accepts the two; the input goes."""
    harness = make(engine, {"Signing:Profiles:0:SaveAsPem": pem})
    harness.drop("slip.bin", CONTENT)
    [job] = harness.run_until_idle()
    assert job.status is JobStatus.COMPLETED, job.error_message
    assert harness.outputs() == ["slip.bin", name]
    content, signature = harness.output("slip.bin"), harness.output(name)
    assert content.read_bytes() == CONTENT
    assert CONTENT not in signature.read_bytes()
    assert (job.output_path, job.companion_path) == (str(signature), str(content))
    verdict = verify_cms_with_openssl(signature, [authority.root_der], content=content, pem=pem)
    assert verdict, verdict.output
    content.write_bytes(CONTENT + b".")
    assert not verify_cms_with_openssl(signature, [authority.root_der], content=content, pem=pem)
    assert not (harness.folder / "inbox" / "slip.bin").exists()


@pytest.mark.parametrize("engine", ["InProcess", "Processes"])
def test_a_xades_signature_leaves_beside_a_file_of_any_kind(
    make: Callable[..., Harness], authority: Authority, engine: str, require_tool: Callable[[str, str], str]
) -> None:
    """BEY-12, PIPE-89: content as it came, signature beside it, each file under its own name; xmlsec1 accepts both."""
    harness = make(engine, XADES)
    contents = {"slip one.bin": CONTENT, "nota.xml": b"<a/>"}
    for name, content in contents.items():
        harness.drop(name, content)
    jobs = harness.run_until_idle()
    assert {job.status for job in jobs} == {JobStatus.COMPLETED}, [job.error_message for job in jobs]
    assert harness.outputs() == sorted([*contents, *(f"{name}.signature.xml" for name in contents)])
    folder = harness.output("nota.xml").parent
    (harness.folder / "root.pem").write_bytes(
        x509.load_der_x509_certificate(authority.root_der).public_bytes(Encoding.PEM)
    )
    for name, content in contents.items():
        assert harness.output(name).read_bytes() == content
        command = [require_tool("xmlsec1", "xmlsec1"), "--verify", "--trusted-pem", harness.folder / "root.pem"]
        command += ["--id-attr:Id", "http://uri.etsi.org/01903/v1.3.2#:SignedProperties", f"{name}.signature.xml"]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"Encrypt": True}, "Encrypt.*does not go with Xml:Placement Detached"),
        ({"Policy": "B-LT"}, "Policy.*is not put beside a file"),
        ({"Xml:Flavor": "Nfe"}, "Xml:Placement.*has its signature in the document"),
        ({"Xml:SignElement": "a"}, "Xml:SignElement.*needs Xml:Placement ById"),
    ],
)
def test_what_does_not_go_beside_a_file_is_refused(
    make: Callable[..., Harness], more: Mapping[str, object], text: str
) -> None:
    """CFG-82: refused at boot, by name."""
    given = {f"Signing:Profiles:0:{key}": value for key, value in more.items()}
    with pytest.raises(ConfigurationRefused, match=text):
        _ = make(settings=XADES | given | ENCRYPTION).service


@pytest.mark.parametrize("taken", ["slip.bin", "slip.bin.p7s"])
def test_a_taken_name_of_either_delivers_none(make: Callable[..., Harness], taken: str) -> None:
    """PIPE-82, PIPE-86: nothing is overwritten, nothing half is left, the input stays, and the text names the place."""
    harness = make()
    (harness.root / "output").mkdir(parents=True, exist_ok=True)
    # The same content, so that a hash alone would call it this job's.
    (harness.root / "output" / taken).write_bytes(CONTENT)
    harness.drop("slip.bin", CONTENT)
    [job] = harness.run_until_idle()
    assert (job.status, job.error_code) == (JobStatus.FAILED, "promote.output-exists")
    assert str(harness.output(taken)) in (job.error_message or "")
    assert (job.output_path, job.companion_path) == (None, None)
    assert harness.outputs() == [taken]
    assert (harness.folder / "inbox" / "slip.bin").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("Encrypt", True),
        ("PreserveFileExtension", True),
        ("Cades:Existing", "Parallel"),
        ("CrossCheck:0", "openssl cms"),
    ],
)
def test_what_does_not_go_with_it_is_refused(make: Callable[..., Harness], key: str, value: object) -> None:
    """CFG-82: refused at boot, by name."""
    with pytest.raises(
        ConfigurationRefused, match=f"{key.removesuffix(':0')}.*does not go with Cades:Content Detached"
    ):
        _ = make(settings={f"Signing:Profiles:0:{key}": value, **ENCRYPTION}).service


@pytest.fixture
def pair(tmp_path: Path) -> DeliverTask:
    """Return a task that delivers a signature and its content."""
    (tmp_path / "job").mkdir()
    (tmp_path / "output").mkdir()
    signed, staged = tmp_path / "job" / "a.p7s", tmp_path / "job" / "a"
    signed.write_bytes(b"signature")
    staged.write_bytes(CONTENT)
    companion = Companion(staged, tmp_path / "output" / "a", durable.measure(staged))
    return DeliverTask(signed, tmp_path / "output" / "a.p7s", None, companion)


def test_a_task_begun_anew_ends_what_a_lost_worker_began(pair: DeliverTask) -> None:
    """PERF-06: the content may have gone already; it is not missed, and the signature follows."""
    assert pair.companion is not None
    durable.promote(pair.companion.staged, pair.companion.target)
    deliver_here(pair)
    assert pair.companion.target.read_bytes() == CONTENT
    assert pair.output.read_bytes() == b"signature"


def test_content_that_is_not_what_was_signed_is_not_delivered(pair: DeliverTask) -> None:
    """BEY-01: the copy is read once more before it leaves."""
    assert pair.companion is not None
    other = attrs.evolve(pair.companion, measured=Measured(len(CONTENT), bytes(32)))
    with pytest.raises(StepFailed, match="not the content that was signed"):
        deliver_here(attrs.evolve(pair, companion=other))
    assert list(pair.output.parent.iterdir()) == []


def test_content_goes_back_where_the_signature_cannot_follow(
    pair: DeliverTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-82: a name that is taken between the look and the move."""
    promote = durable.promote

    def race(source: Path, target: Path) -> None:
        if source == pair.signed:
            target.write_bytes(b"another's")
        promote(source, target)

    monkeypatch.setattr(durable, "promote", race)
    with pytest.raises(StepFailed, match="already exists") as caught:
        deliver_here(pair)
    assert str(pair.output) in caught.value.message
    assert pair.companion is not None
    assert pair.companion.staged.read_bytes() == CONTENT
    assert [path.name for path in pair.output.parent.iterdir()] == ["a.p7s"]


def test_a_deleted_job_takes_both_with_it(make: Callable[..., Harness]) -> None:
    """PIPE-101: the signature and its content go, each named; content whose signature was collected stays."""
    harness = make()
    for name in ("one.bin", "two.bin"):
        harness.drop(name, CONTENT)
    jobs = {job.file_name: job for job in harness.run_until_idle()}
    harness.output("two.bin.p7s").unlink()
    person = Person("operator", "ApiKey")
    deletion = harness.service.operations.deletion
    gone = deletion.delete(jobs["one.bin"].id, person)
    assert f"content {harness.root / 'output' / 'one.bin'}" in gone.removed
    kept = deletion.delete(jobs["two.bin"].id, person)
    assert [one.item for one in kept.kept] == [f"content {harness.root / 'output' / 'two.bin'}"]
    assert harness.outputs() == ["two.bin"]


def test_both_files_have_a_job_and_go_when_jobs_are_cleared(make: Callable[..., Harness]) -> None:
    """BEY-50, PIPE-103: an audit finds nothing unaccounted, a clear leaves neither."""
    harness = make()
    harness.drop("slip.bin", CONTENT)
    harness.run_until_idle()
    service = harness.service
    found = run_audit(Audit(service.store, service.folders, service.roots, False), Period())
    assert found.unaccounted == ()
    cleared = service.operations.clearing.clear(Person("operator", "ApiKey"))
    assert (cleared.files, cleared.items_failed) == (2, 0)
    assert harness.outputs() == []
