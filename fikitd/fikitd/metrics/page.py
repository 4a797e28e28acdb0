"""The text that Prometheus and node_exporter read, made of a look's values by prometheus-client."""

from __future__ import annotations

import pwd
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from fikitd.metrics import table
from fikitd.metrics.meter import Values
from fikitd.metrics.table import Metric


@lru_cache(maxsize=4096)
def _known_name(uid: str) -> str:
    return pwd.getpwuid(int(uid)).pw_name


def user_name(uid: str) -> str:
    """As squeue has it; the uid where nobody knows a name. May take as long as the site's directory of users takes."""
    try:
        return _known_name(uid)
    except (KeyError, OSError):  # and nothing is remembered: the directory may come back
        return uid


class _Look:
    def __init__(self, values: Values, name_of: Callable[[str], str]) -> None:
        self._values, self._name_of = values, name_of

    def describe(self) -> Iterator[Any]:
        """Which names there are, for a scrape that asks for some of them (`?name[]=`)."""
        for metric in table.METRICS:
            yield _family(metric)

    def collect(self) -> Iterator[Any]:
        for metric in table.METRICS:
            family = _family(metric)
            for labels, value in sorted(self._values.get(metric, {}).items()):
                family.add_metric(self._named(metric, labels), value)
            if family.samples:
                yield family

    def _named(self, metric: Metric, labels: tuple[str, ...]) -> list[str]:
        pairs = zip(metric.labels, labels, strict=True)
        return [self._name_of(value) if label == table.USER else value for label, value in pairs]


def _family(metric: Metric) -> Any:
    kind = CounterMetricFamily if metric.kind == table.COUNTER else GaugeMetricFamily
    return kind(metric.name, f"{metric.help}.", labels=metric.labels)


def registry(values: Values, name_of: Callable[[str], str] = user_name) -> CollectorRegistry:
    """What prometheus-client publishes."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Look(values, name_of))
    return registry


def text(values: Values, name_of: Callable[[str], str] = user_name) -> bytes:
    """In Prometheus' text format, version 0.0.4, which node_exporter's textfile collector reads."""
    said: bytes = generate_latest(registry(values, name_of))
    return said
