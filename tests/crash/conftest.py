"""Stories that lives die in, lanes that repeat them, and what must hold whatever the moment of death."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from bulksigner.encryption.envelope import MAGIC, SUFFIX
from bulksigner.testing.certificates import Issued, KeyKind
from bulksigner.testing.harness import prepare
from bulksigner.testing.kill import DIED, KEY, Moment, Plan
from bulksigner.testing.lives import Ended, Life, live
from bulksigner.testing.postgres import PostgresServer

LANES = 3
_MIGRATED = "records.migrate.migrate"
_CHANGES = (
    "records.sqlite.SqliteStore.write",
    "records.postgresql.PostgresqlStore.write",
    "records.migrate.migrate",
    "files.exclusive.rename_exclusive",
    KEY,
)
_STATEMENT = "records.migrate.Migration.statements.item"
_HARMLESS = ("os.fsync",)
_REFUSED = ("file.already-processed", "job.metadata-invalid")


@attrs.frozen
class Story:
    """What the life does that dies: files dropped beforehand, with sidecars by the names of their files, an upload, a
    retry.

    `earlier` finds, in the trace of a life on the same files, the moment at which a first life died already; the story
    then begins with what that left.
    """

    name: str
    drops: Mapping[str, bytes] = attrs.field(factory=dict)
    sidecars: Mapping[str, bytes] = attrs.field(factory=dict)
    upload: tuple[str, bytes] | None = None
    retries: bool = False
    is_first_boot: bool = False
    earlier: Callable[[Sequence[Moment]], Moment] | None = None
    settings: Mapping[str, object] = attrs.field(factory=dict)

    @property
    def contents(self) -> list[bytes]:
        """Return every input of the story."""
        return [*self.drops.values(), *([self.upload[1]] if self.upload else [])]


_RECEIPT = ".receipt"


def read_trace(plan: Plan) -> list[Moment]:
    """Return the moments that lives on the plan's folder noted, in order."""
    lines = [json.loads(line) for line in plan.trace.read_text(encoding="utf-8").splitlines()]
    return [attrs.evolve(Moment.parse(text), subject=subject, recorded=recorded) for text, subject, recorded in lines]


def choose_moments(trace: Sequence[Moment], *, with_boot: bool) -> list[Moment]:
    """Leave out the moments that find everything as the one before them did: nothing was changed in between.

    What a transaction did so far is no change, though a migration is looked into at each tenth statement. Without the
    boot, that ends with the migration of the database.
    """
    last = next(index for index, moment in enumerate(trace) if moment.step == _MIGRATED and moment.side == "after")
    chosen = [trace[0 if with_boot else last]]
    for moment in trace[0 if with_boot else last + 1 :]:
        is_call = moment.step.startswith("os.") and moment.step not in _HARMLESS
        is_sample = moment.step == _STATEMENT and moment.number % 10 == 0
        if moment.side == "after" and (is_call or is_sample or moment.step in _CHANGES):
            chosen.append(moment)
    return chosen


class Lane:
    """One folder on which a story is repeated from the same beginning, with a database of its own."""

    def __init__(self, folder: Path, story: Story, issued: Issued, server: PostgresServer | None) -> None:
        self.folder = folder / "service"
        self._saved = folder / "saved"
        self._server = server
        self._template = server.create_database() if server else None
        self._database = self._template
        # A retry needs the failed job that the earlier death leaves.
        self.story = attrs.evolve(story, retries=False)
        password = "senha" if story.is_first_boot else ""
        url = server.url_of(self._template) if server and self._template else None
        prepare(self.folder, issued=issued, password=password, database_url=url, settings=story.settings)
        if not story.is_first_boot:
            assert live(Life(self.folder)).code == 0
        for name, content in story.sidecars.items():
            (self.folder / "inbox" / f"{name}.meta.json").write_bytes(content)
        for name, content in story.drops.items():
            (self.folder / "inbox" / name).write_bytes(content)
        self._save()
        if story.earlier is not None:
            moment = story.earlier(self.trace())
            self.begin()
            assert self.live(dies_at=moment).code == -9, f"{moment.text()} did not come"
            if story.retries:
                assert live(Life(self.folder)).code == 0
            self._save()
        self.story = story

    def begin(self) -> None:
        """Put everything back to the beginning of the story."""
        shutil.rmtree(self.folder)
        shutil.copytree(self._saved, self.folder)
        if self._server is None or self._template is None or self._database is None:
            return
        fresh = self._server.create_database(self._template)
        if self._database != self._template:
            self._server.drop_database(self._database)
        settings = self.folder / "settings.json"
        settings.write_text(settings.read_text(encoding="utf-8").replace(self._template, fresh), encoding="utf-8")
        self._database = fresh

    def live(self, *, is_traced: bool = False, plans_workers: bool = False, **plan: Any) -> Ended:
        """Live the story, as far as the plan lets it."""
        return live(
            Life(
                self.folder,
                upload=self.story.upload,
                retries=self.story.retries,
                plan=Plan(self.folder, is_traced=is_traced, **plan),
                plans_workers=plans_workers,
            )
        )

    def trace(self, **plan: Any) -> list[Moment]:
        """Live the story to its end and return its moments."""
        self.begin()
        ended = self.live(is_traced=True, **plan)
        assert ended.code == 0, ended.printed
        return read_trace(Plan(self.folder))

    def die(self, moment: Moment, **plan: Any) -> list[str]:
        """Live the story, die at the moment, recover, and return what does not hold then."""
        self.begin()
        died = self.live(dies_at=moment, **plan)
        if not (self.folder / DIED).exists():
            return [f"the moment did not come; the life ended with {died.code}\n{died.printed}"]
        if clear := list(self._clear_outputs()):
            return clear
        recovered = live(Life(self.folder, restarts=1))
        if recovered.code != 0:
            return [f"the next life ended with {recovered.code}\n{recovered.printed}"]
        return list(self.broken_rules(*recovered.runs))

    def broken_rules(self, first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[str]:
        """Yield what does not hold after a recovery (BEY-51)."""
        jobs, files = first["jobs"], first["files"]
        if (jobs, files) != (second["jobs"], second["files"]) or second["interrupted"]:
            yield f"a second restart changed something: {first} became {second}"
        if files["data/processing"] or files["data/landing"] or files["data/refusals"] or first["unexplained"]:
            yield f"work folders are not empty: {files}"
        if any(name.startswith(".") for name in (*files["inbox"], *files["data/output"])):
            yield f"a private name was left: {files}"
        for job in jobs:
            if job["status"] not in ("Completed", "Failed"):
                yield f"a job has not ended: {job}"
        yield from self._lost_inputs(jobs, files)
        yield from self._astray(jobs, files)
        outputs = files["data/output"]
        yield from self._unexplained_outputs(jobs, {name: outputs[name] for name in outputs if _RECEIPT not in name})
        yield from self._broken_receipts(jobs, [name for name in outputs if _RECEIPT in name])
        yield from self._clear_outputs()
        for digest, uses in Counter(self._uses()).items():
            if uses > 1:
                yield f"the key was used {uses} times for the input {digest}"

    def _uses(self) -> list[str]:
        uses = Plan(self.folder).uses
        return uses.read_text(encoding="utf-8").split() if uses.exists() else []

    def _lost_inputs(self, jobs: Sequence[Mapping[str, Any]], files: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
        for content in self.story.contents:
            digest = hashlib.sha256(content).hexdigest()
            outputs = {job["output_path"] for job in jobs if _has_delivered(job) and job["staged_sha256"] == digest}
            is_kept = digest in files["inbox"].values() or digest in files["data/error"].values()
            is_acknowledged = self.story.upload is None or bool(jobs)
            if not outputs and not is_kept and is_acknowledged:
                yield f"an input is lost: {jobs} {files}"
            if len(outputs) > 1:
                yield f"one input has several outputs: {outputs}"

    def _astray(self, jobs: Sequence[Mapping[str, Any]], files: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
        ids = tuple(job["id"] for job in jobs)
        for path in files["data/error"]:
            if not path.startswith(ids) or any(part.startswith(".") for part in Path(path).parts):
                yield f"{path} in error/ has no job: {jobs}"
        for name, content in self.story.sidecars.items():
            if (name in files["inbox"]) != (f"{name}.meta.json" in files["inbox"]):
                yield f"the sidecar of {name} did not go where its file went: {files}"
            is_refused = any(job["error_code"] in _REFUSED and job["file_name"] == name for job in jobs)
            if is_refused and hashlib.sha256(content).hexdigest() not in files["data/error"].values():
                yield f"the sidecar of the refused {name} is lost: {files}"

    def _unexplained_outputs(self, jobs: Sequence[Mapping[str, Any]], outputs: Mapping[str, str]) -> Iterator[str]:
        claims = Counter((Path(job["output_path"]).name, job["output_sha256"]) for job in jobs if _has_delivered(job))
        # The content beside a detached signature.
        claims.update(
            (Path(job["companion_path"]).name, job["staged_sha256"]) for job in jobs if _has_left_content(job)
        )
        if claims != Counter(outputs.items()):
            yield f"the outputs {outputs} are not those that jobs name: {claims}"

    def _broken_receipts(self, jobs: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[str]:
        """Yield what does not hold of receipts: one for each completed job, signed, in one chain (BEY-03)."""
        completed = {job["id"]: job for job in jobs if job["status"] == "Completed"}
        if not self.story.settings.get("Receipts:Enabled"):
            completed = {}
        output = self.folder / "data" / "output"
        contents = [(output / name).read_bytes() for name in names if name.endswith(".json")]
        receipts = sorted(map(json.loads, contents), key=lambda receipt: receipt["chain"]["number"])
        if [receipt["chain"]["number"] for receipt in receipts] != list(range(1, len(completed) + 1)):
            yield f"the receipts {receipts} are not one chain of {list(completed)}"
        if {receipt["job"]: receipt["output"]["sha256"] for receipt in receipts} != {
            job_id: job["output_sha256"] for job_id, job in completed.items()
        }:
            yield f"the receipts {receipts} are not those of {completed}"
        if sorted(name for name in names if name.endswith(".p7s")) != sorted(
            f"{name}.p7s" for name in names if name.endswith(".json")
        ):
            yield f"not every receipt has one signature: {names}"

    def _clear_outputs(self) -> Iterator[str]:
        """Yield what lies in clear where only envelopes may (ENC-02)."""
        if not self.story.settings.get("Encryption:Enabled"):
            return
        for path in (self.folder / "data" / "output").iterdir():
            content = path.read_bytes()
            # A start tries the folder out with an empty file.
            if content and (path.suffix != SUFFIX or not content.startswith(MAGIC)):
                yield f"{path.name} lies in clear in output/"

    def _save(self) -> None:
        shutil.rmtree(self._saved, ignore_errors=True)
        shutil.copytree(self.folder, self._saved)
        (self._saved / "trace").unlink(missing_ok=True)
        self._template = self._database
        if self._server is not None and self._template is not None:
            self._server.end_connections(self._template)

    def close(self) -> None:
        """Remove the databases."""
        for name in {self._template, self._database} - {None}:
            self._server.drop_database(name)


def _has_delivered(job: Mapping[str, Any]) -> bool:
    told = f"Output delivered: {job['output_path']}."
    return job["status"] == "Completed" or (job["status"] == "Failed" and told in (job["error_message"] or ""))


def _has_left_content(job: Mapping[str, Any]) -> bool:
    told = f"Content delivered: {job['companion_path']}."
    return job["companion_path"] is not None and (job["status"] == "Completed" or told in (job["error_message"] or ""))


def die_everywhere(lanes: Sequence[Lane], moments: Sequence[Moment], **plan: Any) -> dict[str, list[str]]:
    """Die at each moment, the lanes side by side; returns what did not hold, by moment."""
    waiting = iter(moments)
    guard = threading.Lock()

    def work(lane: Lane) -> dict[str, list[str]]:
        found = {}
        while True:
            with guard:
                moment = next(waiting, None)
            if moment is None:
                return found
            if broken := lane.die(moment, **plan):
                found[moment.text()] = broken

    with ThreadPoolExecutor(len(lanes)) as pool:
        return {text: broken for found in pool.map(work, lanes) for text, broken in found.items()}


@pytest.fixture(scope="session")
def quick_leaf(authority: Any) -> Issued:
    """An ECDSA certificate: its key is checked in no time at each start."""
    return authority.issue(kind=KeyKind.ECDSA_P256)


@pytest.fixture
def crash(tmp_path: Path, quick_leaf: Issued, request: pytest.FixtureRequest) -> Iterator[SimpleNamespace]:
    """Hand out what this module has, as test modules cannot import it; `make_lanes` takes a story and an engine."""
    if sys.platform == "win32":
        pytest.skip("processes are forked and killed by signal")

    def make(story: Story, engine: str = "sqlite", count: int = LANES) -> list[Lane]:
        server = request.getfixturevalue("postgres_server") if engine == "postgresql" else None
        lanes = [Lane(tmp_path / f"lane-{number}", story, quick_leaf, server) for number in range(count)]
        for lane in lanes:
            stack.callback(lane.close)
        return lanes

    with ExitStack() as stack:
        yield SimpleNamespace(
            Story=Story, make_lanes=make, choose_moments=choose_moments, die_everywhere=die_everywhere
        )
