"""Where things lie: paths made absolute, and the rules that keep input folders apart (CFG-41 to CFG-50, OPS-42)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePath, PurePosixPath

import attrs

from bulksigner.mounts import network_type
from bulksigner.settings.choices import canonical
from bulksigner.settings.findings import Findings
from bulksigner.settings.grammar import quote
from bulksigner.settings.model import LOCAL_PROVIDER, InputFolder, StorageSettings
from bulksigner.settings.signing import DEFAULT_NAME

__all__ = ["check_folders", "find_taken_place", "has_share_scheme", "is_within", "place", "resolve_storage"]

_WORK_ROOTS = ("processing", "output", "error")
_OWN_DIRECTORIES = ("landing", "refusals", "db", "logs", "keys", "retention", "revocation")
_SHARE_SCHEME = "azurefiles:"
_MANY_FOLDERS = 16


def place(path: Path, base: Path) -> Path:
    """Make a path absolute under `base`; symbolic links stay, except where `..` needs them resolved."""
    joined = base / path
    return joined.resolve() if ".." in joined.parts else Path(os.path.abspath(joined))  # noqa: PTH100  keeps links


def has_share_scheme(text: str) -> bool:
    """Tell whether a text names an Azure share where a directory of this host belongs."""
    return text.casefold().startswith(_SHARE_SCHEME)


def is_within(inner: Path, outer: Path) -> bool:
    """Tell whether `inner` is `outer` or lies below it, links and letter case of the host considered."""
    return _real(inner).is_relative_to(_real(outer))


def find_taken_place(directory: Path, storage: StorageSettings, roots: Sequence[str]) -> Path | None:
    """Return the input folder or the own directory among `roots` that `directory` is or lies in, or None."""
    taken = [storage.root / name for name in roots]
    taken += [folder.path for folder in storage.inputs if folder.provider == LOCAL_PROVIDER]
    return next((outer for outer in taken if is_within(directory, outer)), None)


def _real(path: Path) -> Path:
    return Path(os.path.normcase(path.resolve()))


def resolve_storage(storage: StorageSettings, content_root: Path) -> StorageSettings:
    """Make paths absolute, let folders inherit the provider, and invent the one folder when none is named (CFG-43)."""
    root = place(storage.root, content_root)
    provider = canonical(storage.provider)
    folders = []
    for folder in storage.inputs:
        own = canonical(folder.provider) if folder.provider else provider
        path = place(folder.path, content_root) if own == LOCAL_PROVIDER else folder.path
        folders.append(attrs.evolve(folder, provider=own, path=path, profile=folder.profile or None))
    if not folders:
        path = root / "input" if provider == LOCAL_PROVIDER else Path("input")
        folders.append(InputFolder(name=DEFAULT_NAME, path=path, provider=provider))
    return attrs.evolve(storage, root=root, provider=provider, inputs=tuple(folders))


def check_folders(given: StorageSettings, resolved: StorageSettings, database: Path | None, findings: Findings) -> None:
    """Apply the rules on folders; `given` has the paths as written, `database` is the SQLite file if there is one."""
    for key, written in [("Storage:Root", given.root)] + [
        (f"Storage:Inputs[{index}]:Path", folder.path) for index, folder in enumerate(given.inputs)
    ]:
        if has_share_scheme(str(written)):
            findings.refuse(key, "has the scheme of a share.", "Name a directory of this host (CFG-41).")
        elif "\\" in str(written) and os.sep != "\\" and key == "Storage:Root":
            findings.warn(f"{key} holds a backslash, which this system takes for a letter of the name.")
    network = network_type(resolved.root)
    if network is not None:
        findings.warn(f"Storage:Root ({resolved.root}) is on a network file system ({network}); use a local disk.")
    if len(resolved.inputs) > _MANY_FOLDERS:
        findings.warn(f"Storage:Inputs lists {len(resolved.inputs)} folders; more than {_MANY_FOLDERS} strain a host.")
    _check_names(resolved.inputs, findings)
    _check_overlaps(resolved, database, findings)


def _check_names(folders: Sequence[InputFolder], findings: Findings) -> None:
    first: dict[str, int] = {}
    for index, folder in enumerate(folders):
        other = first.setdefault(folder.name, index)
        if folder.name and other != index:
            findings.refuse(
                f"Storage:Inputs[{index}]:Name",
                f"is {quote(folder.name)}, as is that of Storage:Inputs[{other}].",
                "Give each folder its own name.",
            )
        if folder.provider != LOCAL_PROVIDER and "\\" in str(folder.path):
            findings.refuse(
                f"Storage:Inputs[{index}]:Path", "holds a backslash.", "Separate directories of a share by slashes."
            )


def _check_overlaps(storage: StorageSettings, database: Path | None, findings: Findings) -> None:
    taken = [
        (root, _locate(LOCAL_PROVIDER, root)) for root in map(storage.root.joinpath, _WORK_ROOTS + _OWN_DIRECTORIES)
    ]
    if storage.provider != LOCAL_PROVIDER:
        taken += [(root, _locate(storage.provider, root)) for root in map(Path, _WORK_ROOTS)]
    records = None if database is None else _locate(LOCAL_PROVIDER, database)
    earlier: list[tuple[InputFolder, _Place]] = []
    for index, folder in enumerate(storage.inputs):
        key, what = f"Storage:Inputs[{index}]:Path", f"({folder.path}, folder {folder.name})"
        here = _locate(folder.provider, folder.path)
        for other, there in earlier:
            if here.meets(there):
                findings.refuse(
                    key,
                    f"{what} is equal to, inside or around {other.path} of the folder {other.name}.",
                    "Give the folders directories that lie apart.",
                )
        for root, there in taken:
            if here.meets(there):
                remedy = "Move the folder away from it."
                if root.name in _WORK_ROOTS:
                    output = root.with_name("output")
                    remedy += f" Look at {output}: earlier runs may have removed signed files."
                findings.refuse(key, f"{what} is equal to, inside or around {root}.", remedy)
        if records is not None and here.holds(records):
            findings.refuse(key, f"{what} holds the database file {database}.", "Move the folder away from it.")
        earlier.append((folder, here))


@attrs.frozen
class _Place:
    """A directory as its provider compares it."""

    provider: str
    path: PurePath

    def holds(self, other: _Place) -> bool:
        return self.provider == other.provider and other.path.is_relative_to(self.path)

    def meets(self, other: _Place) -> bool:
        return self.holds(other) or other.holds(self)


def _locate(provider: str, path: Path) -> _Place:
    if provider == LOCAL_PROVIDER:
        return _Place(provider, _real(path))
    # Inside a share names have no case, and the share is the root of every path.
    return _Place(provider, PurePosixPath("/", *path.as_posix().casefold().split("/")))
