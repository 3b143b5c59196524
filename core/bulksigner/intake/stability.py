"""When a file is complete: size and time stood still over several samples, and nobody writes it (PIPE-43)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import attrs

from bulksigner.contract.storage import Entry

__all__ = ["Observed", "Stability"]


@attrs.frozen
class Observed:
    """What one sample decided: files that are complete, and files given up for now because they never stood still."""

    stable: list[Entry]
    timed_out: list[Entry]


@attrs.define
class _Track:
    length: int
    modified_ns: int
    samples: int
    first_at: float
    due_at: float
    beside: tuple[int, int] | None


class Stability:
    """Samples whole listings: any number of files is on its way at the cost of one listing a sample.

    A listing is one look at all files, so `StabilityConcurrency` (CFG-126) has nothing to bound here.
    """

    def __init__(
        self,
        required_samples: int,
        interval_seconds: float,
        timeout_seconds: float,
        is_being_written: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._required = required_samples
        self._interval_seconds = interval_seconds
        self._timeout_seconds = timeout_seconds
        self._is_being_written = is_being_written
        self._tracks: dict[str, _Track] = {}
        self.next_at: float | None = None
        """When the first file is due for a sample that counts, as of the last one."""

    def __len__(self) -> int:
        return len(self._tracks)

    def observe(
        self, candidates: Iterable[Entry], now: float, beside: Mapping[str, Entry] = MappingProxyType({})
    ) -> Observed:
        """Take one sample of all candidates; files that are not among them any more are forgotten.

        `now` is of a monotonic clock, in seconds. A sample sooner than the interval counts only when it shows a change.
        `beside` has the sidecars of candidates by the names of those; the two must stand still together (PIPE-117).
        """
        observed = Observed([], [])
        tracks: dict[str, _Track] = {}
        due_at = now + self._interval_seconds
        for entry in candidates:
            track = self._tracks.get(entry.name)
            sidecar = beside.get(entry.name)
            look = None if sidecar is None else (sidecar.length, sidecar.modified_ns)
            if track is None:
                track = _Track(entry.length, entry.modified_ns, 1, now, due_at, look)
            elif (entry.length, entry.modified_ns, look) != (track.length, track.modified_ns, track.beside):
                track = _Track(entry.length, entry.modified_ns, 1, track.first_at, due_at, look)
            elif now >= track.due_at:
                track.samples += 1
                track.due_at = due_at
            if track.samples >= self._required and not self._is_written(entry, sidecar):
                observed.stable.append(entry)
            elif now - track.first_at >= self._timeout_seconds:
                observed.timed_out.append(entry)
            else:
                tracks[entry.name] = track
        self._tracks = tracks
        self.next_at = min((track.due_at for track in tracks.values()), default=None)
        return observed

    def _is_written(self, entry: Entry, sidecar: Entry | None) -> bool:
        return self._is_being_written(entry.name) or (sidecar is not None and self._is_being_written(sidecar.name))
