"""A job whose launches fikit did not see: what NVML says of its GPU, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from fikitd.api.uses import Use
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fikit.api.advice import Advice
from fikit.api.job_report import moment
from fikit.reporters import job_table, table
from fikit.reporters.grid import bar
from fikit.wording import moments, units


def report(use: Use, advices: Sequence[Advice] = ()) -> Group:
    """The answer first, what to do last."""
    rows_of = Table(
        box=box.SIMPLE,
        show_header=False,
        title=table.title(f"Job {table.job(use)}"),
        title_justify="left",
        pad_edge=False,
    )
    rows_of.add_column(style="dim", no_wrap=True)
    rows_of.add_column(overflow="fold")
    for name, cell in rows(use):
        rows_of.add_row(name, cell)
    return Group(rows_of, *job_table.advice(advices))


def rows(use: Use) -> list[tuple[str, RenderableType]]:
    """Of the table, each with its name."""
    result = (
        "used no GPU through fikit, and had a share of one"
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
                f"{bar(use['busy'], 1.0, job_table.BAR_WIDTH):<{job_table.BAR_WIDTH}} {units.percent(use['busy'], 1)}, in the mean of {looks}",
            )
        )
    whole = [gpu["memory_bytes"] for gpu in use["gpus"] if gpu["memory_bytes"]]
    if use["peak_bytes"] is not None:
        found.append(
            (
                "GPU memory",
                f"at most {units.gibibytes(use['peak_bytes'])}{f' of {units.gibibytes(sum(whole))}' if whole else ''}, by NVML",
            )
        )
    return found
