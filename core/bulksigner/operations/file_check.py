"""Would this file be signed, and if not why: the checks of door and pipeline, run on a file without a job (BEY-10)."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import attrs

from bulksigner.contract.errors import BulkSignerError, NotAllowed, NotFound, StepFailed
from bulksigner.contract.policy import SignatureSpec
from bulksigner.contract.signing import Format, Measured
from bulksigner.contract.validation import Finding, Severity, StagedFile
from bulksigner.files.durable import copy_measured, remove_file
from bulksigner.files.names import child_of
from bulksigner.files.work import WorkRoots
from bulksigner.formats.spec import BASELINE_B
from bulksigner.intake.names import IgnoreRules, clean_client_name
from bulksigner.intake.taken_names import TakenNames
from bulksigner.intake.upload import DEFAULT_PROFILE, read_format
from bulksigner.jobs.model import Job
from bulksigner.pipeline.tasks import LookTask
from bulksigner.pipeline.validators import ask_validators
from bulksigner.plugin_system.registry import Registry
from bulksigner.profiles.model import OpenedProfile, StoredProfile
from bulksigner.trust.validation import CertificateValidation

__all__ = ["FileCheck", "FileReport", "output_of", "report_members"]

_NAME = "file name"
_PROFILE = "profile"


@attrs.frozen
class FileReport:
    """The findings on one file under one profile, in the order in which a job would meet them."""

    profile: str
    findings: tuple[Finding, ...]

    @property
    def would_sign(self) -> bool:
        """Tell whether nothing found would end the job."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)


@attrs.frozen
class FileCheck:
    """Looks at files.

    `format_of` chooses where neither caller nor profile names a format; `look` has the engine look at the content;
    `scrub` takes secrets out of what a plugin says; `options` are what requests to sign say to their method.
    """

    profile: Callable[[str], OpenedProfile | None]
    registry: Registry
    format_of: Callable[[str, StoredProfile], Format]
    rules: IgnoreRules
    names: TakenNames
    roots: WorkRoots
    look: Callable[[LookTask], tuple[Finding, ...]]
    validation: CertificateValidation
    scrub: Callable[[str], str]
    now: Callable[[], datetime.datetime]
    options: Mapping[str, str] = attrs.field(factory=dict)

    def receive(self, stream: BinaryIO, *, file_name: str, profile: str | None, format: str | None) -> FileReport:
        """Look at a file that comes as a stream; nothing of it stays.

        Raises `Refusal`: `profile.not-found`, `upload.format-unsupported`, `upload.empty`, `upload.invalid-name`.
        """
        opened, chosen = self.find_profile(profile), read_format(format)
        place = child_of(self.roots.landing, f"{uuid.uuid4()}.check")
        measured = copy_measured(stream, place, flush=False)
        try:
            if not measured.length:
                raise NotAllowed("The upload has no file, or the file is empty.", code="upload.empty")
            name = clean_client_name(file_name, self.rules)
            return self.check(place, measured, name=name, profile=opened, format=chosen)
        finally:
            remove_file(place)

    def find_profile(self, wanted: str | None) -> OpenedProfile:
        """Return a profile by its name in any case, `default` for none; raises `NotFound`."""
        name = (wanted or "").strip() or DEFAULT_PROFILE
        found = self.profile(name)
        if found is None:
            raise NotFound(f"There is no signing profile {name!r}.", code="profile.not-found")
        return found

    def check(
        self, path: Path, measured: Measured, *, name: str, profile: OpenedProfile, format: Format | None = None
    ) -> FileReport:
        """Look at a file on disk as if it had come under `name`; `format` wins over the profile's."""
        chosen = format or self.format_of(name, profile.stored)
        findings = (
            *self._find_in_profile(profile, chosen),
            *self._find_in_name(name, profile.stored, chosen),
            *self._find_in_content(StagedFile(path, name, chosen, measured), profile),
        )
        return FileReport(profile.name, findings)

    def _find_in_profile(self, profile: OpenedProfile, format: Format) -> Iterator[Finding]:
        if not profile.stored.enabled:
            yield _error(
                "profile.disabled", _PROFILE, f"The signing profile '{profile.name}' is disabled.", "Enable it."
            )
        if profile.degraded is not None:
            text = f"Signing profile '{profile.name}' cannot sign: {self.scrub(profile.degraded)}"
            yield _error("profile.degraded", _PROFILE, text, "Mend what is named, then reopen or restart.")
        reason = profile.outside_validity(self.now())
        if reason is not None:
            yield _error("sign.certificate-invalid", "certificate", reason, "Configure a certificate that is in force.")
        elif (refusal := self._find_refusal(profile)) is not None:
            yield _error("sign.certificate-invalid", "certificate", refusal, "Look at `bulksigner profiles test`.")
        try:
            self._spec(profile, format)
        except StepFailed as failed:
            yield _error(failed.code or "sign.failed", _PROFILE, failed.message, "")

    def _find_refusal(self, profile: OpenedProfile) -> str | None:
        """Ask of the certificate what a job asks; may wait for its authority."""
        if profile.key is None or not profile.stored.validate_certificate:
            return None
        verdict = self.validation.judge(profile.key, require_non_repudiation=profile.stored.require_non_repudiation)
        if verdict.refused is None:
            return None
        return f"The certificate of signing profile '{profile.name}' was refused: {self.scrub(verdict.refused)}"

    def _spec(self, profile: OpenedProfile, format: Format) -> SignatureSpec | None:
        """Return what the signature would carry; raises `StepFailed`."""
        return None if profile.rules is None else profile.rules.spec(format, self.now())

    def _find_in_name(self, name: str, stored: StoredProfile, format: Format) -> Iterator[Finding]:
        holder = self.names.holder_of(name)
        if holder is not None:
            text = f"Job {holder.id} ({holder.status.value}) has a file of this name."
            yield _error("file.already-processed", _NAME, text, "Send it under another name, or delete that job first.")
        try:
            signed = self.roots.output_path(stored.name_output(name, format))
        except BulkSignerError as refused:
            yield _error("upload.invalid-name", _NAME, refused.message, "Give the file a shorter name.")
            return
        places = [signed]
        if stored.is_detached(format):
            places.append(self.roots.output_path(name))
        for taken in places:
            if holder is None and taken.exists():
                text = f"A file called {taken.name} lies in the output folder."
                yield _error("promote.output-exists", _NAME, text, "Take it away, or send the file under another name.")

    def _find_in_content(self, file: StagedFile, profile: OpenedProfile) -> Iterator[Finding]:
        try:
            for findings in ask_validators(self.registry, profile.extras, file, subject="a file to be checked"):
                yield from findings
        except BulkSignerError as broken:
            # Fails closed, as the job would.
            yield _error(broken.code or "internal", "validator", self.scrub(broken.message), "Mend the plugin.")
        try:
            spec = self._spec(profile, file.format)
        except StepFailed:
            # Told already; the content is looked at all the same.
            spec = None
        spec = profile.stored.spec_of(spec or BASELINE_B, file.file_name, file.format)
        try:
            options = profile.stored.sign_options(self.options, file.format)
            task = LookTask(file.path, file.format, file.measured, options, spec, profile.pdf_choice(file.format))
            yield from self.look(task)
        except BulkSignerError as failed:
            yield _error(failed.code or "sign.failed", "file", self.scrub(failed.message), "Look at the log.")


def _error(code: str, place: str, text: str, remedy: str) -> Finding:
    return Finding(code, Severity.ERROR, place, text, remedy)


def report_members(report: FileReport) -> dict[str, object]:
    """Return a report as it is shown to programs (API-103)."""
    return {
        "profile": report.profile,
        "wouldSign": report.would_sign,
        "findings": [
            {
                "code": finding.code,
                "severity": finding.severity.value,
                "place": finding.place,
                "text": finding.text,
                "remedy": finding.remedy,
            }
            for finding in report.findings
        ],
    }


def output_of(job: Job, stored: StoredProfile) -> str | None:
    """Return the name of a job's output by the profile's naming as it is now (PIPE-89); None for one without a name."""
    try:
        return stored.name_output(job.file_name, job.format)
    except StepFailed:
        return None
