"""PINs: from the environment only, and each value tried once (BEY-31, OPS-113)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from bulksigner.contract.certificate import Digest
from bulksigner.contract.errors import BulkSignerError, PermanentFailure
from bulksigner_pkcs11 import pins
from bulksigner_pkcs11.settings import DEFAULT_VARIABLE
from bulksigner_pkcs11.source import Pkcs11Source

DATA = b"what is signed"
RIGHT, WRONG = "1234", "98765432"
COUNT_LOW, FINAL_TRY, LOCKED, PAD = "10000", "20000", "40000", "100"
FUNCTION_FAILED, TOKEN_NOT_PRESENT = "6", "e0"


def test_a_refused_pin_is_not_tried_again_by_any_later_life(
    token: Any, make_source: Any, around: Any, refusal: Any, notes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BEY-31: across restarts and instances, until its value changes; the note is no copy of it."""
    block = token.block(module_path=around.module)
    monkeypatch.setenv(DEFAULT_VARIABLE, WRONG)
    assert "PinIncorrect" in refusal(make_source(), block)
    for _ in range(2):
        told = refusal(make_source(), block)
        assert "not tried again" in told
        assert DEFAULT_VARIABLE in told
    assert around.count("C_Login") == 1
    (note,) = notes.values.values()
    assert WRONG not in note
    monkeypatch.setenv(DEFAULT_VARIABLE, RIGHT)
    assert make_source().open(block).sign(DATA, Digest.SHA256)
    assert around.count("C_Login") == 2
    assert notes.values == {}


def test_a_pin_that_was_changed_on_the_token_is_tried_once(
    token: Any, source: Any, around: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BEY-31: the session of before goes on; after its loss the old PIN is refused once and jobs fail at once."""
    key = source.open(token.block(module_path=around.module))
    token.change_pin("4321")
    assert key.sign(DATA, Digest.SHA256)
    around.ask("crash-C_Sign")
    with pytest.raises(PermanentFailure):
        key.sign(DATA, Digest.SHA256)
    around.take_back("crash-C_Sign")
    for expected in ("PinIncorrect", "not tried again", "not tried again"):
        with pytest.raises(PermanentFailure, match=expected):
            key.sign(DATA, Digest.SHA256)
    assert around.count("C_Login") == 2
    monkeypatch.setenv(DEFAULT_VARIABLE, "4321")
    assert key.sign(DATA, Digest.SHA256)


def test_a_crash_in_the_login_counts_as_refused(
    token: Any, make_source: Any, around: Any, refusal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BEY-31: nobody knows whether the token counted the try; the variable beside it says that it was unlocked."""
    block = token.block(module_path=around.module)
    around.ask("crash-C_Login")
    assert "SIGSEGV" in refusal(make_source(), block)
    around.take_back("crash-C_Login")
    hasty = make_source()
    hasty.memory._patience_seconds = 0.0
    assert "not tried again" in refusal(hasty, block)
    assert around.count("C_Login") == 1
    monkeypatch.setenv(pins.entered_anew(DEFAULT_VARIABLE), "2026-11-30")
    assert make_source().open(block)


@pytest.mark.parametrize(
    ("value", "name", "is_counted"),
    [(FUNCTION_FAILED, "FunctionFailed", True), (TOKEN_NOT_PRESENT, "TokenNotPresent", False)],
)
def test_any_error_of_a_login_counts_unless_the_token_was_not_there(
    token: Any, make_source: Any, around: Any, refusal: Any, value: str, name: str, is_counted: bool
) -> None:
    """BEY-31: only an error that says that no PIN was judged leaves the value to be tried again."""
    block = token.block(module_path=around.module)
    around.ask("error-C_Login", value)
    assert name in refusal(make_source(), block)
    around.take_back("error-C_Login")
    if is_counted:
        assert "not tried again" in refusal(make_source(), block)
    else:
        assert make_source().open(block)


@pytest.mark.parametrize(("flags", "words"), [(FINAL_TRY, "one try left"), (LOCKED, "locked")])
def test_the_last_try_is_not_taken(
    token: Any, source: Any, around: Any, refusal: Any, notes: Any, flags: str, words: str
) -> None:
    """BEY-31: the final try and a lock stop at once, each with a text of its own; the right PIN changes nothing."""
    around.ask("flags", flags)
    assert words in refusal(source, token.block(module_path=around.module))
    assert around.count("C_Login") == 0
    assert notes.values == {}


def test_an_empty_variable_is_named(
    token: Any, source: Any, around: Any, refusal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CFG-75: without a PIN the profile is degraded, and the token is not asked."""
    monkeypatch.setenv("OTHER_PIN", "")
    told = refusal(source, token.block(module_path=around.module, pin_env_var="OTHER_PIN"))
    assert "OTHER_PIN" in told
    assert around.count("C_Login") == 0


def test_a_pad_asks_for_the_pin(
    token: Any, source: Any, around: Any, monkeypatch: pytest.MonkeyPatch, notes: Any
) -> None:
    """Issue 5: a token with a pad of its own is logged in to by a person; no PIN is known to the service."""
    monkeypatch.delenv(DEFAULT_VARIABLE)
    around.ask("flags", PAD)
    around.ask("pad", RIGHT)
    key = source.open(token.block(module_path=around.module))
    assert key.sign(DATA, Digest.SHA256)
    assert around.count("C_Login") == 1
    assert notes.values == {}


def test_a_pad_that_nobody_answers_says_so(
    token: Any, source: Any, around: Any, refusal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPS-113: the reason names the pad."""
    monkeypatch.delenv(DEFAULT_VARIABLE)
    around.ask("flags", PAD)
    around.ask("pad", WRONG)
    assert "pad" in refusal(source, token.block(module_path=around.module))


def test_two_profiles_of_one_token_need_one_pin(
    token: Any, source: Any, around: Any, refusal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BEY-30, BEY-31: the login is shared, so another PIN would neither be tried nor be known to be wrong."""
    source.open(token.block(module_path=around.module))
    monkeypatch.setenv("OTHER_PIN", WRONG)
    assert "different PIN" in refusal(source, token.block(module_path=around.module, pin_env_var="OTHER_PIN"))
    assert around.count("C_Login") == 1


def test_without_notes_a_pin_is_not_tried_after_a_wrong_one(
    token: Any, around: Any, refusal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BEY-31: a `check` without a database cannot know what was tried; the token says whether the last was wrong."""
    block = token.block(module_path=around.module)
    monkeypatch.setenv(DEFAULT_VARIABLE, WRONG)
    assert "PinIncorrect" in refusal(Pkcs11Source(30.0), block)
    told = refusal(Pkcs11Source(30.0), block)
    assert "without a database" in told
    assert around.count("C_Login") == 1


def test_a_try_under_way_elsewhere_is_waited_for(
    token: Any, source: Any, notes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BEY-31: of two processes that start at once the second waits for what becomes of the first one's try."""
    looks: list[None] = []

    def accept(seconds: float) -> None:
        looks.append(None)
        if len(looks) == 3:
            notes.values.clear()

    first = Pkcs11Source(30.0)
    first.take_notes(notes)
    (sight, *_) = _look(source, token)
    first.memory.claim(sight.token, DEFAULT_VARIABLE, RIGHT, was_wrong_pin_last=False)
    monkeypatch.setattr(pins.time, "sleep", accept)
    assert source.open(token.block())
    assert len(looks) == 3


def _look(source: Any, token: Any) -> Any:
    from bulksigner_pkcs11.channel import Driver
    from bulksigner_pkcs11.messages import Look

    driver = Driver(token.module, 30.0)
    try:
        return driver.call(Look())
    finally:
        driver.close()


def test_no_log_line_holds_the_pin(
    token: Any, source: Any, around: Any, refusal: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """SEC-43: at every level, also where the login fails and the driver crashes."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(DEFAULT_VARIABLE, WRONG)
    refusal(source, token.block(module_path=around.module))
    around.ask("crash-C_Login")
    monkeypatch.setenv(DEFAULT_VARIABLE, f"{WRONG}0")
    refusal(source, token.block(module_path=around.module))
    assert caplog.text
    assert WRONG not in caplog.text


def test_a_database_that_is_away_means_no_try(
    token: Any, source: Any, around: Any, refusal: Any, notes: Any, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BEY-31: what cannot be looked up is not tried; what cannot be recorded leaves the careful note behind."""

    def fail(*_: object) -> Any:
        raise BulkSignerError("no answer")

    swap = notes.swap
    with monkeypatch.context() as away:
        away.setattr(notes, "read", fail)
        told = refusal(source, token.block(module_path=around.module))
    assert "not tried" in told
    assert "no answer" in told
    assert around.count("C_Login") == 0
    notes.swap = lambda name, before, after: swap(name, before, after) if before is None else fail()
    assert source.open(token.block(module_path=around.module)).sign(DATA, Digest.SHA256)
    assert "could not be recorded" in caplog.text


def test_a_library_that_is_none_says_so(token: Any, source: Any, refusal: Any, tmp_path: Any) -> None:
    """OPS-113: each cause has a text of its own: not there, not loadable, no token."""
    assert "no such file" in refusal(source, token.block(module_path=str(tmp_path / "absent.so")))
    (tmp_path / "text.so").write_text("no library")
    assert "cannot be loaded" in refusal(source, token.block(module_path=str(tmp_path / "text.so")))
    token.take_away()
    assert "no token is there" in refusal(source, token.block())


def test_a_certificate_on_two_tokens_is_refused(token: Any, source: Any, around: Any, refusal: Any) -> None:
    """CFG-74: the identity is never chosen by anything but the thumbprint, and two are no choice."""
    token.add("copy", token.rsa)
    told = refusal(source, token.block(module_path=around.module))
    assert "'company'" in told
    assert "'copy'" in told
    assert around.count("C_Login") == 0


def test_a_pin_is_not_given_to_tokens_at_a_guess(
    token: Any, source: Any, around: Any, refusal: Any, authority: Any, caplog: Any
) -> None:
    """BEY-31: only the token that shows the certificate is logged in to; that there are more is told."""
    token.add("branch", authority.issue())
    block = token.block(module_path=around.module)
    assert "at a guess" in refusal(source, token.block(module_path=around.module, thumbprint="0" * 40))
    assert around.count("C_Login") == 0
    assert source.open(block)
    assert "shows 2 tokens" in caplog.text
