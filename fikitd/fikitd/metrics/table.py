"""Every metric once: its name, its type, its labels, its help. Code, endpoint, docs/admin.md and tests take them from here.

Names go by Prometheus' own rules (base units, `_total` for counters). `jobid` is the label of jobstats for Slurm's job id; `job` would
be Prometheus' own, which names what it scrapes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
USER: Final = "user"  # the one label whose value is looked up: a uid becomes a name


class Metric(NamedTuple):
    """`help`: a sentence with the unit and what is counted, without its full stop."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


_GPU: Final = ("gpu",)
_JOB: Final = ("jobid", USER, "priority")

BUILD: Final = Metric(
    "fikit_build_info", GAUGE, ("version", "policy"), "1; the labels say which fikitd serves and by which policy"
)
JOBS: Final = Metric("fikit_jobs", GAUGE, ("gpu", "priority"), "Jobs with programs on the GPU under fikit now")
PROCESSES: Final = Metric("fikit_processes", GAUGE, _GPU, "Programs on the GPU under fikit now")
UNMANAGED: Final = Metric(
    "fikit_unmanaged_processes",
    GAUGE,
    _GPU,
    "Programs that use the GPU around fikit, as of the last look by NVML (unmanaged_s)",
)
EMULATED: Final = Metric(
    "fikit_gpu_emulated",
    GAUGE,
    _GPU,
    "1 where the GPU is fikit's emulated one, so that its figures are of no hardware; else 0",
)
BUSY: Final = Metric(
    "fikit_gpu_busy_ratio",
    GAUGE,
    _GPU,
    "GPU time of programs under fikit against the clock, 0 to 1, over the last ten seconds or since the last look, whichever is longer",
)
GPU_TIME: Final = Metric(
    "fikit_gpu_seconds_total",
    COUNTER,
    _GPU,
    "GPU time of programs under fikit since fikitd started, at most where launches have no time of their own; overlapping kernels (MPS) count each",
)
HARVEST: Final = Metric(
    "fikit_harvest_seconds_total",
    COUNTER,
    _GPU,
    "Of fikit_gpu_seconds_total what ran while a job of higher priority was on the same GPU",
)
MEMORY: Final = Metric(
    "fikit_gpu_memory_held_bytes",
    GAUGE,
    _GPU,
    "GPU memory that programs under fikit hold now, without the driver's own",
)
SIZE: Final = Metric("fikit_gpu_memory_bytes", GAUGE, _GPU, "Memory of a GPU on which there are programs under fikit")
OCCUPIED: Final = Metric(
    "fikit_gpu_occupied_seconds_total",
    COUNTER,
    _GPU,
    "Time in which there were jobs on the GPU under fikit, since fikitd started",
)
SHARED: Final = Metric(
    "fikit_gpu_shared_seconds_total",
    COUNTER,
    _GPU,
    "Of fikit_gpu_occupied_seconds_total with two jobs or more",
)
USE: Final = Metric(
    "fikit_gpu_use_ratio",
    GAUGE,
    _GPU,
    "How busy the GPU was at the last look by NVML, 0 to 1, whoever used it (gpu_use_s); missing for MIG instances, of which NVML does not say it",
)
ALONE: Final = Metric(
    "fikit_gpu_alone",
    GAUGE,
    _GPU,
    "1 where a job has the GPU to itself, by root's record, as of the last look by NVML; else 0 (gpu_use_s); missing where a job has one and nobody can say which (MIG)",
)
SWITCH: Final = Metric(
    "fikit_gpu_switch_seconds",
    GAUGE,
    _GPU,
    "What a change to another process costs on the GPU, as measured there; missing where nobody has measured it, and under MPS",
)
JOB_TIME: Final = Metric(
    "fikit_job_gpu_seconds_total",
    COUNTER,
    _JOB,
    "GPU time of a job that is there, at most where launches have no time of their own",
)
SLOWDOWN: Final = Metric(
    "fikit_job_slowdown_ratio",
    GAUGE,
    _JOB,
    "Elapsed time of a job so far against its time alone; missing where the sum supports no ratio",
)
ALLOWED: Final = Metric(
    "fikit_job_slowdown_allowed_ratio",
    GAUGE,
    _JOB,
    "What lower jobs may make of fikit_job_slowdown_ratio; missing where the policy promises nothing",
)
PEAK: Final = Metric("fikit_job_memory_peak_bytes", GAUGE, _JOB, "Most GPU memory that a job has held at a time so far")
LIMIT: Final = Metric(
    "fikit_job_memory_limit_bytes",
    GAUGE,
    _JOB,
    "GPU memory that a job may have (--fikit-mem); missing where nothing limits it",
)
REFUSED: Final = Metric(
    "fikit_job_memory_refused_total", COUNTER, _JOB, "Requests of a job for more GPU memory than it may have"
)
RESIDENT: Final = Metric(
    "fikit_job_memory_resident_bytes",
    GAUGE,
    _JOB,
    "GPU memory of a job that is on the GPU now, of jobs that may have some on the host, as their shim says",
)
MOVED: Final = Metric(
    "fikit_job_memory_moved_bytes_total",
    COUNTER,
    (*_JOB, "direction"),
    "Memory of such a job that was moved ahead of need, to the GPU (in) and to the host (out)",
)
MISSED: Final = Metric(
    "fikit_job_memory_missed_bytes_total",
    COUNTER,
    _JOB,
    "Memory of such a job that was to be on the GPU and was not when its work went on",
)
MOVING: Final = Metric(
    "fikit_job_memory_moving_seconds_total",
    COUNTER,
    _JOB,
    "Time that programs of such a job have waited for moves of its memory",
)
TURNS: Final = Metric(
    "fikit_job_memory_turns_total", COUNTER, _JOB, "Turns on the GPU that such a job's memory has had"
)
BUDGET: Final = Metric(
    "fikit_job_memory_budget_bytes",
    GAUGE,
    _JOB,
    "GPU memory that a job has by the plan of its memory; missing where it has none now",
)
PASSES: Final = Metric(
    "fikit_job_memory_passes_total", COUNTER, _JOB, "Iterations that a job has gone by plans of its memory"
)
WAITS: Final = Metric(
    "fikit_gate_wait_seconds_total",
    COUNTER,
    ("reason",),
    "Time that launches have waited at the gate, by reason, since fikitd started",
)
DELAYS: Final = Metric(
    "fikit_delay_seconds_total",
    COUNTER,
    (),
    "Time that work has stood on GPUs while a lower job's ran there, since fikitd started",
)
ENDED: Final = Metric("fikit_jobs_ended_total", COUNTER, (), "Jobs that have ended since fikitd started")
KEPT: Final = Metric(
    "fikit_budget_kept_total", COUNTER, (), "Ended jobs whose slowdown by lower jobs stayed within what was allowed"
)
EXCEEDED: Final = Metric(
    "fikit_budget_exceeded_total", COUNTER, (), "Ended jobs that lower jobs slowed down by more than was allowed"
)
UNKNOWN: Final = Metric(
    "fikit_budget_unknown_total",
    COUNTER,
    (),
    "Ended jobs with a promise of which nobody can say whether it was kept; their reports say why",
)

METRICS: Final = (
    BUILD, JOBS, PROCESSES, UNMANAGED, EMULATED, BUSY, GPU_TIME, HARVEST, MEMORY, SIZE, OCCUPIED, SHARED, USE, ALONE, SWITCH, JOB_TIME, SLOWDOWN, ALLOWED, PEAK, LIMIT, REFUSED, RESIDENT, MOVED,
    MISSED, MOVING, TURNS, BUDGET, PASSES, WAITS, DELAYS, ENDED, KEPT, EXCEEDED, UNKNOWN,
)  # fmt: skip


def markdown() -> str:
    """The table as docs/admin.md has it."""
    rows = [f"| `{m.name}` | {m.kind} | {', '.join(f'`{label}`' for label in m.labels)} | {m.help} |" for m in METRICS]
    return "\n".join(["| name | type | labels | what it says |", "|---|---|---|---|", *rows])
