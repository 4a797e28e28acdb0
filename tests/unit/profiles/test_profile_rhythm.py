"""Where a program's host waits is in its profile: learnt by each run, merged over runs, known to the next from its first launch."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import core_fake_client as fake
import pytest
from core_fake_client import LONG_LEASE, MS, FakeClient, eventually, now, profile_entry
from daemon_fakes import kernel
from fikitd._core import Dispatcher, Rhythm, Runs
from fikitd.profiles.profile_rhythm import MAX_COUNT, MAX_NS, MAX_SEGMENTS, MAX_SLACKS, TIMES, checked, merge
from fikitd.profiles.profile_store import ProfileStore, document
from host_segments import FILLER, LESSONS, STEP, live_through_segments, meet, notice
from hypothesis import given
from hypothesis import strategies as st

US = 1000
A, B = 1, 2


def steps(rhythm: Rhythm, begin_ns: int, wait_ns: int, times: int) -> int:
    """Segments of two kernels of 10 us and a wait that ends so long after the first launch, 1 ms apart."""
    for _ in range(times):
        rhythm.launched(begin_ns, A, 10 * US)
        rhythm.launched(begin_ns + 20 * US, B, 10 * US)
        rhythm.waited(begin_ns + wait_ns, True)
        begin_ns += wait_ns + MS
    return begin_ns


def first_slack(rhythm: Rhythm) -> list[int]:
    return rhythm.launched(10**12, A, 10 * US)


def test_the_next_run_knows_from_its_first_launch_on() -> None:
    earlier, later = Rhythm(), Rhythm()
    steps(earlier, 0, 500 * US, 10)
    later.expect(json.loads(json.dumps(earlier.learnt())))
    assert first_slack(Rhythm()) == [0] * TIMES
    assert first_slack(later) == first_slack(earlier) == [480 * US] * TIMES
    pause = later.waited(10**12 + 500 * US, True)
    assert pause["span_ns"] == -1 or pause["idle_ns"] == [0] * TIMES  # of another kind of segment: A alone


def test_what_is_known_between_segments_is_known_too() -> None:
    earlier, later = Rhythm(), Rhythm()
    end = steps(earlier, 0, 500 * US, 10)
    later.expect(earlier.learnt())
    later.launched(end, A, 10 * US)
    later.launched(end + 20 * US, B, 10 * US)
    pause = later.waited(end + 500 * US, True)
    assert pause["span_ns"] == 500 * US
    assert pause["tail_ns"] == 480 * US
    assert all(abs(ns - MS) < MS / 8 for ns in pause["idle_ns"])
    assert pause["slack_ns"] == [480 * US] * TIMES


def test_what_the_run_itself_shows_takes_the_place_of_it() -> None:
    earlier, later = Rhythm(), Rhythm()
    steps(earlier, 0, 500 * US, 10)
    later.expect(earlier.learnt())
    steps(later, 0, 200 * US, TIMES)
    assert first_slack(later) == [180 * US] * TIMES


def test_what_comes_late_does_not_take_the_place_of_what_was_seen() -> None:
    earlier, later = Rhythm(), Rhythm()
    steps(earlier, 0, 500 * US, 10)
    steps(later, 0, 200 * US, 1)
    later.expect(earlier.learnt())
    assert first_slack(later) == [180 * US] * TIMES


def test_a_run_stores_what_it_saw_itself_and_saw_twice() -> None:
    earlier, later = Rhythm(), Rhythm()
    steps(earlier, 0, 500 * US, 10)
    later.expect(earlier.learnt())
    assert later.learnt() == {}
    steps(later, 0, 200 * US, 1)
    assert later.learnt() == {}
    steps(later, 10**9, 200 * US, 2)
    learnt = later.learnt()
    by_path = {(3, *[180 * US] * 3), (3, *[170 * US] * 3)}
    by_the_last_three = {(2, *[180 * US] * 2), (2, *[170 * US] * 2)}  # which the first segment did not have yet
    assert {tuple(sketch) for sketch in learnt["slacks"].values()} == by_path | by_the_last_three
    (segment,) = learnt["segments"].values()
    assert segment["span"] == [3, *[200 * US] * 3]
    assert segment["idle"][0] == 2
    assert checked(learnt) == learnt


def test_a_program_without_end_stores_a_bounded_part() -> None:
    rhythm = Rhythm()
    for _ in range(2):
        for path in range(MAX_SLACKS):
            rhythm.launched(path * MS, 10 + path, 10 * US)
            rhythm.waited(path * MS + 50 * US, True)
    learnt = rhythm.learnt()
    assert len(learnt["slacks"]) == MAX_SLACKS
    assert len(learnt["segments"]) <= MAX_SEGMENTS
    assert checked(learnt) == learnt


def rounds(runs: Runs, times: int) -> Runs:
    """Three kernels, one after the other, and a wait; so many times."""
    for _ in range(times):
        for identity in (A, B, B + 1):
            runs.launched(identity, 10 * US)
        runs.waited()
    return runs


def test_the_next_run_knows_what_follows_what() -> None:
    learnt = json.loads(json.dumps(rounds(Runs(), 4).learnt()))
    assert checked(learnt) == learnt
    later = Runs()
    later.expect(learnt)
    rounds(later, 1)  # what came before it is part of the place
    assert later.starting(A, 10 * US) == (3, 30 * US)
    assert rounds(Runs(), 1).starting(A, 10 * US)[0] == 1
    assert later.learnt() == {}  # by itself it has seen nothing twice


def test_what_an_earlier_run_says_of_what_follows_is_bounded() -> None:
    runs = Runs()
    place = next(iter(rounds(Runs(), 4).learnt()["runs"]))
    runs.expect({"version": 1, "slacks": {}, "segments": {}, "runs": {place: [2**32 - 1, 2**62]}})
    runs.expect(rounds(Runs(), 4).learnt())
    rounds(runs, 1)
    for identity in (A, B, B + 1):
        launches, work_ns = runs.starting(identity, 10 * US)
        assert launches <= 32
        assert work_ns <= 200 * US


# ---------------------------------------------------------------- files

GOOD: dict[str, Any] = {
    "version": 1, "slacks": {"0" * 16: [3, 1, 2, 3]}, "segments": {"f" * 16: {"span": [2, 5, 6]}}, "runs": {"0" * 16: [4, 9]},
}  # fmt: skip


@pytest.mark.parametrize("unknown", [None, {"version": 2, "slacks": 7}, {}])
def test_what_this_version_does_not_know_is_as_good_as_none(unknown: Any) -> None:
    assert checked(unknown) is None


@pytest.mark.parametrize(
    "wrong",
    [
        [], "x", 7,
        {**GOOD, "slacks": None}, {**GOOD, "segments": []}, {**GOOD, "slacks": {"0": [1, 1]}},
        {**GOOD, "slacks": {"0" * 16: []}}, {**GOOD, "slacks": {"0" * 16: [1]}}, {**GOOD, "slacks": {"0" * 16: 1}},
        {**GOOD, "slacks": {"0" * 16: [9, *range(9)]}}, {**GOOD, "slacks": {"0" * 16: [1, 1, 2]}},
        {**GOOD, "slacks": {"0" * 16: [1, 0.5]}}, {**GOOD, "slacks": {"0" * 16: [1, -1]}},
        {**GOOD, "slacks": {"0" * 16: [1, MAX_NS + 1]}}, {**GOOD, "slacks": {"0" * 16: [MAX_COUNT + 1, 1]}},
        {**GOOD, "slacks": {"0" * 16: [True, 1]}}, {**GOOD, "slacks": {"G" * 16: [1, 1]}},
        {**GOOD, "segments": {"0" * 16: []}}, {**GOOD, "segments": {"0" * 16: {"span": {}}}},
        {**GOOD, "segments": {"0" * 16: {"span": [1, -1]}}}, {**GOOD, "segments": {"0" * 16: {"after": [1, -MAX_NS - 1]}}},
        {**GOOD, "runs": []}, {**GOOD, "runs": {"0" * 16: [0, 1]}}, {**GOOD, "runs": {"0" * 16: [1, -1]}},
        {**GOOD, "runs": {"0" * 16: [1]}}, {**GOOD, "runs": {"0" * 16: [1, 1.5]}}, {**GOOD, "runs": {"0" * 16: [2**32, 1]}},
        {**GOOD, "slacks": {f"{i:016x}": [1, 1] for i in range(MAX_SLACKS + 1)}},
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"of rhythm|rhythm is not"):
        checked(wrong)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=10) | st.dictionaries(st.sampled_from(["0" * 16, "span", "idle", "x"]), inner)
    ),
    max_leaves=20,
)


@given(st.fixed_dictionaries({"version": st.just(1), "slacks": JSON, "segments": JSON, "runs": JSON}))
def test_whatever_a_file_says_is_refused_or_within_bounds(raw: dict[str, Any]) -> None:
    try:
        rhythm = checked(raw)
    except ValueError:
        return
    Rhythm().expect(rhythm or {})
    Runs().expect(rhythm or {})
    assert checked(rhythm) == rhythm
    assert merge([rhythm, rhythm]) is not None


TIME = st.integers(0, MAX_NS)
SKETCH = st.lists(TIME, min_size=1, max_size=TIMES).flatmap(
    lambda times: st.integers(len(times), 1000).map(lambda count: [count, *sorted(times)])
)
PLACE = st.sampled_from([f"{i:016x}" for i in range(4)])
RHYTHM = st.fixed_dictionaries(
    {
        "version": st.just(1),
        "slacks": st.dictionaries(PLACE, SKETCH),
        "segments": st.dictionaries(PLACE, st.dictionaries(st.sampled_from(["span", "after"]), SKETCH)),
        "runs": st.dictionaries(PLACE, st.tuples(st.integers(1, 40), TIME).map(list)),
    }
)


@given(st.lists(RHYTHM, min_size=1, max_size=5), st.randoms())
def test_runs_are_merged_in_any_order(rhythms: list[dict[str, Any]], dice: random.Random) -> None:
    merged = merge(rhythms)
    dice.shuffle(rhythms)
    assert merge(rhythms) == merged
    assert checked(merged) is not None
    for place, (count, *times) in (merged or {})["slacks"].items():
        same = [rhythm["slacks"][place] for rhythm in rhythms if place in rhythm["slacks"]]
        assert (merge([merge(rhythms[:2]), *rhythms[2:]]) or {})["runs"] == (merged or {})["runs"]
        assert count == sum(sketch[0] for sketch in same)
        assert (
            min(min(sketch[1:]) for sketch in same) <= times[0] <= times[-1] <= max(max(sketch[1:]) for sketch in same)
        )


def test_of_runs_the_shorter_and_the_longer_work_count() -> None:
    merged = merge([{**GOOD, "runs": {"a" * 16: [4, 9]}}, {**GOOD, "runs": {"a" * 16: [7, 3], "b" * 16: [2, 2]}}])
    assert merged is not None
    assert merged["runs"] == {"a" * 16: [4, 9], "b" * 16: [2, 2]}


def test_a_wait_may_end_before_the_work_is_reckoned_to() -> None:
    early = {**GOOD, "segments": {"0" * 16: {"after": [2, -5, 7]}}}
    assert checked(early) == early


def test_files_from_before_it_was_known_what_follows_what_are_read() -> None:
    before = {name: part for name, part in GOOD.items() if name != "runs"}
    assert checked(before) == {**GOOD, "runs": {}}


def test_a_run_of_many_times_weighs_more_than_one_of_few() -> None:
    many, few = {**GOOD, "slacks": {"0" * 16: [60, 100]}}, {**GOOD, "slacks": {"0" * 16: [20, 7]}}
    merged = merge([few, many])
    assert merged is not None
    assert merged["slacks"]["0" * 16] == [80, 7, 7, *[100] * 6]


def stored(store: ProfileStore, run: str, rhythm: dict[str, Any]) -> Path:
    profile = document(
        key="k", command=[], created=run, device={"name": "Emulated", "memory_bytes": 1, "emulated": True},
        span_ns=1, launches=1, peak_bytes=1, kernels=[kernel()], rhythm=rhythm,
    )  # fmt: skip
    return store.save(os.getuid(), profile, run)


def test_profiles_with_and_without_it_are_read_together(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    assert "rhythm" not in json.loads(stored(store, "a", {}).read_text())
    stored(store, "b", GOOD)
    newer = stored(store, "c", GOOD)
    newer.write_text(newer.read_text().replace('"rhythm":{"version":1', '"rhythm":{"version":9'))
    found = store.load(os.getuid(), "k")
    assert found is not None
    assert found["runs"] == 3
    assert found["rhythm"] == GOOD


def test_a_profile_too_large_with_it_is_stored_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ProfileStore(tmp_path)
    many = {**GOOD, "slacks": {f"{i:016x}": [8, *range(8)] for i in range(1000)}}
    monkeypatch.setattr("fikitd.profiles.profile_store.MAX_FILE_BYTES", 20_000)
    assert "rhythm" not in json.loads(stored(store, "a", many).read_text())


# ---------------------------------------------------------------- dispatcher


def what_waits_take(running: Dispatcher, client: FakeClient, waited_ns: int) -> list[int]:
    """What is learnt of the time from the later of the work's end and the wait's beginning to the wait's end."""
    client.describe(STEP, "step")
    running.set_profile(client.number, [profile_entry("step", MS // 10, 0)])
    live_through_segments(running, client, waited_ns=waited_ns)
    (segment,) = running.export_rhythm(client.number)["segments"].values()
    return list(segment.get("after", [0]))[1:]


def test_it_is_learnt_from_when_on_the_host_waited() -> None:
    with fake.dispatcher("budget", LONG_LEASE) as running:
        assert what_waits_take(running, FakeClient(running, 1, 1), 30 * MS) == [30 * MS] * TIMES
    with fake.dispatcher("budget", LONG_LEASE) as running:  # a shim of before does not say it
        assert what_waits_take(running, FakeClient(running, 1, 1), 0) == []


@pytest.mark.parametrize("waited_ns", [1, 2**32 - 1])
def test_whatever_a_client_says_of_its_waits_is_bounded(waited_ns: int) -> None:
    with fake.dispatcher("budget", LONG_LEASE) as running:
        took = what_waits_take(running, FakeClient(running, 1, 1), waited_ns)
        assert all(0 <= ns <= 100 * MS for ns in took)
        assert len(took) == TIMES


def test_other_runs_learn_it_where_the_policy_asks_for_it() -> None:
    for policy, learns in (("paper", False), ("budget", True)):
        with fake.dispatcher(policy, LONG_LEASE) as running:
            client = FakeClient(running, 1, 1)
            client.describe(STEP, "step")
            running.set_profile(1, [profile_entry("step", MS // 10, 0)])
            live_through_segments(running, client)
            assert bool(running.export_rhythm(1)) == learns


def test_what_jobs_before_it_did_takes_nothing_from_what_a_run_teaches() -> None:
    """A fikitd lives for months; each segment of a job that is alone counts, from its first on."""
    counts = []
    with fake.dispatcher("budget", LONG_LEASE) as running:
        for number in (1, 2):
            client = FakeClient(running, number, 1)
            client.describe(STEP, "step")
            running.set_profile(number, [profile_entry("step", MS // 10, 0)])
            live_through_segments(running, client)
            (segment,) = running.export_rhythm(number)["segments"].values()
            counts.append(segment["span"][0])
            running.remove_client(number)
    assert counts == [LESSONS, LESSONS]


@pytest.mark.parametrize("seen_before", [True, False])
def test_a_job_that_was_seen_before_lends_its_slack_from_its_first_launch_on(seen_before: bool) -> None:
    with fake.dispatcher("budget", LONG_LEASE) as before:
        high, _ = meet(before)
        live_through_segments(before, high)
        learnt = before.export_rhythm(1) if seen_before else {}
    with fake.dispatcher("budget", LONG_LEASE, max_slowdown=0.0, starvation_timeout_ns=None) as running:
        high, low = meet(running)
        running.set_profile(1, [profile_entry("step", MS // 10, 0)], learnt)
        high.launch(STEP, t_ns=now())
        notice(running, high)
        request = low.ask(FILLER)
        assert eventually(lambda: low.granted(request), 10.0 if seen_before else 0.05) == seen_before


def test_the_profile_of_a_job_brings_it_to_the_dispatcher_while_it_runs() -> None:
    """Late, as from slow storage: what was seen meanwhile stays."""
    with fake.dispatcher("budget", LONG_LEASE) as running:
        client = FakeClient(running, 1, 1)
        client.describe(STEP, "step")
        running.set_profile(1, [profile_entry("step", MS // 10, 0)])
        live_through_segments(running, client)
        learnt = running.export_rhythm(1)
        running.set_profile(1, [profile_entry("step", MS // 10, 0)], GOOD)
        assert running.export_rhythm(1) == learnt
