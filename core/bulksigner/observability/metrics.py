"""Metrics of one service in the text format of Prometheus (API-49, API-94 to API-96).

Nothing is global: each service has a registry of its own, so two in one process do not add up. Counting costs a
dictionary look-up and an addition; whatever needs the database or the disk is looked up when somebody asks.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, values
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from bulksigner.observability.instruments import BUCKETS, INSTRUMENTS, Instrument, Kind

__all__ = ["CONTENT_TYPE", "FRESH_SECONDS", "Metrics", "Reading"]

# A variable of the host may have the library keep its numbers in files, under the id of the process: services would
# share them, and one that is process 1 of a container would go on from those of its former life.
values.ValueClass = values.MutexValue

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FRESH_SECONDS = 1.0
"""How long gauges are good for: a hundred scrapers ask the database no more often than one."""
_log = logging.getLogger("bulksigner.observability")

Reading = Iterable[tuple[tuple[str, ...], float]]
"""Values of a gauge, each with the values of its labels."""


class Metrics:
    """The instruments of one service, made from the table; a name that is not in it is a `KeyError`."""

    def __init__(
        self,
        instruments: Sequence[Instrument] = INSTRUMENTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        self._gauges = _Gauges(clock)
        for one in instruments:
            if one.kind is Kind.COUNTER:
                self._counters[one.name] = Counter(one.name, one.help, one.labels, registry=self._registry)
            elif one.kind is Kind.HISTOGRAM:
                self._histograms[one.name] = Histogram(
                    one.name, one.help, one.labels, registry=self._registry, buckets=BUCKETS
                )
            else:
                self._gauges.known[one.name] = one
        self._registry.register(self._gauges)

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        """Add to a counter; `labels` are the values in the order of the table."""
        counter = self._counters[name]
        (counter.labels(*labels) if labels else counter).inc(by)

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        """Add one duration to a histogram."""
        histogram = self._histograms[name]
        (histogram.labels(*labels) if labels else histogram).observe(seconds)

    def read_with(self, looks: Mapping[str, Callable[[], Reading]]) -> None:
        """Say how gauges are read; what a look raises leaves its gauge out of the answer."""
        for name, look in looks.items():
            self._gauges.read_with(name, look)

    def render(self) -> bytes:
        """Return everything, with gauges that are at most a second old."""
        return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        """Yield every metric without the times of creation, which are not of the contract."""
        for family in self._registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


class _Gauges:
    """Reads gauges when the registry is asked."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.known: dict[str, Instrument] = {}
        self._looks: dict[str, Callable[[], Reading]] = {}
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: tuple[float, list[Metric]] | None = None
        self._blind: set[str] = set()

    def read_with(self, name: str, look: Callable[[], Reading]) -> None:
        """Take what reads one gauge of the table."""
        self._looks[self.known[name].name] = look

    def collect(self) -> Iterator[Metric]:
        """Yield every gauge that can be read."""
        with self._lock:
            now = self._clock()
            if self._seen is None or now - self._seen[0] >= FRESH_SECONDS:
                self._seen = now, [family for name in self._looks if (family := self._read(name)) is not None]
            families = self._seen[1]
        yield from families

    def _read(self, name: str) -> Metric | None:
        one = self.known[name]
        try:
            values = list(self._looks[name]())
        except Exception as error:  # noqa: BLE001 - a database or disk that is away must not cost the other metrics
            if name not in self._blind:
                _log.warning("The metric %s cannot be read: %s: %s", name, type(error).__name__, error)
            self._blind.add(name)
            return None
        self._blind.discard(name)
        family = GaugeMetricFamily(name, one.help, labels=one.labels)
        for labels, value in values:
            family.add_metric(labels, value)
        return family
