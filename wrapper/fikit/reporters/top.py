"""`fikit top`: a node's GPUs and their jobs as one dense table."""

from __future__ import annotations

import pwd
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fikit.reporters import table, units

BAR_WIDTH = 10


def view(use: dict[str, Any]) -> Group:
    """Everything, `use` as fikit.node_use.between gives it."""
    parts: list[RenderableType] = [Text(f"{use['node']}, policy {use['policy']}", style="dim")]
    for gpu in use["gpus"]:
        parts += ["", _heading(gpu)]
        if gpu["jobs"]:
            parts.append(_jobs(gpu["jobs"]))
        parts += [
            Text(f"process {pid} uses this GPU around fikit: it is not scheduled", style="yellow")
            for pid in gpu["unmanaged"]
        ]
    if not use["gpus"]:
        parts += ["", Text("no job shares a GPU of this node now")]
    return Group(*parts)


def _heading(gpu: dict[str, Any]) -> Text:
    text = Text(table.device(gpu), style="bold")
    facts = [units.gibibytes(gpu["memory_bytes"])] if gpu["memory_bytes"] else []
    facts.append(f"used {_percent(gpu['device_share'])}" if gpu["device_share"] is not None else "use not known yet")
    if gpu["harvest"] is not None:
        facts.append(f"{_percent(gpu['harvest'])} of what the highest priority leaves goes to lower ones")
    text.append(f"  {', '.join(facts)}", style="not bold")
    return text


def _jobs(jobs: list[dict[str, Any]]) -> Table:
    rows = Table(box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("job", "user", "priority"):
        rows.add_column(name, no_wrap=True)
    rows.add_column("GPU", justify="right", no_wrap=True)
    rows.add_column("", no_wrap=True, width=BAR_WIDTH)
    for name in ("waits", "launches/s", "filled/s", "memory", "pids"):
        rows.add_column(name, justify="right", no_wrap=True)
    for job in jobs:
        style = table.PRIORITY_STYLES.get(job["priority_name"], "")
        share = job["device_share"]
        rows.add_row(
            Text(f"{job['job']} {job.get('name', '')}".strip()), _user(job["uid"]), table.priority(job),
            _percent(share), Text(table.bar(share or 0.0, 1.0, BAR_WIDTH), style=style), *_own(job),
        )  # fmt: skip
    return rows


def _own(job: dict[str, Any]) -> tuple[str, ...]:
    """The columns of which only a job's own user and root see something."""
    if "pids" not in job:
        return ("", "", "", "", "")
    limit = f" / {units.gibibytes(job['memory_limit_bytes'])}" if job["memory_limit_bytes"] else ""
    return (
        _percent(job["waiting_share"]),
        _rate(job["launches_per_s"]),
        _rate(job["others_kernels_per_s"]),
        f"{units.gibibytes(job['memory_bytes'])}{limit}",
        str(len(job["pids"])),
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}".replace("%", " %")


def _rate(per_s: float | None) -> str:
    return "-" if per_s is None else units.count(round(per_s))


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
