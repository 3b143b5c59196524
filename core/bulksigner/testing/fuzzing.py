"""Damaged files for as long as one likes: how they are made, and what may not happen at a door that takes them."""

from __future__ import annotations

import os
import random
import resource
import time
from collections.abc import Callable

from bulksigner.formats import der

__all__ = ["FUZZ_SECONDS", "fuzz", "mutate_bytes", "mutate_der"]

FUZZ_SECONDS = float(os.environ.get("BULKSIGNER_FUZZ_SECONDS", "300"))
"""How long one door is tried in the soak."""

LONGEST_SECONDS = 10.0
MOST_GROWTH_BYTES = 256 * 1024 * 1024
_WARM_FILES = 500
_CONSTRUCTED = 0x20
_DEEPEST = 24
_TAGS = (0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x0C, 0x13, 0x17, 0x18, 0x24, 0x30, 0x31, 0xA0, 0xA1, 0x80, 0x81, 0x1F)
_LENGTHS = (b"\x80", b"\x84\xff\xff\xff\xff", b"\x88" + b"\x7f" * 8, b"\x81\x00", b"\x00")


def fuzz(make: Callable[[random.Random], bytes], door: Callable[[bytes], object], seconds: float) -> int:
    """Give damaged files to a door and return how many; whatever the door does not raise of itself ends the run.

    A file may take ten seconds, and memory may not grow. The seed and the file are printed where something is found.
    """
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    end, count, content, before = time.monotonic() + seconds, 0, b"", 0
    try:
        while time.monotonic() < end:
            if count == _WARM_FILES:
                before = _peak_bytes()
            content = make(chance)
            began = time.monotonic()
            door(content)
            if time.monotonic() - began > LONGEST_SECONDS:
                raise AssertionError(f"a file took {time.monotonic() - began:.1f} s")
            count += 1
        grown = _peak_bytes() - before if before else 0
        if grown > MOST_GROWTH_BYTES:
            raise AssertionError(f"memory has grown by {grown >> 20} MiB")
    except BaseException:
        print(f"seed {seed}, file {count}: {content!r}")
        raise
    return count


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def mutate_bytes(content: bytes, chance: random.Random) -> bytes:
    """Change, remove, repeat or insert a few bytes anywhere."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4))):
        place, length = chance.randrange(len(changed) + 1), chance.choice((1, 1, 2, 8, 64))
        kind = chance.randrange(4)
        if kind == 0:
            changed[place : place + length] = chance.randbytes(len(changed[place : place + length]))
        elif kind == 1:
            del changed[place : place + length]
        elif kind == 2:
            changed[place:place] = changed[place : place + length]
        else:
            changed[place:place] = chance.randbytes(length)
    return bytes(changed)


def mutate_der(content: bytes, chance: random.Random) -> bytes:
    """Change an element somewhere inside of a DER structure, with the lengths around it made right again.

    So damage reaches the readers that stand behind the one which reads the outermost length.
    """
    for _ in range(chance.choice((1, 1, 2, 3))):
        content = _mutate_element(content, chance, 0)
    return content


def _mutate_element(element: bytes, chance: random.Random, depth: int) -> bytes:
    """Descend into a member by chance, or change this element."""
    try:
        members = der.members(element) if element[0] & _CONSTRUCTED or element[0] == 0x04 else []
    except (ValueError, IndexError):
        members = []
    if not members or depth == _DEEPEST or chance.random() < 0.08:
        return _change(element, chance)
    kind, place = chance.random(), chance.randrange(len(members))
    if kind < 0.85:
        members[place] = _mutate_element(members[place], chance, depth + 1)
    elif kind < 0.9:
        del members[place]
    elif kind < 0.95:
        members.insert(chance.randrange(len(members) + 1), members[place])
    else:
        chance.shuffle(members)
    inner = b"".join(members)
    return der.prefix(element[0], len(inner)) + inner


def _change(element: bytes, chance: random.Random) -> bytes:
    kind = chance.randrange(6)
    if kind == 0:
        return bytes((chance.choice(_TAGS),)) + element[1:]
    if kind == 1:
        return element[:1] + chance.choice(_LENGTHS) + element[2:]
    if kind == 2:
        return b""
    if kind == 3:
        return der.prefix(chance.choice(_TAGS), len(element)) + element
    header = 2 if len(element) < 2 or element[1] < 0x80 else 2 + (element[1] & 0x7F)
    inner = mutate_bytes(element[header:], chance) if kind == 4 else chance.randbytes(chance.choice((0, 1, 4, 40, 400)))
    return der.prefix(element[0] if element else 0x04, len(inner)) + inner
