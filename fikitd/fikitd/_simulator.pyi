"""fikitd's policies and predictor on the emulator's device model, in manual time. Times are int nanoseconds.

A module of its own, so that the daemon never loads the device model. `fikitd.simulation.simulator` is its public face.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NotRequired, TypedDict

from fikitd.simulation.policy import Policy

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
    """Time with a kernel of it on the compute engine."""
    work_ns: int
    """Its kernels' time at full speed x the share of the device that each takes."""
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
    switch: tuple[int, int, int] | None
    """What the dispatcher has measured of the device's switch: ns, spread, samples. None: nothing, or kernels overlap."""

class Trace:
    """A recorded timeline, ready to be lived through (format: emulator/replay/recording.hpp)."""

    def __init__(self, text: str, stretch: float = 1.0) -> None:
        """stretch: everything takes so many times as long, as on a dilated device.

        Raises RuntimeError with one sentence: which line is wrong, and how.
        """
    def on(self, launch_latency_ns: int = ..., kernel_gap_ns: int = ...) -> Trace:
        """The same job on a device with these; its host lives as recorded. Default, or negative: as recorded."""

    @property
    def kernels(self) -> int: ...
    @property
    def recorded_span_ns(self) -> int: ...
    @property
    def launch_latency_ns(self) -> int:
        """Of its device (the recorded one, but for what on() gave), like the gap between kernels that stand in line."""
    @property
    def kernel_gap_ns(self) -> int: ...
    @property
    def waits_before(self) -> list[bool]:
        """Of each kernel, copy or fill of a pass, in the order of the calls: the host has waited for the device before it."""

class Profile:
    """What the predictor knows of a job."""

def learn(
    trace: Trace,
    passes: int,
    until_ns: int = ...,
    *,
    stored: bool = False,
    fills: bool = True,
    tuning: Mapping[str, float] = ...,
    timing_ns: int = 0,
) -> Profile:
    """The profile that a measuring run of so many passes, at most until_ns, alone on the device, would give. stored: as its file
    has it, kernels timed by events and so with what the device needs between two; else as they ran, and with all that the run
    itself knew of its rhythm. fills: see Job. tuning: constants of the fikitd that measured. timing_ns: the host needs so much longer for
    each launch that is timed; 0: nothing, and the profile also says where the host waits, as after another run, untimed. Raises ValueError
    for an unknown constant."""

class Job:
    """A job of a simulation. `arrivals`: of its requests; empty: closed loop. `rhythm` False: where its host waits is no
    part of its profile; `runs` False: what follows without a wait is not. `managed` False: no fikit, at no cost. `tells_ends`
    False: no mark or drain tells of its work's ends, as while a capture is open. `fills` False:
    memsets and copies within the device are no launches, as under MPS. `thinks` False: its host computes nothing between its calls
    and waits for nothing. `weight`: of its time slices. `mps_priority`: 0 normal, 1 below normal.
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
        tells_ends: bool = True,
        fills: bool = True,
        thinks: bool = True,
        weight: float = 1.0,
        mps_priority: int = 0,
        arrivals: Sequence[int] = (),
    ) -> None: ...

class Device:
    """The GPU that jobs share; see fikitd/core/simulator/simulation.hpp. A time of -1: as the first job's recording shows it."""

    def __init__(
        self,
        sharing: str = "slices",
        *,
        slice_ns: int = ...,
        switch_ns: int = ...,
        mps_model: str = "proportion",
        mps_switch_ns: int = ...,
        overlap_slowdown: float = ...,
        idle_holds: bool = ...,
        launch_latency_ns: int = ...,
        kernel_gap_ns: int = ...,
    ) -> None:
        """Raises ValueError for an unknown sharing or model of MPS."""
    @property
    def slice_ns(self) -> int: ...
    @property
    def switch_ns(self) -> int: ...

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
    policy: str | Callable[[], Policy],
    jobs: Sequence[Job],
    *,
    requests: int,
    costs: Costs,
    knowledge: str = "context",
    device: Device = ...,
    until_ns: int = ...,
    max_slowdown: float = ...,
    max_delay_ns: int = ...,
    tuning: Mapping[str, float] = ...,
    scheduler: Mapping[str, int] = ...,
    marker_interval: int = 0,
    splits: bool = False,
    lead_ns: int = 0,
    seen: Mapping[str, Sequence[int]] = ...,
    draw: int = 1,
) -> Result:
    """Until the first job has ended so many requests, or until_ns. Launch latency and kernel gap of the device are those
    of the first job's recording when negative. slice_ns 0: kernels of all jobs one after the other as they arrive.

    knowledge: what predictions rest on. "context": a kernel after the last three, "kernel": a kernel, "truth": what will
    really be. max_slowdown, max_delay_ns: the budget of every job that has lower ones (policy "budget").
    tuning: other values of the constants of that policy, by name (fikitd/core/policy/base/tuning.hpp). scheduler: of "lease_ns",
    "min_gap_ns", "run_ahead_ns", "idle_after_ns" and "starvation_timeout_ns", what is not as fikit.toml has it by default. marker_interval: as
    Dispatcher has it.
    splits: say what became of the low jobs' time.
    lead_ns: the policy has known the jobs for so long before they begin.
    seen: ns that a real dispatcher took, equally probable, by "observe", "wake", "done" and "late": in place of the one
    cost that is always the same; and by "turn" what a job's host needed from the end of a request to the next one, where that
    waited already (nothing). draw: in which order they come.

    policy: by its name, or what makes one written in Python, called once for each level.

    Raises ValueError for an unknown policy, constant or reaction, RuntimeError when the jobs do not fit, or wait for ever; of a policy
    written in Python what it raises, and NotAllowed for an answer that no policy may give.
    """

class Interval:
    """Of a high job alone: from the end of its last kernel before a wait to the end of the last one before the next wait.

    work_ns: of its kernels. tail_ns: until the wait is over.
    """

    def __init__(self, end_ns: int, work_ns: int, tail_ns: int = 0) -> None: ...
    @property
    def end_ns(self) -> int: ...
    @property
    def work_ns(self) -> int: ...
    @property
    def tail_ns(self) -> int: ...

class Alone:
    @property
    def intervals(self) -> list[Interval]: ...
    @property
    def span_ns(self) -> int: ...
    @property
    def response_ns(self) -> int: ...

def alone(trace: Trace, requests: int, arrivals: Sequence[int]) -> Alone:
    """A high job alone, with so many requests; arrivals as of Job."""

# What a policy written in Python sees (fikitd.simulation.policy). The names, and what they mean, are those of fikitd/core/policy; None: unknown,
# or never.

EVENTS: tuple[str, ...]
DECISIONS: tuple[str, ...]
ENGINES: tuple[str, ...]
REASONS: tuple[str, ...]

class NotAllowed(Exception):
    """An answer that no policy may give."""

class Launches:
    """So many, which take so much of the device together; clients.hpp."""

    def __init__(self, launches: int = 1, work_ns: int | None = None) -> None: ...
    @property
    def launches(self) -> int: ...
    @property
    def work_ns(self) -> int | None: ...

class Progress:
    """When a client's work on the device is over, as far as is reckoned; progress.hpp."""

    def busy(self, now_ns: int) -> bool: ...
    def dry_ns(self) -> int: ...
    def finish_ns(self) -> int: ...
    def uncertain(self) -> bool: ...
    def uncertain_at(self, now_ns: int) -> bool: ...

class Run:
    """What a client's newest grant still lets through; clients.hpp."""

    @property
    def launches(self) -> int: ...
    @property
    def taken(self) -> bool: ...
    @property
    def left_ns(self) -> int: ...
    @property
    def granted_ns(self) -> int: ...
    @property
    def next(self) -> Launches: ...
    @property
    def long_next(self) -> Launches: ...

class Protection:
    """What lower clients may cost a client at most; clients.hpp."""

    @property
    def max_slowdown(self) -> float: ...
    @property
    def max_delay_ns(self) -> int | None: ...

class Options:
    """What a policy is made with; events.hpp."""

    @property
    def lease_ns(self) -> int: ...
    @property
    def min_gap_ns(self) -> int: ...
    @property
    def run_ahead_ns(self) -> int: ...
    @property
    def idle_after_ns(self) -> int: ...
    @property
    def protection(self) -> Protection: ...
    @property
    def starvation_timeout_ns(self) -> int: ...

class Outlook:
    """What a client would do if it were alone, as far as it is known; events.hpp. slack, idle: eight equally probable times, ascending."""

    @property
    def slack(self) -> list[int]: ...
    @property
    def idle(self) -> list[int]: ...
    @property
    def span_ns(self) -> int | None: ...
    @property
    def tail_ns(self) -> int | None: ...
    @property
    def alone_dry_ns(self) -> int | None: ...
    @property
    def alone_end_ns(self) -> int | None: ...
    @property
    def after_ns(self) -> int | None: ...
    @property
    def alone_idle_ns(self) -> int | None: ...
    @property
    def high_ns(self) -> int | None: ...
    @property
    def feared_ns(self) -> int | None: ...
    @property
    def longest_ns(self) -> int | None: ...
    @property
    def run_longer_ns(self) -> int: ...
    @property
    def in_line_ns(self) -> int: ...
    @property
    def run(self) -> Launches: ...
    @property
    def long_run(self) -> Launches: ...
    @property
    def open(self) -> bool: ...

class Event:
    """events.hpp. `client`: its number."""

    @property
    def kind(self) -> str: ...
    @property
    def client(self) -> int: ...
    @property
    def time_ns(self) -> int: ...
    @property
    def since_ns(self) -> int | None: ...
    @property
    def spread_ns(self) -> int | None: ...
    @property
    def waited(self) -> bool: ...
    @property
    def began_ns(self) -> int | None: ...
    @property
    def priority(self) -> int: ...
    @property
    def measuring(self) -> bool: ...
    @property
    def granted(self) -> bool: ...
    @property
    def exclusive(self) -> bool: ...
    @property
    def request(self) -> int: ...
    @property
    def engine(self) -> str: ...
    @property
    def duration_ns(self) -> int | None: ...
    @property
    def gap_ns(self) -> int | None: ...
    @property
    def outlook(self) -> Outlook: ...

class Given:
    """What the object of another level granted; level_policy.hpp. kind: "launches", "more_of_run", "end_of_run" or "copy"."""

    @property
    def kind(self) -> str: ...
    @property
    def client(self) -> int: ...
    @property
    def request(self) -> int: ...
    @property
    def granted(self) -> Launches: ...
    @property
    def charged_ns(self) -> int | None: ...
    @property
    def engine(self) -> str: ...

class Client:
    """clients.hpp. Equal to itself, however often it is asked for. Raises AttributeError once it has left, or the simulation is over."""

    def __hash__(self) -> int: ...
    @property
    def id(self) -> int: ...
    @property
    def priority(self) -> int: ...
    @property
    def protection(self) -> Protection: ...
    @property
    def measuring(self) -> bool: ...
    @property
    def overlaps(self) -> bool: ...
    @property
    def user(self) -> int: ...
    @property
    def job(self) -> int: ...
    @property
    def stands(self) -> bool: ...
    @property
    def decided(self) -> str: ...
    @property
    def at_rest(self) -> bool: ...
    @property
    def waiting(self) -> bool: ...
    @property
    def copy(self) -> str: ...
    @property
    def waiting_exclusive(self) -> bool: ...
    @property
    def exclusive_runs(self) -> bool: ...
    @property
    def waiting_since_ns(self) -> int: ...
    @property
    def request(self) -> int: ...
    @property
    def run_launches(self) -> int: ...
    @property
    def run_ns(self) -> int | None: ...
    @property
    def long_run(self) -> Launches: ...
    @property
    def waiting_duration_ns(self) -> int | None: ...
    @property
    def cautious_ns(self) -> int | None: ...
    @property
    def feared_ns(self) -> int | None: ...
    @property
    def longest_ns(self) -> int | None: ...
    @property
    def run_longer_ns(self) -> int: ...
    @property
    def gap_ns(self) -> int | None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def run(self) -> Run: ...
    @property
    def progress(self) -> Progress: ...
    @property
    def grant_count(self) -> int: ...
    @property
    def at_gate(self) -> bool: ...
    def waits_here(self) -> bool: ...
    def in_flight(self, now_ns: int) -> int: ...
    def forget_ns(self) -> int | None: ...
    def outranks(self, other: Client) -> bool: ...
    def goes_before(self, other: Client) -> bool: ...

class Level:
    """One object's clients, for Policy. asked: questions so far; answering: it is at one."""

    @property
    def asked(self) -> int: ...
    @property
    def answering(self) -> bool: ...
    @property
    def clients(self) -> list[Client]: ...
    @property
    def options(self) -> Options: ...
    @property
    def level(self) -> int: ...
    @property
    def queue_free_ns(self) -> int: ...
    def find(self, id: int) -> Client | None: ...
    def first_waiting(self, now_ns: int) -> Client | None: ...
    def keeps_from_gap(self, client: Client, now_ns: int) -> Client | None: ...
    def next_moment_ns(self, now_ns: int) -> int | None: ...
    def next_idle_ns(self, now_ns: int) -> int | None: ...
    def next_end_ns(self, now_ns: int) -> int | None: ...
    def only_one(self, client: Client) -> Launches: ...
    def charged_ns(self, client: Client, granted: Launches) -> int: ...
    def look_at_gates(self) -> None: ...
    def hold(self, client: Client, reason: str, by: int | None = None) -> None: ...
