"""The values of the metrics: counters that outlive clients and jobs, and what there is now. Only the event loop touches it."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from fikitd.api import elapsed
from fikitd.base import build
from fikitd.base.protocol import Device
from fikitd.base.shares import GPUS
from fikitd.gpus.devices import digits
from fikitd.jobs import totals
from fikitd.jobs.gpu_use import Look
from fikitd.jobs.job import Job
from fikitd.jobs.totals import Stats
from fikitd.metrics import table
from fikitd.metrics.occupancy import Occupancy
from fikitd.metrics.table import Metric

MOST_BROKEN: Final = 256  # that nobody has asked for yet
FRESH_S: Final = 1.0  # so long one look serves all who ask
LOOKS: Final = 20  # and for so many times as long as it took: looking takes a twentieth of fikitd's time at most
BUSY_S: Final = 10.0
OTHER: Final = "other"  # GPUs beyond GPUS.all, which programs may only call so

Values = dict[Metric, dict[tuple[str, ...], float]]
"""Of each metric its values, by its labels' values; a user is the digits of a uid."""


@dataclass(frozen=True)
class Here:
    """A client on a GPU. gpu_ns: what it has had of the GPU so far."""

    number: int
    gpu: str
    device: Device
    job: Job
    gpu_ns: int
    held_bytes: int


@dataclass
class _Client:
    """Times are ns on the GPU. counted_ns: so far, without what it had before it came to this fikitd; below: beside a higher job."""

    gpu: str
    device: Device
    job: Job
    stats_now: Callable[[], Stats]
    held_bytes: Callable[[], int]
    switch_ns: Callable[[], int | None]
    seen_ns: int
    counted_ns: int = 0
    below: bool = False


class Meter:
    def __init__(
        self, policy: str, jobs: Callable[[], Iterable[Job]], around: Callable[[], list[tuple[str, int]]],
        clock: Callable[[], float] = time.monotonic, *, use: Callable[[], Look] = Look,
    ) -> None:  # fmt: skip
        """`jobs`: all that there are. `around`: GPU and pid of programs that use a GPU without fikit. `use`: what NVML said last."""
        self._use, self._occupancy = use, Occupancy()
        self._policy, self._jobs, self._around, self._clock = policy, jobs, around, clock
        self._clients: dict[int, _Client] = {}
        self._gpu_ns: Counter[str] = Counter()
        self._harvest_ns: Counter[str] = Counter()
        self._waits: Counter[str] = Counter()  # seconds by reason, of jobs that are over
        self._delays_s = 0.0
        self._ends: Counter[Metric] = Counter()
        self._broken: list[dict[str, Any]] = []
        self._before: dict[int, tuple[Counter[str], float]] = {}  # of jobs that were there before this fikitd
        self._most: dict[Metric, dict[tuple[str, ...], float]] = defaultdict(dict)
        self._began_s, self._began_ns = clock(), Counter[str]()
        self._busy: dict[str, float] = {}
        self._looked_s, self._fresh_s = clock() - FRESH_S, FRESH_S
        self._seen: Values = {}

    def begin(self) -> None:
        """Of the jobs that are there what they waited so far was another fikitd's to tell."""
        self._before = {job.number: _waits(job.report()) for job in self._jobs()}

    def came(
        self, number: int, place: str, device: Device, job: Job, *, stats_now: Callable[[], Stats],
        held_bytes: Callable[[], int], switch_ns: Callable[[], int | None],
    ) -> None:  # fmt: skip
        """A client on the GPU that is shared under the name `place`."""
        known = self._gpu_ns.keys() | {client.gpu for client in self._clients.values()}
        gpu = place if place in known or len(known) < GPUS.all else OTHER
        self._clients[number] = _Client(gpu, device, job, stats_now, held_bytes, switch_ns, _gpu_ns(stats_now()))
        self._settle(gpu)

    def went(self, number: int, stats: Stats) -> None:
        """With these counters at last."""
        if client := self._clients.pop(number, None):
            self._count(client, stats)
            self._settle(client.gpu)

    def priority_changed(self) -> None:
        """Of some job."""
        for gpu in {client.gpu for client in self._clients.values()}:
            self._settle(gpu)

    def job_ended(self, job: Job) -> None:
        """It is forgotten now."""
        report = job.report()
        waits, delays_s = self._waits_here(job, report)
        self._waits.update(waits)
        self._delays_s += delays_s
        self._before.pop(job.number, None)
        self._ends[table.ENDED] += 1
        promised = report["max_slowdown"] is not None and report["kept_unknown"] not in (
            elapsed.MEASURED,
            elapsed.NOTHING,
        )
        if promised:
            kept = {True: table.KEPT, False: table.EXCEEDED, None: table.UNKNOWN}[report["kept"]]
            self._ends[kept] += 1
            if kept is table.EXCEEDED:
                said = {
                    "job": job.record.job,
                    "uid": job.record.uid,
                    "priority": job.record.priority,
                    "ended_s": int(time.time()),
                }
                self._broken = [*self._broken, {**said, **{key: report[key] for key in ("slowdown", "max_slowdown")}}][
                    -MOST_BROKEN:
                ]

    def broken(self) -> list[dict[str, Any]]:
        """The promises that were not kept since the last call (status_format)."""
        found, self._broken = self._broken, []
        return found

    def counted(self) -> dict[str, float]:
        """Since fikitd began, by the names of status_format.COUNTS; and by each GPU's name what lower jobs had of it."""
        ends = {"ended": table.ENDED, "kept": table.KEPT, "exceeded": table.EXCEEDED, "unknown": table.UNKNOWN}
        sums = {"gpu_s": sum(self._gpu_ns.values()) / 1e9, "harvest_s": sum(self._harvest_ns.values()) / 1e9}
        sums |= {name: float(self._ends[metric]) for name, metric in ends.items()}
        return sums | {gpu: ns / 1e9 for gpu, ns in self._harvest_ns.items()}

    def here(self) -> list[Here]:
        """Who is there as of the last look (values)."""
        return [
            Here(number, client.gpu, client.device, client.job, client.seen_ns, client.held_bytes())
            for number, client in self._clients.items()
        ]

    def values(self) -> Values:
        """As of now, or of a moment ago."""
        if (began_s := self._clock()) - self._looked_s >= self._fresh_s:
            self._seen, self._looked_s = self._look(began_s), began_s
            self._fresh_s = max(FRESH_S, LOOKS * (self._clock() - began_s))
        return self._seen

    def _look(self, now_s: float) -> Values:
        for client in self._clients.values():
            self._count(client, client.stats_now())
        found: Values = {metric: {} for metric in table.METRICS}
        found[table.BUILD][build.identity(), self._policy] = 1
        self._look_at_gpus(found, now_s)
        self._look_at_jobs(found)
        for metric in (table.ENDED, table.KEPT, table.EXCEEDED, table.UNKNOWN):
            found[metric][()] = self._ends[metric]
        self._never_less(found)
        return found

    def _look_at_gpus(self, found: Values, now_s: float) -> None:
        jobs: dict[tuple[str, str], set[int]] = defaultdict(set)
        for client in self._clients.values():
            gpu = (client.gpu,)
            jobs[client.gpu, str(client.job.record.priority)].add(client.job.number)
            found[table.PROCESSES][gpu] = found[table.PROCESSES].get(gpu, 0) + 1
            found[table.MEMORY][gpu] = found[table.MEMORY].get(gpu, 0) + client.held_bytes()
            found[table.SIZE][gpu] = client.device.memory_bytes
            found[table.EMULATED][gpu] = max(found[table.EMULATED].get(gpu, 0), float(client.device.emulated))
            if (switch_ns := client.switch_ns()) is not None:
                found[table.SWITCH][gpu] = switch_ns / 1e9
        found[table.JOBS] = {key: len(numbers) for key, numbers in jobs.items()}
        self._look_at_busy(now_s)
        for name in self._gpu_ns.keys() | {client.gpu for client in self._clients.values()}:
            found[table.GPU_TIME][name,] = self._gpu_ns[name] / 1e9
            found[table.HARVEST][name,] = self._harvest_ns[name] / 1e9
            found[table.BUSY][name,] = self._busy.get(name, 0.0)
            self._occupancy.now(name, len(self._jobs_on(name)), self._clock())
        found[table.OCCUPIED] = {(gpu,): seconds for gpu, seconds in self._occupancy.occupied_s().items()}
        found[table.SHARED] = {(gpu,): seconds for gpu, seconds in self._occupancy.shared_s().items()}
        called = {digits(client.gpu): client.gpu for client in self._clients.values()}
        look = self._use()
        for seen in look.seen:
            uuid = str(seen["uuid"])
            labels = (called.get(digits(uuid), uuid),)
            if (has := look.holder(uuid) is not None) or not look.unplaced:
                found[table.ALONE][labels] = float(has)
            if seen.get("use") is not None:
                found[table.USE][labels] = seen["use"]
        for uuid, count in Counter(uuid for uuid, _ in self._around()).items():
            found[table.UNMANAGED][called.get(digits(uuid), uuid),] = count

    def _jobs_on(self, gpu: str) -> set[int]:
        return {client.job.number for client in self._clients.values() if client.gpu == gpu}

    def _look_at_busy(self, now_s: float) -> None:
        took_s = now_s - self._began_s
        if took_s >= BUSY_S:
            self._busy = {gpu: min(1.0, (ns - self._began_ns[gpu]) / 1e9 / took_s) for gpu, ns in self._gpu_ns.items()}
            self._began_s, self._began_ns = now_s, Counter(self._gpu_ns)

    def _look_at_jobs(self, found: Values) -> None:
        waits, delays_s = Counter(self._waits), self._delays_s
        for job in self._jobs():
            report = job.report()
            more, longer_s = self._waits_here(job, report)
            waits.update(more)
            delays_s += longer_s
            if job.quiet:
                continue
            labels = (job.record.job, str(job.record.uid), str(job.record.priority))
            known_s = report["gpu_time_s"]
            found[table.JOB_TIME][labels] = report["gpu_time_at_most_s"] if known_s is None else known_s
            if report["slowdown"] is not None:
                found[table.SLOWDOWN][labels] = report["slowdown"]
            if report["max_slowdown"] is not None:
                found[table.ALLOWED][labels] = 1 + report["max_slowdown"]
            memory = report["memory"]
            found[table.PEAK][labels], found[table.REFUSED][labels] = memory["peak_bytes"], memory["refused"]
            if memory["limit_bytes"] is not None:
                found[table.LIMIT][labels] = memory["limit_bytes"]
            if moved := memory.get("moved"):
                found[table.RESIDENT][labels] = job.bytes_on_gpu(job.device.uuid)
                found[table.MOVED][*labels, "in"], found[table.MOVED][*labels, "out"] = (
                    moved["in_bytes"],
                    moved["out_bytes"],
                )
                found[table.MISSED][labels], found[table.MOVING][labels] = moved["missed_bytes"], moved["moving_s"]
                found[table.TURNS][labels] = moved["turns"]
            if plan := memory.get("plan"):
                found[table.PASSES][labels] = plan["passes"]
            if now := job.memory_plan:
                found[table.BUDGET][labels] = now["budget_bytes"]
        found[table.WAITS] = {(reason,): seconds for reason, seconds in waits.items()}
        found[table.DELAYS] = {(): delays_s}

    def _waits_here(self, job: Job, report: dict[str, Any]) -> tuple[Counter[str], float]:
        """Seconds that it waited and was delayed under this fikitd."""
        waits, delays_s = _waits(report)
        before, before_s = self._before.get(job.number, (Counter[str](), 0.0))
        return waits - before, max(delays_s - before_s, 0.0)

    def _never_less(self, found: Values) -> None:
        """A time that turns out shorter is no counter that began anew, which Prometheus would take it for."""
        for metric in (each for each in table.METRICS if each.kind == table.COUNTER):
            most, now = self._most[metric], found[metric]
            kept = {labels: max(value, most.get(labels, 0.0)) for labels, value in now.items()}
            self._most[metric] = found[metric] = kept

    def _settle(self, gpu: str) -> None:
        """Somebody came or went there, or has another priority: what was done until now belongs to how it was before."""
        there = [client for client in self._clients.values() if client.gpu == gpu]
        self._occupancy.now(gpu, len(self._jobs_on(gpu)), self._clock())
        highest = min((client.job.record.priority for client in there), default=0)
        for client in there:
            below = client.job.record.priority > highest
            if below != client.below:
                self._count(client, client.stats_now())
                client.below = below

    def _count(self, client: _Client, stats: Stats) -> None:
        now_ns = _gpu_ns(stats)
        more_ns = max(now_ns - client.seen_ns, 0)
        client.seen_ns = max(now_ns, client.seen_ns)
        self._gpu_ns[client.gpu] += more_ns
        if client.below:
            self._harvest_ns[client.gpu] += more_ns


def _gpu_ns(stats: Stats) -> int:
    """What a client had of the GPU, at most."""
    return totals.gpu_time(stats)[1] if stats["kernels"] else 0


def _waits(report: dict[str, Any]) -> tuple[Counter[str], float]:
    """Seconds at the gate, by reason, and of delays on the device."""
    waits: Counter[str] = Counter()
    for entry in report["wait_reasons"]:
        waits[entry["reason"]] += entry["total_s"]
    return waits, sum(entry["total_s"] for entry in report["delays"])
