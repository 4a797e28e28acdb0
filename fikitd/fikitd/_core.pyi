"""The native core: policies, predictor, and the dispatcher thread of one GPU. Times are int nanoseconds of CLOCK_MONOTONIC.

Who may call what is in docs/design/contracts.md, "fikitd._core"; what it does, in fikitd/core/README.md.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

BUILD: str
"""Of which sources all this was built (scripts/build_id.py)."""

MAX_CLIENTS: int
"""Clients that one dispatcher can take."""

REASONS: tuple[str, ...]
"""Why a launch stands at a gate; meanings in fikitd/core/policy/base/reason.hpp."""

COUNTERS: dict[str, Literal["sum", "known", "most", "weighted", "own"]]
"""The counters of a client, and how those of a job's clients come together; meanings in fikitd/core/tracking/accounting/counters.def."""

JOURNAL_KINDS: tuple[str, ...]
"""What events of a journal are about; meanings in fikitd/core/tracking/accounting/journal.hpp."""

BOUNDARY_NS: int
"""Idle times from here on are boundaries between requests, no gaps."""

class _Statistics(TypedDict):
    count: int
    mean_ns: float
    m2: float
    histogram: dict[str, int]

class _Kernel(TypedDict):
    """One entry of a profile's `kernels`; see docs/design/contracts.md, "Profiles"."""

    name: str
    module: str
    grid: list[int]
    block: list[int]
    shared_bytes: int
    kind: int
    context: list[str]
    duration: _Statistics
    gap: _Statistics
    boundary: _Statistics
    beside: NotRequired[bool]
    """True: of times taken while others used the GPU."""
    doubtful: NotRequired[bool]
    """True: the shim cannot say these times well."""
    borrowed: NotRequired[bool]
    """True: from runs of the same program with other arguments, for want of times of these."""

class _Held(TypedDict):
    """What waits are put down to: a reason of REASONS, who is blamed (None: not known any more), a kernel of the client's
    own where it matters ("" elsewhere). `lower_work` is no wait: work stood on the device while lower work ran there."""

    reason: str
    by: int | None
    kernel: str
    p90_ns: float | None
    count: int
    total_ns: int
    cost_ns: int
    """Of total_ns, without work of the client's own on the device: what the wait cost of its elapsed time."""

class _Journal(TypedDict):
    """`events`: records of 32 bytes, fikitd/core/tracking/accounting/journal.hpp; `lost`: so many older ones are gone; `kernels`: a line
    `SLOT NAME` for each that is described; `by`: the clients that are blamed for waits."""

    events: bytes
    lost: int
    kernels: bytes
    by: list[int]

class _Spent(TypedDict):
    """Where a client's time went since it came (fikitd/core/tracking/accounting/time_account.hpp); the rest was spent as alone."""

    elapsed_ns: int
    start_ns: int
    end_ns: int
    pauses_ns: int
    waited_ns: int
    delayed_ns: int
    suspended_ns: int
    late_ns: int
    unexplained_ns: int

class _Moves(TypedDict):
    """Of a client's memory that may leave the GPU, as its shim says it (`struct fikit_moves` of the protocol). All 0: it has none."""

    goal: int
    """The newest wish that it was told, and the newest that it has done what it can for."""
    reached: int
    movable_bytes: int
    resident_bytes: int
    """Of these on the GPU, as far as the shim knows, which sees no page fault."""
    in_bytes: int
    out_bytes: int
    missed_bytes: int
    """Were to be there and were not when its work went on."""
    moving_ns: int
    turns: int
    failures: int
    most_bytes: int
    """The most that movable_bytes was lately, and when (CLOCK_MONOTONIC) it last was."""
    most_at_ns: int
    in_per_s: int
    """Bytes that its plan's moves take of the device in a second, by direction. 0: not known, or its shim has one rate for both (`bytes_per_s` of _Plan)."""
    out_per_s: int

class _Plan(TypedDict):
    """Of a client's plans, as its shim says it (`struct fikit_plan` of the protocol); counters are of all of them together."""

    number: int
    """Of the newest that it was given; 0: it has none."""
    taken: int
    refused: int
    carried_out: int
    skipped: int
    bytes_per_s: int
    """Of as many bytes in as out; 0: not known."""

class _Stats(TypedDict):
    kernels: int
    gpu_time_ns: float | None
    untimed: int
    beside: int
    doubtful: int
    distinct: int
    """Kernels that it launched, each counted once; of these `distinct_profiled` are known from runs with its arguments, and
    `distinct_borrowed` from runs of the same program with others."""
    distinct_profiled: int
    distinct_borrowed: int
    unfinished: int
    span_ns: int
    under_way_ns: int
    span_alone_ns: float | None
    wait_count: int
    wait_total_ns: int
    wait_p99_ns: float
    gaps_offered: int
    gaps_filled: int
    others_kernels: int
    predicted_gap_ns: int
    actual_gap_ns: int
    gap_error_p50_ns: float
    gap_error_p90_ns: float
    expired: int
    drifted: int
    held: list[_Held]
    spent: _Spent
    moves: _Moves
    heard_ns: int

def bucket_of(ns: int) -> int:
    """Histogram bucket of a time; 0..15 ns exactly, then eight buckets per doubling, times above 73 minutes in the last."""

def bucket_low(bucket: int) -> int:
    """Smallest time in a bucket."""

def quantile(histogram: Mapping[str, int] | Mapping[int, int], q: float) -> float:
    """Time below which the share q (0..1) of a {bucket: count} histogram lies, linear inside a bucket; 0 when empty."""

def merge_statistics(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Of both samples together, as a profile has them; commutative. What does not add up to its count counts nothing."""

def identify(name: str, module_hash: int, grid: Sequence[int], block: Sequence[int], shared_bytes: int) -> int:
    """64-bit identity of a kernel, the same in every run and on every machine; profiles write it in hex as context."""

def make_page(
    measure: bool,
    lease_ns: int,
    spin_ns: int,
    sample_every: int = 0,
    version: int = ...,
    *,
    collective_names: str = "",
) -> int:
    """A sealed memfd with an initialised shared page; the caller owns the descriptor. Raises RuntimeError.

    sample_every: the client times one launch in so many also when it does not measure; 0 = none. version: of the protocol,
    as its shim knows it; ValueError for one that is not served.
    collective_names: patterns, each ended by a NUL, of kernels that wait for others of their kind.
    """

class Spin:
    """Whether the dispatcher spins for the next event: `spin.hpp`. For tests in manual time."""

    def __init__(self, longest_ns: int) -> None: ...
    def came_after(self, ns: int) -> None: ...
    @property
    def limit_ns(self) -> int: ...

def pack_profile(
    kernels: Sequence[Mapping[str, Any]], rhythm: Mapping[str, Any], limit: int, *, names: bool = False
) -> bytes:
    """A profile as one block of at most `limit` bytes, for `Dispatcher.use_profile`; what has no room is left out, contexts first.

    names: those of the kernels too, for `unpack_profile`.
    """

def unpack_profile(packed: bytes) -> tuple[list[_Kernel], dict[str, Any]]:
    """Kernels and rhythm, as the profile file has them; ValueError for what is no such block."""

class Room:
    """Memory for what users' programs make the core keep: journals, profiles, descriptions, what is learnt."""

    def __init__(self, size: int, within: Room | None = None) -> None:
        """So many bytes, of those that another one has."""

    @property
    def left(self) -> int:
        """Bytes that nothing has taken."""

class Departed:
    """A client that has left its dispatcher."""

    @property
    def stats(self) -> _Stats:
        """Its final figures."""

    def journal(self) -> _Journal:
        """Its newest events."""

    def profile(self, limit: int) -> bytes:
        """What was measured or sampled of it, packed with names; empty when nothing was. Takes up to 0.2 s, without the GIL."""

class Dispatcher:
    """One native thread that schedules the clients of one GPU. Every method may be called from any thread.

    Raises ValueError for an unknown policy or constant, or a time outside its bounds (lease_ns: 5 ms to 10 s). Methods raise
    IndexError when they are given the id of a client that is not there. marker_interval: a client whose progress others wait
    for marks one launch in so many, and each that nobody knows; 0 = no marks. max_slowdown, max_delay_ns (None: any) and
    starvation_timeout_ns (None: never) are of the policy "budget" (docs/scheduling.md).
    trace_events: so many of each client's newest events are kept (rounded up to a power of two); 0 = none.
    tuning: other values of the constants of "budget", by name (fikitd/core/policy/base/tuning.hpp).
    """

    def __init__(
        self,
        policy: str,
        lease_ns: int,
        min_gap_ns: int,
        run_ahead_ns: int,
        idle_after_ns: int,
        spin_ns: int,
        marker_interval: int = 32,
        *,
        max_slowdown: float = 0.05,
        max_delay_ns: int | None = None,
        starvation_timeout_ns: int | None = 1_000_000_000,
        trace_events: int = 0,
        tuning: Mapping[str, float] = ...,
    ) -> None: ...
    def add_client(
        self,
        client_id: int,
        memfd: int,
        doorbell: int,
        priority: int,
        measure: bool,
        *,
        max_slowdown: float | None = None,
        max_delay_ns: int | None = None,
        gang: int = 0,
        resume: bool = False,
        room: Room | None = None,
        overlaps: bool = False,
        pid: int = 0,
        user: int = 0,
    ) -> None:
        """Both descriptors are duplicated or mapped; the caller may close its own. Raises ValueError, RuntimeError.

        overlaps: its kernels run beside those of other processes (MPS): what it reports tells nothing of a switch.
        pid: of its process, which says whether its host lacks a processor core; 0: not known.
        max_slowdown, max_delay_ns: what lower clients may cost this one at most; None: what the dispatcher was given.
        Clients of one gang (not 0) are of one job and run kernels that wait for each other, also on other GPUs.
        user: whose the job is. Among equals the device is shared by user, then by job, then by process.
        resume: the page has been in use, with a dispatcher that is no more.
        """

    def set_priority(self, client_id: int, priority: int) -> None:
        """0 (highest) to 9, from now on: its gate opens for a moment, and what it stands there with is asked anew. Raises ValueError for
        an unknown client and one that measures."""

    def ended(self, client_id: int) -> None:
        """The client's process is gone: reports that it began and did not finish are no longer waited for (20 ms else)."""

    def take_client(self, client_id: int) -> Departed:
        """As remove_client; returns all that is known of it, for which nobody has to wait any more."""

    def use_profile(self, client_id: int, packed: bytes) -> None:
        """As set_profile, with what pack_profile made; ValueError for anything else. Takes 25 ms for 4 MB, without the GIL."""

    def remove_client(self, client_id: int) -> _Stats:
        """Reads the page a last time, opens its gate, forgets it; returns its final figures."""

    def set_profile(
        self, client_id: int, kernels: Sequence[Mapping[str, Any]], rhythm: Mapping[str, Any] = ...
    ) -> None:
        """Predictions from now on; statistics that cannot be (not finite, not adding up) are left out.

        rhythm: where its host waits, and what follows what, as the profile file has it; used until the client shows it itself.
        """

    def describe(
        self,
        client_id: int,
        slot: int,
        name: str,
        module_hash: int,
        grid: Sequence[int],
        block: Sequence[int],
        shared_bytes: int,
        kind: int,
    ) -> None:
        """What a slot of the client's page means. Raises ValueError for a slot that is out of range."""

    def stats(self, client_id: int) -> _Stats:
        """Figures so far; gap times are sums over the offered ones. None: the profile does not know 99 % of the launches."""

    def spent(self, client_id: int) -> _Spent:
        """The part of `stats` that says where its time went: it costs little."""

    def set_goal(self, client_id: int, goal_bytes: int) -> int:
        """So many bytes of the client's movable memory are to be on the GPU from now on; 2**64 - 1: all. Returns the number of this wish, by
        which `moves` says that it is done; 0: its shim moves nothing."""

    def send_away(self, client_id: int, for_ns: int) -> None:
        """For so long it is not the client's turn, because its memory has to be elsewhere: no launch of it is granted. 0: it is its turn from
        now on. ValueError beyond 10 s, and for a client that measures; call again before the time is over."""

    def standing(self, client_id: int) -> tuple[bool, bool, int]:
        """Whether a launch or copy of it stands at its gate; whether not all that it launched is known to be complete; its launches."""

    def stands(self, client_id: int) -> bool:
        """Whether its host is stopped (a signal, a debugger, a frozen control group), as of the last look. IndexError for an unknown client."""

    def moves(self, client_id: int) -> _Moves:
        """The part of `stats` that is about its memory: it costs next to nothing."""

    def export_profile(self, client_id: int) -> list[_Kernel]:
        """What a client measured or sampled, as entries of a profile."""

    def accesses(self, client_id: int) -> dict[str, Any]:
        """What its kernels touch in the iteration that it is in, by this run and those before, as `accesses` in the profile file's rhythm; and
        `latest_ns`, how long its newest pass took (0: not known). That alone where nothing is known."""

    def packed_accesses(self, client_id: int, limit: int) -> bytes:
        """The same for a worker, as `accesses` in the rhythm of unpack_profile(); empty where nothing is known, or it takes more than `limit`
        bytes."""

    def iteration(self, client_id: int) -> tuple[str, int, int, int] | None:
        """The iteration that it is in: its path, its launches, the launch_seq of the first launch of the pass that runs now, and how long the
        newest pass took in ns (0: not known). None: it is in none that is known."""

    def set_plan(self, client_id: int, first_launch: int, launches: int, moves: bytes, until_ns: int) -> int:
        """A plan of the client's memory: `moves` are struct fikit_plan_move of the protocol, moves and behind them first uses, for passes of so many
        launches from that one on.
        Returns its number; 0: the client's shim carries none out. ValueError for what the protocol does not allow."""

    def renew_plan(self, client_id: int, first_launch: int | None, until_ns: int) -> int:
        """It holds until then (CLOCK_MONOTONIC). first_launch: its passes begin there from now on. Returns its number; 0: it has none."""

    def drop_plan(self, client_id: int) -> None:
        """It has none any more."""

    def plan_state(self, client_id: int) -> _Plan:
        """What its shim says of its plans."""

    def export_rhythm(self, client_id: int) -> dict[str, Any]:
        """Where the client's host waits and what follows what, as it was learnt in this run; empty: nothing was seen twice."""

    def switches(self) -> list[tuple[int, int, int, int, int]]:
        """What each of the most important clients that can say shows of the GPU's switch: client, ns, spread, samples, and the priority of
        the least important client whose reports say so."""

    def device(self, priority: int = 9) -> dict[str, Any]:
        """What decisions about clients of this priority know of the GPU: `switch_ns`, `spread_ns` (None: not known), `samples`
        (0: remembered)."""

    def remember_switch(self, switch_ns: int, spread_ns: int, count: int, priority: int) -> None:
        """An earlier fikitd measured it so, by reports of clients of this priority and above. It holds until this one has, for clients of
        this priority and below. ValueError for what no GPU takes."""

    def idle_moments(self, client_id: int) -> list[tuple[int, int]]:
        """(launches before it, when the client's queue was believed to run dry, ns): the newest 4096, noted at each launch."""

    def journal(self, client_id: int) -> _Journal:
        """The client's newest events, and the names of its kernels by slot."""

    def stop(self) -> None:
        """Opens all gates and ends the thread; a second call does nothing."""

class Prediction:
    """What a model says of one launch; meanings in fikitd/core/predictor/prediction.hpp. None: unknown.

    `durations` and `gaps` are the runs behind it, `duration_context` and `gap_context` the number of kernels before it that
    they have in common with this launch (-1: unknown).
    """

    @property
    def duration_ns(self) -> int | None: ...
    @property
    def duration_mean_ns(self) -> int | None: ...
    @property
    def duration_high_ns(self) -> int | None: ...
    @property
    def duration_tail_ns(self) -> int | None: ...
    @property
    def duration_longest_ns(self) -> int | None: ...
    @property
    def durations(self) -> int: ...
    @property
    def duration_context(self) -> int: ...
    @property
    def gap_ns(self) -> int | None: ...
    @property
    def gap_low_ns(self) -> int | None: ...
    @property
    def gap_mean_ns(self) -> int | None: ...
    @property
    def boundary_chance(self) -> float: ...
    @property
    def boundary_low_ns(self) -> int | None: ...
    @property
    def boundary_median_ns(self) -> int | None: ...
    @property
    def boundary_high_ns(self) -> int | None: ...
    @property
    def gaps(self) -> int: ...
    @property
    def gap_context(self) -> int: ...

class Model:
    """Durations and gaps per kernel, and per kernel after one, two or three given ones. Contexts are identities, oldest first."""

    def __init__(self) -> None: ...
    @staticmethod
    def from_profile(kernels: Sequence[Mapping[str, Any]]) -> Model: ...
    def describe(
        self,
        name: str,
        module_hash: int,
        grid: Sequence[int],
        block: Sequence[int],
        shared_bytes: int,
        kind: int = 0,
    ) -> int: ...
    def add_duration(self, identity: int, context: Sequence[int], ns: int) -> None: ...
    def add_gap(self, identity: int, context: Sequence[int], ns: int) -> None:
        """From BOUNDARY_NS on it counts as a boundary."""

    def learn(self, identity: int, context: Sequence[int], ns: int) -> bool:
        """add_duration, and predictions follow a kernel that takes other times than it did. True: it changed by 30 %."""

    def follow(self, identity: int, context: Sequence[int], ns: int) -> bool:
        """The same without adding to what is known, unless that has changed by 30 %."""

    @property
    def drift_alarms(self) -> int:
        """How often learn() or follow() said True."""

    def merge(self, other: Model) -> None: ...
    def predict(self, identity: int, context: Sequence[int]) -> Prediction: ...
    def predict_quantile(self, identity: int, context: Sequence[int], q: float) -> tuple[int | None, int | None]:
        """Duration, and gap inside a request."""

    def export(self) -> list[_Kernel]: ...

class SwitchMeter:
    """How long a GPU takes to go to another process, by how late work begins. turn_ns: so long at least a client has the
    device where clients take turns."""

    def __init__(self, *, turn_ns: float = ...) -> None: ...
    def began(
        self, client: int, level: int, lateness_ns: int, changed: bool, *, idle: bool = True, by: int = 0
    ) -> None:
        """Work of a client, whose priority's level is 0 for the most important, began so late after it was reckoned to. by: the level
        of whose work was there before; idle: that was over when the client's was launched."""
    def cost(self, level: int = 9) -> tuple[int, int, int] | None:
        """Its ns, their spread, how many beginnings say so, by reports of this level and above; None while it is not known."""

class HostCores:
    """Whether a gap was a pause of the program or a host without a processor core. time_ns: when it was; now_ns: when fikitd learnt of it,
    and would call `read`: for how long the host has so far been without a core, -1: not known."""

    def __init__(self) -> None: ...
    def all_done(self, time_ns: int, now_ns: int, read: Callable[[], int]) -> None:
        """Nothing is left on the device: a gap begins."""

    def launched(self, time_ns: int, now_ns: int, read: Callable[[], int]) -> int:
        """It is over; for how long of it, where it was as long as a pause, the host had no core."""

class JobWork:
    """What the processes of one job launched on one GPU."""

    def __init__(self) -> None: ...

class TimeAccount:
    """Where a client's time goes, driven by hand. `others`: how many kernels other jobs have sent to the GPU by then; `under_way`: whether
    some of them are not known to be complete. `overlaps`: its kernels run beside those of other processes (MPS)."""

    def __init__(
        self, time_ns: int, job: JobWork | None = None, measured: bool = False, overlaps: bool = False
    ) -> None: ...
    def at_gate(self, time_ns: int) -> None:
        """A request stands at the gate."""

    def left_gate(self, time_ns: int) -> int:
        """No more; how much of the time, since it was last asked, the wait has cost."""

    def launched(
        self,
        time_ns: int,
        work_ns: int | None,
        gap_ns: int | None,
        others: int = 0,
        *,
        under_way: bool = False,
        no_core_ns: int = 0,
    ) -> None:
        """A kernel that alone takes so long, with such a gap behind it; None: nobody knows. no_core_ns: of the gap before it its host
        waited for a processor core."""

    def complete(
        self,
        time_ns: int,
        began_ns: int | None = None,
        *,
        left_ns: int = 0,
        all: bool = True,
        others: int = 0,
        under_way: bool = False,
    ) -> None:
        """Launches are complete, but for so much work; the host has waited for that since began_ns, None: it has not."""

    def stood(self, since_ns: int, until_ns: int) -> None:
        """The client's host was stopped then."""

    def grant_done(self, time_ns: int) -> None:
        """What was granted last is complete: a host at the gate stands behind nothing of its own any more."""

    def lost(self) -> None:
        """Reports were lost: what it does until the next event is not known."""

    def spent(self, time_ns: int, others: int = 0) -> _Spent:
        """So far."""

class Copies:
    """A client's copies in one direction."""

    def __init__(self) -> None: ...
    def copied(self, time_ns: int, bytes: int) -> list[int]:
        """One was handed to the device; eight times until the next one, all 0 when nothing is known."""
    def took(self, bytes: int, ns: int) -> None: ...
    def expected_ns(self, bytes: int) -> int:
        """How long such a copy takes."""

class Runs:
    """What a client launches next, learnt from what it launched before."""

    def __init__(self) -> None: ...
    def launched(self, identity: int, duration_ns: int) -> None:
        """Negative: unknown."""

    def waited(self) -> None: ...
    def starting(self, identity: int, duration_ns: int) -> tuple[int, int]:
        """If this is launched next: so many launches follow each other without a wait, and take so much device time."""

    def starting_long(self, identity: int, duration_ns: int) -> tuple[int, int]:
        """The same of a long run, for when all those above are at rest; never less."""

    def expect(self, before: Mapping[str, Any]) -> None:
        """Begin with what earlier runs of the program learnt, where nothing has been learnt yet."""
    def learnt(self) -> dict[str, Any]:
        """By this one alone, what was seen twice; in the form of the profile file's `rhythm`."""

class Policy:
    """A policy in manual time: every event is followed by the policy's decisions at the event's time.

    Kinds: client_added, client_removed, profiled, launched, waiting, copied, waiting_ended, drained, grant_done, tick.
    Decisions: ("open", client), ("close", client), ("ask_copies", client, to device, to host),
    ("grant", client, request, launches),
    ("extend_run", client, launches), ("end_run", client), ("wake_at", time_ns).

    switch_ns: the time of a change between clients that take turns (None: not measured). overlaps, of client_added: the client's kernels
    run beside those of other such clients (MPS).
    """

    def __init__(
        self,
        name: str,
        *,
        lease_ns: int = ...,
        min_gap_ns: int = ...,
        run_ahead_ns: int = ...,
        idle_after_ns: int = ...,
        max_slowdown: float = ...,
        max_delay_ns: int = ...,
        starvation_timeout_ns: int = ...,
        tuning: Mapping[str, float] = ...,
        switch_ns: int | None = 0,
    ) -> None: ...
    def event(
        self,
        kind: str,
        client: int,
        time_ns: int,
        *,
        priority: int = 5,
        measuring: bool = False,
        overlaps: bool = False,
        granted: bool = False,
        exclusive: bool = False,
        request: int = 0,
        duration_ns: int | None = None,
        gap_ns: int | None = None,
        since_ns: int | None = None,
        spread_ns: int | None = None,
        slack_ns: Sequence[int] = (),
        idle_ns: Sequence[int] = (),
        span_ns: int | None = None,
        open: bool = False,
        run_launches: int = 1,
        run_ns: int | None = None,
        long_run_launches: int = 1,
        long_run_ns: int | None = None,
        began_ns: int | None = None,
        engine: str = "compute",
        in_line_ns: int = 0,
        high_ns: int | None = None,
        feared_ns: int | None = None,
        longest_ns: int | None = None,
        run_longer_ns: int = 0,
        user: int = 0,
        job: int = 0,
        stands: bool = False,
    ) -> list[tuple[Any, ...]]: ...
    def change_priority(self, client: int, priority: int, time_ns: int) -> list[tuple[Any, ...]]:
        """Its gate is open then: what it stood there with has to be said anew, if a decision closes it. Raises ValueError for an
        unknown client, one that measures, and the priority that it has."""
    def held(self, client: int) -> tuple[str, int] | None:
        """Of a client that waits, by the last decision: the reason, and the client that is blamed."""
    def index_agrees(self) -> bool:
        """Does what it knows of all clients together agree with each of them?"""
    @property
    def queue_free_ns(self) -> int:
        """When the device is reckoned to be done with all clients' work."""
    @property
    def looks(self) -> int:
        """How many clients, or groups of them in the index, it has looked at since it was made."""

def mean_before(times: Sequence[int], from_ns: int, until_ns: int) -> float:
    """How much before until_ns a time will be, on average, that is none of eight (or one for all) by from_ns."""

class _Pause(TypedDict):
    span_ns: int
    tail_ns: int
    after_ns: int | None
    slack_ns: list[int]
    idle_ns: list[int]
    open: bool
    end_ns: int | None

class Accesses:
    """Which memory the kernels of a program's iteration touch (fikitd/core/predictor/accesses.hpp); pages are of 4 KiB.

    What learnt() and known() return has the form of `accesses` in the profile file, and is empty when nothing was learnt.
    """

    def __init__(self) -> None: ...
    def launched(self, number: int, kernel: int, duration_ns: int) -> None:
        """number: of the launch, one more each time. duration_ns: alone; negative: not known."""
    def waited(self, t_ns: int) -> None:
        """The host's wait for all launches has ended."""
    def missed(self) -> None:
        """Launches were not seen."""
    def scanned(self, number: int, kernel: int) -> None:
        """That launch was looked at; what it touches follows."""
    def touched(self, number: int, allocation: int, page: int, pages: int, length: int = 0) -> None:
        """page: in the allocation, which has `pages`; length: pages from there on, 0: not known. What cannot be is ignored."""
    def freed(self, number: int, allocation: int) -> None:
        """Behind that launch, and before the next one, the program gave that memory back."""
    def expect(self, before: Mapping[str, Any]) -> None:
        """What runs before this one have learnt."""
    def learnt(self) -> dict[str, Any]:
        """By this run."""
    def known(self, at_once: int = ..., between: Callable[[], None] | None = None) -> dict[str, Any]:
        """By this run and those before, of the iteration that the program is in. It is read so many launches at once; between two parts `between` is called,
        and may tell of more."""
    @property
    def path(self) -> str:
        """Of the iteration that the program is in; empty: in none that is known."""
    @property
    def step(self) -> int:
        """Launches of the iteration until the latest wait."""
    @property
    def waited_at(self) -> int:
        """Launches until the latest wait."""
    @property
    def latest_ns(self) -> int:
        """The newest whole pass of this iteration; 0: there was none."""

def merge_accesses(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """What two profiles say, both checked."""

class Rhythm:
    """When a client's host waits for the device, learnt from its launches and waits (fikitd/core/predictor/rhythm.hpp)."""

    def __init__(self) -> None: ...
    def launched(self, time_ns: int, identity: int, duration_ns: int, in_line_ns: int = 0) -> list[int]:
        """The launch's slack: eight equally probable times, ascending; all 0 when it was never seen."""
    def set_long_idle(self, ns: int) -> None:
        """How long an idle time must be at least to be one between requests that come from outside; by default 1 ms."""
    def any_slack(self) -> list[int]:
        """Of the first launch of the next segment, whichever that is: the least that is known of any."""
    def waited(self, time_ns: int, alone: bool, began_ns: int | None = None) -> _Pause:
        """What is known of the segment that this wait ended, and of the next one."""
    def expect(self, before: Mapping[str, Any]) -> None:
        """Begin with what earlier runs learnt, where nothing has been learnt yet."""
    def learnt(self) -> dict[str, Any]:
        """By this one alone, what was seen twice; in the form of the profile file."""
