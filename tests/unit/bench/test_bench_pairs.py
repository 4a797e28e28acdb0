"""bench pairs: what is read out of fikitd's trace and the device's record, which pairs run, what the table says."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from fikitd.config import fikit_toml
from fikitd.simulation import simulator
from fikitd.simulation.simulator import MERGED

from bench import record, recordings
from bench.live import host_pace, live_pairs, live_table, low_time, reaction, slow_motion
from bench.live import stages as live

LOW, HIGH = 7, 8
OPTIONS: dict[str, Any] = {
    "emulated": True, "live": False, "arrivals": ["closed"], "policy": "prio", "seconds": 0.2, "rounds": 1, "most": 1,
    "resume": None, "svg": None,
}  # fmt: skip


def kernel(pid: int, enqueue_us: int, start_us: int | None, end_us: int | None, kind: str = "kernel") -> dict[str, Any]:
    times = {"enqueue_ns": enqueue_us, "start_ns": start_us, "end_ns": end_us}
    return {"pid": pid, "kind": kind} | {name: us if us is None else us * 1000 for name, us in times.items()}


def event(kind: str, t_us: float, length_us: float = 0, predicted_us: float = 0, reason: str = "none") -> list[Any]:
    return [kind, round(t_us * 1000), round(length_us * 1000), round(predicted_us * 1000), 1, reason, None]


def wait(t_us: float, until_us: float, reason: str) -> list[Any]:
    return event("wait", t_us, until_us - t_us, reason=reason)


def trace(*events: list[Any], lost: int = 0) -> dict[str, Any]:
    return {"clients": [{"lost": lost, "events": list(events)}]}


def test_reactions_are_read_from_the_trace_and_the_devices_record() -> None:
    low = trace(
        # Seen after 20 us, held for the end of the higher job's work at 2000 (reckoned), granted 30 us late, launched after 12.
        wait(100, 120, "reaction"), wait(120, 2030, "behind"), event("grant", 2030), wait(2030, 2042, "reaction"),
        event("launch", 2042),
        # Waits for the end of the kernel before it at 2500: granted 60 us later, launched after 14.
        wait(2100, 2140, "reaction"), wait(2140, 2560, "run_ahead"), event("grant", 2560), wait(2560, 2574, "reaction"),
        event("launch", 2574),
        # Granted at the first look, after 25 us: all of its waiting was the dispatcher's.
        wait(2600, 2634, "reaction"), event("grant", 2625), event("launch", 2634),
        # At a gate that had opened nothing was granted.
        event("launch", 2700),
    )  # fmt: skip
    high = trace(event("launch", 1000, 1000, 2000))
    kernels = [kernel(LOW, 0, 0, 50), kernel(LOW, 2045, 2060, 2500), kernel(LOW, 2577, 2590, 2600)]
    low["clients"][0]["events"].insert(0, event("launch", 0))
    seen = reaction.reactions(low, high, kernels, LOW)
    assert seen.observe == [20, 40, 25]
    assert seen.wake == [12, 14, 9]
    assert seen.done == [60]
    assert seen.late == [30]


def test_a_trace_that_lost_its_beginning_tells_nothing() -> None:
    assert reaction.reactions(trace(lost=1), trace(), [], LOW) == reaction.Reactions()
    assert reaction.reactions(None, trace(), [], LOW) == reaction.Reactions()


def test_few_reactions_leave_the_simulators_own_costs() -> None:
    few = [500.0] * (reaction.ENOUGH - 1)
    assert reaction.Reactions(observe=few, wake=[33.0, *few]).seen() == {"wake": [33_000] + [500_000] * len(few)}
    assert reaction.Reactions(observe=few, wake=few).seen() == {}


def test_reactions_of_several_runs_are_one_lot() -> None:
    runs = [reaction.Reactions([1.0], [2.0], [3.0], [4.0]), reaction.Reactions([5.0])]
    assert reaction.together(runs) == reaction.Reactions([1.0, 5.0], [2.0], [3.0], [4.0])


def test_delayed_is_the_time_that_work_stood_behind_lower_work_once() -> None:
    events = [
        kernel(LOW, 0, 0, 100), kernel(LOW, 5, 100, 200), kernel(LOW, 10, None, None), kernel(LOW, 6, 600, None),
        # Two that stand there from 50 on, after a latency of 10; the second also behind the first, which is no lower work.
        kernel(HIGH, 40, 200, 300), kernel(HIGH, 42, 300, 400),
        # One that nothing is in the way of, and one behind lower work that has not ended.
        kernel(HIGH, 500, 510, 520), kernel(HIGH, 690, 750, 760), kernel(HIGH, 790, None, None),
        kernel(HIGH, 610, 700, 710, "fill"),  # of which no report can know
    ]  # fmt: skip
    assert reaction.delayed_ns(events, HIGH, LOW, 10_000) == (150 + 50) * 1000
    assert reaction.delayed_ns(events, HIGH, 99, 10_000) == 0


def test_simulated_pairs_are_stretched_and_need_no_daemon(traces: Path) -> None:
    result = live_pairs.run(**{**OPTIONS, "arrivals": ["closed", "open70"]}, traces=traces, pairs=["serve + train"])
    assert [row["case"] for row in result.details["cases"]] == ["serve + train closed", "serve + train open70"]
    high = simulator.parse("serve", (traces / "serve.csv").read_text())
    for row in result.details["cases"]:
        assert row["simulated"]["span_ms"] > 0.9 * live_pairs.STRETCH * high.alone_ns / 1e6
    assert "simulated" in result.summary


def test_an_unknown_pair_is_one_sentence(traces: Path) -> None:
    with pytest.raises(record.BenchError, match=r"there is no pair P99; there are serve \+ train, train \+ serve"):
        live_pairs.run(**OPTIONS, traces=traces, pairs=["P99"])


def test_it_does_not_run_on_hardware() -> None:
    with pytest.raises(record.BenchError, match="leave --real away"):
        live_pairs.run(**{**OPTIONS, "emulated": False}, traces=None, pairs=None)


def low_did(kernels: list[dict[str, Any]], *events: list[Any]) -> simulator.LowTime | None:
    run = live.Run([HIGH, LOW], 0, simulator.Observed(1_000_000, [], 0), kernels)
    return low_time.seen(trace(*events), run)


def test_every_moment_of_a_low_job_is_one_of_its_states() -> None:
    seen = low_did(
        [
            kernel(HIGH, 90, 100, 300), kernel(LOW, 390, 400, 500), kernel(LOW, 420, 500, 550), kernel(LOW, 940, 950, None),
            kernel(LOW, 395, 410, 420, "copy_in"), kernel(HIGH, 760, 800, 900, "fill"),
        ],
        wait(50, 70, "reaction"), wait(70, 380, "behind"), wait(410, 430, "reaction"), wait(780, 2000, "budget_spent"),
        wait(600, 700, "lower_work"),
    )  # fmt: skip
    assert seen is not None
    # Runs: 400 to 550 and from 950 on. On its way: 390 to 400, and 940 to 950. Held: 70 to 380, and from 780 on but for that.
    assert seen.free == {
        "host": 50_000 + 10_000 + 230_000, "reaction": 20_000, "behind": 110_000, "queued": 20_000, "runs": 200_000,
        "budget_spent": 60_000,
    }  # fmt: skip
    assert seen.below == {"behind": 200_000, "budget_spent": 100_000}
    shares = low_time.shares(seen.free)
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["held"] == pytest.approx(170 / 700)


def test_a_trace_that_lost_its_beginning_says_nothing_of_a_low_jobs_time() -> None:
    run = live.Run([HIGH, LOW], 0, simulator.Observed(1_000_000, [], 0), [])
    assert low_time.seen(trace(lost=1), run) is None
    assert low_time.seen(None, run) is None


def test_a_host_is_slower_by_what_it_takes_itself_not_by_what_it_waits_for() -> None:
    waits = [True, False, True]  # a pass: a kernel, another one at once, a wait, a third one, a wait

    def passes(slower_us: int, later_us: int) -> list[dict[str, Any]]:
        events, now = [], 0
        for _ in range(2):
            for waited, length_us in zip(waits, (100, 50, 10), strict=True):
                done_us = max([now, *(event["end_ns"] // 1000 for event in events)])
                now = (done_us if waited else now) + 20 + slower_us
                start_us = max(now, done_us) + later_us
                events.append(kernel(HIGH, now, start_us, start_us + length_us))
        return [kernel(LOW, 5, 5, 500), *events]

    def longer_us(slower_us: int, later_us: int, *, closed: bool = True) -> float:
        shared = passes(slower_us, later_us)
        return host_pace.longer_ns((passes(0, 0), HIGH), (shared, HIGH), waits, closed=closed) / 1000

    assert longer_us(0, 0) == 0
    assert longer_us(0, 300) == 0  # others were on the device
    assert longer_us(7, 0) == 5 * 7  # of the first one nobody knows
    assert longer_us(7, 300, closed=False) == 4 * 7  # the second request came from outside


def test_a_host_turns_to_the_next_request_when_that_has_arrived() -> None:
    begun_ns = 1_000_000
    calls = (1000, 1010, 1312, 1320, 1700, 1710, 2007, 2030)  # us; four requests of two pieces of work
    events = [kernel(LOW, 1100, 1100, 1200), *(kernel(HIGH, us, us, us + 5) for us in calls)]
    requests = [(0, 300_000), (200_000, 500_000), (700_000, 1_000_000), (1_000_000, 1_200_000)]
    # The second came before the first had ended, the third did not, the fourth did at the same moment.
    assert host_pace.turns_us(events, HIGH, begun_ns, requests, 2) == [12, 7]
    assert host_pace.turns_us(events[:3], HIGH, begun_ns, requests, 2) == []  # it was stopped


def test_a_recording_that_starts_up_for_long_begins_where_it_is_at_work() -> None:
    def recording(*kernels_us: float) -> bytes:
        calls = ["M,0.0,5.0", *(f"K,{us:.1f},5.0" for us in kernels_us), f"S,{kernels_us[-1] + 9},1.0"]
        return "\n".join(["#N 0 a", *calls, ""]).encode()

    late = recording(1.2e6, 2.0e6, 2.0e6 + 50, 9e6)
    assert recordings.at_work(late) == b"#N 0 a\nK,2000000.0,5.0\nK,2000050.0,5.0\nK,9000000.0,5.0\nS,9000009.0,1.0\n"
    for whole in (recording(0.9e6, 0.9e6 + 50), recording(3e6), recordings.training(1).text()):
        assert recordings.at_work(whole) == whole


def low_shares(runs: float) -> dict[str, float]:
    return dict.fromkeys(low_time.STATES, 0.0) | {"runs": runs, "host": 1 - runs}


def ratios(jct: float, harvest: float) -> dict[str, Any]:
    return {
        "high_jct_ratio": jct,
        "high_p99_ratio": jct,
        "harvest": harvest,
        "between": {"high_jct_ratio": (jct, jct), "high_p99_ratio": (jct, jct), "harvest": (harvest - 0.2, harvest)},
        "orders": 9,
        "harvest_spread": 0.01,
        "delayed_ms": 1.0,
        "reported_delayed_ms": 2.0,
        "machine": {"load": 0.5},
        "host_longer": 0.012,
        "low_time": low_shares(harvest),
    }


def row(name: str, simulated: float, *live_ratios: tuple[float, float]) -> dict[str, Any]:
    return {
        "case": name, "simulated": ratios(1.0, simulated), "live": [ratios(*seen) for seen in live_ratios],
        "reactions_us": {"wake": {"mean": 12.5, "p50": 12.0, "count": 40}},
    }  # fmt: skip


def test_the_table_says_how_many_pairs_agree() -> None:
    cases = (("near", 1.029, 0.59), ("slow", 1.031, 0.5), ("greedy", 1.0, 0.61))
    rows = [row(name, 0.5, (jct, 0.5), (jct, harvest), (jct, 0.9)) for name, jct, harvest in cases]
    result = live_table.live_result(rows, "prio", 10.0, {})
    assert result.values["within"] == 1
    assert result.values["worst_jct_difference"] == pytest.approx(0.031)
    assert result.values["worst_harvest_difference"] == pytest.approx(0.11)
    assert result.samples["near harvest"] == [0.5, 0.59, 0.9]
    assert "within 0.03 of the simulated JCT ratio and 0.1 of the simulated harvest: 1 of 3" in result.summary
    picture = ET.fromstring(live_table.picture(rows, "prio"))
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}polyline"))) == 3


def test_what_was_measured_of_the_switch_is_said_with_how_often() -> None:
    rows = [row("known", 0.5, (1.0, 0.5), (1.0, 0.5)), row("unknown", 0.5, (1.0, 0.5))]
    assert "a switch was measured in none of 3 rounds" in live_table.live_result(rows, "prio", 10.0, {}).summary
    rows[0]["live"][0]["switch_us"], rows[0]["live"][1]["switch_us"] = 47.6, None
    said = live_table.live_result(rows, "prio", 10.0, {}).summary
    assert "a switch was measured in 1 of 3 rounds: 48 us (48 to 48) of the recording's time" in said


def test_the_table_has_the_range_of_several_rounds_and_what_the_low_job_did() -> None:
    rows = [row("case", 0.5, (1.05, 0.5), (1.02, 0.53), (1.03, 0.54))]
    rows[0]["live"][1]["low_time"] = None  # a trace was too short
    lines = live_table.live_result(rows, "prio", 10.0, {}).summary.splitlines()
    _, compared, _, did, _, reacted = (line.split() for line in lines if line.startswith("case "))
    assert compared == [
        "case", "1.000", "1.030", "(1.020-1.050)", "+0.030", "+1.2", "%", "0.500", "0.530", "(0.500-0.540)", "+0.030",
        "1.000", "1.030", "(1.020-1.050)", "0.5", "0.5", "0.5", "within",
    ]  # fmt: skip
    assert did[:5] == ["case", "50.0", "52.0", "50.0", "48.0"]
    assert reacted == ["case", "nan", "12.5", "nan", "nan", "nan", "1.0", "(2.0)"]


def test_one_round_has_no_range() -> None:
    assert "(1.0" not in live_table.live_result([row("case", 0.5, (1.03, 0.5))], "prio", 10.0, {}).summary


def test_cells_say_what_counts_of_several_rounds() -> None:
    several = row("several", 0.5, (1.05, 0.3), (1.02, 0.53), (1.03, 0.54))
    table = live_table.live_result([several, row("one", 0.5, (1.03, 0.3))], "prio", 10.0, {}).table.splitlines()
    assert table[2:] == [
        "| several | 1.000 / 1.030 (1.020 to 1.050) | +0.030 | +1.2 % | 0.50 (0.30 to 0.50) / 0.53 (0.30 to 0.54) | +0.030 | 0.013 | 1.00 / 1.03 (1.02 to 1.05) | 0.5 0.5 0.5 | yes |",
        "| one | 1.000 / 1.030 | +0.030 | +1.2 % | 0.50 (0.30 to 0.50) / 0.30 | -0.200 | 0.021 | 1.00 / 1.03 | 0.5 | **no** |",
    ]  # fmt: skip


def test_what_may_be_chance_is_no_difference_and_no_agreement() -> None:
    rows = [row("case", 0.5, *runs) for runs in ([(1.03, 0.35)], [(1.03, 0.35)] * 4, [(1.2, 0.35)])]
    for each in rows:
        each["simulated"]["harvest_spread"] = 0.08
    assert [live_table.chance(each) for each in rows] == pytest.approx([0.169, 0.096, 0.169], abs=0.001)
    assert [live_table.verdict(each) for each in rows] == ["not told from chance", "outside", "outside"]
    assert not any(map(live_table.agrees, rows))
    result = live_table.live_result(rows, "prio", 10.0, {})
    assert (result.values["within"], result.values["undecided"]) == (0, 1)
    assert "case: outside, but chance alone moves its harvest by 0.17" in result.summary
    assert result.table.splitlines()[2].endswith("not told from chance |")


def test_each_time_is_the_jobs_or_the_machines() -> None:
    keys = {field.name for field in fields(fikit_toml.SchedulerConfig) if field.name.endswith(("_ms", "_us"))}
    assert keys == {*slow_motion.OF_THE_JOBS, *slow_motion.OF_THE_MACHINE}
    constants = {name for name in simulator.TUNING if name.endswith("_ns")}
    assert constants == {*slow_motion.TUNING_OF_THE_JOBS, *slow_motion.TUNING_OF_THE_MACHINE}


def test_daemon_and_simulator_are_told_the_same_times() -> None:
    told = slow_motion.simulated(10)
    assert told["tuning"] == slow_motion.tuning(10)
    assert told["tuning"]["saved_ns"] == 10 * simulator.TUNING["saved_ns"]
    written = fikit_toml.SchedulerConfig(**slow_motion.scheduler(10))
    assert told["scheduler"] == {
        "lease_ns": written.lease_ms * 1_000_000, "run_ahead_ns": written.run_ahead_us * 1000,
        "idle_after_ns": written.idle_after_us * 1000, "starvation_timeout_ns": written.starvation_timeout_ms * 1_000_000,
    }  # fmt: skip
    assert written.starvation_timeout_ms == 10 * fikit_toml.SchedulerConfig().starvation_timeout_ms


def test_what_takes_ten_times_as_long_in_slow_motion_is_the_same(traces: Path) -> None:
    """But for a machine that is as fast as ever, whose reactions count most in the first requests."""

    def outcome(stretch: float) -> simulator.Outcome:
        high, low = (
            simulator.parse(name, (traces / f"{name}.csv").read_text(), stretch=stretch) for name in ("serve", "train")
        )
        slow = slow_motion.simulated(stretch)
        scenario = simulator.Scenario(
            high, [low], requests=64, costs=simulator.NO_COSTS, device=simulator.MERGED, **slow
        )
        return simulator.simulate(scenario, "budget")

    fast, slow = outcome(1), outcome(10)
    assert fast.harvest > 0.1
    assert slow.harvest == pytest.approx(fast.harvest, rel=0.1)
    assert slow.high_jct_ratio == pytest.approx(fast.high_jct_ratio, abs=0.01)


def test_the_middle_of_what_the_simulator_says_is_its_median() -> None:
    outcomes = [{"harvest": harvest, "low_jct_ratio": None, "kernels": 5} for harvest in (0.9, 0.1, 0.3)]
    assert live_pairs.middle(outcomes) == {
        "harvest": 0.3, "low_jct_ratio": None, "kernels": 5, "between": {"harvest": (0.1, 0.9)}, "orders": 3,
        "harvest_spread": pytest.approx(0.34, abs=0.001),
    }  # fmt: skip


@pytest.mark.parametrize(("differ", "orders"), [(0.0, live_pairs.ORDERS), (0.1, live_pairs.MANY_ORDERS)])
def test_where_the_order_of_reactions_decides_more_of_them_are_simulated(
    traces: Path, monkeypatch: pytest.MonkeyPatch, differ: float, orders: int
) -> None:
    book = live_pairs.Book(traces, recordings.recordings(traces), 1.0, MERGED)
    case = live_pairs.Case.of(book, "pair", ("serve", "train"), "closed")
    outcome = simulator.simulate(case.scenario, "fifo")

    def simulate(scenario: simulator.Scenario, policy: str) -> simulator.Outcome:
        return replace(outcome, harvest=0.5 + differ * (scenario.draw % 2))

    monkeypatch.setattr(simulator, "simulate", simulate)
    seen = reaction.Reactions(wake=[20.0] * reaction.ENOUGH)
    assert case.simulate("fifo", seen)["orders"] == orders


def test_no_rounds_are_one_sentence(traces: Path) -> None:
    with pytest.raises(record.BenchError, match="--rounds must be 1 or more"):
        live_pairs.run(**{**OPTIONS, "rounds": 0}, traces=traces, pairs=["serve + train"])


def test_each_live_run_begins_with_the_profiles_of_the_measuring_runs(tmp_path: Path) -> None:
    profiles = tmp_path / "profiles"
    measured = profiles / "0" / "measured"
    measured.parent.mkdir(parents=True)
    measured.write_text("as learnt")
    (tmp_path / "fikit.toml").write_text(f'[daemon]\nprofile_dir = "{profiles}"\n')
    stage = live.Stage({"FIKIT_CONFIG": str(tmp_path / "fikit.toml")}, tmp_path, 10.0)
    for _ in range(2):
        with stage.learnt_before():
            measured.write_text("as it was under load")
            measured.with_name("sampled").write_text("new")
        assert [file.read_text() for file in profiles.rglob("*") if file.is_file()] == ["as learnt"]
    measured.unlink()
    measured.parent.rmdir()
    profiles.rmdir()
    with stage.learnt_before():
        measured.parent.mkdir(parents=True)
    assert not profiles.exists()


@pytest.mark.starts_processes
def test_a_live_run_that_does_not_end_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in the middle it would look like a shorter one."""
    monkeypatch.setattr(live, "PATIENCE_S", 0.05)
    stopped = "trap 'echo {}; exit 0' TERM; echo it can be stopped; while true; do sleep 0.01; done"
    with subprocess.Popen(
        ["bash", "-c", stopped], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "it can be stopped\n"
        job = live.Job(Path("serve.csv"), arrivals_ns=[10_000_000])
        with pytest.raises(record.BenchError, match="serve did not end in 0 s"):
            live._end(process, job, None)
        monkeypatch.setattr(live, "PATIENCE_S", 10.0)
        assert live._end(process, job, 0.01) == {}
