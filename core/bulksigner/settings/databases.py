"""Which database `ConnectionStrings:Default` names (CFG-60, CFG-61, DEP-30)."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bulksigner.contract.settings import Secret
from bulksigner.mounts import network_type
from bulksigner.settings.findings import Findings
from bulksigner.settings.folders import has_share_scheme, is_within, place
from bulksigner.settings.model import DEFAULT_CONNECTION, CoreSettings, DatabaseProvider

__all__ = ["locate_database"]

_KEY = "ConnectionStrings:Default"
_URL_SCHEMES = ("postgresql", "postgres")
_URL_FORM = "Give the form postgresql://user@host:5432/name?sslmode=verify-full (DEP-30)."
_FILE_FORM = "Give Data Source=<file> of this host, or remove the key."
_FILE_KEYS = ("data source", "datasource", "filename")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_PAIR = re.compile(r"\s*([A-Za-z][A-Za-z ]*?)\s*=\s*(.*?)\s*")


def locate_database(core: CoreSettings, content_root: Path, findings: Findings) -> Path | Secret:
    """Return the absolute SQLite file or the PostgreSQL URL; what is wrong goes to `findings`, without the string."""
    given = core.connection_strings.default
    text = given.reveal().strip() if given is not None else ""
    if core.database.provider is DatabaseProvider.POSTGRESQL:
        _check_url(text, findings)
        return Secret(text)
    return _locate_file(text or DEFAULT_CONNECTION, core, content_root, findings)


def _check_url(text: str, findings: Findings) -> None:
    if not text:
        findings.refuse(_KEY, "is missing, and Database:Provider is PostgreSql.", _URL_FORM)
        return
    try:
        parts = urlsplit(text)
        password = parts.password
    except ValueError:
        findings.refuse(_KEY, "cannot be parsed (not shown).", _URL_FORM)
        return
    if parts.scheme.casefold() not in _URL_SCHEMES:
        kind = "names a file" if _is_file(text) else "is not a URL of a PostgreSQL server"
        findings.refuse(_KEY, f"{kind}, and Database:Provider is PostgreSql (not shown).", _URL_FORM)
    elif not parts.netloc.rpartition("@")[2] or not parts.path.strip("/"):
        findings.refuse(_KEY, "names no host or no database (not shown).", _URL_FORM)
    for secret in filter(None, (password, unquote(password or ""))):
        findings.keep_secret(Secret(secret))


def _is_file(text: str) -> bool:
    pair = _PAIR.fullmatch(text.partition(";")[0])
    return pair[1].casefold() in _FILE_KEYS if pair is not None else not _SCHEME.match(text)


def _locate_file(text: str, core: CoreSettings, content_root: Path, findings: Findings) -> Path:
    source, other = text, []
    if _PAIR.fullmatch(text.partition(";")[0]) is not None:
        pairs = [_PAIR.fullmatch(part) for part in text.split(";") if part.strip()]
        named = {pair[1].casefold(): pair[2] for pair in pairs if pair is not None}
        source = next((named[key].strip("\"'") for key in _FILE_KEYS if key in named), "")
        other = sorted(set(named) - set(_FILE_KEYS))
    if not source or _SCHEME.match(source) or has_share_scheme(source):
        findings.refuse(_KEY, "names no file of this host, and Database:Provider is Sqlite (not shown).", _FILE_FORM)
        return content_root
    if source.startswith(("\\\\", "//")):
        findings.refuse(_KEY, "names a file on a network share, where SQLite loses data.", _FILE_FORM)
        return content_root
    if other:
        findings.warn(f"{_KEY}: beside the data source, {', '.join(other)} have no effect (CFG-62).")
    file = place(Path(source), content_root)
    network = network_type(file)
    if network is not None:
        findings.refuse(
            _KEY, f"names the file {file} on a network file system ({network}), where SQLite loses data.", _FILE_FORM
        )
    if not is_within(file, core.storage.root):
        findings.warn(f"The database file {file} lies outside Storage:Root ({core.storage.root}).")
    return file
