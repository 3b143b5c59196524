"""`bulksigner serve` and `bulksigner check`."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from types import FrameType

from bulksigner import panels
from bulksigner.app import build
from bulksigner.boot import lay_foundation, product_version
from bulksigner.console.banner import name_banner
from bulksigner.contract.errors import BulkSignerError
from bulksigner.exposure import expose
from bulksigner.inspection import inspect
from bulksigner.life import Service
from bulksigner.observability.crashes import forbid_core_files, tell_crashes
from bulksigner.observability.redaction import Scrubber
from bulksigner.serving import HttpServer

__all__ = ["check", "serve"]

log = logging.getLogger(__name__)

EXIT_CHECK_FAILED = 1
SAME_WISH_SECONDS = 0.5
"""Some callers signal the process and then its group; that is one wish to stop, not two."""


def serve(scrubber: Scrubber, *, copies_before_migration: bool = True) -> int:
    """Run the service until it is told to stop; return 0 after a clean stop (OPS-18 to OPS-21).

    The settings' secrets are made known to `scrubber`.
    """
    stopping = threading.Event()
    _stop_on_signals(stopping)
    print(name_banner(product_version()), flush=True)
    tell_crashes(scrubber)
    forbid_core_files()
    foundation = lay_foundation(os.environ, scrubber=scrubber)
    encryption = foundation.settings.core.encryption
    if encryption.enabled:
        # Signing workers, and whatever a plugin starts, would inherit it (ENC-19).
        os.environ.pop(encryption.password_env_var, None)
    service = build(foundation, copies_before_migration=copies_before_migration)
    try:
        server = HttpServer(foundation.variables.addresses)
    except BaseException:
        service.close()
        raise
    try:
        service.start()
        server.start(expose(service), threads=foundation.settings.core.hosting.threads)
        service.record_start()
        panels.show(service, server.addresses)
        _wait(stopping)
    except BulkSignerError:
        raise
    except Exception:
        # Here, as the log is closed when the command tells of it (OPS-25).
        log.critical("The service ends with an error that nobody expected", exc_info=True)
        raise
    finally:
        left = _stop(service, server)
    if left:
        # Threads of jobs that would not end must not hold up the exit; the next start settles their jobs (CLU-04).
        sys.stdout.flush()
        os._exit(0)
    return 0


def check(*, as_json: bool) -> int:
    """Check settings, keys and folders without starting anything; exit 1 when a gating row is red (OPS-203)."""
    report = inspect(lay_foundation(os.environ))
    if as_json:
        rows = [{"name": row.name, "ok": row.ok, "gating": row.gating, "detail": row.detail} for row in report.rows]
        print(json.dumps({"ready": report.ready, "checks": rows, "warnings": list(report.warnings)}, indent=2))
    else:
        width = max(len(row.name) for row in report.rows)
        for row in report.rows:
            mark = "ok  " if row.ok else ("FAIL" if row.gating else "WARN")
            print(f"{mark}  {row.name:<{width}}  {row.detail}")
        for line in report.warnings:
            print(f"WARN  {line}")
    return 0 if report.ready else EXIT_CHECK_FAILED


def _stop_on_signals(stopping: threading.Event) -> None:
    first_at = 0.0

    def ask(number: int, _: FrameType | None) -> None:
        nonlocal first_at
        if not stopping.is_set():
            first_at = time.monotonic()
            stopping.set()
        elif time.monotonic() - first_at > SAME_WISH_SECONDS:
            # A second signal means now (OPS-21), for the signing workers as well.
            for worker in multiprocessing.active_children():
                worker.kill()
            os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)


def _wait(stopping: threading.Event) -> None:
    # Without a time limit the main thread of some platforms does not see signals.
    while not stopping.wait(3600):
        continue


def _stop(service: Service, server: HttpServer) -> int:
    log.info("Service stopping")
    server.stop()
    return service.stop()
