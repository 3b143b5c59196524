"""What commands on stored things work with: the database of the settings, opened beside a running service."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import attrs

from bulksigner.boot import Foundation, lay_foundation, open_store, plan_validation
from bulksigner.contract.errors import BulkSignerError
from bulksigner.jobs.model import utc_now
from bulksigner.profiles.deployment import deployment_salt
from bulksigner.profiles.editor import ProfileEditor
from bulksigner.profiles.opened import ProfileOpener
from bulksigner.profiles.seal import Sealer
from bulksigner.profiles.store import ProfileStore
from bulksigner.records.engines import Store
from bulksigner.records.migrate import known_migrations, schema_version
from bulksigner.records.notes import StoredNotes
from bulksigner.trust.validation import CertificateValidation

__all__ = ["Desk", "open_database", "open_desk"]


@attrs.frozen
class Desk:
    """The stored profiles and what acts on them; `folders` are those that this host configures."""

    profiles: ProfileStore
    editor: ProfileEditor
    opener: ProfileOpener
    sealer: Sealer
    folders: frozenset[str]
    poll_interval_seconds: float
    scrub: Callable[[str], str]
    validation: CertificateValidation


@contextmanager
def open_database(foundation: Foundation) -> Iterator[Store]:
    """Open the database of the settings; nothing is migrated and no lock of the service is touched.

    Raises `BulkSignerError` for a database that is not there or not of this build; errors inside lose their secrets.
    """
    location = foundation.settings.core.database_location
    if isinstance(location, Path) and not location.exists():
        raise BulkSignerError(
            f"{location} is not there. The first start of the service makes it, with the profiles of the settings."
        )
    store = open_store(foundation.settings)
    store.redaction = foundation.scrubber
    try:
        _see_schema(store)
        yield store
    except BulkSignerError as error:
        error.message = foundation.scrubber.scrub(error.message)
        raise
    finally:
        store.close()


@contextmanager
def open_desk(environ: Mapping[str, str]) -> Iterator[Desk]:
    """Open the stored profiles of the settings' database, as `open_database` does; raises `ConfigurationRefused`."""
    foundation = lay_foundation(environ)
    core = foundation.settings.core
    scrubber = foundation.scrubber
    with open_database(foundation) as store:
        profiles = ProfileStore(store)
        sealer = Sealer(core.signing.profile_secrets_key, partial(deployment_salt, store, utc_now))
        foundation.registry.hand_notes(partial(StoredNotes, store, utc_now))
        folders = frozenset(given.name for given in core.storage.inputs)
        yield Desk(
            profiles=profiles,
            editor=ProfileEditor(
                profiles,
                foundation.registry,
                sealer,
                folders,
                utc_now,
                scrubber.register,
                policies=foundation.policies,
                has_roots=bool(foundation.trust),
                has_timestamps=bool(core.signing.timestamps),
                is_encryption_on=core.encryption.enabled,
            ),
            opener=ProfileOpener(
                foundation.registry, sealer, scrubber.register, core.encryption.enabled, foundation.policies
            ),
            sealer=sealer,
            folders=folders,
            poll_interval_seconds=core.pipeline.poll_interval_seconds,
            scrub=scrubber.scrub,
            validation=plan_validation(foundation),
        )


def _see_schema(store: Store) -> None:
    store.probe()
    newest, version = known_migrations()[-1].version, schema_version(store)
    if version < newest:
        raise BulkSignerError(
            f"{store.label} has schema version {version}, this build works with {newest}. Start the service of this "
            "build once; it brings the database up to date."
        )
    if version > newest:
        raise BulkSignerError(
            f"{store.label} has schema version {version}, this build knows {newest}. Use the newer build's command."
        )
