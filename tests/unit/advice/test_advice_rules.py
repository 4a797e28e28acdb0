"""The rules of advice: what a job may expect on each GPU, and what is said of it. Situations are one literal each."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite
from typing import Any

import pytest
from fikit.advice import batches, deadlines, offers, rules, speeds
from fikit.advice.facts import Burst, Busy, Expectation, Facts, Gpu, Neighbour, Request, Run
from fikit.advice.situation import Situation
from fikitd.api.outcomes import name_key
from fikitd.gpus.placement import Device, Priorities, Resident, Slowdowns, replay
from fikitd.history import Known
from fikitd.history.pairs import Pair
from hypothesis import given
from hypothesis import strategies as st

H = 3600.0
GIB = 2**30


def neighbour(job: str, rest_s: float = H, shards: int = 4, **facts: Any) -> Neighbour:
    return Neighbour(
        job, 1001, shards, Expectation(rest_s, "name", 5), **{"busy": Busy(0.5, "name"), "priority": 5, **facts}
    )


def gpu(index: int, *there: Neighbour, shards: int = 16) -> Gpu:
    return Gpu("n1", index, "h200", shards, there)


def facts(*gpus: Gpu, rest_s: float = H, **more: Any) -> Facts:
    request = Request(
        "train",
        1000,
        **{"limit_s": 4 * H, "priority": 5, "script": "j.sh", "shards_source": "asked", **more.pop("request", {})},
    )
    usual = {
        "expected": Expectation(rest_s, "name", 5),
        "busy": Busy(0.5, "name"),
        "known": None,
        "runs_s": (rest_s,) * 5,
    }
    return Facts(request=request, gpus=gpus, **{**usual, **more})


def situation(asked: Facts) -> Situation:
    return Situation(asked, offers.offers(asked), offers.alone(asked))


def said(asked: Facts) -> dict[str, tuple[str, str]]:
    """By rule: the sentence and the line."""
    return {each.rule: (each.text, each.line) for each in rules.advise(situation(asked))}


def verdicts(asked: Facts) -> dict[int, str]:
    return {offer.gpu.index: offer.verdict for offer in offers.offers(asked)}


def test_each_gpu_has_a_verdict() -> None:
    asked = facts(
        gpu(0), gpu(1, neighbour("1", priority=8)), gpu(2, neighbour("2", shards=14)), gpu(3, neighbour("3", whole=True, shards=0)),
        gpu(4, shards=2), gpu(5, *(neighbour(f"1{number}", shards=0) for number in range(16))),
    )  # fmt: skip
    assert verdicts(asked) == {0: "idle", 1: "shares", 2: "later", 3: "whole", 4: "no memory", 5: "full"}
    assert {offer.gpu.index: offer.why for offer in offers.offers(asked)} == {
        0: "", 1: "", 2: "2 GiB are free now, and the job asks for 4", 3: "job 3 has it alone",
        4: "it has 2 GiB, and the job asks for 4", 5: "16 jobs are there",
    }  # fmt: skip
    assert offers.offers(asked)[0].gpu.index == 0, "where it ends soonest comes first"


def test_a_gpu_without_shards_is_nobodys_to_share() -> None:
    (offer, later) = offers.offers(facts(gpu(0, shards=0), gpu(1, neighbour("1", whole=True, shards=0), shards=0)))
    assert (offer.verdict, offer.start_s, later.verdict, later.start_s) == ("unshared", 0.0, "unshared", H)
    assert "no shards" in offer.why


def test_types_and_nodes_that_were_asked_for_are_the_only_ones() -> None:
    other = replace(gpu(1), type="a100")
    assert [each.gpu.index for each in offers.offers(facts(gpu(0), other, request={"type": "a100"}))] == [1]
    assert offers.offers(facts(gpu(0), request={"nodes": frozenset({"n2"})})) == []


def test_a_job_with_the_higher_priority_hardly_notices_a_lower_one() -> None:
    (offer,) = offers.offers(facts(gpu(0, neighbour("1", 10 * H, priority=5))))
    high, normal, low = offer.choices
    assert [each.priority for each in offer.choices] == [1, 5, 8]
    assert high.slowdown == pytest.approx(1.01)
    assert high.end_s == pytest.approx(1.01 * H)
    assert high.end_s < normal.end_s < low.end_s or high.end_s < low.end_s < normal.end_s
    assert low.others[0].slowdown == pytest.approx(1.01)
    assert offer.soonest == high
    assert offers.offers(facts(gpu(0, neighbour("1")), highest=5))[0].soonest.priority in (5, 8), (
        "not what the site refuses"
    )  # type: ignore[union-attr]


def test_memory_that_others_leave_is_there_when_they_end() -> None:
    (offer,) = offers.offers(facts(gpu(0, neighbour("1", H, 10), neighbour("2", 5 * H, 4)), request={"shards": 6}))
    first_s = min(replay(Slowdowns(device=Device.SLICES), Priorities.EQUAL, [Resident(H, 0.5), Resident(5 * H, 0.5)]))
    assert offer.start_s == pytest.approx(first_s)
    assert [each.job for each in offer.choices[0].others] == ["2"]


def test_nobody_knows_when_a_job_without_end_leaves() -> None:
    (offer,) = offers.offers(facts(gpu(0, neighbour("1", inf, 16))))
    assert (offer.verdict, offer.start_s) == ("later", inf)
    (beside,) = offers.offers(facts(gpu(0, neighbour("1", inf))))
    assert isfinite(beside.choices[0].end_s)
    assert [each.gain_s for each in beside.choices] == [None] * 3
    assert offers.alone(facts(gpu(0, neighbour("1", inf)))).start_s == inf


def test_alone_it_starts_on_the_first_gpu_that_those_before_it_leave() -> None:
    gpus = (
        gpu(0, neighbour("1", 2 * H, priority=1)),
        gpu(1, neighbour("2", H, priority=1)),
        gpu(2, neighbour("3", 9 * H, priority=1)),
    )
    assert offers.alone(facts(*gpus)) == offers.Alone("n1:1", H, 2 * H)
    assert offers.alone(facts(*gpus, ahead_whole=1)).gpu == "n1:0"
    assert offers.alone(facts(*gpus, ahead_whole=9)).at_least
    assert offers.alone(facts()).start_s == inf


def test_slowdowns_that_were_measured_are_believed_before_the_form() -> None:
    own, other = (1000, name_key("train")), (1001, 77)
    pairs = {Pair(own, other, "below"): 5.0, Pair(other, own, "equal"): 1.5}
    asked = facts(gpu(0, neighbour("7", H, priority=5, name=77)), pairs=pairs)
    high, normal, low = offers.offers(asked)[0].choices
    assert low.slowdown == pytest.approx(5.0)
    assert low.others[0].slowdown == pytest.approx(1.01), "of which nothing was measured, the form says"
    assert normal.others[0].slowdown == pytest.approx(1.5)
    assert high.slowdown == pytest.approx(1.01)
    assert speeds.of(asked).measured == 1
    assert low.end_s == pytest.approx(1.01 * H + H - 1.01 * H / 5.0), "1.01 h beside the other one, the rest alone"
    assert speeds.of(replace(asked, pairs={Pair((1, 1), other, "below"): 5.0})).measured == 0


loads = st.lists(st.tuples(st.floats(1, 1e6), st.floats(0, 1), st.integers(0, 9)), min_size=1, max_size=5)


@given(loads, st.floats(1, 1e6), st.floats(0, 1), st.integers(0, 9))
def test_ends_are_those_of_brute_force(
    there: list[tuple[float, float, int]], rest_s: float, busy: float, asked: int
) -> None:
    neighbours = [neighbour(str(n), s, 1, busy=Busy(u, "name"), priority=p) for n, (s, u, p) in enumerate(there)]
    (offer,) = offers.offers(
        facts(gpu(0, *neighbours), rest_s=rest_s, busy=Busy(busy, "name"), request={"shards": 1, "priority": asked})
    )
    choice = offer.choice(asked)
    assert choice is not None
    jobs = [(asked, 1, rest_s, busy), *((p, 0, s, u) for s, u, p in there)]
    order = sorted(range(len(jobs)), key=lambda i: (*jobs[i][:2], i))
    equal = len({p for p, *_ in jobs}) == 1
    ends = brute_force([jobs[i][2:] for i in order], Priorities.EQUAL if equal else Priorities.ORDERED)
    assert choice.end_s == pytest.approx(ends[order.index(0)], rel=1e-6)
    assert choice.sum_s == pytest.approx(sum(ends), rel=1e-6)
    assert choice.slowdown >= 1
    assert choice.end_s >= rest_s * 0.999999
    assert all(each.slowdown >= 1 and each.later_s is not None and each.later_s >= 0 for each in choice.others)


def brute_force(jobs: list[tuple[float, float]], manner: Priorities) -> list[float]:
    """From end to end, with the library's rates of those that are there."""
    left, ends, now = {i: rest_s for i, (rest_s, _) in enumerate(jobs)}, [0.0] * len(jobs), 0.0
    while left:
        here = sorted(left)
        rates = dict(
            zip(here, Slowdowns(device=Device.SLICES).rates(manner, [(jobs[i][1], -1) for i in here]), strict=True)
        )
        step, first = min((left[i] / rates[i], i) for i in here)
        now += step
        left = {i: left[i] - rates[i] * step for i in here if i != first}
        ends[first] = now
    return ends


def test_the_priority_with_which_it_ends_soonest_and_what_that_costs() -> None:
    text, line = said(facts(gpu(0, neighbour("7", 10 * H, priority=5))))["soonest priority"]
    assert text.startswith("with priority high it ends in 61 min on n1:0, ")
    assert "sooner than with normal (job 7 " in text
    assert line == "sbatch --fikit-priority=high j.sh"
    assert "soonest priority" not in said(facts(gpu(0, neighbour("7", 10 * H)), request={"priority": 1}))
    assert "soonest priority" not in said(facts(gpu(0)))


def test_the_priority_with_which_all_end_soonest() -> None:
    asked = facts(gpu(0, neighbour("7", 5 * H, priority=5)), rest_s=10 * H)
    text, line = said(asked)["kindest priority"]
    assert "with priority low it ends" in text
    assert line == "sbatch --fikit-priority=low j.sh"
    assert "kindest priority" not in said(replace(asked, request=replace(asked.request, priority=8)))


def test_a_job_that_would_wait_for_a_whole_gpu_is_told_of_those_it_could_share() -> None:
    asked = facts(gpu(0, neighbour("7", 10 * H, priority=8)), request={"shares": False, "priority": None})
    text, line = said(asked)["share"]
    assert text.startswith("beside others it starts now and ends ")
    assert line == "sbatch --gres=gpu:1 --fikit-priority=normal j.sh"
    assert "share" not in said(replace(asked, gpus=(gpu(0),)))


def test_a_sharing_job_that_ends_sooner_alone_is_told_so() -> None:
    asked = facts(gpu(0, neighbour("7", 60, 4, priority=0, busy=Busy(1.0, "name")), neighbour("8", 61, 9, busy=Busy(1.0, "name"))),
                  request={"shards": 16})  # fmt: skip
    assert "alone" not in said(asked), "it starts then anyway"
    busy = facts(
        gpu(0, neighbour("7", 10 * H, priority=0, busy=Busy(1.0, "name"))),
        gpu(1, neighbour("8", 60, 16, priority=0)),
        highest=5,
    )
    busy = replace(busy, request=replace(busy.request, type="h200", shards=5))
    found = said(
        replace(busy, gpus=(busy.gpus[0], replace(busy.gpus[1], shards=4, neighbours=(neighbour("8", 60, 4),))))
    )
    text, line = found["alone"]
    assert text.startswith("with a GPU to itself, which is free in 60 s, it ends in 61 min, ")
    assert line == "sbatch --gres=gpu:1 j.sh"


def test_what_the_script_says_of_sharing_has_to_go_for_a_gpu_alone() -> None:
    asked = facts(gpu(0, neighbour("7", 10 * H, priority=0, busy=Busy(1.0, "name"))), gpu(1, neighbour("8", 60, 4), shards=4), highest=5,
                  request={"shards": 5, "options": ("--fikit-priority",)})  # fmt: skip
    text, line = said(asked)["alone"]
    assert text.endswith("take --fikit-priority out of the script")
    assert line == ""


KNOWN = Known(runs=5, run_s=(H, H, H), busy=0.5, peak_bytes=10 * GIB, slowdown=1.1, given=0.0, emulated=False)


def test_memory_that_is_asked_for_against_what_runs_needed() -> None:
    short = said(facts(gpu(0), known=KNOWN, request={"shards": 8}))["memory"]
    assert short == (
        "it asks for 8 GiB, and a run needed 10.0: it may run out of memory",
        "sbatch --fikit-mem=11G j.sh",
    )
    much = said(facts(gpu(0, neighbour("1", shards=4)), known=KNOWN, request={"shards": 16}))["memory"]
    assert much[0] == "it asks for 16 GiB, and no run needed more than 10.0; with 11 GiB it fits on 1 more GPU now"
    assert "memory" not in said(facts(gpu(0), known=KNOWN, request={"shards": 12}))
    assert "memory" not in said(facts(gpu(0), known=KNOWN, request={"shards": 8, "shards_source": "peak"}))


def test_memory_on_the_host_counts_with_what_is_on_the_gpu() -> None:
    short = said(facts(gpu(0), known=KNOWN, request={"shards": 6, "host_gib": 3}))["memory"]
    assert short == (
        "it asks for 6 GiB and for 3 on the host, and a run needed 10.0: it may run out of memory",
        "sbatch --fikit-mem-host=5G j.sh",
    )
    assert "memory" not in said(facts(gpu(0), known=KNOWN, request={"shards": 6, "host_gib": 5}))
    assert "memory" not in said(facts(gpu(0), known=KNOWN, request={"shards": 6, "host_gib": 60}))
    assert "memory" not in said(facts(gpu(0), known=KNOWN, request={"shards": 11, "host_gib": 11}))
    none = said(facts(gpu(0), known=KNOWN, request={"shards": 12, "host_gib": 12}))["memory"]
    assert none == (
        "no run needed more than 10.0 GiB: it fits into the 12 GiB that it has on the GPU, without --fikit-mem-host",
        "",
    )


def test_a_limit_that_runs_exceed_and_one_that_fills_no_gap() -> None:
    over = said(facts(gpu(0), runs_s=(H, 5 * H, H)))["time limit"]
    assert over == (
        "1 of 3 runs took longer than the limit of 4 h 0 min, the longest 5 h 0 min",
        "sbatch --time=7:30:00 j.sh",
    )
    long = said(facts(gpu(0), runs_s=(60, 60, 60)))["time limit"]
    assert long[1] == "sbatch --time=0:15:00 j.sh"
    assert "time limit" not in said(facts(gpu(0), runs_s=(2 * H, 2 * H, 2 * H)))
    slowed = facts(gpu(0), gpu(1, neighbour("7", priority=0)), runs_s=(1000, 1000, 1000), request={"limit_s": 100 * H})
    worst = max(offer.choices[1].slowdown for offer in offers.offers(slowed) if offer.gpu.index == 1)
    assert (
        said(slowed)["time limit"][1] == f"sbatch --time=1:{-(-(int(1500 * worst) - 3600) // 900) * 15:02}:00 j.sh"
    ), "also beside the worst"
    assert "time limit" not in said(facts(gpu(0), runs_s=(60, 60))), "two runs say little"
    queued = said(facts(gpu(0), runs_s=(60, 60, 60), request={"script": None, "job": "9"}))["time limit"]
    assert queued[1] == "scontrol update JobId=9 TimeLimit=0:15:00"


def test_smaller_steps_where_it_is_memory_that_is_missing() -> None:
    asked = facts(
        gpu(0, neighbour("1", shards=8)),
        request={"shards": 14},
        batches=(Run(16, 4 * GIB), Run(64, 10 * GIB)),
        wanted_batch=64,
    )
    text, line = said(asked)["smaller batch"]
    assert (
        text
        == "8 GiB are free now: a batch of 42 with 2 steps of gradient accumulation would fit where 64 at once do not"
    )
    assert line == "sbatch --fikit-mem=8G j.sh"
    assert "smaller batch" not in said(replace(asked, gpus=(gpu(0),)))
    assert "smaller batch" not in said(replace(asked, batches=asked.batches[:1]))


@given(
    st.tuples(st.integers(1, 512), st.integers(1, 512)),
    st.integers(1, 40),
    st.floats(0.01, 1),
    st.integers(1, 80),
    st.integers(1, 1024),
)
def test_smaller_steps_fit(ran: tuple[int, int], fixed: int, each: float, free: int, wanted: int) -> None:
    def peak(batch: int) -> int:
        return int((fixed + each * batch) * GIB)

    found = batches.smaller([Run(batch, peak(batch)) for batch in ran], wanted, free)
    if found is not None:
        batch, steps = found
        assert batch * steps >= wanted > batch * (steps - 1)
        assert 1.1 * peak(batch) <= free * GIB * 1.001


def test_requests_keep_a_deadline_beside_jobs_whose_kernels_are_short() -> None:
    burst = Burst(0.012, 0.001)
    kept = [
        deadlines.beside(gpu(0), burst, 0.020, 5),
        deadlines.beside(gpu(1, neighbour("1", longest_kernel_s=0.008)), burst, 0.020, 5),
        deadlines.beside(gpu(2, neighbour("2", longest_kernel_s=0.012)), burst, 0.020, 5),
        deadlines.beside(gpu(3, neighbour("3"), neighbour("4", longest_kernel_s=0.001)), burst, 0.020, 5),
        deadlines.beside(gpu(4, neighbour("5", priority=0)), burst, 0.020, 5),
        deadlines.beside(gpu(5, neighbour("6", whole=True)), burst, 0.020, 5),
    ]
    assert [each.keeps for each in kept] == [True, True, False, None, False, None]
    assert kept[1].response_s == pytest.approx(0.012 + 0.007 + 15e-6)
    assert [each.by for each in kept] == ["", "1", "2", "3", "5", ""]


@given(st.floats(1e-6, 1), st.floats(0, 1), st.floats(0, 1), st.floats(1e-6, 1))
def test_the_response_time_is_the_worst_moment_of_brute_force(
    p99_s: float, slack_s: float, kernel_s: float, deadline_s: float
) -> None:
    """A kernel of the lower job begins at any moment before the request comes; the device would have been idle for slack_s of it."""
    worst_s = max(p99_s + max(0.0, kernel_s * (1 - k / 100) - slack_s) for k in range(101)) + deadlines.REACTION_S
    burst = Burst(p99_s, slack_s)
    assert deadlines.response_s(burst, kernel_s) == pytest.approx(worst_s)
    room_s = deadlines.largest_delay_s(Burst(p99_s), deadline_s)
    if room_s is not None:
        assert deadlines.response_s(Burst(p99_s), room_s) <= deadline_s * (1 + 1e-9)


def test_a_deadline_names_gpus_and_the_option_that_keeps_it_elsewhere() -> None:
    asked = facts(gpu(0), gpu(1, neighbour("1")), deadline_s=0.020, burst=Burst(0.012))
    text, line = said(asked)["deadline"]
    assert "they keep 20.0 ms on n1:0, and elsewhere where no kernel of a lower job is longer than 7.99 ms" in text
    assert line == "sbatch --fikit-priority=high --fikit-max-delay=7985us j.sh"
    assert "not kept even alone" in said(replace(asked, deadline_s=0.010))["deadline"][0]
    assert said(replace(asked, burst=None))["deadline"][1] == "sbatch --gres=gpu:1 --fikit-measure j.sh"


@pytest.mark.parametrize(
    ("source", "runs", "words"),
    [("user", 4, "so your 4 other runs stand in"), ("cluster", 9, "so the runs of 9 users stand in"), ("limit", 0, "its time limit stands in"),
     ("nothing", 0, "nor a time limit")],
)  # fmt: skip
def test_of_a_job_nobody_knows_it_says_what_stands_in(source: str, runs: int, words: str) -> None:
    text, line = said(facts(gpu(0), expected=Expectation(inf if source == "nothing" else H, source, runs)))["unknown"]
    assert words in text
    assert line == "sbatch --gres=gpu:1 --fikit-measure j.sh"


def test_of_a_job_that_runs_only_what_its_owner_may_do_is_to_type() -> None:
    running = {"script": None, "job": "9", "running": True, "elapsed_s": 60.0}
    asked = facts(gpu(0, neighbour("7", 5 * H)), rest_s=10 * H, request=running)
    assert said(asked)["kindest priority"][1] == "srun --overlap --jobid=9 fikit priority 9 low"
    assert said(asked)["soonest priority"][1] == "", "higher it cannot be made by its owner"
    assert "alone" not in said(asked)


requests = st.fixed_dictionaries(
    {"shards": st.integers(1, 40), "priority": st.integers(0, 9), "shares": st.booleans(), "running": st.booleans()}
)


@given(
    st.lists(st.tuples(st.integers(1, 20), loads), max_size=3),
    st.floats(0, 1e7),
    requests,
    st.sampled_from([None, 1e-4, 0.02, 5.0]),
    st.integers(0, 9),
)
def test_whatever_the_situation_advice_can_be_given(
    gpus: list[tuple[int, list[tuple[float, float, int]]]],
    rest_s: float,
    asks: dict[str, Any],
    deadline_s: float | None,
    highest: int,
) -> None:
    made = [
        gpu(index, *(neighbour(f"{index}{n}", s, 4, busy=Busy(u), priority=p if p else None, whole=p == 9) for n, (s, u, p) in enumerate(there)), shards=size)
        for index, (size, there) in enumerate(gpus)
    ]  # fmt: skip
    request = {**asks, "script": None if asks["running"] else "j.sh", "job": "1" if asks["running"] else None}
    found = situation(
        facts(
            *made,
            rest_s=rest_s,
            request=request,
            deadline_s=deadline_s,
            burst=Burst(0.01),
            highest=highest,
            known=KNOWN,
        )
    )
    for offer in found.offers:
        assert all(each.priority >= min(highest, 8) for each in offer.choices)
        assert all(each.end_s >= offer.start_s for each in offer.choices)
        assert offer.verdict not in ("idle", "shares", "slower") or offer.gpu.free >= asks["shards"]
    for advice in rules.advise(found):
        assert advice.text
        assert "\n" not in advice.text
        assert all(
            value is None or isinstance(value, str | list) or isfinite(value) for value in advice.figure.values()
        )
