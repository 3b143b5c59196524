"""What HTTP may do with a service: each act of a route, with what follows its commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

import attrs

from bulksigner.jobs import listing
from bulksigner.life import Service
from bulksigner.operations.people import Person
from bulksigner.pipeline.pause import PauseState
from bulksigner.records import event_log
from bulksigner.records.sqlite import SqliteStore
from bulksigner.web.clients import ProxyTrust
from bulksigner.web.entrance import AllowedHosts, Entrance
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

    return WebServices(
        api_key=core.auth.api_key,
        api_key_header=core.auth.api_key_header,
        environment=settings.environment,
        uploads_enabled=core.upload.enabled,
        max_upload_bytes=core.upload.max_bytes,
        receive_upload=prompt(service.uploads.receive),
        rescan=prompt(operations.rescanning.rescan),
        find_job=prompt(service.jobs.get),
        find_page=prompt(partial(listing.page, service.store)),
        read_history=prompt(partial(listing.history, service.store)),
        retry=prompt(operations.operator.retry),
        cancel=prompt(operations.operator.cancel),
        clear=prompt(operations.clearing.clear),
        read_pipeline=prompt(read_pipeline),
        pause=prompt(turn(operations.pausing.pause)),
        resume=prompt(turn(operations.pausing.resume)),
        find_events=prompt(partial(event_log.event_page, service.store)),
        find_event_types=prompt(partial(event_log.event_types, service.store)),
        output_root=service.roots.output,
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
        backups_supported=isinstance(service.store, SqliteStore),
    )
