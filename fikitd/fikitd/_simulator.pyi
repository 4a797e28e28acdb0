"""fikitd's policies and predictor on the emulator's device model, in manual time. Times are int nanoseconds.

A module of its own, so that the daemon never loads the device model. `fikitd.simulator` is its public face.
"""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

POLICIES: tuple[str, ...]
TUNING: dict[str, float]
"""Names that simulate() knows."""

NEVER: int
"""Later than every moment of a simulation."""

class JobResult(TypedDict):
    requests: list[tuple[int, int]]
    """(arrival, end) of each request that has ended."""
    kernels: int
    grants: int
    device_ns: int
    """Time of the compute engine."""
    free: NotRequired[dict[str, int]]
    """With splits, of all jobs but the first: what they did while no kernel of the first ran, ns by state: "runs", "queued"
    (on its way, or behind others), "host" (it computes, or waits for a copy), else the reason for which they were held."""
    below: NotRequired[dict[str, int]]
    """The same while one ran."""

class Result(TypedDict):
    span_ns: int
    grants: int
    decisions: int
    """So often the policy was asked."""
    mispredicted_p99_ns: float
    """Of |predicted - real| kernel duration, over all kernels that had a prediction."""
    jobs: list[JobResult]

class Trace:
    """A recorded timeline, ready to be lived through (format: emulator/replay/recording.hpp)."""

    def __init__(self, text: str, stretch: float = 1.0) -> None:
        """stretch: everything takes so many times as long, as on a dilated device.

        Raises RuntimeError with one sentence: which line is wrong, and how.
        """
    @property
    def kernels(self) -> int: ...
    @property
    def recorded_span_ns(self) -> int: ...
    @property
    def launch_latency_ns(self) -> int:
        """Of the recorded device, like the gap between kernels that stand in line."""
    @property
    def kernel_gap_ns(self) -> int: ...
    @property
    def waits_before(self) -> list[bool]:
        """Of each kernel, copy or fill of a pass, in the order of the calls: the host has waited for the device before it."""

class Profile:
    """What the predictor knows of a job."""

def learn(
    trace: Trace, passes: int, until_ns: int = ..., *, stored: bool = False, tuning: Mapping[str, float] = ...
) -> Profile:
    """The profile that a measuring run of so many passes, at most until_ns, alone on the device, would give. stored: as its file
    has it, kernels timed by events and so with what the device needs between two; else as they ran, and with all that the run
    itself knew of its rhythm. tuning: constants of the fikitd that measured. Raises ValueError for an unknown one."""

class Job:
    """A job of a simulation. `arrivals`: of its requests; empty: closed loop. `rhythm` False: where its host waits is no
    part of its profile; `runs` False: what follows without a wait is not. `managed` False: no fikit, at no cost. `thinks` False: its host computes nothing between its calls
    and waits for nothing.
    """

    def __init__(
        self,
        trace: Trace,
        *,
        priority: int,
        profile: Profile | None = None,
        rhythm: bool = True,
        runs: bool = True,
        managed: bool = True,
        thinks: bool = True,
        arrivals: Sequence[int] = (),
    ) -> None: ...

class Costs:
    """What sharing itself costs; see fikitd/core/simulator/costs.hpp for the origin of each default."""

    def __init__(
        self, *, launch_ns: int = ..., observe_ns: int = ..., wake_ns: int = ..., done_ns: int = ..., late_ns: int = ...
    ) -> None: ...
    @property
    def launch_ns(self) -> int: ...
    @property
    def observe_ns(self) -> int: ...
    @property
    def wake_ns(self) -> int: ...
    @property
    def done_ns(self) -> int: ...
    @property
    def late_ns(self) -> int: ...

def simulate(
    policy: str,
    jobs: Sequence[Job],
    *,
    requests: int,
    costs: Costs,
    knowledge: str = "context",
    launch_latency_ns: int = -1,
    kernel_gap_ns: int = -1,
    slice_ns: int = 0,
    switch_ns: int = 0,
    until_ns: int = ...,
    max_slowdown: float = ...,
    max_delay_ns: int = ...,
    tuning: Mapping[str, float] = ...,
    scheduler: Mapping[str, int] = ...,
    splits: bool = False,
    lead_ns: int = 0,
    seen: Mapping[str, Sequence[int]] = ...,
    draw: int = 1,
) -> Result:
    """Until the first job has ended so many requests, or until_ns. Launch latency and kernel gap of the device are those
    of the first job's recording when negative. slice_ns 0: kernels of all jobs one after the other as they arrive.

    knowledge: what predictions rest on. "context": a kernel after the last three, "kernel": a kernel, "truth": what will
    really be. max_slowdown, max_delay_ns: the budget of every job that has lower ones (policy "budget").
    tuning: other values of the constants of that policy, by name (fikitd/core/policy/tuning.hpp). scheduler: of "lease_ns",
    "epsilon_ns", "run_ahead_ns", "idle_after_ns" and "ageing_ns", what is not as fikit.toml has it by default.
    splits: say what became of the low jobs' time.
    lead_ns: the policy has known the jobs for so long before they begin.
    seen: ns that a real dispatcher took, equally probable, by "observe", "wake", "done" and "late": in place of the one
    cost that is always the same; and by "turn" what a job's host needed from the end of a request to the next one, where that
    waited already (nothing). draw: in which order they come.

    Raises ValueError for an unknown policy, constant or reaction, RuntimeError when the jobs do not fit, or wait for ever.
    """

class Interval:
    """Of a high job alone: from the end of its last kernel before a wait to the end of the last one before the next wait.

    work_ns: of its kernels. tail_ns: until the wait is over. weight: so many responses are late by a delay in it.
    """

    def __init__(self, end_ns: int, work_ns: int, tail_ns: int = 0, weight: float = 1.0) -> None: ...
    @property
    def end_ns(self) -> int: ...
    @property
    def work_ns(self) -> int: ...
    @property
    def tail_ns(self) -> int: ...
    @property
    def weight(self) -> float: ...

class LowKernel:
    """Of a low job, in the order of launches. pause_ns: it starts so long, at least, after the end of all before it."""

    def __init__(self, length_ns: int, pause_ns: int = 0) -> None: ...
    @property
    def length_ns(self) -> int: ...
    @property
    def pause_ns(self) -> int: ...

class AloneHigh:
    @property
    def intervals(self) -> list[Interval]: ...
    @property
    def span_ns(self) -> int: ...
    @property
    def response_ns(self) -> int: ...

def alone_high(trace: Trace, requests: int, arrivals: Sequence[int]) -> AloneHigh:
    """A high job alone, with so many requests; arrivals as of Job."""

def alone_low(trace: Trace, high: Trace) -> list[LowKernel]:
    """One pass of a low job alone, on the device of that high one."""

def most_work_ns(high: Sequence[Interval], low: Sequence[LowKernel], price: float, longest_delay_ns: int) -> float:
    """The most that [device time of the low job] - price * [delay of the high one] can be; see fikitd/core/simulator/bound.hpp.

    Raises ValueError for a price below 1, and where there is nothing to do.
    """
