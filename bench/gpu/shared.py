"""How pairs of programs shared a GPU, of one or more runs, as docs/measured.md has it: table and picture. Pure: documents in, text out.

Of a cell that several runs have, the first one's is shown.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from bench import page

Found = Mapping[str, Any]
Run = tuple[str, Found]  # its name, its document
HEAD = ("high + low", "requests", "sharing", "run", "high alone, ms", "high shared, ms", "JCT ratio", "p99 ratio", "low speed", "harvest", "host, us")  # fmt: skip
WIDTH, LEFT, RIGHT, TOP, ROW, BAR = 900, 190, 190, 76, 40, 14
SHOWN = 2  # pairs in the picture
NAMES = {
    "slices": "without fikit or MPS", "budget": "fikit: budget", "budget_alone": "fikit: budget, nobody beside it", "budget_asleep": "fikit: budget, never spins",
    "mps": "MPS alone", "mps_priority": "MPS, low below normal", "prio": "fikit: prio", "paper": "fikit: paper",
}  # fmt: skip
ORDER = ("slices", "mps", "mps_priority", "prio", "paper", "budget", "budget_asleep", "budget_alone")
COLOURS = {"closed": "#2f6fb0", "arrivals": "#c8871a"}
STRETCHES = 8
STEADY = 1.2  # times as long as its fastest stretch takes the slowest one of a program alone, at most: else its ratios are no proof


def cells(runs: Sequence[Run]) -> Iterator[tuple[str, Found, Found]]:
    """The run's name, the cell, and the high program alone."""
    seen = set()
    for name, document in runs:
        for cell in document["parts"]["pairs"]["cells"]:
            key = (*cell["pair"], cell["way"], cell["kind"])
            if "error" not in cell and key not in seen:
                seen.add(key)
                yield name, cell, document["parts"]["pairs"]["alone"][f"{cell['pair'][0]}.{cell['kind']}"]


def table(runs: Sequence[Run]) -> str:
    """Markdown, in the order of pairs and requests."""
    found = list(cells(runs))
    places = {tuple(cell["pair"]): number for number, (_, cell, _) in reversed(list(enumerate(found)))}

    def place(row: tuple[str, Found, Found]) -> tuple[int, bool, int]:
        cell = row[1]
        return places[tuple(cell["pair"])], cell["kind"] != "closed", ORDER.index(cell["way"])

    return page.markdown(HEAD, [_row(*row) for row in sorted(found, key=place)])


def _row(name: str, cell: Found, alone: Found) -> tuple[str, ...]:
    host = cell.get("host_ns") or {}
    speed = f"{host['p50'] / 1000:.0f} ({host['p10'] / 1000:.0f} to {host['p90'] / 1000:.0f})" if host else ""
    two = cell["way"] != "budget_alone"
    return (
        " + ".join(cell["pair"]), cell["kind"], cell["way"], name, f"{alone['mean_ns'] / 1e6:.2f}", f"{cell['high']['mean_ns'] / 1e6:.2f}",
        f"{cell['jct_ratio']:.3f}", f"{cell['p99_ratio']:.3f}", f"{cell['low_speed']:.3f}" if two else "-",
        f"{cell['harvest']:.3f}" if two and cell["harvest"] is not None else "-", speed,
    )  # fmt: skip


def stretches(took_us: Sequence[float]) -> list[float]:
    """Mean of each eighth of the requests."""
    count = len(took_us)
    return [statistics.mean(took_us[part * count // STRETCHES : (part + 1) * count // STRETCHES]) for part in range(STRETCHES)]  # fmt: skip


def picture(runs: Sequence[Run]) -> str:
    """SVG: the JCT ratio of the high program of the first pairs, by way of sharing; those with a steady high program first."""
    found = [row for row in cells(runs) if row[1]["way"] != "budget_alone"]
    chosen = list(dict.fromkeys(tuple(cell["pair"]) for _, cell, _ in found))[:SHOWN]
    most = max(cell["jct_ratio"] for _, cell, _ in found if tuple(cell["pair"]) in chosen)
    of_pairs = [[row for row in found if tuple(row[1]["pair"]) == pair] for pair in chosen]
    panels, top = [], TOP
    for rows in sorted(of_pairs, key=lambda rows: not _steady(_closed(rows))):
        drawn, high = _panel(top, rows, (WIDTH - LEFT - RIGHT) / most)
        panels += drawn
        top += high
    device = runs[0][1]["settings"]["device"]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{top}" fill="#ffffff"/>',
        f'<text x="{WIDTH / 2}" y="22" text-anchor="middle" font-size="15">Measured on an {escape(device)}: time of the high program\'s requests, times alone; speed of the low one, of alone</text>',
        f'<rect x="{LEFT}" y="36" width="12" height="12" fill="{COLOURS["closed"]}"/><text x="{LEFT + 18}" y="46">one request after the other</text>',
        f'<rect x="{LEFT + 220}" y="36" width="12" height="12" fill="{COLOURS["arrivals"]}"/><text x="{LEFT + 238}" y="46">arrivals by chance, load .3</text>',
        *panels, "</svg>", "",
    ])  # fmt: skip


def _closed(rows: Sequence[tuple[str, Found, Found]]) -> list[float]:
    """Of the high program alone, one request after the other."""
    return stretches(next(alone for _, cell, alone in rows if cell["kind"] == "closed")["took_us"])


def _steady(lengths: Sequence[float]) -> bool:
    return max(lengths) < STEADY * min(lengths)


def _panel(top: int, rows: Sequence[tuple[str, Found, Found]], scale: float) -> tuple[list[str], int]:
    lengths = _closed(rows)
    steady = _steady(lengths)
    alone = f"alone {min(lengths) / 1000:.2f} to {max(lengths) / 1000:.2f} ms in the mean of an eighth of its requests"
    title = f"{' + '.join(rows[0][1]['pair'])}: {alone}{'' if steady else '; so these ratios prove nothing'}"
    drawn = [f'<text x="20" y="{top + 14}" font-weight="bold">{escape(title)}</text>']
    y = top + 26
    begin = y
    for way in ORDER:
        of_way = [row for row in rows if row[1]["way"] == way]
        if not of_way:
            continue
        drawn.append(f'<text x="{LEFT - 8}" y="{y + 19}" text-anchor="end">{escape(NAMES[way])}</text>')
        for name, cell, _ in of_way:
            at, length = y + (cell["kind"] != "closed") * (BAR + 1), cell["jct_ratio"] * scale
            drawn.append(f'<rect x="{LEFT}" y="{at}" width="{length:.1f}" height="{BAR}" fill="{COLOURS[cell["kind"]]}" fill-opacity="{1 if steady else 0.35}"/>')  # fmt: skip
            drawn.append(f'<text x="{LEFT + length + 6:.1f}" y="{at + 11}" font-size="11">{cell["jct_ratio"]:.3f}; low at {100 * cell["low_speed"]:.0f} % (run {escape(name)})</text>')  # fmt: skip
        y += ROW
    drawn.append(f'<line x1="{LEFT + scale:.1f}" y1="{begin - 4}" x2="{LEFT + scale:.1f}" y2="{y - 6}" stroke="#444444" stroke-dasharray="4 3"/>')  # fmt: skip
    return drawn, y + 16 - top
