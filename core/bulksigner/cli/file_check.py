"""`bulksigner check-file`: would this file be signed, and if not why (BEY-10, OPS-250)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bulksigner.boot import lay_foundation, plan_validation
from bulksigner.cli.desk import open_database
from bulksigner.contract.errors import BulkSignerError, join
from bulksigner.files.durable import measure
from bulksigner.files.work import WorkRoots
from bulksigner.intake.enqueue import format_for
from bulksigner.intake.folders import open_folders
from bulksigner.intake.names import clean_client_name
from bulksigner.intake.taken_names import TakenNames
from bulksigner.intake.upload import read_format
from bulksigner.jobs.model import utc_now
from bulksigner.jobs.names import Names
from bulksigner.operations.file_check import FileCheck, FileReport, report_members
from bulksigner.pipeline.tasks import look_here
from bulksigner.profiles.deployment import deployment_salt
from bulksigner.profiles.model import OpenedProfile
from bulksigner.profiles.opened import ProfileOpener
from bulksigner.profiles.seal import Sealer
from bulksigner.profiles.store import ProfileStore
from bulksigner.records.notes import StoredNotes

__all__ = ["check_file"]

EXIT_WOULD_NOT_SIGN = 1


def check_file(path: Path, *, profile: str | None, format: str | None, as_json: bool) -> int:
    """Look at a file as the pipeline would, also beside a running service; exit 1 when it would not be signed."""
    try:
        measured = measure(path)
    except OSError as error:
        raise BulkSignerError(f"{path} cannot be read: {error.strerror or error}.") from error
    with _open() as check:
        name = clean_client_name(path.name, check.rules)
        report = check.check(path, measured, name=name, profile=check.find_profile(profile), format=read_format(format))
    print(json.dumps(report_members(report), indent=2, ensure_ascii=False) if as_json else _told(path, report))
    return 0 if report.would_sign else EXIT_WOULD_NOT_SIGN


@contextmanager
def _open() -> Iterator[FileCheck]:
    foundation = lay_foundation(os.environ)
    core = foundation.settings.core
    scrubber = foundation.scrubber
    with open_database(foundation) as store:
        foundation.registry.hand_notes(partial(StoredNotes, store, utc_now))
        rows = ProfileStore(store)
        sealer = Sealer(core.signing.profile_secrets_key, partial(deployment_salt, store, utc_now))
        opener = ProfileOpener(
            foundation.registry, sealer, scrubber.register, core.encryption.enabled, foundation.policies
        )
        folders = open_folders(core.storage, core.watched_folder, foundation.registry.storage_provider)
        opened: list[OpenedProfile] = []

        def find(name: str) -> OpenedProfile | None:
            stored = rows.get(name)
            if stored is None:
                return None
            opened.append(opener.open(stored))
            return opened[-1]

        try:
            yield FileCheck(
                profile=find,
                registry=foundation.registry,
                format_of=lambda name, stored: format_for(name, stored, foundation.plugins.choose_format),
                rules=folders.landing.rules,
                names=TakenNames(Names(store), is_on=core.pipeline.reject_already_processed_file_names),
                roots=WorkRoots(core.storage.root),
                look=look_here,
                validation=plan_validation(foundation),
                scrub=scrubber.scrub,
                now=utc_now,
                options=core.pdf.options,
            )
        finally:
            for profile in opened:
                if profile.key is not None:
                    profile.key.close()


def _told(path: Path, report: FileReport) -> str:
    verdict = "would be signed" if report.would_sign else "would not be signed"
    lines = [f"{path} {verdict} under the profile '{report.profile}'."]
    for finding in report.findings:
        place = f" at {finding.place}" if finding.place else ""
        lines.append(f"  {finding.severity.value}  {finding.code}{place}: {join(finding.text, finding.remedy)}")
    return "\n".join(lines)
