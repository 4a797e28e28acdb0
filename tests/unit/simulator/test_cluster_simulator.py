"""The cluster simulator: situations of placement as one literal each, published figures, and what must hold for every policy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from fikitd._cluster import Jobs, Sharing, simulate_cluster
from fikitd.gpus.placement import Rules, Slowdowns
from fikitd.simulation.simulator import MPS, SLICES
from fikitd.simulation.simulator import Device as SimulatedDevice
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.cluster import golden, kinds, traces
from bench.cluster.policies import NAMED, POLICIES, Policy, live, workload
from bench.scheduling import slowdowns
from examples import examples

published = pytest.mark.skipif(not traces.FOLDER.is_dir(), reason="the published traces are not here")


@dataclass(frozen=True)
class Job:
    """When it comes, what it takes alone, how busy it keeps a GPU, what memory it needs, how many GPUs; its expected time is the real one."""

    comes: float
    takes: float
    busy: float = 0.5
    gib: int = 10
    gpus: int = 1


@dataclass(frozen=True)
class Situation:
    """Jobs, GPUs of 80 GiB, a policy; and when each job starts."""

    name: str
    policy: str
    gpus: int
    jobs: tuple[Job, ...]
    starts: tuple[float, ...]
    ends: tuple[float | None, ...] = field(default=())


SITUATIONS = (
    Situation("whole GPUs: the second waits", "fifo", 1, (Job(0, 100), Job(10, 5)), (0, 100), (100, 105)),
    Situation("whole GPUs: the shortest of those who wait is next", "sjf", 1, (Job(0, 100), Job(1, 50), Job(2, 5)), (0, 105, 100)),
    Situation(
        "backfill: a short job passes one of two GPUs, a long one does not", "fifo", 2,
        (Job(0, 100), Job(1, 10, gpus=2), Job(2, 90), Job(3, 200)), (0, 100, 2, 110),
    ),
    Situation("a job of several GPUs shares none of them", "spread", 2, (Job(0, 50, gpus=2), Job(1, 5)), (0, 50)),
    Situation(
        "first fit: both on the first GPU while the second is idle", "shards", 2, (Job(0, 100, busy=1), Job(0, 100, busy=1)), (0, 0),
        (100 / 0.45, 100 / 0.45),
    ),
    Situation("spread: each has its own", "spread", 2, (Job(0, 100, busy=1), Job(0, 100, busy=1)), (0, 0), (100, 100)),
    Situation("memory that is taken makes a job wait", "spread", 1, (Job(0, 100, gib=50), Job(1, 100, gib=40)), (0, 100)),
    Situation(
        "auto: the shorter one is high, whoever came first", "auto", 1, (Job(0, 1000, busy=1), Job(1, 100, busy=1)), (0, 1), (None, 104),
    ),
    Situation(
        "pair: beside the job that leaves it most", "pair", 2, (Job(0, 1000, busy=0.9), Job(0, 1000, busy=0.1), Job(1, 2000, busy=0.9)),
        (0, 0, 1), (1000, None, None),
    ),
    Situation(
        "pair: it waits for the GPU that is free in a moment", "pair", 2, (Job(0, 10, busy=1), Job(0, 900, busy=1), Job(1, 1000, busy=1)),
        (0, 0, 10),
    ),
    Situation(
        "pair-agent: what had room waits as with pair", "pair-agent", 2, (Job(0, 10, busy=1), Job(0, 900, busy=1), Job(1, 1000, busy=1)),
        (0, 0, 10),
    ),
    Situation(
        "pair-agent: what had no room starts where there is some", "pair-agent", 2,
        (Job(0, 10, busy=1, gib=50), Job(0, 900, busy=1, gib=50), Job(0, 20, busy=1, gib=30), Job(1, 1000, busy=1, gib=40)), (0, 0, None, 10),
    ),
    Situation(
        "lucid-like: two that want more than all of a GPU do not share", "lucid-like", 1, (Job(0, 50, busy=0.6), Job(0, 60, busy=0.6)), (0, 50)
    ),
    Situation("ffs: two at most, whatever it costs", "sjf-ffs", 1, (Job(0, 100, busy=1), Job(1, 100, busy=1), Job(2, 500, busy=1)), (0, 1, None)),
)  # fmt: skip


def jobs_of(jobs: tuple[Job, ...]) -> Jobs:
    takes = [job.takes for job in jobs]
    return Jobs(
        submit_s=[job.comes for job in jobs], work_s=takes, expected_s=takes, gpus=[job.gpus for job in jobs],
        shards=[job.gib for job in jobs], busy=[job.busy for job in jobs], kind=[-1] * len(jobs),
    )  # fmt: skip


def simulate(
    jobs: Jobs, policy: Policy, gpus: int, *, history: tuple[float, ...] = (1.0,)
) -> tuple[list[float], list[float]]:
    assert policy.preemption is None
    result = simulate_cluster(
        jobs, gpus=gpus, shards_per_gpu=80, history=history, queue=policy.queue, behind=policy.behind, sharing=policy.sharing,
        rules=policy.rules or Rules(), max_wait_s=policy.max_wait_s, real=Slowdowns(), believed=Slowdowns(),
    )  # fmt: skip
    return result["start_s"].tolist(), result["end_s"].tolist()


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_situation(situation: Situation) -> None:
    starts, ends = simulate(jobs_of(situation.jobs), NAMED[situation.policy], situation.gpus)
    for start, expected in zip(starts, situation.starts, strict=True):
        assert expected is None or start == pytest.approx(expected)
    for end, wanted in zip(ends, situation.ends, strict=False):
        assert wanted is None or end == pytest.approx(wanted)


def test_a_job_that_outlives_its_prediction_no_longer_goes_first() -> None:
    """It said 10 s and takes 1,000: from its 20th second on, when it is expected to take as long again, the other one of 15 is shorter."""
    jobs = Jobs(
        submit_s=[0, 0], work_s=[1000, 60], expected_s=[10, 60], gpus=[1, 1], shards=[1, 1], busy=[1, 1], kind=[-1, -1]
    )  # fmt: skip
    _, ends = simulate(jobs, NAMED["auto"], 1)
    assert ends[1] < 150, "the liar was high for as long as it ran"


def test_nobody_passes_a_job_that_has_waited_too_long() -> None:
    """Short jobs keep coming; the long one is next once it has waited for max_wait_s, and the others wait behind it."""
    jobs = jobs_of((Job(0, 10), Job(1, 100), *(Job(2 + 10 * i, 10) for i in range(10))))
    patient = replace(NAMED["sjf"], max_wait_s=40.0)
    for policy, start in ((NAMED["sjf"], 110), (patient, 50)):
        result = simulate_cluster(
            jobs, gpus=1, shards_per_gpu=80, history=(1.0,), queue=policy.queue, behind=policy.behind, sharing=policy.sharing,
            rules=Rules(), max_wait_s=policy.max_wait_s, real=Slowdowns(), believed=Slowdowns(),
        )  # fmt: skip
        assert result["start_s"][1] == start, policy


def test_those_who_have_waited_too_long_start_in_the_order_in_which_they_came() -> None:
    jobs = jobs_of((Job(0, 100), Job(1, 50), Job(2, 5), Job(3, 20), Job(95, 1)))
    result = simulate_cluster(
        jobs, gpus=1, shards_per_gpu=80, history=(1.0,), queue=NAMED["sjf"].queue, behind=NAMED["sjf"].behind,
        sharing=Sharing.NONE, rules=Rules(), max_wait_s=30.0, real=Slowdowns(), believed=Slowdowns(),
    )  # fmt: skip
    assert result["start_s"].tolist() == [0, 100, 150, 155, 175]


def test_without_history_auto_is_spread() -> None:
    part = traces.window(traces.made_up(4000, seed=7), 800, 16, 1.1, 0)
    work = workload(part, kinds.fikit("slices"), sigma=1, shards=14, gpus=16, seed=0)
    unknown = Jobs(
        submit_s=part.submit_s, work_s=part.work_s, expected_s=np.full(len(part), np.inf), gpus=part.gpus.tolist(),
        shards=[14] * len(part), busy=np.full(len(part), 0.5), kind=list(range(11)) * 72 + list(range(8)),
    )  # fmt: skip
    spread, auto = (live(replace(work, jobs=unknown), NAMED[name]).jct_s for name in ("spread", "auto"))
    assert (spread == auto).all()


def test_who_waits_for_long_has_a_turn() -> None:
    """A long job beside a stream of short ones, each of which wants all of the GPU: each seventh shares with it."""
    short = tuple(Job(10.0 + 700 * i, 490, busy=1, gib=1) for i in range(20))
    _, ends = simulate(jobs_of((Job(0, 5000, busy=1, gib=1), *short)), NAMED["auto"], 1)
    late = [end - job.comes > 1.1 * job.takes for end, job in zip(ends[1:], short, strict=True)]
    assert [i for i, each in enumerate(late) if each] == [7, 14]


SOLO = [policy for policy in POLICIES if policy.preemption is None]
some_jobs = st.lists(
    st.builds(
        Job, comes=st.floats(0, 1000), takes=st.floats(1, 1000), busy=st.floats(0, 1), gib=st.integers(1, 80), gpus=st.sampled_from([1, 1, 1, 2, 3])
    ),
    min_size=1, max_size=25,
)  # fmt: skip


@settings(max_examples=examples(150), deadline=None)
@given(some_jobs, st.sampled_from(SOLO))
def test_every_job_runs_once_not_before_it_comes_and_not_faster_than_alone(jobs: list[Job], policy: Policy) -> None:
    starts, ends = simulate(jobs_of(tuple(jobs)), policy, gpus=3, history=(0.5, 1.0, 2.0))
    for job, start, end in zip(jobs, starts, ends, strict=True):
        assert start >= job.comes
        assert end - start >= job.takes * (1 - 1e-9)
        if policy.sharing is Sharing.NONE or job.gpus > 1:
            assert end - start == pytest.approx(job.takes)


@settings(max_examples=examples(100), deadline=None)
@given(some_jobs, st.sampled_from(SOLO))
def test_the_work_that_was_done_is_the_work_that_there_was(jobs: list[Job], policy: Policy) -> None:
    result = simulate_cluster(
        jobs_of(tuple(jobs)), gpus=3, shards_per_gpu=80, history=[1.0], queue=policy.queue, behind=policy.behind,
        sharing=policy.sharing, rules=policy.rules or Rules(), real=Slowdowns(), believed=Slowdowns(),
    )  # fmt: skip
    moments, taken, work = result["use"].T
    assert taken.max() <= 3
    assert float((work[:-1] * np.diff(moments)).sum()) == pytest.approx(
        sum(job.takes * job.gpus for job in jobs), rel=1e-6
    )
    assert (taken[-1], work[-1]) == pytest.approx((0, 0), abs=1e-9)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (Job(0, 10, gpus=4), "job 0 of the trace wants more"),
        (Job(0, 10, gib=81), "job 0 of the trace wants more"),
        (Job(0, -1), "no positive number of seconds"),
        (Job(float("nan"), 10), "comes at no time"),
        (Job(0, 10, busy=2), "busy share"),
    ],
)
def test_a_trace_that_cannot_be_is_refused_in_one_sentence(wrong: Job, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        simulate(jobs_of((wrong,)), NAMED["fifo"], 3)


@published
@pytest.mark.parametrize("number", [1, 3])
def test_muri_s_published_figures_come_out(number: int) -> None:
    for row in golden.muri_rows(number):
        assert abs(row.off) < 0.001, row


@published
def test_tiresias_published_figures_come_out() -> None:
    for row in golden.tiresias_rows():
        assert abs(row.off) < 0.001, row


def mean_h(
    policy: str | Policy,
    *,
    shards: int = 14,
    load: float = 0.9,
    sigma: float = 1.0,
    seeds: int = 3,
    device: str = "slices",
) -> float:
    """Of made-up jobs on 16 GPUs, whose slowdowns are fikit's simulated ones on slices."""
    found = []
    for seed in range(seeds):
        part = traces.window(traces.made_up(4000, seed=7), 800, 16, load, seed)
        work = workload(part, kinds.fikit(device), sigma=sigma, shards=shards, gpus=16, seed=seed)
        found.append(live(work, NAMED[policy] if isinstance(policy, str) else policy).jct_s.mean() / 3600)
    return float(np.mean(found))


def test_spreading_the_shorter_one_high_and_pairing_each_are_worth_something() -> None:
    shards, spread, auto, pair = (mean_h(name, load=1.1) for name in ("shards", "spread", "auto", "pair"))
    assert shards > 1.5 * spread
    assert spread > 1.01 * auto  # little: without an order two of these jobs take a third longer than alone
    assert auto > 1.02 * pair


def test_what_auto_gains_comes_from_knowing_who_is_shorter() -> None:
    known, guessed = mean_h("auto", load=1.4, sigma=0.0), mean_h("auto", load=1.4, sigma=4.0)
    assert guessed > 1.05 * known
    assert known < mean_h("spread", load=1.4) < guessed


def test_who_is_high_is_chosen_so_that_priorities_never_cost_much_where_kernels_overlap() -> None:
    """With MPS equal sharing of two is nearly free: `auto` must notice."""
    spread, auto = (mean_h(name, shards=32, load=1.1, device="mps") for name in ("spread", "auto"))
    assert auto < 1.02 * spread


@pytest.mark.parametrize(
    ("device", "priorities", "p50", "p90"),
    [(SLICES, "ordered", 0.06, 0.19), (SLICES, "equal", 0.15, 0.40), (MPS, "ordered", 0.05, 0.16), (MPS, "equal", 0.02, 0.13)],
)  # fmt: skip
def test_the_closed_form_is_as_far_from_the_policy_simulator_as_the_page_says(
    device: SimulatedDevice, priorities: str, p50: float, p90: float
) -> None:
    wrong = slowdowns.errors(slowdowns.read(kinds.MEASURED[device.sharing]), device)[priorities]
    assert np.percentile(wrong, 50) <= p50
    assert np.percentile(wrong, 90) <= p90


def test_a_trace_s_window_brings_the_load_that_was_asked_for() -> None:
    part = traces.window(traces.made_up(4000, seed=7), 800, 16, 1.1, 2)
    assert float(part.work_s.sum()) / (part.submit_s[-1] * 16) == pytest.approx(1.1)
    assert len(part) == 800
    replaced = replace(part, name="other")
    assert (replaced.gpus == 1).all()
