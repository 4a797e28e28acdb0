"""Pictures for documents: SVG that needs nothing but a browser."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape

MODES = {"solo_s": "alone", "shared_s": "default sharing", "fikit_s": "fikit"}
COLOURS = {"solo_s": "#9aa5b1", "shared_s": "#d64545", "fikit_s": "#2f8f5b"}
TITLES = {"high": "high priority: image classification", "low": "low priority: training"}
LEFT, BAR, ROW, WIDTH = 130, 420, 24, 660


def demo(summary: dict[str, Any]) -> str:
    """The demo's summary.json as bars: seconds of each job in each mode. Every job has its own scale."""
    parts = []
    y = 24
    for job, title in TITLES.items():
        parts.append(_text(10, y, title, weight="bold"))
        seconds = summary[job]
        longest = max(seconds[mode] for mode in MODES)
        for mode, label in MODES.items():
            y += ROW
            length = BAR * seconds[mode] / longest
            parts.append(_text(LEFT - 8, y, label, anchor="end"))
            parts.append(
                f'<rect x="{LEFT}" y="{y - 13}" width="{length:.1f}" height="17" rx="2" fill="{COLOURS[mode]}"/>'
            )
            note = "" if mode == "solo_s" else f" ({seconds[mode] / seconds['solo_s']:.2f}x)"
            parts.append(_text(LEFT + length + 6, y, f"{seconds[mode]:.2f} s{note}"))
        y += ROW + 14
    device = summary["device"]
    source = f"{device['name']}{' - emulated: shows the scheduling, not the speed of hardware' if device['emulated'] else ''}"
    parts.append(_text(10, y, source, colour="#616e7c"))
    if device["sharing"]:
        y += ROW - 4
        parts.append(_text(10, y, device["sharing"], colour="#616e7c"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 12}" width="{WIDTH}" height="{y + 12}" '
        'font-family="system-ui, sans-serif" font-size="13">\n'
        f'<rect width="{WIDTH}" height="{y + 12}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _text(
    x: float, y: float, content: str, *, anchor: str = "start", weight: str = "normal", colour: str = "#1f2933"
) -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}">{escape(content)}</text>'
