"""Signing in real worker processes: what a worker's end costs, what its caller sees, what an outsider sees."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from bulksigner.contract.errors import BulkSignerError, StepFailed
from bulksigner.contract.signing import Format
from bulksigner.formats.model import Expectation
from bulksigner.pipeline.engine import InProcessEngine, WorkerLost
from bulksigner.pipeline.engine_pool import FAILED_STARTS, ProcessEngine
from bulksigner.pipeline.engine_worker import WorkerBoot
from bulksigner.pipeline.tasks import CheckTask, SignTask

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these tests send signals of POSIX systems")

LIMIT_SECONDS = 20.0


def wait_for(condition: Callable[[], object], limit_seconds: float = LIMIT_SECONDS) -> None:
    deadline = time.monotonic() + limit_seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def worker_pids() -> set[int]:
    return {
        child.pid for child in multiprocessing.active_children() if child.name == "bulksigner-signing" and child.pid
    }


@pytest.fixture
def pool(keys: Any) -> Iterator[Callable[..., ProcessEngine]]:
    """Start engines; they are closed at the end."""
    engines = []

    def start(workers: int = 1, **options: Any) -> ProcessEngine:
        boot = WorkerBoot(keys.registry.signing_plugins, keys.settings, (Format.CADES,))
        here = InProcessEngine(keys.registry, (Format.CADES,))
        engines.append(ProcessEngine(boot, workers, here, **options))
        return engines[-1]

    yield start
    for engine in engines:
        engine.close()
    assert worker_pids() == set()


class Call(threading.Thread):
    """A call of the engine in a thread of its own."""

    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._act = act
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._act()
        except BulkSignerError as error:
            self.error = error

    def end(self) -> BaseException | None:
        """Wait for the end and return what the call raised."""
        self.join(LIMIT_SECONDS)
        assert not self.is_alive()
        return self.error


def test_all_formats_are_signed_and_checked_by_workers(
    pool: Any, keys: Any, sign: Any, check: Any, pdf_file: Any, xml_file: Any
) -> None:
    """PERF-06, BEY-01: two at a time; neither secret nor key is on a command line or in an environment."""
    engine = pool(2)
    reference = keys.reference()
    keys.open(engine, reference)
    assert engine.find_fault() is None
    for chosen, content in ((Format.PADES, pdf_file()), (Format.CADES, b"content"), (Format.XADES, xml_file())):
        task, measured = sign(engine, reference, content, chosen)
        assert check(engine, task, keys.issued.certificate_der).measured == measured
    assert keys.entered in worker_pids()
    secret = reference.block.key.reveal().splitlines()[1].encode()
    assert len(worker_pids()) == 2
    for pid in worker_pids():
        for name in ("cmdline", "environ"):
            shown = Path(f"/proc/{pid}/{name}").read_bytes()
            assert shown
            assert secret not in shown
            assert b"PRIVATE KEY" not in shown


def test_a_worker_killed_in_a_call_costs_that_job_only(pool: Any, keys: Any, sign: Any) -> None:
    """PERF-06: the other job goes on meanwhile, and a fresh worker takes the place."""
    engine = pool(2)
    reference = keys.reference()
    keys.open(engine, reference)
    before = worker_pids()
    keys.set_mood("hang")
    call = Call(lambda: sign(engine, reference))
    wait_for(lambda: keys.entered)
    hung = keys.entered
    keys.set_mood("fine")
    sign(engine, reference)
    os.kill(hung, signal.SIGKILL)
    error = call.end()
    assert isinstance(error, StepFailed)
    assert error.message == "The signing worker was lost: it ended during the call. Retry the job."
    for _ in range(3):
        sign(engine, reference)
    assert len(worker_pids()) == 2
    assert hung not in worker_pids()
    assert len(worker_pids() & before) == 1


def test_a_worker_that_hangs_is_ended_at_the_limit(pool: Any, keys: Any, sign: Any) -> None:
    """SEC-70: the job fails with the limit in its text, the next one is signed."""
    engine = pool(1, call_limit_seconds=0.5)
    reference = keys.reference()
    keys.open(engine, reference)
    keys.set_mood("hang")
    with pytest.raises(StepFailed, match=r"it gave no answer within 0\.5 s"):
        sign(engine, reference)
    assert not is_running(keys.entered)
    keys.set_mood("fine")
    engine._call_limit_seconds = LIMIT_SECONDS
    sign(engine, reference)


def test_a_plugin_that_breaks_in_a_worker_fails_its_job_and_keeps_the_worker(pool: Any, keys: Any, sign: Any) -> None:
    """PIPE-67: an unexpected error, an exit and a process that ends by itself."""
    engine = pool(1)
    reference = keys.reference()
    keys.open(engine, reference)
    before = worker_pids()
    for mood, told in (("raise", "signing method Local of the plugin builtin broke: KeyError"), ("exit", "SystemExit")):
        keys.set_mood(mood)
        with pytest.raises(StepFailed, match=told):
            sign(engine, reference)
    assert worker_pids() == before
    keys.set_mood("die")
    with pytest.raises(StepFailed, match="lost"):
        sign(engine, reference)
    keys.set_mood("fine")
    sign(engine, reference)
    assert worker_pids() != before


def test_a_worker_that_died_while_idle_costs_no_job(pool: Any, keys: Any, sign: Any) -> None:
    """PERF-06: its end is seen when it comes, and the next call goes to a fresh one."""
    engine = pool(1)
    reference = keys.reference()
    keys.open(engine, reference)
    [pid] = worker_pids()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_running(pid) and worker_pids() - {pid})
    sign(engine, reference)


def test_keys_that_cannot_travel_sign_in_this_process(
    pool: Any, keys: Any, sign: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """PERF-06: by their source's word, for want of a form to send, or because no worker could open them."""
    engine = pool(1)
    references = [
        keys.reference("Home"),
        keys.reference("Token", owner=os.getpid()),
        keys.reference("Moody", extra=lambda: None),
    ]
    with caplog.at_level(logging.WARNING):
        for reference in references:
            keys.open(engine, reference)
            sign(engine, reference)
            assert keys.entered == os.getpid()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "a worker could not open its key (certificate source Token of the plugin moody_keys broke" in told[0]
    assert "its settings cannot be sent" in told[1]
    assert engine.find_fault() is None


def test_a_key_that_is_forgotten_signs_nowhere(pool: Any, keys: Any, sign: Any) -> None:
    """CFG-85: neither in the workers nor here; opened anew it does."""
    engine = pool(2)
    reference = keys.reference()
    keys.open(engine, reference)
    sign(engine, reference)
    engine.forget(reference)
    with pytest.raises(StepFailed, match="is not open"):
        sign(engine, reference)
    keys.open(engine, reference)
    for _ in range(3):
        sign(engine, reference)
    assert keys.entered in worker_pids()


def test_workers_that_never_come_up_give_their_calls_up(pool: Any, keys: Any, sign: Any, monkeypatch: Any) -> None:
    """PERF-06: a fault at their start goes round a few times, not for ever; the next call tries again."""
    engine = pool(1)
    reference = keys.reference()
    keys.open(engine, reference)
    [pid] = worker_pids()
    with monkeypatch.context() as patched:
        patched.setattr(engine, "_boot", object())
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: engine._failed_starts == FAILED_STARTS and not engine._workers)
        with pytest.raises(StepFailed, match="lost"):
            sign(engine, reference)
        wait_for(lambda: not engine._workers)

        def refuse() -> None:
            raise OSError("no more processes")

        # The row of readiness is red then; the start goes on.
        patched.setattr(engine, "_start_worker", refuse)
        assert "could be started" in (engine.find_fault() or "")
    sign(engine, reference)


def test_closing_ends_the_calls_under_way(pool: Any, keys: Any, sign: Any) -> None:
    """CLU-04: nobody waits for a worker that will never answer; later calls are refused."""
    engine = pool(2)
    reference = keys.reference()
    keys.open(engine, reference)
    keys.set_mood("hang")
    calls = [Call(lambda: sign(engine, reference)) for _ in range(3)]
    wait_for(lambda: keys.entered)
    time.sleep(0.1)
    began = time.monotonic()
    engine.close()
    assert {type(call.end()) for call in calls} == {StepFailed}
    assert time.monotonic() - began < 3.0
    with pytest.raises(StepFailed, match="stopped"):
        sign(engine, reference)
    engine.close()


class Outcomes:
    """What became of the tasks of a chain, in the order in which that was told."""

    def __init__(self, engine: Any, *tasks: Any) -> None:
        self.told: list[tuple[int, Any, BaseException | None]] = []
        self._count = len(tasks)
        engine.begin_chain([(task, partial(self._note, number)) for number, task in enumerate(tasks)])

    def _note(self, number: int, value: Any, error: BaseException | None) -> None:
        self.told.append((number, value, error))

    def wait(self) -> list[Any]:
        """Wait for all; return values and errors in the order of the tasks."""
        wait_for(lambda: len(self.told) == self._count)
        assert [number for number, _, _ in self.told] == list(range(self._count))
        return [value if error is None else error for _, value, error in self.told]


@pytest.fixture
def plan_check(keys: Any) -> Callable[..., CheckTask]:
    """Return the check of what a task will sign."""

    def plan(task: SignTask, artifact: Any = None) -> CheckTask:
        expectation = Expectation(task.format, keys.issued.certificate_der, task.measured)
        return CheckTask(artifact or task.target, expectation, pem=False)

    return plan


@pytest.mark.parametrize("source", ["Moody", "Home"])
def test_a_check_goes_with_its_signing(pool: Any, keys: Any, new_task: Any, plan_check: Any, source: str) -> None:
    """PIPE-80: it is carried out behind it, also where the key signs in this process."""
    engine = pool(2)
    reference = keys.reference(source)
    keys.open(engine, reference)
    for _ in range(3):
        task = new_task(reference)
        measured, checked = Outcomes(engine, task, plan_check(task)).wait()
        assert checked.measured == measured
    assert (keys.entered == os.getpid()) is (source == "Home")


def test_a_signing_that_takes_long_is_told_before_its_check(
    pool: Any, keys: Any, new_task: Any, plan_check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-79: the job is Verifying while a large file is checked."""
    engine = pool(1)
    reference = keys.reference()
    keys.open(engine, reference)
    counts: list[int] = []
    answered = engine._answered
    for worker in engine._workers:
        monkeypatch.setattr(
            worker, "_answered", lambda one, answers: (counts.append(len(answers)), answered(one, answers))
        )
    for mood in ("fine", "slow"):
        keys.set_mood(mood)
        task = new_task(reference)
        Outcomes(engine, task, plan_check(task)).wait()
    assert counts[-2:] == [1, 1]


def test_what_stands_behind_a_failed_signing_is_not_begun(
    pool: Any, keys: Any, new_task: Any, plan_check: Any, sign: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """PIPE-79: the check fails without a look, and the next chain is carried out."""
    engine = pool(1)
    for source in ("Moody", "Home"):
        reference = keys.reference(source)
        keys.open(engine, reference)
        keys.set_mood("raise")
        task = new_task(reference)
        signing, check = Outcomes(engine, task, plan_check(task, keys.deadly)).wait()
        assert isinstance(signing, BaseException)
        assert "KeyError" in str(signing)
        assert isinstance(check, BaseException)
        keys.set_mood("fine")
        sign(engine, reference)
    assert "was lost" not in caplog.text


def test_a_worker_lost_over_a_check_takes_its_chain_and_no_other(
    pool: Any, keys: Any, new_task: Any, plan_check: Any
) -> None:
    """PERF-06, CLU-45: what was not begun is begun by another worker; what may have been signed is not signed again."""
    engine = pool(1)
    reference = keys.reference()
    keys.open(engine, reference)
    keys.set_mood("fine")
    first, second = new_task(reference), new_task(reference)
    lost = Outcomes(engine, first, plan_check(first, keys.deadly))
    behind = Outcomes(engine, second, plan_check(second))
    assert [type(error) for error in lost.wait()] == [WorkerLost, WorkerLost]
    measured, checked = behind.wait()
    assert checked.measured == measured


def test_a_check_follows_a_key_that_is_away_from_its_worker(
    pool: Any, keys: Any, new_task: Any, plan_check: Any
) -> None:
    """PERF-06: signed in this process and checked behind that, not ahead of it."""
    engine = pool(1)
    reference = keys.reference("Share")
    keys.open(engine, reference)
    (keys.home / "away").touch()
    [worker] = engine._workers
    worker.profiles.clear()
    task = new_task(reference)
    measured, checked = Outcomes(engine, task, plan_check(task)).wait()
    assert checked.measured == measured
    assert keys.entered == os.getpid()


CHILD = """
import multiprocessing, signal, sys, threading, time, uuid, datetime, hashlib
from pathlib import Path

def main():
    from bulksigner.contract.signing import Format, Measured
    from bulksigner.pipeline.engine import InProcessEngine, ask
    from bulksigner.pipeline.engine_pool import ProcessEngine
    from bulksigner.pipeline.engine_worker import WorkerBoot
    from bulksigner.pipeline.tasks import SignTask
    from bulksigner.plugin_system.manager import discover
    from bulksigner.settings.schema import BoundSettings
    from bulksigner.profiles.model import KeyReference
    import pickle

    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    home = Path(sys.argv[1])
    reference = pickle.loads((home / "reference").read_bytes())
    settings = BoundSettings({})
    registry = discover().providers(settings)
    formats = (Format.CADES,)
    engine = ProcessEngine(WorkerBoot(registry.signing_plugins, settings, formats), 2, InProcessEngine(registry))
    engine.open(reference, registry.certificate_source("Moody").open(reference.block))
    (home / "staged").write_bytes(b"content")
    task = SignTask("job", "Local", reference.profile, "staged", Format.CADES, home / "staged",
                    Measured(7, hashlib.sha256(b"content").digest()), home / "target",
                    datetime.datetime.now(datetime.UTC), {})
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    measured = ask(engine, task)
    assert asked.is_set()
    assert measured.length == (home / "target").stat().st_size
    engine.close()
    print("drained", flush=True)

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def child(keys: Any, tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start a service in small, in a process group of its own, with a call under way."""
    import pickle

    script = tmp_path / "service.py"
    script.write_text(CHILD)
    (keys.home / "reference").write_bytes(pickle.dumps(keys.reference()))
    started: list[subprocess.Popen[str]] = []

    def start(mood: str) -> subprocess.Popen[str]:
        keys.set_mood(mood)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(keys.site), *filter(None, sys.path)])}
        command = [sys.executable, str(script), str(keys.home)]
        started.append(
            subprocess.Popen(
                command, stdout=subprocess.PIPE, env=environment, text=True, start_new_session=True, cwd=tmp_path
            )
        )
        return started[-1]

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_workers_do_not_outlive_a_killed_service(keys: Any, child: Any) -> None:
    """PERF-06: neither the idle one nor the one in a call that would never end."""
    process = child("hang")
    pids = [int(pid) for pid in process.stdout.readline().split()]
    wait_for(lambda: keys.entered)
    assert len(pids) == 2
    process.kill()
    process.wait()
    wait_for(lambda: not any(map(is_running, pids)), limit_seconds=2.0)


def test_a_stop_signal_to_the_whole_group_drains(keys: Any, child: Any) -> None:
    """OPS-21, CLU-04: the workers leave the stop to the service, so the call under way ends well."""
    process = child("slow")
    pids = [int(pid) for pid in process.stdout.readline().split()]
    wait_for(lambda: keys.entered)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.stdout.readline() == "drained\n"
    assert process.wait(LIMIT_SECONDS) == 0
    wait_for(lambda: not any(map(is_running, pids)), limit_seconds=2.0)


def test_a_key_that_a_fresh_worker_cannot_open_signs_in_this_process(
    pool: Any, keys: Any, sign: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """PERF-01, PERF-06: the key is open here, so its place being away later fails no job; it is said once."""
    engine = pool(1)
    reference = keys.reference("Share")
    keys.open(engine, reference)
    [pid] = worker_pids()
    (keys.home / "away").touch()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_running(pid) and worker_pids() - {pid})
    for _ in range(2):
        sign(engine, reference)
        assert keys.entered == os.getpid()
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == 1
    assert "signed in the service's own process: a worker could not open its key" in told[0]
    assert "the share is away" in told[0]


def test_a_key_that_was_replaced_does_not_sign_unasked(
    pool: Any, keys: Any, sign: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """CFG-85, PIPE-79: a fresh worker that finds another certificate leaves the signing to the key in force."""
    engine = pool(1)
    reference = keys.reference()
    keys.open(engine, reference)
    [pid] = worker_pids()
    (keys.home / "replaced").write_bytes(keys.issued.issuers[0].public_bytes(Encoding.DER))
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_running(pid) and worker_pids() - {pid})
    for _ in range(2):
        sign(engine, reference)
        assert keys.entered == os.getpid()
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == 1
    assert "another certificate is there now than the one in force; reopen the profile" in told[0]


def test_a_key_that_is_away_at_the_call_signs_in_this_process(pool: Any, keys: Any, sign: Any) -> None:
    """PERF-01, PERF-06: also where the worker had no chance to open it before."""
    engine = pool(1)
    reference = keys.reference("Share")
    keys.open(engine, reference)
    (keys.home / "away").touch()
    [worker] = engine._workers
    worker.profiles.clear()
    sign(engine, reference)
    assert keys.entered == os.getpid()


def test_closing_ends_a_worker_that_is_stopped(pool: Any, keys: Any, sign: Any) -> None:
    """CLU-04: one in a call and one at rest, neither of which can hear that the service is gone."""
    engine = pool(2)
    reference = keys.reference()
    keys.open(engine, reference)
    keys.set_mood("hang")
    call = Call(lambda: sign(engine, reference))
    wait_for(lambda: keys.entered)
    pids = worker_pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    engine.close()
    assert isinstance(call.end(), StepFailed)
    wait_for(lambda: not any(map(is_running, pids)))
