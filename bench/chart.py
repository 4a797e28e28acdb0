"""A scatter plot as SVG text, without a library: points and lines with their names beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 30, 50, 60
COLOURS = ("#1b6ca8", "#c0392b", "#7f8c8d", "#27ae60", "#8e44ad", "#d35400", "#16a085", "#2c3e50", "#b7950b")


@dataclass(frozen=True)
class Series:
    """Points (x, y) under one name."""

    name: str
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class _Axis:
    """From values to pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        if self.log:
            value, low, high = (math.log10(v) for v in (max(value, self.low), self.low, self.high))
        else:
            low, high = self.low, self.high
        share = (value - low) / (high - low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            return [10.0**n for n in range(first, last + 1) if self.low <= 10.0**n <= self.high]
        return [self.low + n * (self.high - self.low) / 5 for n in range(6)]


def _text(x: float, y: float, text: str, *, anchor: str = "middle", size: int = 12, turn: bool = False) -> str:
    rotate = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turn else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{rotate}>{escape(text)}</text>'


def _grid(x: _Axis, y: _Axis, names: tuple[str, str]) -> list[str]:
    parts = []
    for value in x.ticks():
        at = x.at(value)
        parts.append(f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(_text(at, HEIGHT - BOTTOM + 18, f"{value:g}"))
    for value in y.ticks():
        at = y.at(value)
        parts.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 8, at + 4, f"{value:g}", anchor="end"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, names[0]))
    parts.append(_text(20, (TOP + HEIGHT - BOTTOM) / 2, names[1], turn=True))
    return parts


def _free(x: float, y: float, text: str, taken: list[tuple[float, float, float]]) -> tuple[float, float]:
    """A place for a name at (x, y) or above it, where no other name stands; noted in `taken` as (left, right, y)."""
    if x + 7.0 * len(text) > WIDTH:  # it would be cut off
        x, y = WIDTH - 7.0 * len(text), y - 12
    right = x + 7.0 * len(text)
    while any(left < right and x < end and abs(y - other) < 12 for left, end, other in taken):
        y -= 12
    taken.append((x, right, y))
    return x, y


def scatter(
    title: str, axes: tuple[str, str], lines: list[Series], points: list[Series], *, log_x: bool = False
) -> str:
    """The picture: `lines` connected, `points` each with its name. With log_x, x below 0.1 is drawn at 0.1."""
    xs = [x for series in lines + points for x, _ in series.points]
    low = 0.1 if log_x else 0.0
    x = _Axis(low, max(10.0 ** math.ceil(math.log10(max([*xs, 1.0]))), 1.0), LEFT, WIDTH - RIGHT, log_x)
    y = _Axis(0.0, 100.0, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(WIDTH / 2, 26, title, size=15),
        *_grid(x, y, axes),
    ]
    names: list[tuple[float, float, float]] = []
    for n, series in enumerate(lines + points):
        colour = COLOURS[n % len(COLOURS)]
        at = [(x.at(a), y.at(b)) for a, b in series.points]
        if len(at) > 1:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in at)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{colour}"/>' for a, b in at]
        parts.append(_text(*_free(at[-1][0] + 7, at[-1][1] + 4, series.name, names), series.name, anchor="start"))
    return "\n".join([*parts, "</svg>", ""])


def panels(title: str, x_name: str, parts: list[tuple[str, tuple[float, float], list[Series]]]) -> str:
    """Pictures side by side with one x axis: each the name and the range of its y axis, and lines. What lies beyond the range is drawn at its end."""
    gap, inner = 90, 330
    wide = LEFT + len(parts) * (inner + gap) + RIGHT
    highest = max(x for _, _, lines in parts for series in lines for x, _ in series.points)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{wide}" height="{HEIGHT}" fill="white"/>',
        _text(wide / 2, 26, title, size=15),
    ]
    for number, (name, (low, high), lines) in enumerate(parts):
        left = LEFT + number * (inner + gap)
        x, y = _Axis(0.0, highest, left, left + inner), _Axis(low, high, HEIGHT - BOTTOM, TOP)
        for value in x.ticks():
            drawn.append(_text(x.at(value), HEIGHT - BOTTOM + 18, f"{value:g}"))
        for step in range(6):
            value = low + step * (high - low) / 5
            at = y.at(value)
            drawn.append(f'<line x1="{left}" y1="{at:.1f}" x2="{left + inner}" y2="{at:.1f}" stroke="#ddd"/>')
            drawn.append(_text(left - 8, at + 4, f"{value:.3g}", anchor="end"))
        drawn += [_text(left + inner / 2, HEIGHT - 16, x_name), _text(left + inner / 2, TOP - 8, name)]
        taken: list[tuple[float, float, float]] = []
        for n, series in enumerate(lines):
            colour = COLOURS[n % len(COLOURS)]
            at_points = [(x.at(a), y.at(b)) for a, b in series.points]
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in at_points)
            drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
            name_x, name_y = at_points[-1][0] + 6, at_points[-1][1] + 4
            while any(abs(name_y - other) < 12 for _, _, other in taken):
                name_y -= 12
            taken.append((name_x, name_x, name_y))
            drawn.append(_text(name_x, name_y, series.name, anchor="start", size=11))
    return "\n".join([*drawn, "</svg>", ""])
