"""What HTTP may do with a service: each act of a route, with what follows its commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

import attrs

from bulksigner.jobs import listing
from bulksigner.jobs.model import Job
from bulksigner.life import Service
from bulksigner.operations.file_check import output_of
from bulksigner.operations.people import Person
from bulksigner.pipeline.pause import PauseState
from bulksigner.records import event_log
from bulksigner.records.sqlite import SqliteStore
from bulksigner.web.clients import ProxyTrust
from bulksigner.web.entrance import AllowedHosts, Entrance
from bulksigner.web.guards import Policy
from bulksigner.web.rate_limits import RateLimits
from bulksigner.web.services import PipelineView, WebServices

__all__ = ["expose"]

P = ParamSpec("P")
R = TypeVar("R")


def expose(service: Service) -> WebServices:
    """Return what the routes call."""
    settings, core = service.foundation.settings, service.foundation.settings.core
    operations = service.operations

    def read_pipeline() -> PipelineView:
        under_way = Counter(job.format for job in service.jobs.in_flight())
        return PipelineView(service.pause.read(), core.pipeline.max_concurrency, under_way)

    def turn(act: Callable[[Person, str | None], PauseState]) -> Callable[[Person, str | None], PipelineView]:
        """Answer a pause or a resume with the whole view, the flag being the one that was written."""

        def run(person: Person, reason: str | None) -> PipelineView:
            state = act(person, reason)
            return attrs.evolve(read_pipeline(), state=state)

        return run

    def prompt(act: Callable[P, R]) -> Callable[P, R]:
        """Have the act fail at once when the database is away: few threads answer HTTP, and health needs one."""

        def run(*args: P.args, **options: P.kwargs) -> R:
            with service.store.promptly():
                return act(*args, **options)

        return run

    def name_output(job: Job) -> str | None:
        profile = service.profiles.get(job.profile_name)
        return None if profile is None else output_of(job, profile.stored)

    return WebServices(
        api_key=core.auth.api_key,
        api_key_header=core.auth.api_key_header,
        environment=settings.environment,
        uploads_enabled=core.upload.enabled,
        max_upload_bytes=core.upload.max_bytes,
        receive_upload=prompt(service.uploads.receive),
        check_file=prompt(service.file_check.receive),
        rescan=prompt(operations.rescanning.rescan),
        find_job=prompt(service.jobs.get),
        find_page=prompt(partial(listing.page, service.store)),
        each_job=partial(listing.each, service.store),
        read_history=prompt(partial(listing.history, service.store)),
        retry=prompt(operations.operator.retry),
        cancel=prompt(operations.operator.cancel),
        clear=prompt(operations.clearing.clear),
        read_pipeline=prompt(read_pipeline),
        pause=prompt(turn(operations.pausing.pause)),
        resume=prompt(turn(operations.pausing.resume)),
        find_events=prompt(partial(event_log.event_page, service.store)),
        find_event_types=prompt(partial(event_log.event_types, service.store)),
        list_profiles=lambda: service.profiles.all,
        find_profile=service.profiles.get,
        find_hold=_find_nothing if service.holds is None else service.holds.find,
        output_root=service.roots.output,
        name_output=name_output,
        scratch=service.roots.landing,
        report_readiness=service.readiness.report,
        codes=service.foundation.codes,
        entrance=Entrance(
            AllowedHosts.of(core.allowed_hosts),
            ProxyTrust.of(core.hosting.forwarded_headers),
            core.hosting.require_https,
        ),
        sessions=service.sessions,
        limits=RateLimits(core.rate_limiting, threads=core.hosting.threads),
        spool=service.roots.landing,
        backups=service.backups,
        retention=service.retention,
        scrub=service.foundation.scrubber.scrub,
        list_folders=operations.folder_list.look,
        metrics=service.metrics,
        policies={
            "/api/metrics": Policy.OPERATOR if core.metrics.require_api_key else Policy.ANONYMOUS,
            "/api/ready": Policy.OPERATOR if core.readiness.require_api_key else Policy.ANONYMOUS,
        },
        backups_supported=isinstance(service.store, SqliteStore),
    )


def _find_nothing(name: str) -> None:
    """Stand in where no profile is held."""
