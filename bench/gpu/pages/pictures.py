"""How pairs of programs shared a GPU, as pictures: bars by way of sharing, and what MPS gives against time slices. Pure: runs in, SVG out."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from bench import chart
from bench.gpu.pages import pairs
from bench.gpu.pages.block import Key
from bench.gpu.pages.runs import Found, Run

WIDTH, LEFT, RIGHT, TOP, ROW, BAR = 960, 200, 310, 76, 40, 14
SHOWN = 2  # pairs
MOST = 10.0  # a longer bar is cut, and its figure stands beside it
COLOURS = {"closed": "#2f6fb0", "arrivals": "#c8871a"}
STRETCHES = 8
STEADY = 1.2  # most that a program's slowest stretch alone may take of its fastest: beyond it, ratios to another minute are no proof


@dataclass(frozen=True)
class Shown:
    """A cell, its high program alone, and the run that has both."""

    run: Run
    cell: Found
    alone: Found

    @property
    def in_turns(self) -> bool:
        """Whether "alone" was measured in turns with "shared"."""
        return "high_alone" in self.cell


def cells(runs: Sequence[Run]) -> list[Shown]:
    """Of one GPU model, that of the newest run with pairs: each cell of the newest run that has it. Without those that have one program only."""
    newest = next((run for run in runs if list(pairs.cells(run.parts))), None)
    found: dict[Key, Shown] = {}
    for run in runs:
        for cell, alone in pairs.cells(run.parts) if newest and run.device == newest.device else ():
            if cell["way"] != "budget_alone" and cell["low_speed"] is not None:
                found.setdefault(pairs.key(cell), Shown(run, cell, alone))
    return [found[key] for key in sorted(found)]


def bars(runs: Sequence[Run]) -> str:
    """The JCT ratio of the high program of the first pairs, by way of sharing. Empty where no run has a cell."""
    found = cells(runs)
    if not found:
        return ""
    chosen = list(dict.fromkeys(tuple(each.cell["pair"]) for each in found))[:SHOWN]
    of_pairs = [[each for each in found if tuple(each.cell["pair"]) == pair] for pair in chosen]
    most = min(MOST, max(each.cell["jct_ratio"] for each in found if tuple(each.cell["pair"]) in chosen))
    panels, top = [], TOP
    for rows in of_pairs:
        drawn, high = _panel(top, rows, most)
        panels += drawn
        top += high
    device = found[0].run.device
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{top}" fill="#ffffff"/>',
        f'<text x="{WIDTH / 2}" y="22" text-anchor="middle" font-size="15">Measured on an {escape(device)}: time of the high program\'s requests, times alone; speed of the low one, of alone</text>',
        f'<rect x="{LEFT}" y="36" width="12" height="12" fill="{COLOURS["closed"]}"/><text x="{LEFT + 18}" y="46">one request after the other</text>',
        f'<rect x="{LEFT + 220}" y="36" width="12" height="12" fill="{COLOURS["arrivals"]}"/><text x="{LEFT + 238}" y="46">arrivals by chance, load .3</text>',
        *panels, "</svg>", "",
    ])  # fmt: skip


def stretches(took_us: Sequence[float]) -> list[float]:
    """Mean of each eighth of the requests."""
    count = len(took_us)
    return [statistics.mean(took_us[part * count // STRETCHES : (part + 1) * count // STRETCHES]) for part in range(STRETCHES)]  # fmt: skip


def _panel(top: int, rows: Sequence[Shown], most: float) -> tuple[list[str], int]:
    """One pair: a bar for each cell. Pale: the program alone was not steady, and was measured in another minute."""
    lengths = stretches(next(each for each in rows if each.cell["kind"] == rows[0].cell["kind"]).alone["took_us"])
    steady = max(lengths) < STEADY * min(lengths)
    scale = (WIDTH - LEFT - RIGHT) / most
    alone = f"alone {min(lengths) / 1000:.2f} to {max(lengths) / 1000:.2f} ms in the mean of an eighth of its requests"
    doubt = "" if steady or all(each.in_turns for each in rows) else "; the pale ratios prove nothing"
    drawn = [f'<text x="20" y="{top + 14}" font-weight="bold">{escape(" + ".join(rows[0].cell["pair"]))}: {alone}{doubt}</text>']  # fmt: skip
    y = top + 26
    begin = y
    for way in dict.fromkeys(sorted((each.cell["way"] for each in rows), key=pairs.order)):
        drawn.append(f'<text x="{LEFT - 8}" y="{y + 19}" text-anchor="end">{escape(pairs.NAMES.get(way, way))}</text>')
        for each in (each for each in rows if each.cell["way"] == way):
            cell, ratio = each.cell, each.cell["jct_ratio"]
            at, length = y + (cell["kind"] != "closed") * (BAR + 1), min(ratio, most) * scale
            figure = f"{ratio:.3f}" if ratio <= most else f"{ratio:.0f} (cut)"
            drawn.append(f'<rect x="{LEFT}" y="{at}" width="{length:.1f}" height="{BAR}" fill="{COLOURS[cell["kind"]]}" fill-opacity="{1 if steady or each.in_turns else 0.35}"/>')  # fmt: skip
            drawn.append(f'<text x="{LEFT + length + 6:.1f}" y="{at + 11}" font-size="11">{figure}; low at {100 * cell["low_speed"]:.0f} % (run {escape(each.run.name)})</text>')  # fmt: skip
        y += ROW
    drawn.append(f'<line x1="{LEFT + scale:.1f}" y1="{begin - 4}" x2="{LEFT + scale:.1f}" y2="{y - 6}" stroke="#444444" stroke-dasharray="4 3"/>')  # fmt: skip
    return drawn, y + 16 - top


def modes(runs: Sequence[Run]) -> str:
    """Cost for the high program against speed of the low one, decode + batch with arrivals, each way a point, and a line at the default bound. Empty without cells of both modes."""
    found = [each for each in cells(runs) if tuple(each.cell["pair"]) == pairs.PAIRS[0] and each.cell["kind"] == "arrivals"]  # fmt: skip
    if len({pairs.mode(each.cell["way"]) for each in found}) < 2:
        return ""
    points = [
        chart.Series(
            _named(each.cell["way"]),
            [(max(0.0, 100 * (each.cell["jct_ratio"] - 1)), 100 * each.cell["low_speed"])],
        )
        for each in found
    ]
    return chart.scatter(
        f"Measured on an {found[0].run.device}: decode + batch, arrivals by chance, load .3",
        ("longer requests of the high program, % of alone", "speed of the low program, % of alone"),
        [chart.Series("5 %", [(5.0, 0.0), (5.0, 100.0)])], points, log_x=True,
    )  # fmt: skip


def _named(way: str) -> str:
    name = pairs.NAMES.get(way, way)
    return name if pairs.mode(way) == "MPS" else f"slices: {name}"
