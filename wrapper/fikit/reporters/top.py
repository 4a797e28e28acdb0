"""`fikit top`: a node's GPUs and their jobs as one dense table."""

from __future__ import annotations

from typing import Any

from fikitd.api import reports
from fikitd.api.report_format import MIXED
from rich.console import Group, RenderableType
from rich.text import Text

from fikit.reporters import table
from fikit.reporters.grid import WORDS, Bar, Column, Grid
from fikit.wording import device_mode, gpu_switch, memory_moved, units
from fikit.wording.elapsed import PARTS

BAR_WIDTH = 10


def view(use: dict[str, Any]) -> Group:
    """Everything, `use` as fikit.api.node_use.between gives it."""
    parts: list[RenderableType] = [Text(f"{use['node']}, policy {use['policy']}", style="dim")]
    for gpu in use["gpus"]:
        parts += ["", _heading(gpu)]
        if gpu["jobs"]:
            parts.append(_jobs(gpu["jobs"], gpu["device_mode"] == MIXED))
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
    facts.append(f"used {units.share(gpu['device_share'])}" if gpu["device_share"] is not None else "use not known yet")
    if gpu["device_mode"] is not None:
        facts.append(f"sharing: {device_mode.WORDS[gpu['device_mode']]}")
    if gpu.get("switch") is not None:
        facts.append(gpu_switch.measured(gpu["switch"]))
    if gpu["harvest"] is not None:
        facts.append(f"{units.share(gpu['harvest'])} of what the highest priority leaves goes to lower ones")
    text.append(f"  {', '.join(facts)}", style="not bold")
    return text


def _jobs(jobs: list[dict[str, Any]], in_several_modes: bool) -> Grid:
    def bar(job: dict[str, Any]) -> Bar:
        return Bar(job["device_share"] or 0.0, BAR_WIDTH, table.PRIORITY_STYLES.get(job["priority_name"], ""))

    own = {
        **dict(zip(PARTS.values(), (0, 2, 5, 7), strict=True)), "against alone": 1, "launches/s": 3, "filled/s": 4,
        "memory": 2, "pids": 6,
    }  # with when each goes  # fmt: skip
    return Grid(
        [
            table.jobs([(job["job"], job.get("name", "")) for job in jobs], cut="ellipsis"),
            Column("user", [table.user(job["uid"]) for job in jobs], goes=4),
            Column("priority", [table.priority(job) for job in jobs], WORDS),
            Column("GPU", [units.share(job["device_share"]) for job in jobs], justify="right"),
            Column("", [bar(job) for job in jobs], goes=8),
            *(
                Column(name, list(cells), goes=goes, justify="right")
                for (name, goes), cells in zip(own.items(), zip(*map(_own, jobs), strict=True), strict=True)
            ),
            *([Column("sharing", [_mode(job) for job in jobs], WORDS, goes=9)] if in_several_modes else []),
        ],
        dense=True,
    )


def _own(job: dict[str, Any]) -> tuple[str, ...]:
    """The columns of which only a job's own user and root see something."""
    if "pids" not in job:
        return ("",) * (len(PARTS) + 5)
    limit = f" / {units.gibibytes(job['memory_limit_bytes'])}" if job["memory_limit_bytes"] else ""
    resident = job.get("memory_on_gpu_bytes")
    on_gpu = "" if resident is None else f", {units.gibibytes(resident)} on the GPU"
    planned = job.get("memory_plan")
    plan = (
        ""
        if planned is None
        else f", {memory_moved.plan_now(planned['budget_bytes'], planned['peak_bytes'], planned.get('expected_loss'))}"
    )
    return (
        *(units.share((job["shares"] or {}).get(word)) for word in PARTS.values()),
        _against_alone(job["job_time"]),
        _rate(job["launches_per_s"]),
        _rate(job["others_kernels_per_s"]),
        f"{units.gibibytes(job['memory_bytes'])}{limit}{on_gpu}{plan}",
        str(len(job["pids"])),
    )


def _against_alone(job_time: dict[str, Any] | None) -> str:
    """So far, and what is allowed: `1.04x of 1.05x`."""
    if job_time is None or not (so_far := reports.ratio(job_time)):
        return "-"
    allowed = reports.allowance(job_time)
    return f"{so_far} of {allowed}" if allowed else so_far


def _mode(job: dict[str, Any]) -> str:
    mode = job.get("device_mode")
    return device_mode.WORDS[mode] if mode else ""


def _rate(per_s: float | None) -> str:
    return "-" if per_s is None else units.count(round(per_s))
