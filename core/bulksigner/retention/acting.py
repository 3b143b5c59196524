"""Let an item go: delete it, or move it so that the copy is proven before the source goes (STA-78)."""

from __future__ import annotations

import os
from pathlib import Path

from bulksigner.files import durable
from bulksigner.retention.items import Item

__all__ = ["delete_item", "move_item"]

FOLDER_MODE = 0o700


def delete_item(path: Path) -> None:
    """Remove a file, or a folder with what is in it. Raises `OSError`."""
    if path.is_dir() and not path.is_symlink():
        durable.remove_folder(path)
        durable.flush_folder(path.parent)
    else:
        durable.remove_file(path)


def move_item(item: Item, path: Path, folder: Path) -> Path:
    """Copy to `folder`, flush, compare, then remove the source; returns where it is now. Raises `OSError`.

    A name that is taken gets the job's id before the extension.
    """
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    target = _free_name(folder / path.name, item)
    if path.is_dir():
        _copy_folder(path, target)
    else:
        _copy_file(path, target)
    durable.flush_folder(folder)
    delete_item(path)
    return target


def _free_name(target: Path, item: Item) -> Path:
    if not os.path.lexists(target):
        return target
    number = 0
    while True:
        tag = (item.job_id or "orphan") + (f"-{number}" if number else "")
        other = target.with_name(f"{target.stem}.{tag}{target.suffix}")
        if not os.path.lexists(other):
            return other
        number += 1


def _copy_file(source: Path, target: Path) -> None:
    with durable.open_regular(source) as stream:
        measured = durable.copy_measured(stream, target, flush=True)
    # Read back from where it lies now, and once more from where it lay: a source that is still written is no copy.
    if durable.measure(target) != measured or durable.measure(source) != measured:
        target.unlink()
        raise OSError(f"the copy {target} differs from {source}")


def _copy_folder(source: Path, target: Path) -> None:
    """Copy a folder of files and folders; anything else in it is refused, and then nothing of the copy is left."""
    target.mkdir(mode=FOLDER_MODE)
    try:
        for entry in sorted(source.iterdir()):
            if entry.is_dir() and not entry.is_symlink():
                _copy_folder(entry, target / entry.name)
            else:
                _copy_file(entry, target / entry.name)
        durable.flush_folder(target)
    except OSError:
        durable.remove_folder(target)
        raise
