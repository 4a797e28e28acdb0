"""What `import fikit` offers (docs/python.md). Names and fields that are here stay; new ones may come."""

from fikit.api.advice import Advice
from fikit.api.job_report import Delay, Device, HostTime, JobReport, Memory, WaitReason, Waits
from fikit.api.node_view import Gpu, GpuJob, Node, node
from fikit.api.queries import jobs, report
from fikit.api.sums import Totals, totals
from fikit.errors import NoDaemon, NoReport, UserError

__all__ = [
    "Advice",
    "Delay",
    "Device",
    "Gpu",
    "GpuJob",
    "HostTime",
    "JobReport",
    "Memory",
    "NoDaemon",
    "NoReport",
    "Node",
    "Totals",
    "UserError",
    "WaitReason",
    "Waits",
    "jobs",
    "node",
    "report",
    "totals",
]
