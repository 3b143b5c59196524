"""`python -m bulksigner.testing.demo`: sign four files with a real service and have other tools check them."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from bulksigner.contract.errors import BulkSignerError
from bulksigner.testing.demo import report
from bulksigner.testing.demo.follow import Followed, deliver, follow, open_client
from bulksigner.testing.demo.ground import DELIVERIES, PASSWORD, Ground, lay_ground
from bulksigner.testing.demo.proof import ask_others, check_commands, missing_packages
from bulksigner.testing.demo.service import DemoService

EXIT_INTERRUPTED = 130


def main() -> int:
    """Run the demonstration; return 0 only when all files were signed and no tool refused one."""
    parser = argparse.ArgumentParser(prog="python -m bulksigner.testing.demo", description=__doc__)
    parser.add_argument("folder", nargs="?", default="demo-run", help="replaced on every run (default: demo-run)")
    folder = Path(parser.parse_args().folder).absolute()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A pipe sees each line when it is written, and a terminal that lacks a letter does not end the run.
        sys.stdout.reconfigure(line_buffering=True, errors="replace")
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _run(folder)
    except BulkSignerError as error:
        print(f"\nThe demo did not succeed: {error.message}")
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; the service was stopped.")
        return EXIT_INTERRUPTED


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run(folder: Path) -> int:
    print(f"1. Throw-away certificates and settings in {folder}")
    ground = lay_ground(folder)
    print(f"   certificate: {ground.pfx} (password {PASSWORD})")
    with DemoService(ground) as service:
        print("2. Starting the service")
        service.start()
        print(f"   ready at {service.url}, process {service.process_id}, log {ground.log}")
        print("3. Handing in four files")
        with open_client(ground, service) as client:
            known = deliver(ground, client, _tell)
            print("4. Waiting for the jobs (times are UTC, from their timelines)")
            jobs = follow(service, client, known, _tell)
        succeeded = _judge(ground, jobs)
        if os.environ.get("KEEP") == "1":
            service.detach()
            print(f"\n{report.keep_text(ground, service)}")
        else:
            service.stop()
            print("\nThe service was stopped; everything is still in the folder. KEEP=1 leaves it running.")
    return 0 if succeeded else 1


def _tell(line: str) -> None:
    print(f"   {line}")


def _judge(ground: Ground, jobs: list[Followed]) -> bool:
    """Print times, verdicts and commands; tell whether everything was signed and nothing was refused."""
    signed = [(job, ground.output / job.output_name) for job in jobs if job.output_name is not None]
    print(f"\nTime in each stage\n\n{report.table(jobs, ground.output)}")
    opinions = [(path.name, ask_others(job.delivery, path, ground)) for job, path in signed]
    if opinions:
        print("\nVerified by the service before delivery; what other tools say\n")
        print(report.opinions_text(opinions))
        print(f"\nCheck them yourself, from {Path.cwd()}\n")
        print(report.commands_text([(path.name, check_commands(job.delivery, path, ground)) for job, path in signed]))
        if packages := missing_packages([job.delivery for job, _ in signed]):
            print(f"\n  # Tools that are not installed here: apt-get install {' '.join(packages)}")
    refused = sum(opinion.accepted is False for _, given in opinions for opinion in given)
    tail = f"; NOT VALID for other tools: {refused}" if refused else ""
    print(f"\n{len(signed)} of {len(DELIVERIES)} files signed and verified{tail}")
    if len(signed) < len(DELIVERIES):
        print("What a failed job tells: docs/howto/read-a-failure.md")
    return len(signed) == len(DELIVERIES) and not refused


if __name__ == "__main__":
    sys.exit(main())
