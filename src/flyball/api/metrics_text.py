"""Renders metrics in Prometheus' text format, and counts the API's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from flyball.control.ask.status import Metric as MetricRow

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METHODS = frozenset({"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"})


class Counts:
    """Counts responses by method and status, the seconds they took, and connections.

    Attributes:
        connections: number of open connections.
    """

    def __init__(self) -> None:
        self.connections = 0
        self._dropped: Counter[str] = Counter()
        self._answers: Counter[tuple[str, int]] = Counter()
        self._seconds: Counter[str] = Counter()

    def add(self, method: str, status: int, took_s: float) -> None:
        """Count a response. Unknown methods share one label, so that clients cannot add labels."""
        label = method if method in METHODS else "other"
        self._answers[label, status] += 1
        self._seconds[label] += took_s  # type: ignore[assignment]  # a Counter holds floats too

    def drop(self, why: str) -> None:
        """Count a connection that the server dropped."""
        self._dropped[why] += 1

    def rows(self) -> list[MetricRow]:
        """Return the counts as metrics."""
        answers: list[MetricRow] = [
            ("flyball_api_answers_total", {"method": method, "status": str(status)}, float(count))
            for (method, status), count in sorted(self._answers.items())
        ]
        seconds: list[MetricRow] = [
            ("flyball_api_seconds_total", {"method": method}, float(took_s))
            for method, took_s in sorted(self._seconds.items())
        ]
        dropped: list[MetricRow] = [
            ("flyball_api_dropped_total", {"why": why}, float(count))
            for why, count in sorted(self._dropped.items())
        ]
        open_now: MetricRow = ("flyball_api_connections", {}, float(self.connections))
        return [*answers, *seconds, *dropped, open_now]


class _Rows(Collector):
    """Groups rows into metric families: one per name, with the labels of its first row."""

    def __init__(self, rows: Sequence[MetricRow]) -> None:
        self._rows = rows

    def collect(self) -> Iterable[Metric]:
        families: dict[str, tuple[CounterMetricFamily | GaugeMetricFamily, list[str]]] = {}
        for name, labels, value in self._rows:
            if name not in families:
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                families[name] = kind(name, _words(name), labels=sorted(labels)), sorted(labels)
            family, names = families[name]
            family.add_metric([labels[label] for label in names], value)
        return [family for family, _ in families.values()]


def _words(name: str) -> str:
    """Return the help text of a metric: `jobs running` for `flyball_jobs_running`."""
    return name.removeprefix("flyball_").replace("_", " ")


def text_of(rows: Sequence[MetricRow]) -> bytes:
    """Render metrics in the format that Prometheus reads."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Rows(rows))
    return generate_latest(registry)
