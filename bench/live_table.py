"""What `bench pairs` says: a line for each case, simulated and live, and a picture."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from bench import page
from bench.chart import Series, scatter
from bench.low_time import STATES, mean
from bench.record import Result

MARGIN = 0.10  # what the two may differ by
REACTIONS = ("observe", "wake", "done", "late", "turn")


def _middle(row: dict[str, Any], name: str) -> float:
    return float(statistics.median(seen[name] for seen in row["live"]))


def difference(row: dict[str, Any]) -> tuple[float, float]:
    """Of live from simulated: JCT ratio relative to the simulated one, harvest in parts of the idle time."""
    simulated = row["simulated"]
    jct = _middle(row, "high_jct_ratio") / simulated["high_jct_ratio"] - 1
    return jct, _middle(row, "harvest") / simulated["harvest"] - 1 if simulated["harvest"] > 0 else 0.0


def agrees(row: dict[str, Any]) -> bool:
    """Live is within the margin of simulated: of several rounds, their median."""
    return all(abs(found) <= MARGIN for found in difference(row))


def chance(row: dict[str, Any]) -> float:
    """By how much harvest may differ from simulated, as `difference` says it, when nothing differs but which reaction came when:
    two standard deviations of the simulator's orders, for as many live rounds as there are."""
    simulated = row["simulated"]
    if simulated["harvest"] <= 0:
        return 0.0
    variance = 1 / len(row["live"]) + 1 / simulated["orders"]
    return float(2 * math.sqrt(variance) * simulated["harvest_spread"] / simulated["harvest"])


def undecided(row: dict[str, Any]) -> bool:
    """Live is outside the margin of simulated, and that may be chance."""
    jct, harvest = difference(row)
    return abs(jct) <= MARGIN < abs(harvest) <= chance(row)


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
    yield f"{'case':{width}}  JCT ratio {'':{room}} host    p99 {'':{room}}   harvest"
    for row in rows:
        texts = [
            f"{row['simulated'][name]:7.3f} {_live(row, name):{room}}"
            for name in ("high_jct_ratio", "high_p99_ratio", "harvest")
        ]
        host = f"{100 * _middle(row, 'host_longer'):+5.1f}%"
        yield f"{row['case']:{width}}  {texts[0]} {host} {texts[1]}  {texts[2]}"


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


def live_result(rows: list[dict[str, Any]], policy: str, stretch: float, settings: dict[str, Any]) -> Result:
    width = max(len(row["case"]) for row in rows)
    lines = [
        f"policy {policy}, {stretch:g} times as long as recorded, emulated; simulated and live",
        *_compared(rows, width), "", *_low_times(rows, width), "", *_dispatcher(rows, width),
    ]  # fmt: skip
    jct, harvest = zip(*(difference(row) for row in rows), strict=True)
    within = sum(agrees(row) for row in rows)
    lines.append(f"live within {MARGIN:.0%} of simulated, JCT ratio and harvest: {within} of {len(rows)}")
    lines += [
        f"{row['case']}: outside, but chance alone moves its harvest by {chance(row):.0%}, 19 times of 20 by no more"
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
    "case", "JCT ratio: simulated / live", "p99 ratio", "harvest", "live against simulated: JCT ratio, harvest", "harvest by chance", "runs",
    "`delayed`: the device's record / the report, ms",
)  # fmt: skip


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    """A line of the page's table, as HEAD has it."""
    jct, harvest = difference(row)
    outside = "" if agrees(row) else ", not told from chance" if undecided(row) else ", outside"
    return (
        row["case"], _both(row, "high_jct_ratio", 3), _both(row, "high_p99_ratio", 2), _both(row, "harvest", 2),
        f"{100 * jct:+.1f} %, {100 * harvest:+.1f} %{outside}", f"{100 * chance(row):.1f} %", f"{len(row['live'])}",
        f"{_middle(row, 'delayed_ms'):.0f} / {_middle(row, 'reported_delayed_ms'):.0f}",
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
