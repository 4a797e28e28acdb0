"""The demo's comparison as a table, with what its jobs' reports say of the same loops beside it."""

from __future__ import annotations

from typing import Any

from fikitd.base.quantities import percent, share
from rich.console import Group
from rich.text import Text

from fikit.demo import promise
from fikit.demo.told import APART
from fikit.reporters.grid import WORDS, Bar, Column, Grid
from fikit.reporters.table import BAR_WIDTH, NAME_WIDTH, PRIORITY_STYLES, device, title
from fikit.wording import elapsed, units

JOBS = ("high", "low")
MODES = {"alone_s": "alone", "shared_s": "default sharing", "fikit_s": "fikit"}
REPORTED = {"shared": "default sharing", "fikit": "fikit"}  # modes in which fikit manages the jobs
Told = dict[str, Any]


def demo(summary: dict[str, Any]) -> Group:
    """Seconds of each job in each mode, what fikit made of it, and how that agrees with the jobs' reports."""
    used = "unknown" if summary["low_share"] is None else units.share(summary["low_share"])
    emulated = (
        " The emulated GPU shows the scheduling, not the speed of hardware." if summary["device"]["emulated"] else ""
    )
    sharing = summary["device"]["sharing"]
    return Group(
        _times(summary),
        f"high: image classification, a request at a time; low: a training loop.{emulated}",
        *([f"{sharing}. Figures marked as assumed were measured on no GPU."] if sharing else []),
        "Default sharing: programs take turns on the GPU, and none goes first. "
        f"With fikit the high-priority job allows {percent(share(summary['max_slowdown']))} on the device (--fikit-max-slowdown).",
        *_verdict(summary),
        f"Low-priority job: used {used} of the device time that the high-priority job left.",
        *_reports(summary),
    )


def _verdict(summary: dict[str, Any]) -> list[str]:
    """Of the high job, as its report says it; on a busy machine that it was busy, and no ratio that is of something else."""
    if disturbed := summary.get("disturbed", ""):
        return [f"{_sentence(disturbed)}. {_sentence(promise.DISTURBED)}."]
    kept = promise.said(summary)
    return [
        f"High-priority job: {summary['high_slowdown']:.2f}x of its time alone, {summary['high_speedup']:.1f} times faster than with default sharing.",
        *([f"{_sentence(kept)}."] if kept else []),
    ]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _times(summary: dict[str, Any]) -> Grid:
    rows = [(job, mode, summary[job][mode]) for job in JOBS for mode in MODES]
    longest = max(seconds for _, _, seconds in rows)
    ratios = [
        "-" if summary.get("disturbed") else units.ratio(seconds / summary[job]["alone_s"]) for job, _, seconds in rows
    ]
    return Grid(
        [
            Column("job", [Text(job if mode == "alone_s" else "", style=PRIORITY_STYLES[job]) for job, mode, _ in rows]),
            Column("mode", [MODES[mode] for _, mode, _ in rows], WORDS),
            Column("time", [units.duration(seconds) for _, _, seconds in rows], justify="right"),
            Column("against alone", ratios, justify="right"),
            Column(
                "", [Bar(seconds / longest, 2 * BAR_WIDTH, PRIORITY_STYLES[job]) for job, _, seconds in rows],
                NAME_WIDTH, goes=1,
            ),
        ],
        title=title(f"Two jobs on one GPU: {device(summary['device'])}"),
        sections=len(MODES),
    )  # fmt: skip


def _reports(summary: dict[str, Any]) -> list[Grid | str]:
    rows = [
        (job, mode, told)
        for job in JOBS
        for mode in REPORTED
        if (told := summary[job].get("reports", {}).get(mode)) is not None
    ]
    if not rows:
        return ["", "No report says where the jobs' time went."]
    apart = [_apart(job, mode, told) for job, mode, told in rows if not promise.agrees(told)]
    table = Grid(
        [
            Column("job", [Text(job, style=PRIORITY_STYLES[job]) for job, _, _ in rows]),
            Column("mode", [REPORTED[mode] for _, mode, _ in rows], WORDS),
            Column("elapsed", [units.duration(told["elapsed_s"]) for _, _, told in rows], goes=2, justify="right"),
            Column("alone", [units.duration(told["alone_s"]) for _, _, told in rows], goes=1, justify="right"),
            *(
                Column(word, [_part(told, key) for _, _, told in rows], goes=3, justify="right")
                for key, word in elapsed.PARTS.items()
            ),
            Column(
                "against alone", [units.ratio(told["slowdown"]) if promise.agrees(told) else "-" for _, _, told in rows],
                justify="right",
            ),
        ],
        title=title("The same loops, by the jobs' reports"),
        dense=True,
    )  # fmt: skip
    return ["", table, *(apart or [f"Clock and reports agree within {units.share(APART)}."])]


def _part(told: Told, key: str) -> str:
    return units.duration(told[key]) if told[key] > elapsed.LEAST * told["elapsed_s"] else "0"


def _apart(job: str, mode: str, told: Told) -> str:
    who = f"{job}, {REPORTED[mode]}"
    if told["alone_s"] == 0:
        return f"{who}: no ratio, because by its report none of its time was as alone"
    if told["slowdown"] is None:
        return f"{who}: no ratio, because {units.percent(told['unexplained_s'], told['elapsed_s'])} of its time is not explained"
    return f"{who}: no ratio, because its report is {units.share(abs(told['apart']), 1)} off the clock"
