"""Sessions, tokens and drivers that are lost, and how the next job fares (BEY-30, BEY-32)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from bulksigner.contract.certificate import Digest, KnowsFault
from bulksigner.contract.errors import PermanentFailure
from bulksigner_pkcs11 import channel

DATA = b"what is signed"
SESSION_HANDLE_INVALID, DEVICE_REMOVED, DEVICE_ERROR = "b3", "32", "30"


def sign(key: Any) -> bytes:
    """Sign and see that the signature is that of the certificate."""
    signature: bytes = key.sign(DATA, Digest.SHA256)
    return signature


def failure(key: Any) -> PermanentFailure:
    with pytest.raises(PermanentFailure) as failed:
        key.sign(DATA, Digest.SHA256)
    return failed.value


def is_alive(process: int) -> bool:
    """Tell whether a process runs; one that nobody has waited for has ended all the same."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def verified(token: Any) -> Callable[[Any], None]:
    """Return what signs, and sees that the signature is that of the token's certificate."""

    def ask(key: Any) -> None:
        token.rsa.key.public_key().verify(sign(key), DATA, PKCS1v15(), SHA256())

    return ask


def test_a_driver_that_crashes_fails_the_one_job_in_its_call(
    token: Any, source: Any, around: Any, verified: Any
) -> None:
    """BEY-32: `pkcs11.driver-lost`, then a fresh process, a fresh login, and the key compared again."""
    key = source.open(token.block(module_path=around.module))
    around.ask("crash-C_Sign")
    failed = failure(key)
    assert failed.code == "pkcs11.driver-lost"
    assert "SIGSEGV" in failed.message
    assert around.module in failed.message
    around.take_back("crash-C_Sign")
    verified(key)
    assert len(around.processes()) == 2
    assert around.count("C_Login") == 2


def test_a_driver_that_hangs_is_ended_at_the_limit(token: Any, make_source: Any, around: Any, verified: Any) -> None:
    """BEY-32, CFG-204: the call is given up after `Pkcs11:CallTimeoutSeconds`, and the next one succeeds."""
    key = make_source(call_limit_seconds=1.0).open(token.block(module_path=around.module))
    around.ask("hang-C_Sign")
    began = time.monotonic()
    failed = failure(key)
    assert 1.0 <= time.monotonic() - began < 20.0
    assert failed.code == "pkcs11.driver-lost"
    assert "no answer within 1 s" in failed.message
    around.take_back("hang-C_Sign")
    verified(key)


def test_a_driver_that_hangs_while_it_is_loaded_degrades_the_profile(
    token: Any, make_source: Any, around: Any, refusal: Any
) -> None:
    """BEY-32, OPS-113: the start goes on; no process is left behind."""
    around.ask("hang-C_Initialize")
    source = make_source(call_limit_seconds=1.0)
    assert "no answer" in refusal(source, token.block(module_path=around.module))
    assert source._drivers == {}
    for process in around.processes():
        with pytest.raises(ProcessLookupError):
            os.kill(int(process), 0)


def test_a_process_that_was_killed_between_jobs_costs_no_job(
    token: Any, source: Any, around: Any, verified: Any
) -> None:
    """BEY-32: nobody was in a call, so nothing fails; one more login, and the key compared again."""
    key = source.open(token.block(module_path=around.module))
    process = key._driver._process
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    verified(key)
    assert len(around.processes()) == 2
    assert around.count("C_Login") == 2
    assert around.count("C_Logout") == 0


def test_the_process_ends_with_the_service_even_in_a_call(token: Any, around: Any) -> None:
    """BEY-32: a service that is killed leaves no process that holds the token, not even one whose driver hangs."""
    around.ask("hang-C_Sign")
    code = (
        "import sys\n"
        "from bulksigner_pkcs11.source import Pkcs11Source\n"
        "from bulksigner_pkcs11.settings import Pkcs11Block\n"
        "if __name__ == '__main__':\n"
        "    Pkcs11Source(60.0).open(Pkcs11Block(*sys.argv[1:]))\n"
    )
    script = around.folder / "service.py"
    script.write_text(code)
    block = token.block(module_path=around.module)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    service = subprocess.Popen([sys.executable, script, block.module_path, block.thumbprint], env=environment)
    try:
        wait_until(lambda: around.count("C_Sign") == 1)
    finally:
        service.kill()
        service.wait()
    (process,) = around.processes()
    wait_until(lambda: not is_alive(int(process)))


def test_losses_in_a_row_wait_longer_and_a_signature_ends_the_row(
    token: Any, source: Any, around: Any, monkeypatch: pytest.MonkeyPatch, verified: Any
) -> None:
    """BEY-32: the first fresh process comes at once, later ones after a pause that doubles up to a limit."""
    key = source.open(token.block(module_path=around.module))
    driver = key._driver
    waited: list[float] = []

    class Clockless(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0.0)
            return self.is_set()

    driver._closing = Clockless()
    monkeypatch.setattr(channel, "LONGEST_PAUSE_SECONDS", 3.0)
    around.ask("crash-C_Sign")
    for _ in range(5):
        assert failure(key).code == "pkcs11.driver-lost"
    assert waited == [1.0, 2.0, 3.0]
    around.take_back("crash-C_Sign")
    verified(key)
    assert waited[3:] == [3.0]
    around.ask("crash-C_Sign")
    failure(key)
    around.take_back("crash-C_Sign")
    verified(key)
    assert len(waited) == 4


def test_closing_ends_a_call_that_hangs(token: Any, source: Any, around: Any) -> None:
    """BEY-32: the end of the service does not wait for a driver."""
    key = source.open(token.block(module_path=around.module))
    around.ask("hang-C_Sign")
    before = around.count("C_Sign")
    failed: list[str] = []
    thread = threading.Thread(target=lambda: failed.append(failure(key).message))
    thread.start()
    wait_until(lambda: around.count("C_Sign") > before)
    key.close()
    thread.join(20)
    assert len(failed) == 1


def test_a_token_that_was_taken_away_is_found_again(token: Any, source: Any, around: Any, verified: Any) -> None:
    """BEY-30, OPS-114: jobs fail while it is away, with the token's error, and go on when it is back."""
    key = source.open(token.block(module_path=around.module))
    token.take_away()
    first = failure(key)
    assert first.code is None, "which the job records as sign.failed"
    assert "ObjectHandleInvalid" in first.message
    assert "is not there" in first.message
    assert "is not there" in failure(key).message
    assert isinstance(key, KnowsFault)
    assert "is not there" in (key.fault or "")
    token.bring_back()
    verified(key)
    assert key.fault is None
    assert around.count("C_Login") == 2


def test_a_lost_session_is_opened_anew_within_the_call(token: Any, source: Any, around: Any) -> None:
    """ICP, PKCS#11: `SessionHandleInvalid` is no signature; the session is opened once more, then the job fails."""
    key = source.open(token.block(module_path=around.module))
    around.ask("error-C_SignInit", SESSION_HANDLE_INVALID)
    assert "SessionHandleInvalid" in failure(key).message
    assert around.count("C_Login") == 2
    around.take_back("error-C_SignInit")
    assert sign(key)


@pytest.mark.parametrize(("value", "name"), [(DEVICE_REMOVED, "DeviceRemoved"), (DEVICE_ERROR, "DeviceError")])
def test_an_error_of_the_token_fails_the_job_once(
    token: Any, source: Any, around: Any, value: str, name: str, verified: Any
) -> None:
    """PIPE-69, OPS-114: no second try by itself; the next job opens a new session and compares the key."""
    key = source.open(token.block(module_path=around.module))
    before = around.count("C_Sign")
    around.ask("error-C_Sign", value)
    failed = failure(key)
    assert name in failed.message
    assert "company" in failed.message
    assert around.count("C_Sign") == before + 1
    around.take_back("error-C_Sign")
    verified(key)
    assert around.count("C_Login") == 2


def test_another_token_in_its_place_does_not_sign(token: Any, source: Any, authority: Any) -> None:
    """BEY-30: the token is known by label and serial; one of the same label is another one."""
    key = source.open(token.block())
    token.take_away()
    token.add("company", authority.issue())
    assert "is not there" in failure(key).message


def test_a_token_that_lost_its_certificate_does_not_sign(token: Any, source: Any, around: Any) -> None:
    """BEY-30: the key is compared with the certificate before use, so there must be one."""
    key = source.open(token.block(module_path=around.module))
    token.remove_certificate("01")
    around.ask("crash-C_Sign")
    failure(key)
    around.take_back("crash-C_Sign")
    assert "thumbprint" in failure(key).message


def test_two_profiles_of_one_token_find_it_again_with_one_login(token: Any, source: Any, around: Any) -> None:
    """BEY-30: the loss that the one meets costs the other no job, and their sessions do not displace each other."""
    block = token.block(module_path=around.module)
    first = source.open(block)
    second = source.open(token.block(module_path=around.module, thumbprint=token.thumbprint_of(token.ecdsa)))
    around.ask("error-C_Sign", DEVICE_ERROR)
    failure(first)
    around.take_back("error-C_Sign")
    for _ in range(3):
        assert sign(first)
        assert sign(second)
    assert around.count("C_Login") == 2
    around.ask("crash-C_Sign")
    assert failure(first).code == "pkcs11.driver-lost"
    around.take_back("crash-C_Sign")
    for _ in range(3):
        assert sign(second)
        assert sign(first)
    assert around.count("C_Login") == 3


def test_a_token_that_comes_later_is_found_without_a_restart(
    token: Any, source: Any, around: Any, authority: Any, refusal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BEY-30: the library is loaded anew for it; the token in use is logged in to again and costs no job."""
    key = source.open(token.block(module_path=around.module))
    later = authority.issue()
    token.add("branch", later)
    block = token.block(module_path=around.module, thumbprint=token.thumbprint_of(later))
    refusal(source, block)
    monkeypatch.setattr(channel, "RENEWAL_SECONDS", 0.0)
    assert sign(source.open(block))
    assert sign(key)
    assert len(around.processes()) == 2


def test_a_session_that_was_lost_unseen_does_not_hide_the_token(token: Any, source: Any, around: Any) -> None:
    """BEY-30: opening the key anew, as `profiles set --reopen` does, finds the token although the session is dead."""
    key = source.open(token.block(module_path=around.module))
    token.take_away()
    token.bring_back()
    again = source.open(token.block(module_path=around.module))
    assert sign(again)
    assert sign(key)


def test_a_second_token_is_untouched_by_the_loss_of_the_first(
    token: Any, source: Any, around: Any, authority: Any
) -> None:
    """BEY-30: a token that fails is dropped alone; the other keeps its session and its login."""
    other = authority.issue()
    token.add("branch", other)
    first = source.open(token.block(module_path=around.module))
    second = source.open(token.block(module_path=around.module, thumbprint=token.thumbprint_of(other)))
    assert around.count("C_Login") == 2
    around.ask("error-C_Sign", DEVICE_ERROR)
    failure(first)
    around.take_back("error-C_Sign")
    assert sign(second)
    assert around.count("C_Login") == 2
    assert sign(first)
    assert around.count("C_Login") == 3
    assert len(around.processes()) == 1
