"""A whole service on temporary folders, composed as in production and stepped by hand in the calling thread."""

from __future__ import annotations

import io
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bulksigner.app import build
from bulksigner.boot import lay_foundation
from bulksigner.jobs import listing
from bulksigner.jobs.model import HistoryEntry, Job
from bulksigner.jobs.states import ACTIVE
from bulksigner.lanes import Done
from bulksigner.life import Service
from bulksigner.operations.people import Person
from bulksigner.pipeline.tasks import Task
from bulksigner.records import event_log
from bulksigner.testing.certificates import Issued, make_authority

__all__ = ["API_KEY", "Harness", "NeverIdle", "prepare"]

API_KEY = "a key for tests only"
OPERATOR = Person("operator", "ApiKey")
_SETTINGS = "settings.json"
_IS_INPUT_NAME = re.compile(r"Storage:Inputs:\d+:Name")
_PAGE = 500
_PAUSE_SECONDS = 0.02


class NeverIdle(AssertionError):
    """Report that the service still had work when its time was up, and which."""


def prepare(
    folder: Path,
    *,
    issued: Issued | None = None,
    password: str = "senha de teste",
    database_url: str | None = None,
    engine: str = "InProcess",
    settings: Mapping[str, object] | None = None,
) -> Path:
    """Write the settings and the certificate of a service into `folder`, and return it.

    One folder `inbox`, one profile `default` that chooses the format by extension, files stable at the first look.
    `settings` overrides keys such as `"Storage:Inputs:1:Name"`; None takes a key away. Without `issued` the
    certificate is one of a new authority. An empty `password` leaves nothing to be sealed, which halves the time of
    a start.
    """
    keys: dict[str, object] = {
        "Auth:ApiKey": API_KEY,
        "RateLimiting:Enabled": "false",
        "Storage:Root": str(folder / "data"),
        "Storage:Inputs:0:Name": "inbox",
        "Storage:Inputs:0:Path": str(folder / "inbox"),
        "Storage:Inputs:0:Profile": "default",
        "ConnectionStrings:Default": database_url or f"Data Source={folder / 'data' / 'db' / 'bulksigner.db'}",
        "Database:Provider": "PostgreSql" if database_url else "Sqlite",
        "Signing:Engine": engine,
        "Signing:Trust:RootsPath": str(folder / "trust"),
        "Signing:ProfileSecretsKey": "a sealing key for tests, 32 long",
        "Signing:Profiles:0:Name": "default",
        "Signing:Profiles:0:Certificate:Source": "Pfx",
        "Signing:Profiles:0:Certificate:Pfx:Path": str(folder / "certificate.pfx"),
        "Signing:Profiles:0:Certificate:Pfx:Password": password,
        "WatchedFolder:StabilityPollIntervalMs": 50,
        "WatchedFolder:StabilityRequiredSamples": 1,
        **(settings or {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trust").mkdir(exist_ok=True)
    certificate = issued or make_authority().issue()
    certificate.write_pfx(folder / "certificate.pfx", password)
    certificate.write_root_pem(folder / "trust" / "root.pem")
    given = {key: value for key, value in keys.items() if value is not None}
    (folder / _SETTINGS).write_text(json.dumps(given, indent=2), encoding="utf-8")
    for path in _input_folders(given).values():
        path.mkdir(parents=True, exist_ok=True)
    return folder


class Harness:
    """The service on a folder that `prepare` made, perhaps in another process; built at its first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys: Mapping[str, object] = json.loads((folder / _SETTINGS).read_text(encoding="utf-8"))
        self.root = Path(str(self.keys["Storage:Root"]))
        self._inputs = _input_folders(self.keys)
        self._service: Service | None = None

    @property
    def environ(self) -> dict[str, str]:
        """Return the variables under which `bulksigner serve` runs on the same folder."""
        return {"BULK_SIGNER_CONTENT_ROOT": str(self.folder), "BULK_SIGNER_ALLOW_ROOT": "1"}

    @property
    def service(self) -> Service:
        """Return the service, building it (and so recovering what an earlier life left) at the first use."""
        if self._service is None:
            self._service = build(lay_foundation(self.environ, self.folder))
        return self._service

    def input_folder(self, name: str | None = None) -> Path:
        """Return the path of an input folder, by default the first one."""
        return next(iter(self._inputs.values())) if name is None else self._inputs[name]

    def drop(self, name: str, content: bytes, *, folder: str | None = None) -> Path:
        """Put a file into an input folder, complete from the first look on; returns its path."""
        path = self.input_folder(folder) / name
        arriving = path.with_name(f".{name}.arriving")
        arriving.write_bytes(content)
        arriving.replace(path)
        return path

    def upload(
        self,
        name: str,
        content: bytes,
        *,
        profile: str | None = None,
        format: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Job:
        """Send a file through the door that the REST interface uses; returns its job."""
        return self.service.uploads.receive(
            io.BytesIO(content),
            file_name=name,
            profile=profile,
            format=format,
            declared_length=len(content),
            metadata=None if metadata is None else json.dumps(metadata),
        )

    def retry(self, job: Job) -> Job:
        """Retry a failed job as an operator would; returns the new job."""
        return self.service.operations.operator.retry(job.id, OPERATOR).job

    def before_task(self, kind: type[Task[Any]], act: Callable[[Task[Any]], object]) -> None:
        """Have `act` called once, when the engine is about to begin its next task of a kind."""
        engine = self.service.engine
        begin = engine.begin

        def intervene(task: Task[Any], done: Done) -> None:
            if isinstance(task, kind):
                vars(engine).pop("begin")
                act(task)
            begin(task, done)

        vars(engine)["begin"] = intervene

    def run_until_idle(self, timeout_seconds: float = 60.0) -> list[Job]:
        """Let edits, watchers and worker take turns until nothing is left to do; returns every job, oldest first.

        Raises `NeverIdle` with the work that is left.
        """
        service = self.service
        deadline = time.monotonic() + timeout_seconds
        while True:
            service.profile_watch.step()
            service.watchers.step()
            worked = service.worker.step()
            if service.receipts is not None:
                service.receipts.settle()
            waiting = sum(status.candidate_count for status in service.watchers.statuses())
            active = sum(count for status, count in service.jobs.counts().items() if status in ACTIVE)
            if not worked and not waiting and not active:
                return self.jobs()
            if time.monotonic() > deadline:
                raise NeverIdle(f"After {timeout_seconds} s: {waiting} files not stable, {active} jobs not ended.")
            if not worked:
                time.sleep(_PAUSE_SECONDS)

    def jobs(self) -> list[Job]:
        """Return every job, oldest first."""
        store, found, number = self.service.store, list[Job](), 1
        while items := listing.page(store, page=number, page_size=_PAGE).items:
            found.extend(items)
            number += 1
        return found[::-1]

    def history(self, job: Job) -> list[HistoryEntry]:
        """Return the history of a job, oldest first."""
        return listing.history(self.service.store, job.id)

    def event_kinds(self) -> Counter[str]:
        """Return how many events of each kind were written."""
        page = event_log.event_page(self.service.store, event_log.EventFilter(), page_size=_PAGE)
        return Counter(event.event_type for event in page.items)

    def probe_holds(self) -> None:
        """Have each profile that is held probed at the next look (BEY-20)."""
        if self.service.holds is not None:
            self.service.holds.probe_soon()

    def output(self, name: str) -> Path:
        """Return the path of a finished file, whether it exists or not."""
        return self.root / "output" / name

    def outputs(self) -> list[str]:
        """Return the names of all finished files, sorted."""
        return sorted(path.name for path in (self.root / "output").iterdir())

    def restart(self) -> None:
        """End this life and begin the next one on the same folder."""
        self.close()
        self.service  # noqa: B018 - building it is the start

    def close(self) -> None:
        """End this life; closing twice is harmless."""
        if self._service is not None:
            service, self._service = self._service, None
            # Watchers that were only stepped hold their watches; a service that was not started stops none.
            service.watchers.stop()
            service.stop()


def _input_folders(keys: Mapping[str, object]) -> dict[str, Path]:
    names = {key.removesuffix(":Name"): str(keys[key]) for key in keys if _IS_INPUT_NAME.fullmatch(key)}
    return {name: Path(str(keys[f"{key}:Path"])) for key, name in names.items()}
