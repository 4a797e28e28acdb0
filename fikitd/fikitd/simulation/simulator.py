"""What a policy would do to one high-priority job and some low ones: recorded timelines on the emulated device model.

Nothing here runs on a GPU or in real time. The policies and the predictor are those of fikitd's dispatcher, the device is
the emulator's, time is a number: the same input gives the same output, to the nanosecond.
"""

from __future__ import annotations

import gzip
import math
import random
import statistics
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

from fikitd import _simulator
from fikitd._simulator import Costs
from fikitd.base import priorities
from fikitd.config.fikit_toml import SchedulerConfig
from fikitd.simulation.device import MERGED, MPS, MPS_MODELS, RECORDED, SHARING, SLICES, Device, DeviceError, named
from fikitd.simulation.policy import Policy
from fikitd.simulation.policy_file import PolicyFile, PolicyFileError
from fikitd.simulation.policy_file import is_file as is_policy_file
from fikitd.simulation.policy_file import load as load_policy

__all__ = [
    "ARRIVALS", "MERGED", "MPS", "MPS_MODELS", "POLICIES", "SHARING", "SLICES", "TUNING", "Costs", "Device", "DeviceError", "LowTime", "Observed", "Outcome",
    "PolicyFile", "PolicyFileError", "Ratios", "Scenario", "SimulatorError", "Trace", "compare", "is_policy_file", "load", "load_policy", "low_time",
    "measured_switch", "named", "parse", "policies_of", "simulate",
]  # fmt: skip

ARRIVALS = {"closed": None, "open30": 0.3, "open70": 0.7}
"""How the high job's requests arrive: one after the other, or as a Poisson process of this share of what it could serve alone."""

POLICIES = (*_simulator.POLICIES, "oracle", "weighted", "mps-priority")
"""Those of fikitd; "oracle": `budget`, which knows what will be. Without gates, as `fifo`, are two that a GPU's own means give: "weighted": time
slices whose lengths are WEIGHTS; "mps-priority": low jobs are MPS clients of priority below normal."""

ONLY = {"weighted": "slices", "mps-priority": "mps"}
"""The one way of sharing a GPU that such a policy is for."""

WEIGHTS = {"high": 1.8, "low": 0.2}
"""Of the slices of high and low jobs: nine tenths of the time to the high one, as `timeslice_pct` of CUDA 13.5 would say it."""

TUNING = _simulator.TUNING
"""The constants of the policy `budget` (fikitd/core/policy/base/tuning.hpp)."""

MAX_SLOWDOWN = 0.05
"""Of the high job, for the policies that have a budget."""

_DEFAULT = SchedulerConfig()
SCHEDULER = {
    "lease_ns": _DEFAULT.lease_ms * 1_000_000,
    "min_gap_ns": _DEFAULT.min_gap_us * 1000,
    "run_ahead_ns": _DEFAULT.run_ahead_us * 1000,
    "idle_after_ns": _DEFAULT.idle_after_us * 1000,
    "starvation_timeout_ns": _DEFAULT.starvation_timeout_ms * 1_000_000,
}
"""Times of the scheduler, as fikit.toml has them by default."""

LEARNT_BY = ("longest_run_ns", "rest_run_ns")
"""Of TUNING, what decides what a profile holds."""

NATIVE = {"oracle": "budget", "weighted": "fifo", "mps-priority": "fifo"}
KNOWLEDGE = {"oracle": "truth", "paper": "kernel"}  # the paper's kernel has no context

LEARNING_PASSES = 3
SPAN_NS = 2_000_000_000
"""By default as many requests as take the high job alone so long, or as long as a pass of the longest low job."""
MIN_REQUESTS = 6
NO_COSTS = Costs(launch_ns=0, observe_ns=0, wake_ns=0, done_ns=0, late_ns=0)


class SimulatorError(Exception):
    """One sentence: what could not be simulated, and why."""


@dataclass(frozen=True)
class Trace:
    """A recorded timeline under its name. One pass through it is one request of its job."""

    name: str
    native: _simulator.Trace
    learning_ns: int = _simulator.NEVER
    """The measuring run ends then, or after so many passes."""
    learning_passes: int = LEARNING_PASSES
    stored: bool = False
    """The profile is what the run's file says: of where the host waits, and what follows what, only what it saw twice."""

    def on(self, device: Device) -> Trace:
        """Measured and alone on this device, too, where it says what a launch and the next kernel in line take."""
        times = (device.launch_latency_ns, device.kernel_gap_ns)
        if times not in self._on:
            latency_ns, gap_ns = (RECORDED if ns is None else ns for ns in times)
            self._on[times] = replace(self, native=self.native.on(latency_ns, gap_ns))
            self._on[times]._on.update(self._on)
        return self._on[times]

    @cached_property
    def _on(self) -> dict[tuple[int | None, int | None], Trace]:
        return {(None, None): self}

    @cached_property
    def profile(self) -> _simulator.Profile:
        """What a measuring run alone on the device learns."""
        return self.profile_under({})

    def profile_under(self, tuning: Mapping[str, float], *, timing_ns: int = 0) -> _simulator.Profile:
        """The same, measured by a fikitd with these constants: how much work a run may be says what is learnt of runs.

        timing_ns: as Scenario has it.
        """
        known = {name: value for name, value in tuning.items() if name in LEARNT_BY}
        key = (timing_ns, tuple(sorted(known.items())))
        if key not in self._profiles:
            self._profiles[key] = _simulator.learn(
                self.native, self.learning_passes, self.learning_ns, stored=self.stored, tuning=known,
                timing_ns=timing_ns,
            )  # fmt: skip
        return self._profiles[key]

    @cached_property
    def _profiles(self) -> dict[tuple[int, tuple[tuple[str, float], ...]], _simulator.Profile]:
        return {}

    @cached_property
    def alone_ns(self) -> float:
        """One request after the other, alone: how long one takes."""
        passes = 4
        job = _simulator.Job(self.native, priority=0, managed=False)
        return _simulator.simulate("fifo", [job], requests=passes, costs=NO_COSTS)["span_ns"] / passes


@dataclass(frozen=True)
class Scenario:
    """One high job, low ones, and what sharing costs. `requests` None: as many as SPAN_NS says.

    cold: no profiles. rhythm, runs False: profiles do not say where hosts wait, what follows without a
    wait. knowledge: what predictions rest on ("context",
    "kernel", "truth"), by default what the policy is meant to have. lead_ns: the policy has known the jobs for so long before
    they begin; silence teaches, too. seen: how long a real dispatcher took to react (ns, equally probable, by "observe", "wake",
    "done", "late"), in place of the one cost, and what hosts needed from a request to the next one ("turn"; else nothing); draw:
    in which order these times come.
    max_slowdown: how much longer the high job may take because of the low ones; max_delay_ns: the longest single delay.
    tuning: other values of the policy's constants, by name (TUNING). Only the policies `budget` and `oracle` know these.
    device: the GPU that they share. timing_ns: the profiles are those of measured runs whose hosts need so much longer for each launch,
    as it is timed; by default it costs nothing, and the profiles also know what another run, untimed and alone, has shown.
    scheduler: times that fikit.toml has, in ns ("lease_ns", "min_gap_ns", "run_ahead_ns", "idle_after_ns", "starvation_timeout_ns").
    """

    high: Trace
    lows: Sequence[Trace]
    arrivals: str = "closed"
    seed: int = 1
    requests: int | None = None
    cold: bool = False
    max_slowdown: float = MAX_SLOWDOWN
    max_delay_ns: int | None = None
    tuning: Mapping[str, float] = field(default_factory=dict)
    scheduler: Mapping[str, int] = field(default_factory=dict)
    costs: Costs = field(default_factory=Costs)
    rhythm: bool = True
    runs: bool = True
    knowledge: str | None = None
    lead_ns: int = 0
    seen: Mapping[str, Sequence[int]] = field(default_factory=dict)
    draw: int = 1
    device: Device = SLICES
    timing_ns: int = 0

    def profile(self, trace: Trace) -> _simulator.Profile:
        """What its jobs know of this one."""
        return trace.profile_under(self.tuning, timing_ns=self.timing_ns)

    def __post_init__(self) -> None:
        object.__setattr__(self, "high", self.high.on(self.device))
        object.__setattr__(self, "lows", [low.on(self.device) for low in self.lows])

    @property
    def count(self) -> int:
        """Requests of the high job."""
        if self.requests is not None:
            return self.requests
        span_ns = max([SPAN_NS, *(low.alone_ns for low in self.lows)])
        return max(MIN_REQUESTS, math.ceil(span_ns / self.high.alone_ns))

    def arrival_times(self) -> list[int]:
        """When the high job's requests arrive; empty when each follows the one before it."""
        load = ARRIVALS[self.arrivals]
        if load is None:
            return []
        source = random.Random(self.seed)
        times, now = [], 0.0
        for _ in range(self.count):
            now += source.expovariate(load / self.high.alone_ns)
            times.append(round(now))
        return times


@dataclass(frozen=True)
class Outcome:
    """What a policy did. Ratios of the high job: how much longer than alone with the same arrivals.

    high_jct_ratio: closed, the time for all its requests; open, the mean response time of a request (arrival to end).
    high_p99_ratio: the 99th percentile of the response time. low_share: device time of the low jobs per time.
    low_jct_ratio: how much longer the low jobs took for the same work than alone; None when they did none.
    harvest: what the low jobs had of the device / what the high job leaves of it (used_ns, left_ns). device: which.
    """

    policy: str
    high_jct_ratio: float
    high_p99_ratio: float
    low_jct_ratio: float | None
    low_share: float
    harvest: float
    kernels: int
    grants: int
    mispredicted_us_p99: float
    requests: int
    span_ms: float
    device: str


def load(path: Path) -> Trace:
    """A recording (*.csv or *.csv.gz). Raises SimulatorError."""
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise SimulatorError(f"couldn't read {path}: {error}") from error
    return parse(path.name.split(".csv")[0], text, str(path))


def parse(name: str, text: str, origin: str | None = None, *, stretch: float = 1.0) -> Trace:
    """A recording's text; everything takes `stretch` times as long. Raises SimulatorError that names `origin`."""
    try:
        return Trace(name, _simulator.Trace(text, stretch))
    except RuntimeError as error:
        raise SimulatorError(f"{origin or name}: {error}") from error


def _p99(values: Iterable[float]) -> float:
    """The value that 99 % do not exceed; of fewer than 100 values the largest."""
    ordered = sorted(values)
    return ordered[max(0, -(-99 * len(ordered) // 100) - 1)]


def _responses(result: _simulator.Result) -> list[int]:
    return [end - arrival for arrival, end in result["jobs"][0]["requests"]]


def policies_of(device: Device) -> tuple[str, ...]:
    """Those that make sense on this device."""
    return tuple(name for name in POLICIES if ONLY.get(name, device.sharing) == device.sharing)


def _run(scenario: Scenario, policy: str | PolicyFile, *, alone: bool, splits: bool = False) -> _simulator.Result:
    if isinstance(policy, PolicyFile):
        try:
            with policy.running():
                return _run_named(scenario, policy.name, policy.make, splits=splits)
        except (PolicyFileError, RuntimeError, ValueError) as error:
            raise SimulatorError(str(error)) from error
    return _run_named(scenario, policy, alone=alone, splits=splits)


def _run_named(
    scenario: Scenario,
    policy: str,
    make: Callable[[], Policy] | None = None,
    *,
    alone: bool = False,
    splits: bool = False,
) -> _simulator.Result:
    """`make`: of a policy that fikitd does not have, whatever its name."""
    weighted = policy == "weighted"
    high = _simulator.Job(
        scenario.high.native,
        priority=priorities.parse("high"),
        profile=None if scenario.cold or alone else scenario.profile(scenario.high),
        rhythm=scenario.rhythm,
        runs=scenario.runs,
        managed=not alone,
        weight=WEIGHTS["high"] if weighted else 1.0,
        arrivals=scenario.arrival_times(),
    )
    lows = [
        _simulator.Job(
            low.native,
            priority=priorities.parse("low"),
            profile=None if scenario.cold else scenario.profile(low),
            rhythm=scenario.rhythm,
            runs=scenario.runs,
            weight=WEIGHTS["low"] if weighted else 1.0,
            mps_priority=int(policy == "mps-priority"),
        )
        for low in ([] if alone else scenario.lows)
    ]  # fmt: skip
    delay = {} if scenario.max_delay_ns is None else {"max_delay_ns": scenario.max_delay_ns}
    try:
        return _simulator.simulate(
            make or NATIVE.get(policy, policy),
            [high, *lows],
            requests=scenario.count,
            costs=scenario.costs,
            knowledge=scenario.knowledge or KNOWLEDGE.get(policy, "context"),
            max_slowdown=scenario.max_slowdown,
            **delay,
            tuning=scenario.tuning,
            scheduler=SCHEDULER | dict(scenario.scheduler),
            marker_interval=_DEFAULT.marker_interval,
            device=scenario.device.native(),
            splits=splits,
            lead_ns=scenario.lead_ns,
            seen=scenario.seen,
            draw=scenario.draw,
        )
    except (RuntimeError, ValueError) as error:
        if make is not None:
            raise  # PolicyFile says whose fault it is
        raise SimulatorError(str(error)) from error


@dataclass(frozen=True)
class Observed:
    """What a run was like. `responses_ns`: of the high job's requests, from arrival to end; `high_ns`, `low_ns`: what jobs had of the device,
    as used_ns says it."""

    span_ns: int
    responses_ns: Sequence[int]
    high_ns: int
    low_ns: int = 0

    @property
    def busy(self) -> float:
        """With the high job, as a share of its time."""
        return self.high_ns / self.span_ns


@dataclass(frozen=True)
class Ratios:
    """What sharing did to the high job and gave to the low ones; see Outcome."""

    high_jct_ratio: float
    high_p99_ratio: float
    low_share: float
    harvest: float


def used_ns(job: _simulator.JobResult, device: Device) -> int:
    """What the job had of the device. Where kernels overlap, their time says nothing of that: their work does, which is of each kernel its time at
    full speed x its demand."""
    return job["work_ns"] if device.overlaps else job["device_ns"]


def left_ns(alone: Observed, span_ns: float, device: Device) -> float:
    """What a high job that is like this alone leaves of the device in a span in which it serves the same requests.

    slices: as much of the time as it leaves idle alone. mps: the time less its work, which is the same however long it takes: its kernels' time x
    their demand, both at full speed. Of kernels that others slow down the time would say too much: they have less than their demand then. Two that
    want the whole device and share it run for all of the time each, and nothing would be left to divide by.
    """
    return span_ns - alone.high_ns if device.overlaps else (1 - alone.busy) * span_ns


def compare(alone: Observed, shared: Observed, *, closed: bool, device: Device) -> Ratios:
    """A run of the high job alone against one with others, with the same requests."""
    means = [statistics.fmean(run.responses_ns) for run in (shared, alone)]
    free_ns = left_ns(alone, shared.span_ns, device)
    return Ratios(
        high_jct_ratio=shared.span_ns / alone.span_ns if closed else means[0] / means[1],
        high_p99_ratio=_p99(shared.responses_ns) / _p99(alone.responses_ns),
        low_share=shared.low_ns / shared.span_ns,
        harvest=shared.low_ns / free_ns if free_ns > 0 else 0.0,
    )


def _observed(result: _simulator.Result, device: Device) -> Observed:
    high_ns, *low_ns = (used_ns(job, device) for job in result["jobs"])
    return Observed(result["span_ns"], _responses(result), high_ns, sum(low_ns))


@lru_cache(maxsize=8)
def _alone(high: Trace, arrivals: str, seed: int, count: int, *, turns_ns: tuple[int, ...], device: Device) -> Observed:
    """Without fikit: the same whatever the policy, its settings and the low jobs are.

    turns_ns: what its host needs between two requests.
    """
    seen = {"turn": turns_ns} if turns_ns else {}
    alone = Scenario(high, (), arrivals, seed, count, seen=seen, device=device)
    return _observed(_run(alone, "fifo", alone=True), device)


def high_alone(scenario: Scenario) -> Observed:
    """The high job with these requests, without fikit. Raises SimulatorError."""
    turns_ns = tuple(scenario.seen.get("turn", ()))
    return _alone(
        scenario.high, scenario.arrivals, scenario.seed, scenario.count, turns_ns=turns_ns, device=scenario.device
    )


def idle_alone(scenario: Scenario) -> float:
    """The share of its time for which the high job, alone with these arrivals, leaves the device idle. Raises SimulatorError."""
    return 1 - high_alone(scenario).busy


def simulate(scenario: Scenario, policy: str | PolicyFile) -> Outcome:
    """Raises SimulatorError for an unknown policy, a faulty one of somebody's own, or jobs that do not fit."""
    if isinstance(policy, PolicyFile):
        return _outcome(scenario, policy)
    if policy not in POLICIES:
        raise SimulatorError(f'there is no policy "{policy}"; use one of {", ".join(POLICIES)}')
    if policy not in policies_of(scenario.device):
        raise SimulatorError(f"{policy} needs a device with {ONLY[policy]}, not {scenario.device}")
    return _outcome(scenario, policy)


def _outcome(scenario: Scenario, policy: str | PolicyFile) -> Outcome:
    shared = _run(scenario, policy, alone=False)
    alone, seen = high_alone(scenario), _observed(shared, scenario.device)
    return Outcome(
        policy=str(policy),
        **asdict(compare(alone, seen, closed=ARRIVALS[scenario.arrivals] is None, device=scenario.device)),
        low_jct_ratio=_low_ratio(scenario, seen.low_ns, seen.span_ns),
        kernels=sum(job["kernels"] for job in shared["jobs"]),
        grants=shared["grants"],
        mispredicted_us_p99=shared["mispredicted_p99_ns"] / 1e3,
        requests=len(seen.responses_ns),
        span_ms=seen.span_ns / 1e6,
        device=str(scenario.device),
    )


def measured_switch(scenario: Scenario, policy: str) -> tuple[int, int, int] | None:
    """What fikitd measures of the device's switch in that run: ns, spread, samples; None: it is not known. Raises SimulatorError."""
    return _run(scenario, policy, alone=False)["switch"]


def play(scenario: Scenario, policy: str) -> int:
    """Only the run that simulate() tells of; the kernels of all jobs. Raises SimulatorError."""
    return sum(job["kernels"] for job in _run(scenario, policy, alone=False)["jobs"])


@dataclass(frozen=True)
class LowTime:
    """What became of the first low job's time, ns by state: while no kernel of the high job ran, and below one that did.

    "runs"; "queued": a kernel is on its way, or behind others'; "host": its host computes, or waits for a copy; else the
    reason for which it was held at the gate.
    """

    free: Mapping[str, int]
    below: Mapping[str, int]


def low_time(scenario: Scenario, policy: str | PolicyFile) -> LowTime:
    """Of the run that simulate() tells of. Raises SimulatorError."""
    low = _run(scenario, policy, alone=False, splits=True)["jobs"][1]
    return LowTime(low["free"], low["below"])


def _low_ratio(scenario: Scenario, shared_ns: int, span_ns: int) -> float | None:
    if shared_ns == 0:
        return None
    return sum(_alone_ns(low, span_ns, scenario.device) for low in scenario.lows) / shared_ns


def _alone_ns(low: Trace, span_ns: int, device: Device) -> int:
    """What a low job has of the device in that span when it is alone."""
    job = _simulator.Job(low.native, priority=0, managed=False)
    result = _simulator.simulate(
        "fifo", [job], requests=1 << 60, costs=NO_COSTS, until_ns=span_ns, device=device.native()
    )
    return used_ns(result["jobs"][0], device)


def rates(scenario: Scenario, policy: str) -> tuple[float, ...]:
    """How fast each job goes on beside the others, 1 = as alone; the high one first. Raises SimulatorError."""
    shared, device = _run(scenario, policy, alone=False), scenario.device
    span_ns, lows = shared["span_ns"], shared["jobs"][1:]
    high = high_alone(scenario).span_ns / span_ns
    return high, *(
        used_ns(job, device) / _alone_ns(low, span_ns, device) for job, low in zip(lows, scenario.lows, strict=True)
    )
