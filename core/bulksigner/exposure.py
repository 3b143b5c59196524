"""What HTTP may do with a service: each act of a route, with what follows its commit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

import attrs

from bulksigner.intake.rescan import Rescanner
from bulksigner.jobs import listing
from bulksigner.jobs.model import Changed
from bulksigner.life import Service
from bulksigner.operations.operator import Operator
from bulksigner.profiles.model import StoredProfile
from bulksigner.profiles.opened import OpenedProfiles
from bulksigner.records.sqlite import SqliteStore
from bulksigner.web.services import WebServices

__all__ = ["expose"]

P = ParamSpec("P")
R = TypeVar("R")


@attrs.frozen
class _StoredProfiles:
    """The profiles as an operator action asks for them."""

    opened: OpenedProfiles

    def get(self, name: str) -> StoredProfile | None:
        found = self.opened.get(name)
        return None if found is None else found.stored


def expose(service: Service) -> WebServices:
    """Return what the routes call."""
    settings, core = service.foundation.settings, service.foundation.settings.core
    rescanner = Rescanner(service.folders, service.enqueue, service.profiles.bound, core.watched_folder)
    operator = Operator(
        service.jobs,
        service.queue,
        _StoredProfiles(service.profiles),
        lambda job: service.folders.input_exists(job.original_path),
    )

    def retry(job_id: str) -> Changed:
        changed = operator.retry(job_id)
        service.announce(changed)
        return changed

    def prompt(act: Callable[P, R]) -> Callable[P, R]:
        """Have the act fail at once when the database is away: few threads answer HTTP, and health needs one."""

        def run(*args: P.args, **options: P.kwargs) -> R:
            with service.store.promptly():
                return act(*args, **options)

        return run

    return WebServices(
        api_key=core.auth.api_key,
        api_key_header=core.auth.api_key_header,
        environment=settings.environment,
        uploads_enabled=core.upload.enabled,
        max_upload_bytes=core.upload.max_bytes,
        receive_upload=prompt(service.uploads.receive),
        rescan=prompt(rescanner.rescan),
        find_job=prompt(service.jobs.get),
        find_page=prompt(partial(listing.page, service.store)),
        read_history=prompt(partial(listing.history, service.store)),
        retry=prompt(retry),
        output_root=service.roots.output,
        report_readiness=service.readiness.report,
        codes=service.foundation.codes,
        backups=service.backups,
        retention=service.retention,
        backups_supported=isinstance(service.store, SqliteStore),
    )
