"""The variables of the process itself, which have no key in files (CFG-18 to CFG-26, CFG-185, CFG-186)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from bulksigner.contract.errors import Failure

__all__ = ["VARIABLES", "HostVariables", "ListenAddress"]

_DEFAULT_URL = "http://0.0.0.0:8080"
VARIABLES = (
    ("`BULK_SIGNER_CONFIG_DIR`", "none", "Directory of further settings files, above those of the content root."),
    (
        "`BULK_SIGNER_ENVIRONMENT`",
        "`Production`",
        "Name of the environment; `Development` shows full error detail. Alias: `ASPNETCORE_ENVIRONMENT`.",
    ),
    ("`BULK_SIGNER_URLS`", f"`{_DEFAULT_URL}`", "Listen addresses, separated by `;`. Alias: `ASPNETCORE_URLS`."),
    ("`BULK_SIGNER_CONTENT_ROOT`", "working directory", "Base of relative paths and place of the settings files."),
    ("`BULK_SIGNER_DISABLED_PLUGINS`", "none", "Plugins that are not imported: entry-point names, comma-separated."),
    ("`BULK_SIGNER_ALLOW_ROOT`", "none", "`1` lets the service start as root or administrator."),
    ("`BULK_SIGNER_PKCS11_PIN`", "none", "Token PIN, unless `Certificate:Pkcs11:PinEnvVar` names another variable."),
    (
        "`BULK_SIGNER_ENCRYPTION_PASSWORD`",
        "none",
        "Password of encrypted outputs, unless `Encryption:PasswordEnvVar` names another variable.",
    ),
    ("`WEBSITE_INSTANCE_ID`", "none", "Identity of this instance, given by the platform."),
    ("`NOTIFY_SOCKET`", "none", "Set by systemd; readiness is reported there."),
    ("`TZ`", "of the host", "Local time zone."),
)
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_USER = re.compile(r"//.*@")
_ANY_HOST = ("*", "+")


@attrs.frozen
class ListenAddress:
    """One address to listen on."""

    host: str
    port: int


@attrs.frozen
class HostVariables:
    """What the process was told by its environment, read once (CFG-15)."""

    config_dir: Path | None = None
    environment: str = "Production"
    urls: tuple[str, ...] = (_DEFAULT_URL,)
    content_root: Path = attrs.Factory(Path.cwd)
    instance_id: str | None = None
    time_zone: str | None = None
    notify_socket: str | None = None
    disabled_plugins: frozenset[str] = frozenset()
    allow_root: bool = False

    @classmethod
    def read(cls, environ: Mapping[str, str], working_directory: Path | None = None) -> HostVariables:
        """Read the variables from a mapping; an empty variable counts as unset.

        `working_directory` is the base of relative paths, by default that of the process.
        """
        base = working_directory if working_directory is not None else Path.cwd()

        def told(*names: str) -> str | None:
            return next((environ[name] for name in names if environ.get(name)), None)

        def place(name: str) -> Path | None:
            text = told(name)
            return None if text is None else base / text

        urls = told("BULK_SIGNER_URLS", "ASPNETCORE_URLS") or _DEFAULT_URL
        disabled = told("BULK_SIGNER_DISABLED_PLUGINS") or ""
        return cls(
            config_dir=place("BULK_SIGNER_CONFIG_DIR"),
            environment=told("BULK_SIGNER_ENVIRONMENT", "ASPNETCORE_ENVIRONMENT") or "Production",
            urls=tuple(url.strip() for url in urls.split(";") if url.strip()),
            content_root=place("BULK_SIGNER_CONTENT_ROOT") or base,
            instance_id=told("WEBSITE_INSTANCE_ID"),
            time_zone=told("TZ"),
            notify_socket=told("NOTIFY_SOCKET"),
            disabled_plugins=frozenset(name.strip() for name in disabled.split(",") if name.strip()),
            allow_root=told("BULK_SIGNER_ALLOW_ROOT") == "1",
        )

    @property
    def is_development(self) -> bool:
        """Tell whether full error detail may be shown (API-04)."""
        return self.environment.casefold() == "development"

    @property
    def addresses(self) -> tuple[ListenAddress, ...]:
        """Return where to listen; only meaningful when `failures` yields nothing."""
        return tuple(address for address in map(_parse_url, self.urls) if address is not None)

    def failures(self) -> Iterator[Failure]:
        """Yield what is wrong with the variables."""
        if not _ENVIRONMENT_NAME.fullmatch(self.environment):
            yield Failure(
                "BULK_SIGNER_ENVIRONMENT",
                "is not a name that can be part of a file name.",
                "Use letters, digits, dots, hyphens and underscores, such as Production.",
            )
        if not self.content_root.is_dir():
            yield Failure(
                "BULK_SIGNER_CONTENT_ROOT",
                f"names {self.content_root}, which is not a directory.",
                "Create it, or name another one.",
            )
        wrong = [repr(_USER.sub("//…@", url)) for url in self.urls if _parse_url(url) is None]
        if wrong or not self.urls:
            yield Failure(
                "BULK_SIGNER_URLS",
                f"holds what cannot be listened on: {', '.join(wrong)}." if wrong else "holds no address.",
                f"Write addresses such as {_DEFAULT_URL}, separated by semicolons; https is left to a proxy.",
            )


def _parse_url(url: str) -> ListenAddress | None:
    # `http://*:80` and `http://+:80` are how the variable's alias spells every interface.
    spelled = url
    for mark in _ANY_HOST:
        spelled = spelled.replace(f"//{mark}", "//0.0.0.0")
    try:
        parts = urlsplit(spelled)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/") or parts.query or parts.username:
        return None
    if port == 0:
        return None
    return ListenAddress(parts.hostname, port or 80)
