"""Numbers as people read them: three figures and a unit."""

from __future__ import annotations

from math import isfinite

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def duration(seconds: float | None) -> str:
    """`3.2 s`, `12 ms`, `4.1 µs`; `-` when nothing says it."""
    if seconds is None:
        return "-"
    for scale, unit in _TIMES:
        if seconds >= scale:
            return f"{_three(seconds / scale)} {unit}"
    return "0"


def span(seconds: float) -> str:
    """`3 h 10 min`, `12 min`, `45 s`, `12.1 ms`: how long jobs run and wait."""
    if not isfinite(seconds):
        return "unlimited time"
    if seconds < 1:
        return duration(seconds)
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours < 48 else f"{hours / 24:.1f} days"


def microseconds(value: float | None) -> str:
    return duration(None if value is None else value * 1e-6)


def nanoseconds(value: float | None) -> str:
    return duration(None if value is None else value * 1e-9)


def count(value: int) -> str:
    """`12 345`: thousands apart, so that a column of them can be compared."""
    return f"{value:,}".replace(",", " ")


def gibibytes(value: int) -> str:
    """`9.31 GiB`, `512 MiB`, as --fikit-mem counts."""
    return f"{_three(value / 2**30)} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"


def file_size(value: int) -> str:
    """`12 KiB`, `3.10 MiB`."""
    return f"{_three(value / 2**20)} MiB" if value >= 2**20 else f"{-(-value // 2**10)} KiB"


def ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def share(value: float | None, places: int = 0, signed: bool = False) -> str:
    """`58.7 %` for 0.587, signed `+58.7 %`; `-` when nothing says it."""
    return "-" if value is None else f"{100 * value:{'+' if signed else ''}.{places}f} %"


def percent(part: float, whole: float, places: int = 0) -> str:
    return share(part / whole if whole > 0 else None, places)


def longer(stretch: float) -> str:
    """`4.1 % longer`, `3.50 times as long`: by so much of what it was."""
    return f"{share(stretch, 1)} longer" if stretch < 1 else f"{_three(1 + stretch)} times as long"


def _three(value: float) -> str:
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
