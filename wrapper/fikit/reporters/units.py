"""Numbers as people read them: three figures and a unit."""

from __future__ import annotations

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def duration(seconds: float | None) -> str:
    """`3.2 s`, `12 ms`, `4.1 µs`; `-` when nothing says it."""
    if seconds is None:
        return "-"
    for scale, unit in _TIMES:
        if seconds >= scale:
            return f"{_three(seconds / scale)} {unit}"
    return "0"


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


def percent(part: float, whole: float) -> str:
    return "-" if whole <= 0 else f"{100 * part / whole:.0f} %"


def _three(value: float) -> str:
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
