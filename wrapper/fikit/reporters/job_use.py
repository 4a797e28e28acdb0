"""Jobs whose launches fikit did not see: what NVML says of one's GPU, and what to do; many as a table, and what they came to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

from fikitd.api.uses import Use
from rich.console import Group, RenderableType
from rich.text import Text

from fikit.api.advice import Advice
from fikit.api.job_report import moment
from fikit.cluster import past
from fikit.cluster.past import Sums
from fikit.reporters import job_table, table
from fikit.reporters.grid import WORDS, Column, Grid, bar
from fikit.wording import mig, moments, units

SUMS: Final = ("jobs", "alone_jobs", "unused_jobs", "emulated_jobs", "held_s", "watched_s", "idle_s")


def report(use: Use, advices: Sequence[Advice] = ()) -> Group:
    """The answer first, what to do last."""
    return Group(table.facts(f"Job {table.job(use)}", rows(use)), *job_table.advice(advices))


def rows(use: Use) -> list[tuple[str, RenderableType]]:
    """Of the table, each with its name."""
    result = (
        f"used no GPU through fikit, and had {had(use)}"
        if use["shared"]
        else "had its GPU to itself, so fikit did nothing for it"
    )
    started, ended = moment(use["started"]), moment(use["ended"])
    found: list[tuple[str, RenderableType]] = [("result", Text(result)), ("user", Text(table.user(use["uid"])))]
    if started is not None and ended is not None:
        length = units.span(max((ended - started).total_seconds(), 0.0))
        found.append(("ran", f"{moments.ran(started, ended)} ({length}) on {use['node']}"))
    for gpu in use["gpus"]:
        found.append(("GPU", Text(table.device(gpu))))
    if use["busy"] is not None:
        looks = f"{units.count(use['looks'])} looks by NVML, {units.span(use['every_s'])} apart"
        found.append(
            (
                "GPU busy",
                f"{bar(use['busy'], 1.0, job_table.BAR_WIDTH):<{job_table.BAR_WIDTH}} {units.share(use['busy'])}, in the mean of {looks}",
            )
        )
    elif use.get("split"):
        found.append(("GPU busy", Text(f"not known: {mig.NOT_TOLD}")))
    whole = [gpu["memory_bytes"] for gpu in use["gpus"] if gpu["memory_bytes"]]
    if use["peak_bytes"] is not None:
        found.append(
            (
                "GPU memory",
                f"at most {units.gibibytes(use['peak_bytes'])}{f' of {units.gibibytes(sum(whole))}' if whole else ''}, by NVML",
            )
        )
    return found


def grid(uses: Sequence[Use]) -> Grid:
    """One line per job."""

    def numbers(name: str, goes: int, cells: list[str]) -> Column:
        return Column(name, cells, goes=goes, justify="right")

    others = any(use["uid"] != os.getuid() for use in uses)
    held = [past.used(use) for use in uses]
    peaks = [use["peak_bytes"] for use in uses]
    return Grid(
        [
            table.jobs([(use["job"], use["name"]) for use in uses]),
            *([Column("user", [Text(table.user(use["uid"])) for use in uses], goes=3)] if others else []),
            Column("had", [f"{had(use)}, unused" if use["shared"] else had(use) for use in uses], WORDS),
            Column("ended", ["-" if each.ended is None else moments.minute(each.ended) for each in held], WORDS, goes=2),
            numbers("held", 1, [units.span(each.held_s) if each.alone else "-" for each in held]),
            numbers("GPU busy", 0, [units.share(each.busy) for each in held]),
            numbers("memory", 4, ["-" if peak is None else units.gibibytes(peak) for peak in peaks]),
            Column("GPU", [Text(table.device(use["gpus"][0]) if use["gpus"] else "-") for use in uses], table.NAME_WIDTH, goes=5),
        ],
        title=table.title("Launched nothing through fikit"),
    )  # fmt: skip


def sums(uses: Sequence[Use]) -> Sums:
    return past.sums([past.used(use) for use in uses])


def totals(found: Sums) -> dict[str, Any]:
    """Of these jobs alone: none of them counts as one that shared."""
    return {name: getattr(found, name) for name in SUMS}


def lines(found: Sums, beside: bool) -> Iterator[str]:
    """What they came to, in words; beside: below the sums of others."""
    if not found.jobs:
        return
    facts = []
    if found.alone_jobs:
        busy = (
            f", {units.percent(found.watched_s - found.idle_s, found.watched_s)} busy by NVML"
            if found.watched_s
            else ""
        )
        part = f" (known of {units.span(found.watched_s)})" if 0 < found.watched_s < found.held_s else ""
        facts.append(f"{_jobs(found.alone_jobs)} had GPUs alone for {units.span(found.held_s)}{busy}{part}")
    if found.unused_jobs:
        facts.append(
            f"{_jobs(found.unused_jobs)} had a GPU, or a share of one, and launched nothing on it through fikit"
        )
    emulated = f"; {units.count(found.emulated_jobs)} on an emulated GPU" if found.emulated_jobs else ""
    yield f"{'not in these sums' if beside else 'total'}: {', '.join(facts)}{emulated}"


def had(use: Use) -> str:
    """What of the GPUs it had, as far as that is certain."""
    number = use.get("whole", 0) if use["shared"] else max(len(use["gpus"]), use.get("whole", 0), 1)
    if not number:
        return "a GPU or a share of one"
    return "a GPU alone" if number == 1 else f"{number} GPUs alone"


def _jobs(number: int) -> str:
    return f"{units.count(number)} job{'' if number == 1 else 's'}"
