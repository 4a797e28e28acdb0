"""Pictures for documents: SVG that needs nothing but a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from fikitd.base.quantities import share

from fikit.demo import promise
from fikit.wording import units

if TYPE_CHECKING:  # the simulator is loaded by whoever has an outcome
    from fikitd.simulation.simulator import Outcome, Scenario

MODES = {"alone_s": "alone", "shared_s": "default sharing", "fikit_s": "fikit"}
COLOURS = {"alone_s": "#9aa5b1", "shared_s": "#d64545", "fikit_s": "#2f8f5b"}
TITLES = {"high": "high priority: image classification", "low": "low priority: training"}
LEFT, BAR, ROW, WIDTH = 130, 420, 24, 660
MOST_OF_NAME = 70
TITLE_END = 275  # of the longest of TITLES, as a browser draws it


def demo(summary: dict[str, Any]) -> str:
    """The demo's summary.json as bars: seconds of each job in each mode, what the high one was promised, and what happened. Every job has its
    own scale."""
    disturbed = summary.get("disturbed", "")
    parts = []
    y = 24
    for job, title in TITLES.items():
        parts.append(_text(10, y, title, weight="bold"))
        seconds = summary[job]
        promised_s = seconds["alone_s"] * (1 + share(summary["max_slowdown"])) if job == "high" else 0.0
        longest = max(promised_s, *(seconds[mode] for mode in MODES))
        if promised_s:
            parts += _promise(
                LEFT + BAR * promised_s / longest,
                y + 8,
                f"promised: {units.ratio(promised_s / seconds['alone_s'])} at most",
            )
        for mode, label in MODES.items():
            y += ROW
            length = BAR * seconds[mode] / longest
            parts.append(_text(LEFT - 8, y, label, anchor="end"))
            parts.append(
                f'<rect x="{LEFT}" y="{y - 13}" width="{length:.1f}" height="17" rx="2" fill="{COLOURS[mode]}"/>'
            )
            note = "" if mode == "alone_s" or disturbed else f" ({seconds[mode] / seconds['alone_s']:.2f}x)"
            parts.append(_text(LEFT + length + 6, y, f"{seconds[mode]:.2f} s{note}"))
        if job == "high":
            y += ROW
            happened = _happened(summary)
            bad = disturbed or "not kept" in happened
            parts.append(_text(LEFT, y, happened, weight="bold", colour=COLOURS["shared_s" if bad else "fikit_s"]))
        y += ROW + 14
    device = summary["device"]
    source = f"{device['name']}{' - emulated: shows the scheduling, not the speed of hardware' if device['emulated'] else ''}"
    parts.append(_text(10, y, source, colour="#616e7c"))
    if device["sharing"]:
        y += ROW - 4
        parts.append(_text(10, y, device["sharing"], colour="#616e7c"))
    return _page(parts, y)


def _promise(x: float, y: float, label: str) -> list[str]:
    """A line through the three bars below y, and what it is."""
    return [
        f'<line x1="{x:.1f}" y1="{y}" x2="{x:.1f}" y2="{y + 3 * ROW - 3}" stroke="#1f2933" stroke-dasharray="3 3"/>',
        _text(max(x + 6, TITLE_END), round(y - 8), label, colour="#616e7c"),
    ]


def _happened(summary: dict[str, Any]) -> str:
    if summary.get("disturbed"):
        return "disturbed by other programs: these times say nothing of fikit"
    if said := promise.said(summary):
        return f"with fikit {said.split(' (', maxsplit=1)[0]}"  # what was allowed stands above the bars
    return f"with fikit {summary['high_slowdown']:.2f}x of its time alone, by the clock"


def simulation(outcome: Outcome, scenario: Scenario) -> str:
    """A simulated pairing as bars: how long each job takes of its time alone, and what becomes of the time that the high one leaves idle."""
    rows: list[tuple[str, float | None, str]] = [
        (f"{scenario.high.name} (high)", outcome.high_jct_ratio, COLOURS["fikit_s"]),
        (f"{', '.join(low.name for low in scenario.lows)} (low)", outcome.low_jct_ratio, COLOURS["shared_s"]),
    ]
    longest = max([1.0, *(ratio for _, ratio, _ in rows if ratio is not None)])
    parts, y = [], 24
    for name, ratio, colour in rows:
        parts.append(_text(10, y, name if len(name) <= MOST_OF_NAME else f"{name[: MOST_OF_NAME - 1]}…", weight="bold"))
        for label, value, fill in (("alone", 1.0, COLOURS["alone_s"]), ("beside the other", ratio, colour)):
            y += ROW
            parts += _bar(
                y,
                label,
                None if value is None else value / longest,
                fill,
                "none of its work was done" if value is None else f"{value:.2f}x",
            )
        y += ROW + 14
    parts.append(_text(10, y, "what the high job leaves of the GPU", weight="bold"))
    y += ROW
    parts += _bar(y, "used", outcome.harvest, COLOURS["fikit_s"], units.share(outcome.harvest, 1))
    y += ROW + 14
    parts.append(
        _text(
            10,
            y,
            f"simulated, policy {outcome.policy}: {outcome.device} ({scenario.device.origin}); no claim about hardware",
            colour="#616e7c",
        )
    )
    return _page(parts, y)


def _bar(y: int, label: str, share: float | None, fill: str, text: str) -> list[str]:
    length = BAR * (share or 0.0)
    return [
        _text(LEFT - 8, y, label, anchor="end"),
        f'<rect x="{LEFT}" y="{y - 13}" width="{length:.1f}" height="17" rx="2" fill="{fill}"/>',
        _text(LEFT + length + 6, y, text),
    ]


def _page(parts: list[str], y: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 12}" width="{WIDTH}" height="{y + 12}" '
        'font-family="system-ui, sans-serif" font-size="13">\n'
        f'<rect width="{WIDTH}" height="{y + 12}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _text(
    x: float, y: float, content: str, *, anchor: str = "start", weight: str = "normal", colour: str = "#1f2933"
) -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}">{escape(content)}</text>'
