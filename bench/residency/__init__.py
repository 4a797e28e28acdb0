"""More memory than the GPU has: turns of whole jobs (case A) and budgets of one job (case B), by the rules of fikitd/core/residency. Simulated: a
model of memory and link in manual time, no driver; `--live`: programs under a real fikitd on the emulated GPU. Rows: case, figure, value, bar, holds (null where there is no bar)."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from fikitd.gpus.residency import EpochRules
from fikitd.gpus.residency import Link as PlanLink

from bench import page
from bench.record import Result, write_whole
from bench.residency import budgets, times
from bench.residency.budgets import row
from bench.residency.machine import Link
from bench.residency.turns import Epochs, Gpu, Paging, S, Setting, Turns

ABOUT = "simulated: jobs with more memory than the GPU has, in turns and with budgets"
BATCHES_NS: Final = (10_000, 30_000, 100_000)
GPUS_GIB: Final = (16, 80)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    parser.add_argument(
        "--svg", type=Path, metavar="FILE", help="picture of resident bytes over time (needs matplotlib)"
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="under a real fikitd on the emulated GPU instead, for about 20 minutes",
    )
    parser.add_argument(
        "--slower",
        type=int,
        default=16,
        metavar="N",
        help="of live turns: all times so much longer (default: %(default)s)",
    )
    parser.add_argument("--case", choices=("a", "b"), help="turns (a) or budgets (b) alone")
    parser.add_argument(
        "--first-uses",
        action="store_true",
        help="live, and alone: what a plan's first uses of memory that comes and goes are worth, for about 12 minutes",
    )
    parser.add_argument(
        "--link",
        type=_link,
        metavar="IN,OUT",
        help="of the simulated ones: GB/s to the GPU and away from it (default: 24,24; 40,9: behind kernels, as an H200 has it)",
    )
    parser.add_argument(
        "--faster",
        type=float,
        metavar="N",
        help="of the simulated ones: kernels take so many times less than on the V100 of the recording (default: 1)",
    )
    page.add_argument(parser)


def _link(text: str) -> Link:
    try:
        inward, out = (float(each) * 1e9 for each in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError("two numbers of GB/s, as 40,9") from None
    if not (0 < inward < math.inf and 0 < out < math.inf):
        raise argparse.ArgumentTypeError("rates are above 0")
    return Link(inward, out)


def run(
    emulated: bool, svg: Path | None = None, *, live: bool = False, case: str | None = None, slower: int = 16, link: Link | None = None,
    faster: float | None = None, first_uses: bool = False,
) -> Result:  # fmt: skip
    """`emulated` is of no matter: there is no device at all, or the emulated one."""
    if first_uses:
        from bench.residency import live_first_uses  # noqa: PLC0415 - it starts programs

        return _live_result(live_first_uses.run(), {}, {})
    if live:
        return _live(case, slower, svg)
    link = link or Link()
    rates = times.rates().times(faster or 1.0)
    rows = list(turns_rows(900 * S, 300 * S, link)) if case != "b" else []
    rows += budgets.rows(rates, link) if case != "a" else []
    if svg:
        from bench.residency import picture  # noqa: PLC0415 - matplotlib is asked for by those who draw

        write_whole(svg, picture.svg(rates))
    failed = sum(each["holds"] is False for each in rows)
    bars = sum(each["bar"] is not None for each in rows)
    settings = {
        "kernels' times": rates.source,
        "rates": rates.by_kind,
        "setting of case A": vars(Setting(link=link)) | {"link": vars(link)},
        "model": "simulated",
    }
    return Result(
        summary=f"simulated, in manual time: {bars - failed} of {bars} bars hold\n{table(rows)}", emulated=True,
        values={"bars": bars, "failed": failed}, samples={}, settings=settings, details={"rows": rows}, table=short_table(rows),
    )  # fmt: skip


def _live(case: str | None, slower: int, svg: Path | None) -> Result:
    from bench.residency import live, live_plans  # noqa: PLC0415 - they start programs

    scale = live.Scale(slower)
    rows = list(live.rows(scale=scale)) if case != "b" else []
    of_plans, trails = live_plans.run() if case != "a" else ([], [])
    rows += of_plans
    if svg and trails:
        from bench.residency import live_picture  # noqa: PLC0415 - matplotlib is asked for by those who draw

        write_whole(svg, live_picture.svg(trails))
    return _live_result(rows, {"gpu": scale.gpu}, {"trails": [vars(each) for each in trails]})


def _live_result(rows: list[dict[str, Any]], settings: dict[str, Any], details: dict[str, Any]) -> Result:
    failed = sum(each["holds"] is False for each in rows)
    bars = sum(each["bar"] is not None for each in rows)
    return Result(
        summary=f"live, emulated: {bars - failed} of {bars} bars hold\n{table(rows)}", emulated=True,
        values={"bars": bars, "failed": failed}, samples={}, settings={"model": "live, emulated", **settings},
        details={"rows": rows, **details}, table=table(rows),
    )  # fmt: skip


def turns_rows(length_ns: int, beside_ns: int, link: Link) -> Iterator[dict[str, Any]]:
    """Case A. beside_ns: for how long those beside the product are simulated, whose rates change little."""
    for gib in GPUS_GIB:
        setting = Setting(gpu_bytes=gib << 30, length_ns=length_ns, link=link)
        there = PlanLink(link.in_bytes_per_s, link.out_bytes_per_s)
        label = f"A: {gib} GiB"
        found = Gpu(setting, Epochs(EpochRules(link=there))).run()
        rate = sum(found.worked_ns) / length_ns
        yield row(label, "high JCT", found.jct, 1.06)
        yield row(label, "time lost to moves / (c / (E + c))", found.lost / found.bound, 1.1, note=f"{found.lost:.3f} of the time")  # fmt: skip
        yield row(label, "longest wait for a turn, s", found.longest_wait_ns / S)
        short = Gpu(setting, Epochs(EpochRules(link=there, least_epoch_ns=5 * S))).run()
        yield row(label, "time lost to moves, epochs of 5 s or more", short.lost, 0.11)
        for batch_ns in BATCHES_NS:
            beside = replace(setting, batch_ns=batch_ns, length_ns=beside_ns)
            at = f"at {batch_ns // 1000} us per batch"
            paging, turns = (Gpu(beside, who).run() for who in (Paging(), Turns()))
            bar = 3.0 if batch_ns == 30_000 else None
            yield row(label, f"low work / that of paging (TGS) {at}", rate * beside_ns / sum(paging.worked_ns), bar, at_least=True, note=f"high JCT then {paging.jct:.2f}")  # fmt: skip
            yield row(label, f"low work / that of turns of 30 s (nvshare) {at}", rate * beside_ns / sum(turns.worked_ns), 1.0, at_least=True, note=f"high JCT then {turns.jct:.2f}")  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """All rows."""
    return page.markdown(("case", "figure", "value", "bar", "holds", ""), (_cells(each) for each in rows))


def short_table(rows: list[dict[str, Any]]) -> str:
    """For a page: what is of one job with a budget as one line for each network and manner."""
    others = [
        each
        for each in rows
        if not each["case"].startswith("B: ") or "," not in each["case"] or "batch" in each["case"]
    ]
    by_case: dict[str, dict[str, dict[str, Any]]] = {}
    for each in rows:
        if each not in others:
            by_case.setdefault(each["case"], {})[each["figure"]] = each
    lines = []
    for case, found in by_case.items():
        name, manner = case.removeprefix("B: ").split(", ")
        eor, saved = found[f"EOR at MSR {budgets.MSR:.2f}"], found[f"MSR at EOR {budgets.EOR:.2f}"]
        holds = {None: "beyond it", True: "yes", False: "**no**"}[eor["holds"]]
        rules = [f"{found[key]['note'].partition(': ')[2]}; ours {found[key]['value']:.2f}" if (key := f"EOR at {rule}'s MSR") in found else "" for rule in ("vDNN", "Capuchin")]  # fmt: skip
        faults = found[f"faults alone: EOR at MSR {budgets.MSR:.2f}"]["value"]
        lines.append((name, manner, eor["note"].removeprefix("free bound "), f"{eor['value']:.3f}", holds, f"{saved['value']:.2f}", saved["note"].partition(": ")[2], *rules, f"{faults:.2f}"))  # fmt: skip
    head = ("network", "memory", "free bound (MSR)", "EOR at MSR .30", "<= .10", "MSR at EOR .10", "TENSILE, on an A6000", "vDNN's rule", "Capuchin's rule", "faults alone: EOR at MSR .30")  # fmt: skip
    return page.markdown(head, lines) + "\n\n" + table(others)


def _cells(each: dict[str, Any]) -> tuple[str, ...]:
    bar = "" if each["bar"] is None else f"{'>=' if each['at_least'] else '<='} {each['bar']:g}"
    holds = {None: "", True: "yes", False: "**no**"}[each["holds"]]
    return each["case"], each["figure"], f"{each['value']:.3f}", bar, holds, each["note"]
