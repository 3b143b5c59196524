"""A producer that treats its files badly, and a ledger of every content it ever published under a name.

It creates, rewrites, replaces, renames, truncates, locks and deletes at random; nothing is published before it stands
in the ledger, so that whatever a service signed can be looked up there. POSIX only.
"""

from __future__ import annotations

import enum
import os
import random
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import attrs

from bulksigner.testing.pdf_files import pdf_file

if sys.platform != "win32":
    import fcntl

__all__ = ["Fate", "Ledger", "Version", "WildProducer", "base_name"]

_NUMBERED = re.compile(r" \(\d+\)(?=\.[^.]*$)")
_KNOWN = 8
"""How many of its newest files each hand goes on to harm, as older ones are mostly signed by then."""
_LARGE_BYTES = 300_000
_PIECE_BYTES = 1 << 16


class Fate(enum.Enum):
    """What the producer knows of a content: nobody but the service may have touched it, or it did so itself."""

    LEFT = "left in the folder"
    FOUND_GONE = "found gone"
    UNDONE = "overwritten, renamed or deleted"


@attrs.define(eq=False)
class Version:
    """One content that a name had; `rewrites` is what the same file held before, where it was written in place."""

    name: str
    content: bytes
    rewrites: Version | None = None
    fate: Fate = Fate.LEFT

    def held_before(self, content: bytes) -> bool:
        """Tell whether the same file could be seen with a content before it had this one."""
        old = self.rewrites
        if old is None:
            return False
        is_on_the_way = self.content.startswith(content) or _is_between(content, self.content, old.content)
        return is_on_the_way or content == old.content or old.held_before(content)


@attrs.define
class Ledger:
    """Everything that was published, by name.

    Beside whole contents there are streams, of which any beginning could be seen, and contents that were gone over:
    the beginning of a new one before the rest of an old one.
    """

    versions: dict[str, list[Version]] = attrs.field(factory=dict)
    streams: dict[str, list[bytes]] = attrs.field(factory=dict)
    gone_over: dict[str, list[tuple[bytes, bytes]]] = attrs.field(factory=dict)

    def add(self, version: Version) -> None:
        """Enter a content, before it is published."""
        self.versions.setdefault(version.name, []).append(version)

    def publications(self, name: str, content: bytes) -> int:
        """Return how many times a content could be seen under a name, or under one the service made of it."""
        base = base_name(name)
        wholes = sum(version.content == content for version in self.versions.get(base, ()) if version.rewrites is None)
        begun = sum(stream.startswith(content) for stream in self.streams.get(base, ()))
        return wholes + begun + sum(_is_between(content, new, old) for new, old in self.gone_over.get(base, ()))


def base_name(name: str) -> str:
    """Return a name without the number it gets when it is put back beside a newer file."""
    return _NUMBERED.sub("", name)


def _is_between(content: bytes, new: bytes, old: bytes) -> bool:
    """Tell whether a content is some beginning of the new one before the rest of the old one."""
    # Each state has as many bytes of the new one as were written, and the old ones behind them.
    same = next((at for at, (have, want) in enumerate(zip(content, new, strict=False)) if have != want), None)
    written = min(len(content), len(new)) if same is None else same
    return content[written:] == old[written:]


class WildProducer:
    """Works on one folder with several hands, each on files of its own, until it is stopped."""

    def __init__(self, folder: Path, seed: int, hands: int = 3) -> None:
        self.ledger = Ledger()
        self.acts: dict[str, int] = {}
        self._stopping = threading.Event()
        self._errors: list[BaseException] = []
        self._hands = [_Hand(self, folder, f"{number}", random.Random(f"{seed}/{number}")) for number in range(hands)]
        self._threads = [threading.Thread(target=self._work, args=(hand,), daemon=True) for hand in self._hands]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Finish what is under way and close every file; raises what a hand came to grief over."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _work(self, hand: _Hand) -> None:
        try:
            while not self._stopping.is_set():
                hand.act()
        except BaseException as error:  # noqa: BLE001 - it is raised where the producer is stopped
            self._errors.append(error)


class _Hand:
    """Does one thing after the other; `_current` are its newest files as it left them."""

    def __init__(self, producer: WildProducer, folder: Path, prefix: str, chance: random.Random) -> None:
        self._producer = producer
        self._ledger = producer.ledger
        self._folder = folder
        self._prefix = prefix
        self._chance = chance
        self._current: dict[str, Version] = {}
        self._serial = 0

    def act(self) -> None:
        """Do one thing, then rest for a moment."""
        harms = (self._rewrite, self._append_locked, self._replace, self._rename, self._truncate, self._delete)
        if len(self._current) < 3 or self._chance.random() < 0.4:
            do: Callable[[], None] = self._chance.choice((self._publish, self._write_openly))
            do()
            name = do.__name__
        else:
            harm = self._chance.choice(harms)
            harm(self._chance.choice(list(self._current)))
            name = harm.__name__
        self._producer.acts[name] = self._producer.acts.get(name, 0) + 1
        while len(self._current) > _KNOWN:
            del self._current[next(iter(self._current))]
        self._rest(0.08)

    def _publish(self) -> None:
        kind = self._chance.choice((".txt", ".bin", ".pdf"))
        self._put(self._new_name(kind), kind)

    def _write_openly(self) -> None:
        kind = self._chance.choice((".txt", ".bin"))
        name, content = self._new_name(kind), self._new_content(kind)
        self._begin_stream(Version(name, content, Version(name, b"", fate=Fate.UNDONE)))
        descriptor = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
        self._write(descriptor, content)

    def _rewrite(self, name: str) -> None:
        descriptor = self._open(name)
        if descriptor is None:
            return
        content = self._new_content(Path(name).suffix)
        if self._chance.random() < 0.5:
            self._begin_stream(Version(name, content, self._current[name]))
            os.ftruncate(descriptor, 0)
        else:
            old = self._current[name]
            self._ledger.gone_over.setdefault(name, []).append((content, old.content))
            self._add(Version(name, content + old.content[len(content) :], old))
        self._write(descriptor, content)

    def _append_locked(self, name: str) -> None:
        descriptor = self._open(name)
        if descriptor is None:
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        before = self._current[name]
        suffix = self._new_content(".txt")
        self._begin_stream(Version(name, before.content + suffix, before))
        os.lseek(descriptor, 0, os.SEEK_END)
        self._rest(0.2)
        self._write(descriptor, suffix)

    def _truncate(self, name: str) -> None:
        descriptor = self._open(name)
        if descriptor is None:
            return
        before = self._current[name]
        length = self._chance.randrange(len(before.content) + 1)
        self._begin_stream(Version(name, before.content[:length], before))
        os.ftruncate(descriptor, length)
        os.close(descriptor)

    def _replace(self, name: str) -> None:
        self._put(name, Path(name).suffix)

    def _rename(self, name: str) -> None:
        before = self._current.pop(name)
        renamed = Version(self._new_name(Path(name).suffix), before.content)
        self._ledger.add(renamed)
        try:
            (self._folder / name).rename(self._folder / renamed.name)
        except FileNotFoundError:
            before.fate = Fate.FOUND_GONE
            renamed.fate = Fate.UNDONE
        else:
            before.fate = Fate.UNDONE
            self._current[renamed.name] = renamed

    def _delete(self, name: str) -> None:
        before = self._current.pop(name)
        try:
            (self._folder / name).unlink()
        except FileNotFoundError:
            before.fate = Fate.FOUND_GONE
        else:
            before.fate = Fate.UNDONE

    def _put(self, name: str, kind: str) -> None:
        """Give a name a new content in one step."""
        content = self._new_content(kind)
        arriving = self._folder / f"{name}.part"
        arriving.write_bytes(content)
        before = self._current.get(name)
        version = Version(name, content)
        self._ledger.add(version)
        if before is not None:
            before.fate = Fate.UNDONE if os.path.lexists(self._folder / name) else Fate.FOUND_GONE
        arriving.replace(self._folder / name)
        self._current[name] = version

    def _open(self, name: str) -> int | None:
        try:
            return os.open(self._folder / name, os.O_RDWR)
        except FileNotFoundError:
            self._current.pop(name).fate = Fate.FOUND_GONE
            return None

    def _begin_stream(self, version: Version) -> None:
        self._ledger.streams.setdefault(version.name, []).append(version.content)
        self._add(version)

    def _add(self, version: Version) -> None:
        self._ledger.add(version)
        if version.rewrites is not None:
            version.rewrites.fate = Fate.UNDONE
        self._current[version.name] = version

    def _write(self, descriptor: int, content: bytes) -> None:
        """Write in pieces, perhaps with rests between them, and close."""
        is_slow = self._chance.random() < 0.3
        try:
            for start in range(0, len(content), _PIECE_BYTES):
                os.write(descriptor, content[start : start + _PIECE_BYTES])
                if is_slow:
                    self._rest(0.1)
        finally:
            os.close(descriptor)

    def _new_name(self, kind: str) -> str:
        self._serial += 1
        return f"{self._prefix}-{self._serial:05}{kind}"

    def _new_content(self, kind: str) -> bytes:
        self._serial += 1
        tag = f"{self._prefix}/{self._serial}/"
        if kind == ".pdf":
            return pdf_file(pages=1, seed=self._serial, title=tag)
        if kind == ".bin":
            return tag.encode() + self._chance.randbytes(_LARGE_BYTES)
        return (tag * self._chance.randrange(1, 200)).encode()

    def _rest(self, longest_seconds: float) -> None:
        time.sleep(self._chance.uniform(0, longest_seconds))
