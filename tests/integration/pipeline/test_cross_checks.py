"""Second engines through a whole service: real ones on real signatures, and programs that misbehave (BEY-02)."""

from __future__ import annotations

import stat
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from pyhanko.pdf_utils.generic import DictionaryObject
from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter

from bulksigner.contract.errors import ConfigurationRefused
from bulksigner.contract.signing import Format
from bulksigner.jobs.states import JobStatus
from bulksigner.pipeline import cross_checking
from bulksigner.pipeline.cross_checking import Subject, ask_engine
from bulksigner.settings.cross_check import read_engine
from bulksigner.testing.certificates import Authority, KeyKind
from bulksigner.testing.harness import Harness, prepare
from bulksigner.testing.lives import Life, live

NFE = "http://www.portalfiscal.inf.br/nfe"
INVOICE = f'<NFe xmlns="{NFE}"><infNFe Id="NFe1"><a>1</a></infNFe></NFe>'.encode()
ELEMENT = {"Format": "Xades", "Xml:Placement": "ById", "Xml:SignElement": "evt", "CrossCheck:0": "xmlsec1"}
ENCRYPTED = {
    "Encryption:Enabled": True,
    "Encryption:Password": "correct horse battery staple",
    "Encryption:Salt": "AAECAwQFBgcICQoLDA0ODw==",
    "Encryption:Iterations": 10_000,
}


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str, str], str]:
    """Write an executable of a name in Python; returns its path."""

    def write(name: str, body: str) -> str:
        path = tmp_path / name
        path.write_text(f"#!{sys.executable}\nimport os, sys, time\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return write


BOTH_ENGINES = pytest.mark.parametrize("make", ["InProcess", "Processes"], indirect=True)


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path, authority: Authority) -> Any:
    """Make a service with one profile that has these keys."""
    placement = getattr(request, "param", "InProcess")
    made: list[Harness] = []

    def run(profile: Mapping[str, object], settings: Mapping[str, object] | None = None) -> Harness:
        keys = {f"Signing:Profiles:0:{key}": value for key, value in profile.items()} | dict(settings or {})
        folder = prepare(tmp_path / f"service-{len(made)}", settings=keys, engine=placement, issued=authority.issue())
        made.append(Harness(folder))
        return made[-1]

    yield run
    for harness in made:
        harness.close()


def set_limit(harness: Harness, seconds: float) -> None:
    worker = harness.service.worker
    worker._parts = attrs.evolve(worker._parts, cross_check_limit_seconds=seconds)


def lines(harness: Harness, job: Any) -> list[str]:
    return [entry.message for entry in harness.history(job) if entry.message.startswith("Cross-check")]


@BOTH_ENGINES
@pytest.mark.parametrize(
    ("profile", "name", "output", "content"),
    [
        ({"Format": "Pades", "PadesFilter": "Etsi", "CrossCheck:0": "pdfsig"}, "a.pdf", "a.signed.pdf", None),
        ({"Format": "Cades", "CrossCheck:0": "OpenSSL  cms"}, "a.bin", "a.bin.p7m", b"content"),
        ({"Format": "Cades", "SaveAsPem": True, "CrossCheck:0": "openssl cms"}, "a.bin", "a.bin.pem", b"content"),
        ({"Format": "Xades", "CrossCheck:0": "xmlsec1"}, "a.xml", "a.signed.xml", b"<a><b/></a>"),
        ({"Format": "Xades", "Xml:Flavor": "Nfe", "CrossCheck:0": "xmlsec1"}, "a.xml", "a.signed.xml", INVOICE),
        (ELEMENT, "a.xml", "a.signed.xml", b'<a><evt id="e"><b/></evt></a>'),
    ],
    ids=["pdfsig", "openssl", "openssl-pem", "xmlsec1-xades", "xmlsec1-nfe", "xmlsec1-element"],
)
def test_real_engines_judge_real_signatures(
    make: Any, require_tool: Any, pdf_file: Any, tmp_path: Path, profile: Any, name: str, output: str, content: Any
) -> None:
    """BEY-02, ENC-01: each accepts what we made, is named with its version, and refuses the same file altered."""
    engine = read_engine(str(profile["CrossCheck:0"]))
    assert engine.format is not None
    require_tool(engine.program, {"pdfsig": "poppler-utils"}.get(engine.program, engine.program))
    harness = make(profile)
    harness.drop(name, content or pdf_file())
    [job] = harness.run_until_idle()
    assert job.status is JobStatus.COMPLETED, job.error_message
    [line] = lines(harness, job)
    assert line.startswith(f"Cross-check: {engine.name} ")
    assert line.endswith(" accepts it")
    assert any(letter.isdigit() for letter in line.removeprefix(f"Cross-check: {engine.name}"))
    assert harness.outputs() == [output]
    altered = bytearray(harness.output(output).read_bytes())
    # A letter within a text or a name, the middle of a page, and the signature value, which ends the file.
    places = {Format.XADES: max(altered.find(b"<b/>"), altered.find(b">1<")) + 1, Format.PADES: 300, Format.CADES: -40}
    place = places[engine.format]
    altered[place] = ord("A") if altered[place] != ord("A") else ord("B")
    (tmp_path / "altered").write_bytes(altered)
    home = tmp_path / "home"
    home.mkdir()
    for file, accepts in ((harness.output(output), True), (tmp_path / "altered", False)):
        is_pem, is_plain = output.endswith("pem"), "Xml:Flavor" in profile
        element = str(profile.get("Xml:SignElement", ""))
        opinion = ask_engine(engine, Subject(file, file, engine.format, is_pem, is_plain, element), home, 30)
        assert opinion.accepts is accepts, opinion


def test_only_the_engines_of_a_format_are_asked_and_on_clear_bytes(make: Any, require_tool: Any, program: Any) -> None:
    """BEY-02, ENC-01: a profile that goes by extension; what leaves is an envelope, what was judged is not."""
    require_tool("openssl", "openssl")
    judge = "sys.exit(open(sys.argv[1], 'rb').read(1) != b'0' or open(sys.argv[2]).read() != 'clear')"
    look = program("look.py", judge)
    harness = make(
        {"Encrypt": True, "CrossCheck:0": "xmlsec1", "CrossCheck:1": "openssl cms",
         "CrossCheck:2": f"{look} {{file}} '{{original}}' --as={{format}}"},
        ENCRYPTED,
    )  # fmt: skip
    harness.drop("a b'c.bin", b"clear")
    [job] = harness.run_until_idle()
    assert job.status is JobStatus.COMPLETED, job.error_message
    [line] = lines(harness, job)
    assert "xmlsec1" not in line
    assert "openssl cms " in line
    assert "look.py (SHA-256 " in line
    assert harness.outputs() == ["a b'c.bin.p7m.enc"]


NO = "print('the seal is broken'); sys.exit(3)"
HANGS = (
    "import subprocess; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "open(os.path.dirname(sys.argv[0]) + '/pids', 'w').write(f'{os.getpid()} {child.pid}'); time.sleep(600)"
)
FLOODS = "while True: sys.stdout.write('x' * 65536)"
CHANGES = "open(sys.argv[1], 'ab').write(b'more')"
DIES = "import signal; os.kill(os.getpid(), signal.SIGSEGV)"


@pytest.mark.parametrize(
    ("body", "code", "word"),
    [
        (NO, "verify.engines-disagree", "refuses it: exit code 3: the seal is broken"),
        (HANGS, "verify.failed", "gave no answer within 1.5 s"),
        (FLOODS, "verify.failed", "printed more than 256 KiB"),
        (CHANGES, "verify.failed", "has changed it"),
        (DIES, "verify.failed", "ended by signal 11"),
        (None, "verify.failed", "no program that this account may run"),
    ],
    ids=["no", "hangs", "floods", "changes", "dies", "missing"],
)
def test_a_program_that_does_not_accept_fails_the_job(
    make: Any, program: Any, tmp_path: Path, body: str | None, code: str, word: str
) -> None:
    """BEY-02: nothing is delivered, the reason says which engine and why, and all that it started is gone."""
    path = program("judge.py", body or "")
    harness = make({"Format": "Cades", "CrossCheck:0": f"{path} {{file}}"})
    set_limit(harness, 1.5 if body is HANGS else 30)
    if body is None:
        Path(path).unlink()
    harness.drop("a.bin", b"content")
    [job] = harness.run_until_idle()
    assert (job.status, job.error_code) == (JobStatus.FAILED, code)
    assert word in job.error_message
    assert harness.outputs() == []
    assert (harness.root / "error" / job.id / "a.bin.p7m").is_file()
    assert not list((harness.root / "error" / job.id).glob(".cross-check-*"))
    if code == "verify.engines-disagree":
        assert "Our own check accepts the signed file" in job.error_message
    if body is HANGS:
        for pid in (tmp_path / "pids").read_text().split():
            assert is_gone(int(pid))


def is_gone(pid: int) -> bool:
    """Wait until a process that was killed is reaped, or is a zombie of somebody else's."""
    ends_at = time.monotonic() + 10
    while time.monotonic() < ends_at:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


@BOTH_ENGINES
def test_a_hung_engine_holds_no_other_job(make: Any, program: Any, tmp_path: Path) -> None:
    """BEY-02, PIPE-67: the conductor leads other jobs to their end while a program hangs over one."""
    path = program(
        "wait.py",
        "from pathlib import Path\nhere = Path(sys.argv[0]).parent\n"
        "if 'slow' in sys.argv[1]:\n    (here / 'entered').touch()\n"
        "    while not (here / 'go').exists(): time.sleep(0.02)",
    )
    harness = make({"Format": "Cades", "CrossCheck:0": f"{path} {{file}}"}, {"Pipeline:MaxConcurrency": 2})
    service = harness.service
    service.worker.start()
    harness.upload("slow.bin", b"slow")
    wait_for((tmp_path / "entered").exists)
    harness.upload("quick.bin", b"quick")
    wait_for(lambda: harness.output("quick.bin.p7m").exists())
    assert not harness.output("slow.bin.p7m").exists()
    (tmp_path / "go").touch()
    wait_for(lambda: harness.output("slow.bin.p7m").exists())
    service.worker.stop(10)


def test_a_hung_program_does_not_outlive_the_service(make: Any, program: Any, tmp_path: Path) -> None:
    """BEY-02, CLU-04: a service that stops while a program hangs takes the program with it."""
    path = program("hang.py", HANGS)
    harness = make({"Format": "Cades", "CrossCheck:0": f"{path} {{file}}"}, {"Pipeline:ShutdownGraceSeconds": 0})
    harness.service.start()
    harness.upload("a.bin", b"content")
    wait_for(lambda: (tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().split()) == 2)
    harness.service.stop()
    assert all(is_gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())
    # What is left of the worker in this process comes to its end before the next test.
    wait_for(lambda: harness.service.worker.jobs_in_flight == 0)
    harness.service.close()
    assert harness.outputs() == []


def wait_for(condition: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.01)


def test_a_program_gets_nothing_of_the_service(make: Any, program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """BEY-02: no shell, no variables of ours, no input, an empty folder of its own as home."""
    monkeypatch.setenv("SIGNING__SECRET", "canary")
    body = (
        "bad = [name for name in os.environ if name not in ('PATH', 'LC_ALL', 'HOME', 'LC_CTYPE')]\n"
        "bad += os.listdir('.')\n"
        "bad += ['arguments'] if sys.argv[2:] != ['$HOME;', '*', 'end'] else []\n"
        "bad += ['input'] if sys.stdin.read() else []\n"
        "bad += [] if os.path.realpath(os.environ['HOME']) == os.getcwd() else ['home']\n"
        "print(bad); sys.exit(bool(bad))"
    )
    harness = make({"Format": "Cades", "CrossCheck:0": f"{program('env.py', body)} {{file}} '$HOME;' * end"})
    harness.drop("a.bin", b"content")
    [job] = harness.run_until_idle()
    assert job.status is JobStatus.COMPLETED, job.error_message


def test_the_service_may_die_while_a_program_judges(tmp_path: Path, program: Any, authority: Authority) -> None:
    """BEY-02, BEY-51, CLU-06: nothing is handed out, the job is told as interrupted, and its retry is judged anew."""
    body = (
        "import signal\nfrom pathlib import Path\nonce = Path(sys.argv[0]).parent / 'once'\n"
        "if not once.exists():\n    once.touch(); os.kill(os.getppid(), signal.SIGKILL)"
    )
    keys = {"Format": "Cades", "CrossCheck:0": f"{program('kill.py', body)} {{file}}"}
    settings = {f"Signing:Profiles:0:{key}": value for key, value in keys.items()}
    folder = prepare(tmp_path / "service", settings=settings, issued=authority.issue())
    assert live(Life(folder, upload=("a.bin", b"content"))).code == -9
    assert (tmp_path / "once").exists()
    assert not list((folder / "data" / "output").iterdir())
    ended = live(Life(folder, retries=True))
    assert ended.code == 0, ended.printed
    first, second = ended.runs[0]["jobs"]
    assert (first["status"], first["error_code"]) == ("Failed", "recovery.interrupted")
    assert second["status"] == "Completed"
    assert list(ended.runs[0]["files"]["data/output"]) == ["a.bin.p7m"]
    assert not ended.runs[0]["files"]["data/processing"]


@pytest.mark.parametrize("existing", ["Parallel", "Counter"])
def test_openssl_judges_further_signatures(make: Any, require_tool: Any, existing: str) -> None:
    """BEY-02, CFG-198: a file that arrives signed, signed once more."""
    require_tool("openssl", "openssl")
    harness = make({"Format": "Cades", "Cades:Existing": existing, "CrossCheck:0": "openssl cms"})
    other = make({"Format": "Cades"})
    other.drop("a.bin", b"content")
    other.run_until_idle()
    harness.drop("b.p7m", other.output("a.bin.p7m").read_bytes())
    [job] = harness.run_until_idle()
    assert job.status is JobStatus.COMPLETED, job.error_message
    assert len(lines(harness, job)) == 1


@pytest.mark.parametrize(
    ("profile", "name"),
    [
        ({"Format": "Pades", "PadesFilter": "Etsi", "CrossCheck:0": "pdfsig"}, "a.pdf"),
        ({"Format": "Cades", "CrossCheck:0": "openssl cms", "Policy": "B-B"}, "a.bin"),
        ({"Format": "Xades", "CrossCheck:0": "xmlsec1", "Policy": "B-B"}, "a.xml"),
    ],
)
def test_real_engines_judge_signatures_of_curves(
    tmp_path: Path, authority: Authority, require_tool: Any, pdf_file: Any, profile: dict[str, str], name: str
) -> None:
    """BEY-02: ECDSA as well, where the policy allows it."""
    engine = read_engine(profile["CrossCheck:0"])
    require_tool(engine.program, {"pdfsig": "poppler-utils"}.get(engine.program, engine.program))
    keys = {f"Signing:Profiles:0:{key}": value for key, value in ({"Policy": "B-B"} | profile).items()}
    folder = prepare(tmp_path / "service", settings=keys, issued=authority.issue(kind=KeyKind.ECDSA_P256))
    harness = Harness(folder)
    try:
        harness.drop(name, {"a.pdf": pdf_file(), "a.bin": b"content", "a.xml": b"<a><b/></a>"}[name])
        [job] = harness.run_until_idle()
        assert job.status is JobStatus.COMPLETED, job.error_message
    finally:
        harness.close()


def test_pdfsig_finds_our_signature_below_what_was_added(
    make: Any, require_tool: Any, pdf_file: Any, tmp_path: Path
) -> None:
    """BEY-02: what follows a signature is a disagreement, except where the level of the profile adds it."""
    require_tool("pdfsig", "poppler-utils")
    harness = make({"Format": "Pades", "PadesFilter": "Etsi"})
    harness.drop("a.pdf", pdf_file())
    harness.run_until_idle()
    extended = tmp_path / "extended.pdf"
    with harness.output("a.signed.pdf").open("rb") as signed, extended.open("wb") as out:
        writer = IncrementalPdfFileWriter(signed)
        writer.root["/DSS"] = DictionaryObject()
        writer.update_root()
        writer.write(out)
    broken = tmp_path / "broken.pdf"
    content = bytearray(extended.read_bytes())
    content[300] ^= 1
    broken.write_bytes(content)
    home = tmp_path / "home"
    home.mkdir()

    def ask(file: Path, *, is_extended: bool) -> bool | None:
        subject = Subject(file, file, Format.PADES, is_extended=is_extended)
        return ask_engine(read_engine("pdfsig"), subject, home, 30).accepts

    assert ask(extended, is_extended=True) is True
    assert ask(extended, is_extended=False) is False
    assert ask(broken, is_extended=True) is False
    assert ask(harness.input_folder() / "none.pdf", is_extended=True) is False


def test_without_engines_nothing_of_it_happens(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """BEY-02: off by default: no program, no line."""
    monkeypatch.setattr(cross_checking.subprocess, "Popen", None)
    harness = make({"Format": "Cades"})
    harness.drop("a.bin", b"content")
    [job] = harness.run_until_idle()
    assert job.status is JobStatus.COMPLETED, job.error_message
    assert lines(harness, job) == []


def test_an_engine_that_is_not_here_is_not_imported(make: Any) -> None:
    """CFG-198, CFG-81: refused at the first start."""
    harness = make({"Format": "Cades", "CrossCheck:0": "/nowhere/judge {file}"})
    with pytest.raises(ConfigurationRefused) as raised:
        harness.service  # noqa: B018 - building it is the start
    [failure] = raised.value.failures
    assert failure.key == "Signing:Profiles[0]:CrossCheck"
    assert "/nowhere/judge" in failure.problem


def test_an_engine_that_was_lost_degrades_its_profile(make: Any, program: Any) -> None:
    """CFG-198: a later start tells it, and no job of the profile is signed unjudged."""
    path = program("judge.py", "")
    harness = make({"Format": "Cades", "CrossCheck:0": f"{path} {{file}}"})
    assert harness.service.profiles.get("default").degraded is None
    Path(path).unlink()
    harness.restart()
    assert path in harness.service.profiles.get("default").degraded
