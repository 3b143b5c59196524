"""The tool that opens envelopes, and the stand-alone script beside it: options, exit codes, and what they leave."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bulksigner import cli
from bulksigner.encryption import opening, tool
from bulksigner.encryption.envelope import write_envelope
from bulksigner.encryption.key import EnvelopeKey, read_salt

SCRIPT = Path(__file__).parents[3] / "tools" / "decrypt-bsenc.py"
PASSWORD, SALT = "senha-ção-Ünïcode", "AAECAwQFBgcICQoLDA0ODw=="
OPTIONS = ("--salt-b64", SALT, "--iterations", "10000")
GIVEN = (*OPTIONS, "--password", PASSWORD)
SIZES = (0, 1, 15, 16, 17, 1 << 18, (1 << 18) + 1, 1 << 20)


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("decrypt_bsenc", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = load_script()


def run_script(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["decrypt-bsenc", *map(str, arguments)])
    code: int = script.main()
    return code


@pytest.fixture(params=["tool", "script"])
def opens(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the tool of the package, or the script."""

    def call(*arguments: object) -> int:
        if request.param == "script":
            return run_script(monkeypatch, *arguments)
        try:
            return tool.main([str(argument) for argument in arguments])
        except SystemExit as ended:
            return int(ended.code or 0)

    return call


# Each as a program of its own, after a statement that prepares what it meets.
PROGRAMS = {
    "tool": "from bulksigner.encryption import tool; sys.exit(tool.main())",
    "script": f"import runpy; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')",
}


def run_program(program: str, *arguments: object, first: str = "", **given: Any) -> subprocess.CompletedProcess[bytes]:
    # Whoever runs the tests may have told its children to ignore a signal.
    heard = "for name in ('SIGTERM', 'SIGHUP'): signal.signal(getattr(signal, name), signal.SIG_DFL)"
    code = f"import os, signal, sys\n{heard}\n{first}\n{PROGRAMS[program]}"
    return subprocess.run([sys.executable, "-u", "-c", code, *map(str, arguments)], check=False, **given)


@pytest.fixture(scope="module")
def small_key() -> EnvelopeKey:
    return EnvelopeKey.derive(PASSWORD, read_salt(SALT), 10_000)


@pytest.fixture
def sealed(tmp_path: Path, small_key: EnvelopeKey) -> Any:
    """Write an envelope into a folder of its own and return its path."""

    def make(name: str = "report.signed.pdf.enc", plain: bytes = b"signed bytes\n") -> Path:
        path = tmp_path / "in" / name
        path.parent.mkdir(exist_ok=True)
        with open(path, "wb") as out:
            write_envelope(io.BytesIO(plain), out, small_key)
        return path

    return make


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["A", "B", "C", "D"])
def test_the_vectors_open(name: str, opens: Any, vectors: Any, tmp_path: Path) -> None:
    """ENC-29, ENC-37: each published envelope, opened from its file with its three values."""
    vector = getattr(vectors, name)
    envelope, out = tmp_path / "v.enc", tmp_path / "v"
    if vector.envelope:
        envelope.write_bytes(bytes.fromhex(vector.envelope))
    else:
        key = EnvelopeKey(bytes.fromhex(vector.key))
        with open(envelope, "wb") as file:
            write_envelope(io.BytesIO(vector.plain), file, key, nonce=bytes.fromhex(vector.nonce))
    salt, rounds = vector.salt_b64, vector.iterations
    code = opens(
        "--in", envelope, "--out", out, "--salt-b64", salt, "--iterations", rounds, "--password", vector.password
    )
    assert code == 0
    assert out.read_bytes() == vector.plain


@pytest.mark.parametrize("size", SIZES)
def test_two_implementations_open_each_others_files(size: int, small_key: EnvelopeKey) -> None:
    """ENC-07: ours against one that was written from the description of the format alone, with other calls."""
    plain = bytes(index % 251 for index in range(size))
    raw = bytes(small_key.reveal())
    assert script.derive_key(PASSWORD, read_salt(SALT), 10_000) == raw
    ours = io.BytesIO()
    write_envelope(io.BytesIO(plain), ours, small_key)
    found = io.BytesIO()
    assert script.decrypt(ours, raw, found.write) == size
    assert found.getvalue() == plain
    nonce = os.urandom(12)
    theirs = b"BSENC\x00\x00\x00\x01" + nonce + AESGCM(raw).encrypt(nonce, plain, None)
    found = io.BytesIO()
    opening.open_envelope(io.BytesIO(theirs), len(theirs), small_key, found.write)
    assert found.getvalue() == plain


@pytest.mark.parametrize(
    ("damage", "code", "told"),
    [
        (lambda whole: whole[:36], 1, "too short"),
        (lambda whole: b"X" + whole[1:], 1, "unknown magic"),
        (lambda whole: whole[:8] + b"\x02" + whole[9:], 1, "version 2"),
        (lambda whole: whole[:-1], 2, "does not open"),
        (lambda whole: whole + b"\0", 2, "does not open"),
        (lambda whole: whole[:-1] + bytes([whole[-1] ^ 1]), 2, "does not open"),
    ],
)
def test_what_does_not_open_leaves_nothing(
    damage: Any, code: int, told: str, opens: Any, sealed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ENC-31, ENC-32, OPS-172: the exit code tells which, and no file is there, not even a temporary one."""
    envelope = sealed()
    envelope.write_bytes(damage(envelope.read_bytes()))
    assert opens("--in", envelope, "--out", tmp_path / "out.pdf", *GIVEN) == code
    shown = capsys.readouterr()
    assert told in shown.err
    assert shown.out == ""
    assert names(tmp_path) == ["in"]
    assert names(tmp_path / "in") == [envelope.name]


def test_a_wrong_password_is_code_two(opens: Any, sealed: Any, tmp_path: Path) -> None:
    """ENC-31, ENC-38."""
    assert opens("--in", sealed(), "--out", tmp_path / "out", *OPTIONS, "--password", PASSWORD + " ") == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--unknown",),
        ("--salt-b64", "not base64", "--password", PASSWORD),
        ("--salt-b64", "AAECAwQFBgcICQoLDA0O", "--password", PASSWORD),
        ("--salt-b64", SALT, "--iterations", "9999", "--password", PASSWORD),
        ("--salt-b64", SALT, "--iterations", "100000001", "--password", PASSWORD),
        ("--salt-b64", SALT, "--iterations", "many", "--password", PASSWORD),
        (*OPTIONS, "--password", ""),
        (*OPTIONS, "--password-env", "NOBODY_SET_THIS"),
        (*OPTIONS, "--password-file", "/nowhere/at/all"),
        (*OPTIONS, "--password", PASSWORD, "--password-env", "X"),
    ],
)
def test_wrong_options_are_code_three(options: Any, opens: Any, sealed: Any, tmp_path: Path) -> None:
    """ENC-30, ENC-31: also where argument parsers end with 2 by themselves."""
    assert opens("--in", sealed(), "--out", tmp_path / "out", *options) == 3
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_code_three(opens: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """ENC-31: it is named, without a trace."""
    assert opens("--in", tmp_path / "gone.enc", "--out", tmp_path / "out", *GIVEN) == 3
    shown = capsys.readouterr().err
    assert "gone.enc" in shown
    assert "Traceback" not in shown


def test_an_existing_file_is_left(opens: Any, sealed: Any, tmp_path: Path) -> None:
    """ENC-32: never without --force, whatever it is."""
    target = tmp_path / "out.pdf"
    target.write_bytes(b"mine")
    assert opens("--in", sealed(), "--out", target, *GIVEN) == 3
    assert target.read_bytes() == b"mine"
    assert opens("--in", sealed(), "--out", target, *GIVEN, "--force") == 0
    assert target.read_bytes() == b"signed bytes\n"
    dangling = tmp_path / "link"
    dangling.symlink_to(tmp_path / "elsewhere")
    assert opens("--in", sealed(), "--out", dangling, *GIVEN) == 3
    assert names(tmp_path) == ["in", "link", "out.pdf"]


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_the_password_from_a_file(ending: str, opens: Any, sealed: Any, tmp_path: Path) -> None:
    """ENC-15, ENC-30: one line end does not count, a mark of the encoding neither; a second line end does."""
    secret = tmp_path / "password"
    secret.write_bytes(b"\xef\xbb\xbf" + (PASSWORD + ending).encode())
    assert opens("--in", sealed(), "--out", tmp_path / "out", *OPTIONS, "--password-file", secret) == 0
    secret.write_bytes((PASSWORD + "\n\n").encode())
    assert opens("--in", sealed(), "--out", tmp_path / "out2", *OPTIONS, "--password-file", secret) == 2
    secret.write_bytes(PASSWORD.encode("utf-16"))
    assert opens("--in", sealed(), "--out", tmp_path / "out3", *OPTIONS, "--password-file", secret) == 3


def test_the_password_from_a_variable(opens: Any, sealed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENC-30."""
    monkeypatch.setenv("MY_PASSWORD", PASSWORD)
    assert opens("--in", sealed(), "--out", tmp_path / "out", *OPTIONS, "--password-env", "MY_PASSWORD") == 0


def test_the_password_is_asked_for(sealed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENC-30: in a terminal, and refused without one."""
    envelope = sealed()
    monkeypatch.setattr(tool, "_has_terminal", lambda: False)
    assert tool.main(["--in", str(envelope), *OPTIONS]) == 3
    monkeypatch.setattr(tool, "_has_terminal", lambda: True)
    monkeypatch.setattr(tool, "getpass", SimpleNamespace(getpass=lambda _: PASSWORD))
    assert tool.main(["--in", str(envelope), *OPTIONS]) == 0
    assert envelope.with_name("report.signed.pdf").read_bytes() == b"signed bytes\n"


def test_no_password_is_no_traceback(opens: Any, sealed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENC-31: the end of input where a password is asked for."""

    def end(_: str) -> str:
        raise EOFError

    monkeypatch.setattr(tool, "_has_terminal", lambda: True)
    monkeypatch.setattr("getpass.getpass", end)
    assert opens("--in", sealed(), "--out", tmp_path / "out", *OPTIONS) == 3


def test_a_folder_that_is_not_there_is_named(
    opens: Any, sealed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ENC-31: as the file that was asked for, not as a temporary one."""
    assert opens("--in", sealed(), "--out", tmp_path / "gone" / "out.pdf", *GIVEN) == 3
    assert "out.pdf" in capsys.readouterr().err


def test_a_name_without_the_suffix_needs_another(sealed: Any, tmp_path: Path) -> None:
    """ENC-30: nothing is guessed; a folder as target takes the name without `.enc`."""
    assert tool.main(["--in", str(sealed("report.bin")), *GIVEN]) == 3
    assert tool.main(["--in", str(sealed(".enc")), *GIVEN]) == 3
    assert tool.main(["--in", str(sealed("folha.reject.rem.enc")), "--out", str(tmp_path), *GIVEN]) == 0
    assert names(tmp_path) == ["folha.reject.rem", "in"]


def test_a_folder_is_opened_whole(sealed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """ENC-31: the good ones in spite of the bad ones, each with its line; the highest code counts."""
    for name in ("a.pdf.enc", "b.xml.ENC", "c.rem.p7m.enc"):
        sealed(name, name.encode())
    folder = sealed("d.enc").parent
    (folder / "d.enc").write_bytes(b"no envelope, but long enough to be one")
    (folder / "notes.txt").write_bytes(b"not asked for")
    out = tmp_path / "out" / "deep"
    assert tool.main(["--in", str(folder), "--out", str(out), *GIVEN]) == 1
    assert names(out) == ["a.pdf", "b.xml", "c.rem.p7m"]
    assert (out / "b.xml").read_bytes() == b"b.xml.ENC"
    assert [line.partition(":")[0].rpartition("/")[2] for line in capsys.readouterr().err.splitlines()] == [
        "a.pdf.enc",
        "b.xml.ENC",
        "c.rem.p7m.enc",
        "d.enc",
    ]
    assert tool.main(["--in", str(folder), "--out", str(out), *GIVEN]) == 3
    assert tool.main(["--in", str(out), *GIVEN]) == 3


def test_streams_are_opened(sealed: Any, tmp_path: Path) -> None:
    """ENC-31: standard input and output; nothing comes out of what does not open."""
    content = sealed(plain=b"x" * 300_000).read_bytes()
    command = [sys.executable, "-m", "bulksigner", "decrypt", "--in", "-", "--out", "-", *GIVEN]
    good = subprocess.run(command, input=content, capture_output=True, check=False)
    assert (good.returncode, good.stdout) == (0, b"x" * 300_000)
    bad = subprocess.run(command, input=content[:-1], capture_output=True, check=False)
    assert (bad.returncode, bad.stdout) == (2, b"")
    own = [sys.executable, str(SCRIPT), "--in", "-", "--out", "-", *GIVEN]
    assert subprocess.run(own, input=content, capture_output=True, check=True).stdout == b"x" * 300_000


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_part_of_an_output_is_no_success(program: str, sealed: Any, tmp_path: Path) -> None:
    """ENC-31, BEY-22: unbuffered, as Python runs in containers, a write that the disk takes in part is no error."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))"
    for size in (100_001, 700_000):
        with open(tmp_path / "out", "wb") as out:
            envelope = sealed(plain=bytes(size))
            done = run_program(program, "--in", envelope, "--out", "-", *GIVEN, first=limit, stdout=out, stderr=-1)
        assert done.returncode == 3, done.stderr
        assert b"File too large" in done.stderr


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_to_end_leaves_nothing_clear(program: str, name: str, sealed: Any, tmp_path: Path) -> None:
    """ENC-32: half-written clear text goes with the program; nothing is told as a success, and no trace printed."""
    first = f"os.fsync = lambda _: os.kill(os.getpid(), signal.{name})"
    done = run_program(program, "--in", sealed(), "--out", tmp_path / "out", *GIVEN, first=first, stderr=-1)
    assert (done.returncode, done.stderr) == (130, b"")
    assert names(tmp_path) == ["in"]


@pytest.mark.parametrize(("closed", "options"), [("stdin", ("--in", "-")), ("stdout", ("--out", "-"))])
def test_a_closed_stream_is_named(
    closed: str,
    options: tuple[str, str],
    opens: Any,
    sealed: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """ENC-31: a service manager or `<&-` may leave a stream out; that is no damaged file, and no trace."""
    monkeypatch.setattr(sys, closed, None)
    assert opens("--in", sealed(), "--out", tmp_path / "out", *options, *GIVEN) == 3
    assert "is closed" in capsys.readouterr().err


def test_messages_never_get_into_what_was_opened(
    opens: Any, sealed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """ENC-31: without a standard error nothing is told; `print` would turn to standard output."""
    monkeypatch.setattr(sys, "stderr", None)
    assert opens("--in", sealed(), "--out", "-", *GIVEN) == 0
    assert opens("--in", tmp_path / "gone", "--out", "-", *GIVEN) == 3
    assert capfdbinary.readouterr().out == b"signed bytes\n"


def test_the_longest_name_of_an_output_is_opened(opens: Any, sealed: Any, tmp_path: Path) -> None:
    """ENC-32, PIPE-90: the file beside the target needs no longer name than the target has."""
    name = f"{'n' * 243}.bin.p7m"[-251:]
    assert opens("--in", sealed(f"{name}.enc"), "--out", tmp_path / name, *GIVEN) == 0
    assert (tmp_path / name).read_bytes() == b"signed bytes\n"


@pytest.mark.parametrize("options", [("--in", ""), ("--out", ""), ("--out", "in/gone/")])
def test_an_empty_path_is_not_the_current_folder(
    options: tuple[str, str], opens: Any, sealed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENC-30: what a shell makes of a variable that nobody set; and a folder to write to is not made a file."""
    monkeypatch.chdir(tmp_path)
    given = {"--in": str(sealed()), "--out": "out", options[0]: options[1]}
    assert opens(*(text for pair in given.items() for text in pair), *GIVEN) == 3
    assert names(tmp_path) == ["in"]
    assert names(tmp_path / "in") == ["report.signed.pdf.enc"]


def test_a_password_that_is_no_text_is_told_without_it(
    opens: Any, sealed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ENC-15, ENC-30: bytes of another encoding on the command line."""
    assert opens("--in", sealed(), "--out", tmp_path / "out", *OPTIONS, "--password", "senha-\udce7") == 3
    told = capsys.readouterr().err
    assert "no Unicode text" in told
    assert "udce7" not in told


@pytest.mark.parametrize("has_links", [True, False])
def test_a_name_that_was_taken_meanwhile_is_left(
    has_links: bool, opens: Any, sealed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENC-32: also by who was faster; and where there are links, the name never stands for an empty file."""
    target = tmp_path / "out"
    link, flush, create = os.link, os.fsync, os.open
    taken: list[str] = []

    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    def note(path: Any, flags: int, *mode: int) -> int:
        taken.append(str(path))
        return create(path, flags, *mode)

    monkeypatch.setattr(os, "link", link if has_links else refuse)
    monkeypatch.setattr(os, "open", note)
    assert opens("--in", sealed(), "--out", target, *GIVEN) == 0
    assert target.read_bytes() == b"signed bytes\n"
    assert (str(target) in taken) == (not has_links)
    target.unlink()

    def be_faster(descriptor: int) -> None:
        flush(descriptor)
        target.write_bytes(b"mine")

    monkeypatch.setattr(os, "fsync", be_faster)
    assert opens("--in", sealed(), "--out", target, *GIVEN) == 3
    assert target.read_bytes() == b"mine"
    assert names(tmp_path) == ["in", "out"]


def test_a_pipe_in_the_place_of_a_file_is_read(sealed: Any, tmp_path: Path) -> None:
    """ENC-28: its length is that of what comes through it."""
    content = sealed().read_bytes()
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    try:
        assert tool.main(["--in", f"/dev/fd/{reader}", "--out", str(tmp_path / "out"), *GIVEN]) == 0
    finally:
        os.close(reader)
    assert (tmp_path / "out").read_bytes() == b"signed bytes\n"


def test_progress_is_told_on_long_work(
    sealed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """OPS-210: where it takes long, how far it is; short work is not talked over."""
    envelope = sealed(plain=bytes(2_000_000))
    assert tool.main(["--in", str(envelope), "--out", str(tmp_path / "quiet"), *GIVEN]) == 0
    assert "%" not in capsys.readouterr().err
    monkeypatch.setattr(opening, "_PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(opening, "_PROGRESS_STEP_BYTES", 1_000_000)
    assert tool.main(["--in", str(envelope), "--out", str(tmp_path / "told"), *GIVEN]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if line.endswith("%")]
    assert len(told) >= 3
    assert told[0].startswith(f"{envelope.name}: ")


def test_the_command_has_the_codes_of_the_tool(sealed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """ENC-31, OPS-210: `bulksigner decrypt` too ends with 3, not 2, for wrong options."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["decrypt", "--nonsense"])
    assert ended.value.code == 3
    assert "bulksigner decrypt" in capsys.readouterr().err
    assert cli.main(["decrypt", "--in", str(sealed()), *GIVEN]) == 0


def test_what_was_opened_is_for_its_owner(opens: Any, sealed: Any, tmp_path: Path) -> None:
    """ENC-32: clear text that somebody encrypted is not left readable for everyone."""
    assert opens("--in", sealed(), "--out", tmp_path / "out", *GIVEN) == 0
    assert (tmp_path / "out").stat().st_mode & 0o077 == 0


def test_the_script_needs_nothing_of_this_package() -> None:
    """ENC-29: one file and `cryptography`."""
    assert "bulksigner" not in SCRIPT.read_text(encoding="utf-8")
    isolated = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.modules['bulksigner'] = None; exec(open({str(SCRIPT)!r}).read(), {{}})",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert isolated.returncode == 0, isolated.stderr
