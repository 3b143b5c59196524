"""The core's own sections, as frozen classes (CFG-27 to CFG-139)."""

from __future__ import annotations

import enum
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import attrs

from bulksigner.contract.settings import Check, Secret, at_least, between, matches_length, option
from bulksigner.settings.backups import BackupSettings
from bulksigner.settings.encryption import EncryptionSettings
from bulksigner.settings.hosting import HostingSettings, RateLimitingSettings
from bulksigner.settings.log_files import LogFileSettings
from bulksigner.settings.pdf_files import PdfSettings
from bulksigner.settings.receipts import ReceiptSettings
from bulksigner.settings.retention import RetentionSettings
from bulksigner.settings.signing import NAME, SigningSettings

__all__ = [
    "DEFAULT_CONNECTION",
    "LOCAL_PROVIDER",
    "AuthSettings",
    "ConnectionStrings",
    "CoreSettings",
    "DatabaseProvider",
    "DatabaseSettings",
    "HostingSettings",
    "InputFolder",
    "LogLevel",
    "LoggingSettings",
    "MetricsSettings",
    "PipelineSettings",
    "ReadinessSettings",
    "StatisticsSettings",
    "StorageSettings",
    "UploadSettings",
    "WatchedFolderSettings",
]

DEFAULT_CONNECTION = "Data Source=data/db/bulksigner.db"
LOCAL_PROVIDER = "LocalFileSystem"
_HEADER = Check(
    lambda text: re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}", text) is not None,
    "a header name (RFC 9110 5.1)",
)
_COOKIE = Check(
    lambda text: re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}", text) is not None,
    "a cookie name (RFC 6265 4.1.1)",
)
_HOSTS = Check(
    lambda text: all(
        re.fullmatch(r"\*|(\*\.)?[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]", name.strip()) for name in text.split(",")
    ),
    "`*`, or names separated by commas, each `name` or `*.name`, without port",
)
_NOT_BLANK = Check(lambda value: bool(str(value).strip()), "not blank")
_DOTTED = Check(
    lambda values: all(len(value) > 1 and value.startswith(".") for value in values),
    "extensions that begin with a dot",
)
_NO_EMPTY = Check(all, "texts that are not empty")


class DatabaseProvider(enum.Enum):
    """Which database holds the records (CFG-60)."""

    SQLITE = "Sqlite"
    POSTGRESQL = "PostgreSql"


class LogLevel(enum.Enum):
    """Names of log levels, least severe first (CFG-138)."""

    TRACE = "Trace"
    VERBOSE = "Trace"  # noqa: PIE796  an alias on purpose
    DEBUG = "Debug"
    INFORMATION = "Information"
    WARNING = "Warning"
    ERROR = "Error"
    CRITICAL = "Critical"
    FATAL = "Critical"  # noqa: PIE796  an alias on purpose
    NONE = "None"

    @property
    def threshold(self) -> int:
        """Return the level number of `logging`; `Trace` is 5, `None` lets nothing through."""
        return {
            LogLevel.TRACE: 5,
            LogLevel.DEBUG: logging.DEBUG,
            LogLevel.INFORMATION: logging.INFO,
            LogLevel.WARNING: logging.WARNING,
            LogLevel.ERROR: logging.ERROR,
            LogLevel.CRITICAL: logging.CRITICAL,
            LogLevel.NONE: logging.CRITICAL + 50,
        }[self]


@attrs.frozen
class AuthSettings:
    """`Auth`."""

    api_key: Secret = option(help="The key that operators and clients send.", check=matches_length(16))
    api_key_header: str = option("X-API-Key", help="The request header that carries the key.", check=_HEADER)
    cookie_name: str = option("lbs-auth", help="The cookie of a browser session.", check=_COOKIE)


@attrs.frozen
class InputFolder:
    """`Storage:Inputs[]`; `path` is absolute for a local folder, inside the share for any other."""

    name: str = option(help="Name of the folder in the console, the interface and the metrics.", check=NAME)
    path: Path = option(help="Where files are dropped; a relative path is under the content root.")
    provider: str = option("", help="Storage that holds this folder; without it that of `Storage:Provider`.")
    poll_interval_seconds: int | None = option(
        None,
        help="Look for files at this interval as well, for mounts that report no changes.",
        check=between(5, 3600),
    )
    ignored_extensions: tuple[str, ...] = option(
        (), help="Extensions to ignore here, besides those of `WatchedFolder`.", check=_DOTTED
    )
    ignored_prefixes: tuple[str, ...] = option(
        (), help="Name prefixes to ignore here, besides those of `WatchedFolder`.", check=_NO_EMPTY
    )
    sidecar: bool = option(False, help="Read a file's metadata from `<file name>.meta.json` beside it.")
    profile: str | None = option(None, help="Signing profile of the folder; without it `default`.", is_seed=True)


@attrs.frozen
class StorageSettings:
    """`Storage`."""

    root: Path = option(
        Path("data"), help="Directory of work, output, errors and database; a relative path is under the content root."
    )
    minimum_free_bytes: int = option(
        268435456,
        help="Free space, on the volume of `Root` and on that of an Sqlite file, below which no job is begun.",
        check=at_least(0),
    )
    provider: str = option(
        LOCAL_PROVIDER, help="Where work and output lie: `LocalFileSystem`, or what a plugin brings.", check=_NOT_BLANK
    )
    inputs: tuple[InputFolder, ...] = option(
        (), help="Input folders; without any, one named `default` at `input` under `Storage:Root`."
    )


@attrs.frozen
class DatabaseSettings:
    """`Database`."""

    provider: DatabaseProvider = option(DatabaseProvider.SQLITE, help="Kind of database.")
    max_connections: int = option(20, help="Most connections to a PostgreSql server.", check=between(5, 200))


@attrs.frozen
class ConnectionStrings:
    """`ConnectionStrings`."""

    default: Secret | None = option(
        None,
        help="`Data Source=<file>` for Sqlite, without it `data/db/bulksigner.db` under the content root; "
        "`postgresql://user@host:5432/name` for PostgreSql.",
    )


@attrs.frozen
class PipelineSettings:
    """`Pipeline`."""

    poll_interval_seconds: int = option(2, help="Pause between two looks for queued jobs.", check=between(1, 3600))
    max_concurrency: int = option(1, help="Jobs worked on at the same time.", check=between(1, 32))
    reject_already_processed_file_names: bool = option(
        True, help="Never sign a file whose name a completed or unfinished job has."
    )
    shutdown_grace_seconds: int = option(30, help="How long a stop waits for running jobs.", check=between(0, 600))
    hold_on_key_trouble: bool = option(
        False, help="Keep a profile's jobs queued, and fail none, while something keeps all of them from being signed."
    )


@attrs.frozen
class WatchedFolderSettings:
    """`WatchedFolder`."""

    stability_poll_interval_ms: int = option(
        500, help="Pause between two looks at a file that may still grow.", check=between(50, 10000)
    )
    stability_required_samples: int = option(3, help="Equal looks that make a file complete.", check=between(1, 100))
    stability_concurrency: int = option(8, help="Looks going on at once in one folder.", check=between(1, 64))
    stability_timeout_seconds: int = option(
        60, help="When a file that does not settle is left to the next scan.", check=between(1, 3600)
    )
    poll_interval_seconds: int | None = option(
        30, help="Interval of folders that must be listed and name none themselves.", check=between(5, 3600)
    )
    max_consecutive_failures: int = option(
        10, help="Failures in a row to make jobs of a folder's files that stop its watch.", check=between(1, 1000)
    )
    ignored_extensions: tuple[str, ...] = option(
        (".tmp", ".part", ".crdownload", ".swp"),
        help="Extensions ignored in every folder, in any case of letters; replaces the default list.",
        check=_DOTTED,
        in_environment=False,
    )
    ignored_prefixes: tuple[str, ...] = option(
        (".", "~$"),
        help="Name prefixes ignored in every folder; replaces the default list.",
        check=_NO_EMPTY,
        in_environment=False,
    )


@attrs.frozen
class UploadSettings:
    """`Upload`."""

    enabled: bool = option(True, help="Accept files over HTTP.")
    max_bytes: int = option(104857600, help="Largest request body of an upload.", check=at_least(1024))


@attrs.frozen
class LoggingSettings:
    """`Logging`."""

    file: LogFileSettings = option()
    log_level: Mapping[str, LogLevel] = option(
        MappingProxyType({}), help="Level of a logger by name; `Default` is that of all others, `Information` unset."
    )

    @property
    def level(self) -> LogLevel:
        """Return the level of every logger that has none of its own."""
        return next(
            (level for name, level in self.log_level.items() if name.casefold() == "default"), LogLevel.INFORMATION
        )

    @property
    def levels(self) -> Mapping[str, LogLevel]:
        """Return the levels of single loggers, by name as written."""
        return {name: level for name, level in self.log_level.items() if name.casefold() != "default"}


@attrs.frozen
class StatisticsSettings:
    """`Statistics`."""

    enabled: bool = option(True, help="Keep what the stages of each completed job took, and show figures of it.")


@attrs.frozen
class MetricsSettings:
    """`Metrics`."""

    require_api_key: bool = option(True, help="Give metrics only to who has the API key.")


@attrs.frozen
class ReadinessSettings:
    """`Readiness`."""

    require_api_key: bool = option(
        False, help="Give the verdict only to who has the API key; probes of platforms send none."
    )


@attrs.frozen
class CoreSettings:
    """Every section of the core, bound and resolved.

    `database_location` is the absolute SQLite file, or the PostgreSQL URL as a secret.
    """

    auth: AuthSettings = option()
    storage: StorageSettings = option()
    database: DatabaseSettings = option()
    connection_strings: ConnectionStrings = option()
    signing: SigningSettings = option()
    pipeline: PipelineSettings = option()
    watched_folder: WatchedFolderSettings = option()
    upload: UploadSettings = option()
    pdf: PdfSettings = option()
    receipts: ReceiptSettings = option()
    hosting: HostingSettings = option()
    rate_limiting: RateLimitingSettings = option()
    logging: LoggingSettings = option()
    statistics: StatisticsSettings = option()
    encryption: EncryptionSettings = option()
    metrics: MetricsSettings = option()
    readiness: ReadinessSettings = option()
    backup: BackupSettings = option()
    retention: RetentionSettings = option()
    allowed_hosts: str = option("*", help="Values of `Host` that are answered; `*` for any.", check=_HOSTS)
    database_location: Path | Secret = Path()
