"""What `bench pairs` says: a line for each case, simulated and live, and a picture."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from bench import page
from bench.chart import Series, scatter
from bench.live.low_time import STATES, mean
from bench.record import Result

MARGINS = (0.03, 0.10)
"""What the two may differ by: in JCT ratio, and in harvest."""
REACTIONS = ("observe", "wake", "done", "late", "turn")


def _middle(row: dict[str, Any], name: str) -> float:
    return float(statistics.median(seen[name] for seen in row["live"]))


def difference(row: dict[str, Any]) -> tuple[float, float]:
    """Of live less simulated: JCT ratio, and harvest; of several rounds, their medians."""
    jct, harvest = (round(_middle(row, name) - row["simulated"][name], 6) for name in ("high_jct_ratio", "harvest"))
    return jct, harvest


def agrees(row: dict[str, Any]) -> bool:
    """Live is within the margins of simulated."""
    return all(abs(found) <= margin for found, margin in zip(difference(row), MARGINS, strict=True))


def chance(row: dict[str, Any]) -> float:
    """By how much harvest may differ from simulated when nothing differs but which reaction came when: two standard deviations of the
    simulator's orders, for as many live rounds as there are."""
    simulated = row["simulated"]
    variance = 1 / len(row["live"]) + 1 / simulated["orders"]
    return float(2 * math.sqrt(variance) * simulated["harvest_spread"])


def undecided(row: dict[str, Any]) -> bool:
    """Live is outside the margins of simulated, and that may be chance."""
    jct, harvest = difference(row)
    return abs(jct) <= MARGINS[0] and MARGINS[1] < abs(harvest) <= chance(row)


def verdict(row: dict[str, Any]) -> str:
    return "within" if agrees(row) else "not told from chance" if undecided(row) else "outside"


def simulated_table(rows: list[dict[str, Any]], policy: str, stretch: float) -> str:
    width = max(len(row["case"]) for row in rows)
    lines = [f"policy {policy}, {stretch:g} times as long as recorded, simulated"]
    lines.append(f"{'case':{width}}  JCT ratio     p99  harvest")
    for row in rows:
        s = row["simulated"]
        lines.append(
            f"{row['case']:{width}}  {s['high_jct_ratio']:9.3f} {s['high_p99_ratio']:7.3f}  {s['harvest']:7.3f}"
        )
    return "\n".join(lines)


def _live(row: dict[str, Any], name: str) -> str:
    """The median, and between what the rounds lie."""
    values = [seen[name] for seen in row["live"]]
    middle = f"{statistics.median(values):6.3f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.3f}-{max(values):.3f})"


def _compared(rows: list[dict[str, Any]], width: int) -> Iterable[str]:
    several = max(len(row["live"]) for row in rows) > 1
    room = 22 if several else 7
    yield f"{'case':{width}}  JCT ratio {'':{room}} diff.    host   harvest {'':{room}} diff.    p99 {'':{room}}  load"
    for row in rows:
        jct, p99, harvest = (
            f"{row['simulated'][name]:7.3f} {_live(row, name):{room}}"
            for name in ("high_jct_ratio", "high_p99_ratio", "harvest")
        )
        jct_differs, harvest_differs = difference(row)
        host = f"{100 * _middle(row, 'host_longer'):+5.1f} %"
        yield (
            f"{row['case']:{width}}  {jct} {jct_differs:+.3f} {host} {harvest} {harvest_differs:+.3f} {p99} {_loads(row)}  {verdict(row)}"
        )


def _loads(row: dict[str, Any]) -> str:
    """Load averages of the machine at the end of each round."""
    return " ".join(f"{seen['machine']['load']:.1f}" for seen in row["live"])


def _low_times(rows: list[dict[str, Any]], width: int) -> Iterable[str]:
    yield (
        f"{'case':{width}}"
        + "".join(f"{name:>15}" for name in STATES)
        + "   (of the time that the high job left free, %)"
    )
    for row in rows:
        live = mean([seen["low_time"] for seen in row["live"] if seen["low_time"] is not None])
        cells = [
            f"{100 * row['simulated']['low_time'][name]:7.1f} {100 * live.get(name, math.nan):5.1f}" for name in STATES
        ]
        yield f"{row['case']:{width}}" + "".join(f"{cell:>15}" for cell in cells)


def _dispatcher(rows: list[dict[str, Any]], width: int) -> Iterable[str]:
    yield (
        f"{'case':{width}}"
        + "".join(f"{name:>9}" for name in REACTIONS)
        + " us   delayed ms: the device's record (the report)"
    )
    for row in rows:
        means = [row["reactions_us"].get(name, {"mean": math.nan})["mean"] for name in REACTIONS]
        yield (
            f"{row['case']:{width}}" + "".join(f"{us:9.1f}" for us in means) + "   "
            f"{_middle(row, 'delayed_ms'):8.1f} ({_middle(row, 'reported_delayed_ms'):.1f})"
        )


def switches_us(row: dict[str, Any]) -> list[float]:
    """What fikitd measured of the switch in each round that showed it one."""
    return [seen["switch_us"] for seen in row["live"] if seen.get("switch_us") is not None]


def _switches(rows: list[dict[str, Any]]) -> str:
    found = [us for row in rows for us in switches_us(row)]
    rounds = sum(len(row["live"]) for row in rows)
    if not found:
        return f"a switch was measured in none of {rounds} rounds"
    between = f"{statistics.median(found):.0f} us ({min(found):.0f} to {max(found):.0f})"
    return f"a switch was measured in {len(found)} of {rounds} rounds: {between} of the recording's time"


def live_result(rows: list[dict[str, Any]], policy: str, stretch: float, settings: dict[str, Any]) -> Result:
    width = max(len(row["case"]) for row in rows)
    lines = [
        f"policy {policy}, {stretch:g} times as long as recorded, emulated; simulated and live",
        *_compared(rows, width), "", *_low_times(rows, width), "", *_dispatcher(rows, width), _switches(rows),
    ]  # fmt: skip
    jct, harvest = zip(*(difference(row) for row in rows), strict=True)
    within = sum(agrees(row) for row in rows)
    lines.append(
        f"live within {MARGINS[0]:g} of the simulated JCT ratio and {MARGINS[1]:g} of the simulated harvest: {within} of {len(rows)}"
    )
    lines += [
        f"{row['case']}: outside, but chance alone moves its harvest by {chance(row):.2f}, 19 times of 20 by no more"
        for row in rows
        if undecided(row)
    ]
    values = {
        "cases": float(len(rows)),
        "within": float(within),
        "undecided": float(sum(map(undecided, rows))),
        "worst_jct_difference": max(map(abs, jct)),
        "worst_harvest_difference": max(map(abs, harvest)),
    }
    samples = {
        f"{row['case']} {name}": [seen[name] for seen in row["live"]]
        for row in rows
        for name in ("high_jct_ratio", "harvest", "host_longer")
    }
    return Result(
        "\n".join(lines), True, values, samples, settings, {"cases": rows}, page.markdown(HEAD, map(_cells, rows))
    )


HEAD = (
    "case", "JCT ratio: simulated / live", "difference", "H's host longer", "harvest: simulated / live", "difference", "by chance", "p99 ratio",
    "load", "within",
)  # fmt: skip


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    """A line of the page's table, as HEAD has it."""
    jct, harvest = difference(row)
    return (
        row["case"], _both(row, "high_jct_ratio", 3), f"{jct:+.3f}", f"{100 * _middle(row, 'host_longer'):+.1f} %", _both(row, "harvest", 2),
        f"{harvest:+.3f}", f"{chance(row):.3f}", _both(row, "high_p99_ratio", 2), _loads(row),
        "yes" if agrees(row) else "not told from chance" if undecided(row) else "**no**",
    )  # fmt: skip


def _both(row: dict[str, Any], name: str, digits: int) -> str:
    """Medians: of the simulator's orders, of the live rounds; and between what they lie."""
    values = [seen[name] for seen in row["live"]]
    simulated = _range(row["simulated"][name], row["simulated"]["between"][name], digits)
    return f"{simulated} / {_range(statistics.median(values), (min(values), max(values)), digits)}"


def _range(median: float, between: Sequence[float], digits: int) -> str:
    middle, low, high = (f"{value:.{digits}f}" for value in (median, *between))
    return middle if low == high else f"{middle} ({low} to {high})"


def picture(rows: list[dict[str, Any]], policy: str) -> str:
    """A line per case, from what the simulator says to what was measured."""
    lines = []
    for row in rows:
        simulated = row["simulated"]
        ends = [
            (simulated["high_jct_ratio"], simulated["harvest"]),
            (_middle(row, "high_jct_ratio"), _middle(row, "harvest")),
        ]
        lines.append(Series(row["case"], [(100 * (jct - 1), 100 * harvest) for jct, harvest in ends]))
    axes = ("slowdown of the high job, %", "harvest, % of the idle device time")
    return scatter(f"Policy {policy}: simulated, and (at the name) live; emulated GPU", axes, lines, [], log_x=True)
