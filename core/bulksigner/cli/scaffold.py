"""`bulksigner init`: a starter settings file with a fresh API key, one folder and one profile."""

from __future__ import annotations

import base64
import getpass
import json
import os
import secrets
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from bulksigner.boot import lay_foundation
from bulksigner.contract.errors import BulkSignerError
from bulksigner.inspection import inspect

__all__ = ["init"]

PASSWORD_VARIABLE = "BULK_SIGNER_INIT_PFX_PASSWORD"  # noqa: S105 - the name of a variable

_TEMPLATE = """\
# Settings of this bulk signer. Paths that are not absolute count from the folder `bulksigner serve` is started in.
# Every key can also come from the environment: Auth:ApiKey is the variable Auth__ApiKey.

[Auth]
ApiKey = {api_key}

[Storage]
Root = {root}

[[Storage.Inputs]]
Name = "inbox"
Path = {inbox}
Profile = "default"

[ConnectionStrings]
Default = {database}

[Signing.Trust]
# Roots and intermediates that certificates are checked against, one file each; docs/howto/trust.md says where from.
RootsPath = {trust}

[Signing]
# Seals the certificate password that is kept in the database. Keep it: without it the profile cannot be opened.
ProfileSecretsKey = {sealing_key}

# To have outputs leave encrypted, take the marks away before the first start and set the password in the variable
# BULK_SIGNER_ENCRYPTION_PASSWORD. Keep password and salt for good: without them no encrypted file opens again.
# [Encryption]
# Enabled = true
# Salt = {salt}

# Profiles are read on the first start only; after that the database has them.
# `default` chooses by extension: .pdf becomes PAdES, .xml XAdES, everything else CAdES.
[[Signing.Profiles]]
Name = "default"
# Encrypt = true
# Checks chain and revocation before signing; set it to true once the folder above holds the root of your certificate.
ValidateCertificate = false
# Signatures are of the ICP-Brasil policy AD-RB. "B-B" makes them without a policy, as for a certificate of others.
{policy}
# Common PDF readers and pdfsig do not know the signatures that the policy asks for in PDF files. "Etsi" makes them in
# the form that all readers know, which not every verifier of ICP-Brasil accepts; with "B-B" they are so anyway.
# PadesFilter = "Etsi"

[Signing.Profiles.Certificate]
Source = "Pfx"

[Signing.Profiles.Certificate.Pfx]
Path = {pfx}
Password = {password}
"""


_WITHOUT_POLICY = 'Policy = "B-B"'


def init(directory: str, *, pfx: str | None, force: bool) -> int:
    """Write `settings.toml` into a folder and say what to do next; refuses to replace one unless forced."""
    try:
        return _write_starter(Path(directory).resolve(), pfx=pfx, force=force)
    except OSError as error:
        raise BulkSignerError(
            f"The settings cannot be written: {error.strerror}: {error.filename}. "
            "Name a folder that can be created, or written to, by this account."
        ) from error


def _write_starter(folder: Path, *, pfx: str | None, force: bool) -> int:
    target = folder / "settings.toml"
    if target.exists() and not force:
        raise BulkSignerError(f"{target} exists already; it was not touched. Use --force to replace it.")
    certificate = Path(pfx).resolve() if pfx else folder / "certificate.pfx"
    if pfx and not certificate.is_file():
        raise BulkSignerError(f"There is no file {certificate}; give --pfx the path of a .pfx or .p12 file.")
    password = _ask_password(certificate) if pfx else ""
    inbox, trust = folder / "inbox", folder / "trust"
    parts = {
        "api_key": _quoted(secrets.token_urlsafe(32)),
        "root": _quoted(str(folder / "data")),
        "inbox": _quoted(str(inbox)),
        "trust": _quoted(str(trust)),
        "database": _quoted(str(folder / "data" / "db" / "bulksigner.db")),
        "salt": _quoted(base64.b64encode(secrets.token_bytes(32)).decode()),
        "sealing_key": _quoted(secrets.token_urlsafe(48)),
        "pfx": _quoted(str(certificate)),
        "password": _quoted(password),
    }
    text = _TEMPLATE.format(**parts, policy=f"# {_WITHOUT_POLICY}")
    objection = _find_fault(text, trust) if pfx else None
    if objection is not None:
        text = _TEMPLATE.format(**parts, policy=_WITHOUT_POLICY)
        fault = _find_fault(text, trust)
        if fault is not None:
            raise BulkSignerError(f"The certificate cannot be used; nothing was written. {fault}")
    for made in (inbox, trust):
        made.mkdir(parents=True, exist_ok=True, mode=0o750)
    _write_private(target, text)
    print(f"Wrote {target}")
    if objection is not None:
        print(f"  It says {_WITHOUT_POLICY}, which signs without the policy of ICP-Brasil, because:")
        print(f"  {objection}")
    else:
        print(
            "  Signatures are of the ICP-Brasil policy AD-RB, which common PDF readers and pdfsig cannot judge in PDF"
        )
        print("  files. Where they must, take the # from PadesFilter in that file before the first start.")
    if not pfx:
        print(f"  Put your certificate at {certificate} and its password into the settings file,")
        print("  before the first start: the profile is read once.")
    print(f"Look it over:        cd {shlex.quote(str(folder))} && {_own_command()} check")
    print(f"Start the service:   cd {shlex.quote(str(folder))} && {_own_command()} serve")
    print(f"Then drop a file in  {inbox}")
    print(f"and collect it from  {folder / 'data' / 'output'}")
    return 0


def _own_command() -> str:
    """Write how this program is called from any folder, also where it is not on the path."""
    if shutil.which("bulksigner"):
        return "bulksigner"
    script = Path(sys.argv[0]).absolute()
    return shlex.quote(str(script)) if script.name == "bulksigner" else f"{shlex.quote(sys.executable)} -m bulksigner"


def _ask_password(certificate: Path) -> str:
    given = os.environ.get(PASSWORD_VARIABLE)
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise BulkSignerError(
            f"The password of {certificate} cannot be asked for without a terminal; set {PASSWORD_VARIABLE}."
        )
    return getpass.getpass(f"Password of {certificate.name}: ")


def _find_fault(text: str, trust: Path) -> str | None:
    """Open the key with the settings as they would be written, since the first start stores them, right or wrong."""
    with tempfile.TemporaryDirectory() as folder:
        # The folder of roots is not there yet, and nothing but the key is tried.
        tried = text.replace(f"RootsPath = {_quoted(str(trust))}\n", "")
        _write_private(Path(folder) / "settings.toml", tried)
        # Variables of this terminal may be meant for another service.
        report = inspect(lay_foundation({"BULK_SIGNER_ALLOW_ROOT": "1"}, Path(folder)))
    faults = (row.detail for row in report.rows if row.name.startswith("signing-profile:") and not row.ok)
    return next(faults, None)


def _quoted(text: str) -> str:
    """Write a TOML basic string; JSON's escapes are a subset of TOML's, and `ensure_ascii` avoids surrogates."""
    return json.dumps(text, ensure_ascii=False)


def _write_private(target: Path, text: str) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.chmod(target, 0o600)  # noqa: PTH101 - an existing file keeps its mode otherwise
        file.write(text)
