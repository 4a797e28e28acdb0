"""`fikit sim --job 12 --with 18`: stored traces as recordings, and what comes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from cli_samples import REPORT, site_without_daemon
from click.testing import CliRunner, Result
from fikit.commands.sim import command
from fikit.stored import recording
from fikitd.api.reports import ReportStore
from fikitd.api.traces import TraceStore
from fikitd.simulation import simulator
from hypothesis import given, settings
from hypothesis import strategies as st
from page_samples import HOSTILE, MS, trace, wait

MANY = 40


def drain(at_ms: float) -> list[Any]:
    return ["drain", round(at_ms * MS), 0, 0, 0, "none", None]


def at(t_ms: float, length_ms: float, end_ms: float = 0.0) -> list[Any]:
    """A launch at that moment; when it ends is reckoned again."""
    return [
        "launch",
        round(t_ms * MS),
        round(length_ms * MS),
        round((end_ms or t_ms + length_ms) * MS),
        1,
        "none",
        None,
    ]


def calls(found: dict[str, Any]) -> list[tuple[str, float, float, float]]:
    """Kind, begin of the call, begin on the device (of S: how long), length on the device, in ms; without what a launch needs to begin."""
    rows = [line.split(",") for line in recording.of(found).text.splitlines() if line[:2] in ("K,", "S,")]
    late = recording.LATENCY_NS / 1e3
    return [
        ("K", round(float(row[1]) / 1e3, 3), round((float(row[3]) - late) / 1e3, 3), float(row[4]) / 1e3) if row[0] == "K"
        else ("S", round(float(row[1]) / 1e3, 3), round((float(row[2]) - late) / 1e3, 3), 0.0)
        for row in rows
    ]  # fmt: skip


def test_waits_at_the_gate_are_left_out_and_the_hosts_own_time_stays() -> None:
    shared = trace(at(0, 2), wait(3, 10, 3), at(14, 2), wait(15, 4, 3), at(20, 2))
    assert calls(shared) == [("K", 0, 0, 2), ("K", 4, 4, 2), ("K", 6, 6, 2)]


def test_a_host_that_waits_for_its_work_waits_as_long_as_the_work_takes_alone() -> None:
    # Others' kernels made of 5 ms 25: it went on 3 ms after the end.
    shared = trace(at(0, 5, 25), drain(25), wait(12, 5, 4, "lower_work"), at(28, 5), drain(33))
    assert calls(shared) == [("K", 0, 0, 5), ("S", 0, 5, 0), ("K", 8.005, 8.005, 5), ("S", 8.005, 5, 0)]


def test_work_of_others_on_the_gpu_is_no_wait_of_the_host() -> None:
    assert calls(trace(at(0, 2), wait(1, 5, 4, "lower_work"), at(10, 2))) == [("K", 0, 0, 2), ("K", 10, 10, 2)]


def test_a_host_that_comes_to_wait_after_the_work_is_done_has_computed_until_then() -> None:
    assert calls(trace(at(0, 5), drain(9), at(10, 5))) == [("K", 0, 0, 5), ("S", 0, 5, 0), ("K", 10.005, 10.005, 5)]


def test_kernels_stand_behind_each_other() -> None:
    assert calls(trace(at(0, 5), at(1, 5), at(2, 5))) == [("K", 0, 0, 5), ("K", 1, 5, 5), ("K", 2, 10, 5)]


def test_what_has_no_length_is_left_out_and_told_unless_it_is_most() -> None:
    unknown = ["launch", 5 * MS, -1, -1, 1, "none", None]
    found = recording.of(trace(at(0, 5), at(6, 5), unknown))
    assert (found.launches, found.unknown, found.processes) == (2, 1, 1)
    with pytest.raises(recording.NotEnough, match="only 1 of its 3 launches have a known length"):
        recording.of(trace(at(0, 5), unknown, unknown))
    for nothing in (trace(), trace(drain(5)), {**trace(), "clients": []}):
        with pytest.raises(recording.NotEnough, match="it launched nothing"):
            recording.of(nothing)


def test_of_several_processes_the_one_that_launched_most_is_played() -> None:
    two = trace(at(0, 1), at(2, 1))
    both = {**two, "clients": [trace(at(0, 9))["clients"][0], *two["clients"]]}
    assert recording.of(both).processes == 2
    assert [row[3] for row in calls(both)] == [1, 1]


EVENT = st.tuples(
    st.sampled_from(["launch", "wait", "drain", "grant"]), st.integers(-(10**12), 10**12), st.integers(-5, 10**10), st.integers(-5, 10**12),
    st.integers(0, 3), st.sampled_from(["behind", "lower_work"]), st.none() | st.integers(0, 9),
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(EVENT.map(list), max_size=60))
def test_whatever_a_trace_says_the_simulator_reads_it(events: list[list[Any]]) -> None:
    try:
        found = recording.of(trace(*events))
    except recording.NotEnough:
        return
    read = simulator.parse("x", found.text)
    assert read.native.kernels == found.launches
    known = [event[2] for event in events if event[0] == "launch" and event[2] > 0]
    assert read.native.recorded_span_ns >= max(known)
    assert read.alone_ns >= 0.99 * sum(known), "one stream: kernels do not overlap"


def test_times_and_names_that_cannot_be_are_an_error_and_no_crash() -> None:
    hostile = trace(
        ["launch", -(2**63), 2**63 - 1, 2**63 - 1, 1, "none", None],
        ["launch", 2**63 - 1, 2**63 - 1, 1, 1, "none", None],
    )
    with pytest.raises(simulator.SimulatorError):
        simulator.parse("x", recording.of(hostile).text)
    named = trace(at(0, 1))
    named["clients"][0]["kernels"]["1"] = f"K,1,2 {HOSTILE}"
    assert simulator.parse("x", recording.of(named).text).native.kernels == 1


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Job 12 works 2 of 10 ms, job 18 all the time: both for 400 ms; job 13 has no trace."""
    reports = ReportStore(site_without_daemon(tmp_path, monkeypatch))
    half = trace(*(event for n in range(MANY) for event in (at(10 * n, 2), drain(10 * n + 2))))
    full = trace(*(at(n / 100, 1) for n in range(10 * MANY)), drain(10 * MANY), job="18")
    for number, found in (("12", half), ("18", full), ("13", None)):
        reports.save({**REPORT, "job": number, "name": f"<job {number}>"})
        if found is not None:
            TraceStore(reports.directory).save(found, [json.dumps(found).encode()])
    return tmp_path


def sim(*argv: str) -> Result:
    return CliRunner().invoke(command, list(argv))


def test_two_jobs_are_simulated_from_what_is_stored(stored: Path) -> None:
    done = sim("--job", "12", "--with", "18", "--switch", "10us", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["requests"], found["emulated"]) == (1, True), "a job runs once"
    assert found["span_ms"] == pytest.approx(400, rel=0.1)
    assert found["high_jct_ratio"] < 1.05
    assert found["harvest"] > 0.3, "it leaves 8 of 10 ms"
    other = json.loads(sim("--job", "18", "--with", "12", "--json").stdout)
    assert (other["harvest"], other["high_jct_ratio"]) == (pytest.approx(0, abs=0.05), pytest.approx(1, abs=0.06)), (
        "it leaves nothing"
    )
    assert "job 12 <job 12> (high) with job 18 <job 18>" in sim("--job", "12", "--with", "18").stdout


def test_the_picture_has_the_figures(stored: Path) -> None:
    file = stored / "sim.svg"
    found = json.loads(sim("--job", "12", "--with", "18", "--picture", str(file), "--json").stdout)
    drawn = ElementTree.fromstring(file.read_text())
    texts = [str(each.text) for each in drawn.iter() if each.tag.endswith("text")]
    assert texts[0] == "job 12 <job 12> (high)"
    for text in (
        f"{found['high_jct_ratio']:.2f}x",
        f"{found['low_jct_ratio']:.2f}x",
        f"{100 * found['harvest']:.1f} %",
    ):
        assert text in texts
    widths = [float(each.get("width", 0)) for each in drawn.iter() if each.tag.endswith("rect") and each.get("x")]
    longest = max(1.0, found["high_jct_ratio"], found["low_jct_ratio"])
    expected = [
        1 / longest,
        found["high_jct_ratio"] / longest,
        1 / longest,
        found["low_jct_ratio"] / longest,
        found["harvest"],
    ]
    assert widths == pytest.approx([420 * share for share in expected], abs=0.06)
    assert any(text.startswith("simulated, policy budget") for text in texts)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--job", "12"], "name a high job"),
        (["--with", "12"], "name a high job"),
        (["--job", "13", "--with", "12"], "there is no trace of job 13"),
        (["--job", "99", "--with", "12"], "there is no report of job 99"),
        (["--job", "12", "--with", "18", "--policy", "all", "--picture", "x.svg"], "--picture is of one policy"),
    ],
)
def test_what_cannot_be_simulated_is_a_sentence(stored: Path, argv: list[str], said: str) -> None:
    done = sim(*argv)
    assert done.exit_code != 0
    assert said in done.output


def test_what_a_trace_lacks_is_told(stored: Path) -> None:
    store = TraceStore(stored / "reports")
    half = [at(n, 0.5) for n in range(20)] + [["launch", 30 * MS, -1, -1, 1, "none", None]]
    one = trace(*half)
    lost = {**one, "clients": [{**one["clients"][0], "lost": 3}]}
    store.save(lost, [json.dumps(lost).encode()])
    told = sim("--job", "12", "--with", "18").stderr
    assert "fikit: job 12: 1 of 21 launches have no known length and are left out\n" in told
    assert "fikit: job 12: the trace has its newest events only\n" in told
