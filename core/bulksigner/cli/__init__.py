"""The command line: one function for each command, imported when it runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bulksigner.cli.output import forgiving_output
from bulksigner.cli.profile_verbs import add_profile_verbs
from bulksigner.contract.errors import BulkSignerError, ConfigurationRefused, StartRefused
from bulksigner.encryption.arguments import SUMMARY, add_arguments

__all__ = ["main"]

EXIT_UNEXPECTED = 1
EXIT_REFUSED = 78


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (OPS-24 to OPS-30)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["decrypt"]:
        # With the exit codes of the tool of its own, for wrong options as well (ENC-31).
        from bulksigner.encryption.tool import main as decrypt

        return decrypt(given[1:], prog="bulksigner decrypt")
    parser = _parser()
    parsed, left = parser.parse_known_args(given)
    if left and (not hasattr(parsed, "keys") or any(one.startswith("-") for one in left)):
        parser.error(f"unrecognized arguments: {' '.join(left)}")
    if left:
        # Of keys behind an option the parser takes none.
        parsed.keys += left
    if parsed.command is None:
        parser.error("name a command; `bulksigner --help` lists them")
    with forgiving_output():
        return _run(parsed)


def _run(parsed: argparse.Namespace) -> int:
    # Each command imports its own needs: worker processes import this module again and must start fast.
    from bulksigner.observability.crashes import describe_crash
    from bulksigner.observability.redaction import Scrubber, list_environment_secrets

    # What is in files joins when they are read.
    scrubber = Scrubber(list_environment_secrets(os.environ))
    try:
        if parsed.command == "init":
            from bulksigner.cli.scaffold import init

            return init(parsed.directory, pfx=parsed.pfx, force=parsed.force)
        if parsed.command == "version":
            from bulksigner.cli.report import show_version

            return show_version()
        if parsed.command == "plugins":
            from bulksigner.cli.report import show_plugins

            return show_plugins()
        if parsed.command == "check":
            from bulksigner.cli.service import check

            return check(as_json=parsed.json)
        if parsed.command == "check-file":
            from bulksigner.cli.file_check import check_file

            return check_file(parsed.path, profile=parsed.profile, format=parsed.format, as_json=parsed.json)
        if parsed.command in ("profiles", "profile"):
            from bulksigner.cli.profiles import run

            return run(parsed)
        if parsed.command == "jobs":
            from bulksigner.cli.jobs import delete_job

            return delete_job(parsed.id, reason=parsed.reason, is_confirmed=parsed.yes)
        if parsed.command == "names":
            from bulksigner.cli.names import release_name

            return release_name(parsed.name, by=parsed.by)
        if parsed.command == "secrets":
            from bulksigner.cli.secrets import check_secrets

            return check_secrets()
        if parsed.command == "statistics":
            from bulksigner.cli.figures import show_statistics

            return show_statistics(as_json=parsed.json)
        if parsed.command == "retention":
            from bulksigner.cli.retention import retention

            return retention(parsed.action, preview=parsed.preview, by=parsed.by, shows_all=parsed.list)
        if parsed.command == "audit":
            from bulksigner.cli.accounts import audit

            return audit(start=parsed.start, end=parsed.end, hashes=parsed.hashes, as_json=parsed.json)
        if parsed.command == "receipts":
            from bulksigner.cli.receipts import verify_receipts

            return verify_receipts(start=parsed.start, end=parsed.end, as_json=parsed.json)
        if parsed.command in ("backup", "verify-backup", "restore"):
            from bulksigner.cli import backups

            if parsed.command == "backup":
                return backups.backup(to=parsed.to)
            return (backups.restore if parsed.command == "restore" else backups.verify_backup)(parsed.file)
        from bulksigner.cli.service import serve

        return serve(scrubber, copies_before_migration=not parsed.skip_pre_migration_backup)
    except ConfigurationRefused as error:
        print("The settings were refused; nothing was started.", file=sys.stderr)
        for failure in error.failures:
            print(f"  {scrubber.scrub(failure.line())}", file=sys.stderr)
        _hint_at_files()
        return EXIT_REFUSED
    except StartRefused as error:
        print(f"Not started: {scrubber.scrub(error.message)}", file=sys.stderr)
        return error.exit_code
    except BulkSignerError as error:
        print(scrubber.scrub(error.message), file=sys.stderr)
        return EXIT_UNEXPECTED
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - the interpreter would print it with whatever secret it quotes
        sys.stderr.write(describe_crash(error, scrubber))
        return EXIT_UNEXPECTED


def _hint_at_files() -> None:
    """Say it when no settings file was there to be read; every required key is missing then."""
    from bulksigner.settings.variables import HostVariables

    variables = HostVariables.read(os.environ)
    places = [place for place in (variables.content_root, variables.config_dir) if place is not None]
    if any(found for place in places for found in place.glob("settings*.*")):
        return
    looked = " or ".join(str(place) for place in places)
    print(
        f"There is no settings file in {looked}. Start the command in the folder that has it, name that folder with "
        "BULK_SIGNER_CONTENT_ROOT, or make one: bulksigner init DIRECTORY",
        file=sys.stderr,
    )


def _add_job_verbs(commands: Any) -> None:
    jobs = commands.add_parser("jobs", help="act on single jobs, also while the service runs")
    verbs = jobs.add_subparsers(dest="verb", metavar="VERB", required=True)
    delete = verbs.add_parser("delete", help="delete one job with what it left")
    delete.add_argument("id", help="id of the job")
    delete.add_argument("--reason", metavar="TEXT", help="why; the event keeps it")
    delete.add_argument("--yes", action="store_true", help="delete without asking")
    names = commands.add_parser("names", help="act on names of files that were signed, also while the service runs")
    name_verbs = names.add_subparsers(dest="verb", metavar="VERB", required=True)
    release = name_verbs.add_parser("release", help="free the name of a job that retention removed")
    release.add_argument("name", help="name of the file, without a folder; case does not matter")
    release.add_argument("--by", metavar="NAME", help="who does it; without it the account of the terminal")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bulksigner", description="Bulk signing server: files come in, leave signed, verified and accounted for."
    )
    parser.add_argument("--version", action="store_const", const="version", dest="command", help="same as `version`")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    serve = commands.add_parser("serve", help="run the service in the foreground")
    serve.add_argument(
        "--skip-pre-migration-backup",
        action="store_true",
        help="do not copy a SQLite database before its schema changes",
    )
    init = commands.add_parser("init", help="write a starter settings file that `serve` accepts")
    init.add_argument("directory", help="the folder to write it to; created when missing")
    init.add_argument("--pfx", metavar="FILE", help="PKCS#12 file to sign with; its password is asked for")
    init.add_argument("--force", action="store_true", help="replace an existing settings file")
    check = commands.add_parser("check", help="check settings, keys and folders without starting anything")
    check.add_argument("--json", action="store_true", help="print the rows as JSON")
    look = commands.add_parser("check-file", help="tell whether a file would be signed, and if not why")
    look.add_argument("path", type=Path, help="the file; nothing of it is kept")
    look.add_argument("--profile", metavar="NAME", help="signing profile; without it `default`")
    look.add_argument("--format", metavar="FORMAT", help="signature format; without it the profile's choice")
    look.add_argument("--json", action="store_true", help="print the findings as JSON")
    add_profile_verbs(commands)
    _add_job_verbs(commands)
    statistics = commands.add_parser("statistics", help="show how long completed jobs took, stage by stage")
    statistics.add_argument("--json", action="store_true", help="print the figures as JSON")
    audit = commands.add_parser("audit", help="name every file that no job accounts for")
    audit.add_argument("--from", metavar="TIME", dest="start", help="only what was taken or written from then on")
    audit.add_argument("--to", metavar="TIME", dest="end", help="only what was taken or written before then")
    audit.add_argument("--hashes", action="store_true", help="read every output in full and compare it")
    audit.add_argument("--json", action="store_true", help="print the result as JSON")
    receipts = commands.add_parser("receipts", help="prove what was signed, also while the service runs")
    receipt_verbs = receipts.add_subparsers(dest="verb", metavar="VERB", required=True)
    walk = receipt_verbs.add_parser("verify", help="walk the receipts and name the first gap, edit or missing file")
    walk.add_argument("--from", metavar="TIME", dest="start", help="only those of jobs completed from then on")
    walk.add_argument("--to", metavar="TIME", dest="end", help="only those of jobs completed before then")
    walk.add_argument("--json", action="store_true", help="print the result as JSON")
    backup = commands.add_parser("backup", help="copy the SQLite database, also while the service runs")
    backup.add_argument("--to", metavar="DIRECTORY", help="where to; without it `Backup:Disk:Path`")
    verify = commands.add_parser("verify-backup", help="check a backup without changing anything")
    verify.add_argument("file", help="the backup, a file ending in .db with its .json beside it")
    restore = commands.add_parser("restore", help="put a backup in the place of the database; stop the service first")
    restore.add_argument("file", help="the backup, a file ending in .db with its .json beside it")
    retention = commands.add_parser("retention", help="look at what the retention policy lets go, accept it, apply it")
    retention.add_argument(
        "action",
        choices=("status", "preview", "acknowledge", "run"),
        help="`status`, `preview`, `acknowledge` or `run`",
    )
    retention.add_argument("--preview", metavar="ID", help="the preview that is acknowledged")
    retention.add_argument("--by", metavar="NAME", help="who does it; without it the account of the terminal")
    retention.add_argument("--list", action="store_true", help="with `preview`: print every item, not only the counts")
    add_arguments(commands.add_parser("decrypt", help=SUMMARY))
    commands.add_parser("plugins", help="list what is loaded, failed or switched off")
    commands.add_parser("version", help="print version and plugins")
    return parser
