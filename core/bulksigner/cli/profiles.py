"""`bulksigner profiles`: the saves of `profiles.editor` and what is stored, from another process than the service."""

from __future__ import annotations

import argparse
import datetime
import errno
import getpass
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from bulksigner.cli.desk import Desk, open_desk
from bulksigner.console.certificate import describe_certificate
from bulksigner.console.profile_panel import list_exceptions
from bulksigner.contract.errors import BulkSignerError, NotFound
from bulksigner.contract.settings import Secret
from bulksigner.profiles.change import KEEP, ProfileChange
from bulksigner.profiles.editor import Saved
from bulksigner.profiles.model import OpenedProfile, StoredProfile
from bulksigner.profiles.opened import OpenedProfiles
from bulksigner.profiles.seal import key_of
from bulksigner.settings.signatures import XmlFlavor

__all__ = ["run"]

EXIT_CHECK_FAILED = 1
SECRET_LIMIT_BYTES = 64 * 1024
ACTOR = "operator (command line)"


def run(parsed: argparse.Namespace) -> int:
    """Run one verb and return the exit code: 0 done, 1 refused or, for `test`, a certificate that does not open."""
    verbs: Mapping[str, Callable[[Desk, argparse.Namespace], int]] = {
        "list": _list,
        "show": _show,
        "set": _set,
        "create": _create,
        "test": _test,
        "bind": lambda desk, given: _edit(desk, given.name, ProfileChange(folder=given.folder)),
        "unbind": lambda desk, given: _edit(desk, given.name, ProfileChange(folder=None)),
        "enable": lambda desk, given: _edit(desk, given.name, ProfileChange({"Enabled": "true"})),
        "disable": _disable,
    }
    with open_desk(os.environ) as desk:
        return verbs[parsed.verb](desk, parsed)


def _list(desk: Desk, parsed: argparse.Namespace) -> int:
    stored = desk.profiles.all()
    if parsed.json:
        print(json.dumps({"profiles": [_facts(desk, profile) for profile in stored]}, indent=2, ensure_ascii=False))
        return 0
    if not stored:
        print("There is no profile; uploads will be refused. Make one: bulksigner profiles create NAME")
        return 0
    width = max(len(profile.name) for profile in stored)
    for profile in stored:
        print(f"{profile.name:<{width}}  {' · '.join(_tokens(desk, profile))}")
    return 0


def _tokens(desk: Desk, profile: StoredProfile) -> list[str]:
    parts = [
        "enabled" if profile.enabled else "disabled",
        profile.format.value if profile.format else "auto",
        f"cert={profile.certificate_source or 'none'}",
        f"verify={'on' if profile.verify else 'off'}",
        f"encrypt={'on' if profile.encrypt else 'off'}",
        f"validate-cert={'on' if profile.validate_certificate else 'off'}",
    ]
    parts += list_exceptions(profile)
    if profile.input_folder is not None:
        missing = "" if profile.input_folder in desk.folders else " (not configured on this host)"
        parts.append(f"folder={profile.input_folder}{missing}")
    if profile.damage is not None:
        parts.append("DAMAGED")
    return parts


def _show(desk: Desk, parsed: argparse.Namespace) -> int:
    profile = _find(desk, parsed.name)
    facts = _facts(desk, profile) | {
        "certificate": dict(profile.certificate_block),
        "secrets": {key_of(field): "configured" for field in profile.sealed},
        "pluginKeys": dict(profile.extras),
    }
    if parsed.json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return 0
    for key, value in facts.items():
        if isinstance(value, dict):
            for below, one in value.items():
                print(f"{f'{key}.{below}':<24} {_word(one)}")
        else:
            print(f"{key:<24} {_word(value)}")
    return 0


def _facts(desk: Desk, profile: StoredProfile) -> dict[str, object]:
    """Return what may be shown of a profile, in the words of API-73; of a secret only that it is there (SEC-51)."""
    folder = profile.input_folder
    return {
        "name": profile.name,
        "enabled": profile.enabled,
        "inputFolder": folder,
        "inputFolderConfigured": folder is None or folder in desk.folders,
        "format": profile.format.value if profile.format else None,
        "method": profile.method,
        "certificateSource": profile.certificate_source,
        "verify": profile.verify,
        "preserveFileExtension": profile.preserve_file_extension,
        "saveAsPem": profile.save_as_pem,
        "encrypt": profile.encrypt,
        "validateCertificate": profile.validate_certificate,
        "requireNonRepudiation": profile.require_non_repudiation,
        "policy": profile.policy if profile.xml_flavor is XmlFlavor.XADES else None,
        "padesFilter": profile.pades_filter.value if profile.pades_filter else None,
        "cadesExisting": profile.cades_existing.value,
        "cadesContent": profile.cades_content.value,
        "xmlFlavor": profile.xml_flavor.value,
        "xmlSha1Until": str(profile.xml_sha1_until) if profile.xml_sha1_until else None,
        "xmlPlacement": profile.xml_placement.value,
        "xmlSignElement": profile.xml_sign_element,
        "crossCheck": list(profile.cross_check),
        "appearance": dict(profile.appearance) or None,
        "pdfPasswords": f"{len(profile.pdf_passwords)} configured" if profile.pdf_passwords else None,
        "damage": profile.damage,
        "rowVersion": profile.row_version,
    }


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return "-" if value is None else str(value)


def _set(desk: Desk, parsed: argparse.Namespace) -> int:
    values: dict[str, str | None] = dict(_split(given, "KEY=VALUE") for given in parsed.keys)
    values.update(dict.fromkeys(parsed.reset))
    secrets = _read_secrets(parsed) | {key: Secret("") for key in parsed.remove_secret}
    if not values and not secrets and not parsed.reopen:
        raise BulkSignerError("Nothing was asked for; name a key, such as Verify=false, or use --reopen.")
    change = ProfileChange(values, secrets, reopens=parsed.reopen, read_version=parsed.expect)
    return _edit(desk, parsed.name, change)


def _create(desk: Desk, parsed: argparse.Namespace) -> int:
    values: dict[str, str | None] = dict(_split(given, "KEY=VALUE") for given in parsed.keys)
    change = ProfileChange(values, _read_secrets(parsed), KEEP if parsed.folder is None else parsed.folder)
    return _tell(desk, desk.editor.create(parsed.name, change, by=ACTOR))


def _disable(desk: Desk, parsed: argparse.Namespace) -> int:
    return _edit(desk, parsed.name, ProfileChange({"Enabled": "false"}, folder=None if parsed.unbind else KEEP))


def _edit(desk: Desk, name: str, change: ProfileChange) -> int:
    return _tell(desk, desk.editor.edit(name, change, by=ACTOR))


def _tell(desk: Desk, saved: Saved) -> int:
    profile, before = saved.profile, saved.before
    if not saved.is_changed:
        print(f"Profile '{profile.name}' is like that already; nothing was saved.")
        return 0
    print(f"Profile '{profile.name}' saved (row version {profile.row_version}).")
    seconds = 2 * desk.poll_interval_seconds
    print(f"A running service takes it over within {seconds:g} seconds; jobs already queued keep their profile.")
    if before is None or _what_its_key_must_do(before) != _what_its_key_must_do(profile):
        print(f"See that its certificate opens and signs so: bulksigner profiles test {profile.name}")
    return 0


def _what_its_key_must_do(profile: StoredProfile) -> tuple[object, ...]:
    """Return what decides whether the key signs: the certificate, and what a signature is to be."""
    kind = (profile.format, profile.policy, profile.xml_flavor, profile.xml_sha1_until)
    return (profile.certificate_version, *kind, profile.validate_certificate, profile.require_non_repudiation)


def _test(desk: Desk, parsed: argparse.Namespace) -> int:
    """Open the certificate and print its facts; sign nothing (OPS-207)."""
    stored = _find(desk, parsed.name)
    try:
        opened = desk.opener.open_or_raise(stored)
    except BulkSignerError as error:
        print(f"FAIL  Profile '{stored.name}': {desk.scrub(error.message)}")
        return EXIT_CHECK_FAILED
    holder = OpenedProfiles([opened])
    try:
        if opened.key is None:
            print(f"ok    Profile '{opened.name}' needs no key: {opened.keyless}")
            return 0
        now = datetime.datetime.now(datetime.UTC)
        fault = opened.find_fault(now) or _find_refusal(desk, opened)
        print(f"{'FAIL' if fault else 'ok  '}  Profile '{opened.name}': {fault or 'the certificate opens'}")
        print(f"      source      {opened.stored.certificate_source} ({opened.locator})")
        for label, value in describe_certificate(opened.key.certificate, opened.key.chain, now):
            print(f"      {label:<11} {desk.scrub(value)}")
        print(f"      {'trust set':<11} {desk.validation.trust.describe()}")
        for line in () if opened.rules is None else opened.rules.describe(now):
            print(f"      policy      {line}")
        return EXIT_CHECK_FAILED if fault else 0
    finally:
        holder.close()


def _find_refusal(desk: Desk, opened: OpenedProfile) -> str | None:
    """Check the certificate as the service would before signing, which may ask its authority over the network."""
    if opened.key is None or not opened.stored.validate_certificate:
        return None
    # The verdict is printed here, and no handler is there for the line of the log.
    logging.getLogger("bulksigner.trust").addHandler(logging.NullHandler())
    asked = opened.stored.require_non_repudiation
    refused = desk.validation.judge(opened.key, require_non_repudiation=asked).refused
    return None if refused is None else f"the check before signing refuses it: {refused}"


def _find(desk: Desk, name: str) -> StoredProfile:
    profile = desk.profiles.get(name)
    if profile is None:
        raise NotFound(f"There is no profile '{name}'.", code="profile.not-found")
    return profile


def _split(given: str, shape: str) -> tuple[str, str]:
    key, sign, value = given.partition("=")
    if not key or not sign:
        # The text itself is not repeated: it may be a secret that was meant for somewhere else.
        raise BulkSignerError(f"An argument is not of the form {shape}.")
    return key, value


def _read_secrets(parsed: argparse.Namespace) -> dict[str, Secret]:
    found = {key: _ask(key) for key in parsed.secret}
    for given in parsed.secret_env:
        key, variable = _split(given, "KEY=VARIABLE")
        if variable not in os.environ:
            raise BulkSignerError(f"The variable {variable}, which should hold {key}, is not set.")
        found[key] = Secret(os.environ[variable])
    for given in parsed.secret_file:
        key, path = _split(given, "KEY=FILE")
        try:
            found[key] = Secret(_read_file(Path(path)).removesuffix("\n").removesuffix("\r"))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
            raise BulkSignerError(f"The file {path}, which should hold {key}, cannot be read: {reason}.") from error
    return found


def _read_file(path: Path) -> str:
    # A device may never end.
    with path.open("rb") as source:
        content = source.read(SECRET_LIMIT_BYTES + 1)
    if len(content) > SECRET_LIMIT_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {SECRET_LIMIT_BYTES} bytes")
    return content.decode("utf-8")


def _ask(key: str) -> Secret:
    if not sys.stdin.isatty():
        raise BulkSignerError(
            f"{key} cannot be asked for without a terminal; use --secret-env {key}=VARIABLE, or --secret-file."
        )
    return Secret(getpass.getpass(f"{key}: "))
