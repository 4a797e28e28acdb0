"""A number of the page: its value, its text, and which field of which record it is. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fikit.wording import units


@dataclass(frozen=True)
class Figure:
    """of: the path of the field (`held.0.total_s`), or two of them with a `/` or `+` between; `profile:` and `trace:` before one that is not the report's."""

    value: float
    text: str
    of: str


class Source:
    """Figures of one record; `prefix` says which it is."""

    def __init__(self, record: Mapping[str, Any], prefix: str = "") -> None:
        self._record, self._prefix = record, prefix

    def time(self, path: str) -> Figure | None:
        return self._figure(path, units.duration)

    def micros(self, path: str) -> Figure | None:
        return self._figure(path, units.microseconds)

    def nanos(self, path: str) -> Figure | None:
        return self._figure(path, units.nanoseconds)

    def count(self, path: str) -> Figure | None:
        return self._figure(path, lambda value: units.count(round(value)))

    def size(self, path: str) -> Figure | None:
        return self._figure(path, lambda value: units.gibibytes(round(value)))

    def total(self, *paths: str) -> Figure | None:
        """Bytes of several fields together; None where one of them is not there."""
        values = [self.at(path) for path in paths]
        if None in values:
            return None
        return Figure(
            sum(values), units.gibibytes(round(sum(values))), "+".join(f"{self._prefix}{path}" for path in paths)
        )

    def ratio(self, path: str) -> Figure | None:
        return self._figure(path, units.ratio)

    def share(self, part: str, whole: str) -> Figure | None:
        """In percent; None where one of the two is not known, or the whole is nothing."""
        over, under = self.at(part), self.at(whole)
        if over is None or not under:
            return None
        return Figure(over / under, units.percent(over, under), f"{self._prefix}{part}/{self._prefix}{whole}")

    def at(self, path: str) -> Any:
        """What is there; None where there is nothing."""
        found: Any = self._record
        for step in path.split("."):
            if isinstance(found, Mapping):
                found = found.get(step)
            elif isinstance(found, Sequence) and step.isdecimal() and int(step) < len(found):
                found = found[int(step)]
            else:
                return None
        return found

    def _figure(self, path: str, text: Callable[[float], str]) -> Figure | None:
        value = self.at(path)
        return None if value is None else Figure(value, text(value), f"{self._prefix}{path}")
