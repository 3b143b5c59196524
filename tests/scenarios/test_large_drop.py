"""A drop of thousands, written at every speed: each file ends once."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bulksigner.testing.certificates import Authority
from bulksigner.testing.files import CrossReference, pdf_file, text_file, xml_file
from bulksigner.testing.served import ServedService
from bulksigner.testing.verify import verify_cms_with_openssl, verify_pdf_with_pyhanko, verify_xml_with_xmlsec1

pytestmark = pytest.mark.slow

COUNT = 2_000
SAMPLED = 20
LIMIT_SECONDS = 240.0
INTERVAL_MS, SAMPLES = 200, 5
WRITERS, SLOW_AT_ONCE = 4, 64
# A fifth of the time for which a file must stand still.
PAUSE_SECONDS = INTERVAL_MS * SAMPLES / 1000 / 5


def contents() -> Iterator[tuple[str, str, bytes]]:
    """Yield stem, extension and content without end, the kinds in turn."""
    encodings = ("UTF-8", "UTF-16", "ISO-8859-1")
    for number in itertools.count():
        seed, kind = number % 40, number % 4
        if kind == 0:
            yield f"{number:05}", ".pdf", pdf_file(pages=1, seed=seed, cross_reference=CrossReference.CLASSIC)
        elif kind == 1:
            yield f"{number:05}", ".pdf", pdf_file(pages=1, seed=seed, cross_reference=CrossReference.STREAM)
        elif kind == 2:
            yield f"{number:05}", ".xml", xml_file(items=1, encoding=encodings[number // 4 % 3], seed=seed)
        else:
            yield f"{number:05}", ".txt", text_file(size_bytes=1_500, seed=seed)


def write_slowly(batch: list[tuple[Path, bytes]]) -> None:
    """Write files side by side, in three pieces each, with pauses that a hasty watcher would take for the end."""
    for piece in range(3):
        for path, content in batch:
            third = len(content) // 3
            with path.open("ab") as file:
                file.write(content[piece * third : (piece + 1) * third if piece < 2 else None])
        time.sleep(PAUSE_SECONDS)


def rename_into_place(path: Path, content: bytes) -> None:
    arriving = path.with_name(f"{path.name}.part")
    arriving.write_bytes(content)
    arriving.rename(path)


def drop(inbox: Path, files: list[tuple[str, bytes]]) -> None:
    """Drop half slowly, a quarter by rename and a quarter at once, from several writers."""
    slow = [(inbox / name, content) for name, content in files[::2]]
    batches = iter([slow[start : start + SLOW_AT_ONCE] for start in range(0, len(slow), SLOW_AT_ONCE)])
    guard = threading.Lock()

    def write_batches() -> None:
        while True:
            with guard:
                batch = next(batches, None)
            if batch is None:
                return
            write_slowly(batch)

    writers = [threading.Thread(target=write_batches) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    for name, content in files[1::4]:
        rename_into_place(inbox / name, content)
    for name, content in files[3::4]:
        (inbox / name).write_bytes(content)
    for writer in writers:
        writer.join()


def test_every_file_of_a_large_drop_ends_once(serve: Callable[..., ServedService], authority: Authority) -> None:
    """PIPE-113, PIPE-43, BEY-01: one Completed job and one output for each file; nothing else is left anywhere."""
    service = serve(
        {
            "Pipeline:MaxConcurrency": 4,
            "WatchedFolder:StabilityPollIntervalMs": INTERVAL_MS,
            "WatchedFolder:StabilityRequiredSamples": SAMPLES,
        }
    )
    files = [(stem + extension, content) for stem, extension, content in itertools.islice(contents(), COUNT)]
    inbox = service.root / "inbox"
    drop(inbox, files)
    deadline = time.monotonic() + LIMIT_SECONDS
    while service.count("Completed") + service.count("Failed") < COUNT:
        assert time.monotonic() < deadline, service.last_lines()
        time.sleep(0.25)
    jobs = service.jobs()
    assert Counter(job["status"] for job in jobs) == {"Completed": COUNT}
    assert Counter(job["fileName"] for job in jobs) == Counter(name for name, _ in files)
    outputs = {path.name: path for path in service.output.iterdir()}
    assert len(outputs) == COUNT
    assert not list(inbox.iterdir())
    assert service.stop() == 0
    assert not list((service.data / "processing").iterdir())
    assert not list((service.data / "error").iterdir())
    verify = {".pdf": verify_pdf_with_pyhanko, ".xml": verify_xml_with_xmlsec1, ".p7m": verify_cms_with_openssl}
    for name in random.Random(COUNT).sample(sorted(outputs), SAMPLED):
        verdict = verify[outputs[name].suffix](outputs[name], [authority.root_der])
        assert verdict, f"{name}: {verdict.output}"
