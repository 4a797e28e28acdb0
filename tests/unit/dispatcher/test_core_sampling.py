"""What samples of an unmeasured run teach, and which of them are not believed."""

from __future__ import annotations

from typing import Any

import core_fake_client as fake
import pytest
from core_fake_client import LONG_LEASE, MS, FakeClient, eventually, profile_entry
from fikitd._core import identify


def durations(running: fake.Dispatcher, client: int) -> dict[tuple[str, int], Any]:
    return {(k["name"], len(k["context"])): k["duration"] for k in running.export_profile(client)}


def test_samples_of_an_unmeasured_client_become_a_profile_with_their_contexts() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 5)
        for slot, name in ((1, "a"), (2, "b"), (3, "c")):
            client.describe(slot, name)
        client.sample(3, 500, (1, 2, 1))
        client.sample(3, 700, (2, 2, 2))
        client.sample(3, 50, (1, 2, 1), kind=fake.GAP)
        kernels = running.export_profile(1)
        contexts = {tuple(k["context"]): k["duration"]["mean_ns"] for k in kernels}
        assert contexts[()] == 600
        assert sorted(contexts.values()) == [500, 600, 700]
        assert sum(k["gap"]["count"] for k in kernels if k["context"]) == 1


def test_a_context_of_a_launch_that_nobody_described_is_no_context() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 5)
        client.describe(1, "a")
        client.sample(1, 500, (1, 9, 1))
        client.sample(1, 500, (1, 1))
        client.sample(1, 500, (1, 4095, 65535))
        assert list(durations(running, 1)) == [("a", 0)]


IDLE, DOUBTFUL = 1 << 48, 1 << 49  # FIKIT_TIMED_*: above the three slots, which they are no part of


@pytest.mark.parametrize("measure", [False, True])
def test_a_doubtful_time_stands_in_for_want_of_a_better_one_and_apart(measure: bool) -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 5, measure=measure)
        client.describe(1, "a")
        client.describe(2, "once")
        client.sample(1, 90_000, (2, 1, 1), how=DOUBTFUL)
        client.sample(2, 80_000, how=DOUBTFUL)
        assert eventually(lambda: client.knows(1) and client.knows(2))
        client.sample(1, 5000, (1, 1, 1), how=IDLE)
        client.sample(1, 5000, (1, 1, 1))
        found = [k for k in running.export_profile(1) if not k["context"]]
        kernels = {(k["name"], k.get("doubtful", False)): k["duration"] for k in found}
        assert all(k.get("beside", False) == k.get("doubtful", False) for k in found), "older readers know no doubt"
        assert kernels["a", False] == {**kernels["a", False], "count": 2, "mean_ns": 5000}
        assert kernels["a", True]["count"] == kernels["once", True]["count"] == 1
        assert ("once", False) not in kernels


def test_what_was_timed_before_the_description_came_counts_when_it_comes() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 5)
        for slot, ns in ((1, 500), (2, 900), (1, 700)):
            client.sample(slot, ns)
        client.sample(1, 50, kind=fake.GAP)
        assert running.export_profile(1) == []  # has read them all
        client.describe(1, "late")
        (kernel,) = running.export_profile(1)
        assert (kernel["name"], kernel["duration"]["count"], kernel["duration"]["mean_ns"]) == ("late", 2, 600)
        assert kernel["gap"]["count"] == 1
        client.sample(1, 600)
        client.describe(1, "late")
        assert durations(running, 1)["late", 0]["count"] == 3


def test_what_a_liar_says_of_kernels_that_it_never_describes_is_not_kept_without_end() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 5)
        for _ in range(3):
            for _ in range(fake.RING_ENTRIES // 2):
                client.sample(1, 500)
            assert running.export_profile(1) == []
        client.describe(1, "late")
        assert durations(running, 1)["late", 0]["count"] == fake.RING_ENTRIES


def test_a_sample_makes_the_kernel_predictable_at_once() -> None:
    with fake.dispatcher("paper", lease_ns=5000 * MS) as running:
        high, low = FakeClient(running, 1, 1), FakeClient(running, 2, 8)
        high.describe(1, "step")
        high.launch(1)
        request = low.ask()
        assert not eventually(lambda: low.granted(request), seconds=0.05)
        high.drained()
        assert eventually(lambda: low.granted(request))
        low.take(request)
        low.put(fake.DONE, 0, request)
        high.sample(1, 1 * MS)
        high.launch(1)
        request = low.ask()
        assert eventually(lambda: low.granted(request))  # no drain: the kernel's end is reckoned


def test_times_taken_beside_others_count_only_while_there_are_few() -> None:
    with fake.dispatcher("paper") as running:
        client, other = FakeClient(running, 1, 1), FakeClient(running, 2, 8)
        client.describe(1, "known")
        client.describe(2, "new")
        running.set_profile(1, [profile_entry("known", 1000, 500)])
        for _ in range(20):
            for slot in (1, 2):
                client.sample(slot, 3000)
                client.sample(slot, 9000, kind=fake.GAP)
        counts = {name: duration["count"] for (name, _), duration in durations(running, 1).items()}
        assert counts == {"new": 8}
        running.remove_client(other.number)
        client.drained()
        client.sample(1, 3000)  # of work before the drain
        client.drained()
        client.sample(1, 1000)
        counts = {name: duration["count"] for (name, _), duration in durations(running, 1).items()}
        assert counts == {"known": 1, "new": 8}
        client.launch(2)
        assert eventually(lambda: running.stats(1)["gpu_time_ns"] == 3000)
        assert running.stats(1)["beside"] == 1
        client.sample(2, 1000)
        apart = [(k["name"], k["duration"]["mean_ns"], k.get("beside")) for k in running.export_profile(1)]
        assert apart == [("known", 1000, None), ("new", 1000, None), ("new", 3000, True)]
        stats = running.remove_client(1)
        assert (stats["gpu_time_ns"], stats["beside"]) == (1000, 0), "one time alone says more than eight others"


def test_beside_a_client_whose_memory_is_away_a_client_is_alone() -> None:
    with fake.dispatcher("budget", LONG_LEASE) as running:
        client, other = FakeClient(running, 1, 8), FakeClient(running, 2, 8)
        client.describe(1, "k")

        def timed(ns: int) -> list[tuple[int, bool | None]]:
            client.drained()
            client.drained()  # what is sampled before the second has not run alone
            client.sample(1, ns)
            return [(k["duration"]["mean_ns"], k.get("beside")) for k in running.export_profile(1)]

        assert timed(3000) == [(3000, True)]
        running.send_away(2, 5000 * MS)
        running.send_away(1, 5000 * MS)
        running.send_away(1, 0)
        assert timed(1000) == [(1000, None), (3000, True)]
        running.send_away(2, 0)
        assert timed(9000) == [(1000, None), (6000, True)]
        assert other.number == 2


def test_a_doubtful_time_is_the_kernels_own_and_one_beside_others_is_not() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 1)
        client.describe(1, "loaded")
        client.sample(1, 2000, how=DOUBTFUL)
        client.launch(1)
        assert eventually(lambda: running.stats(1)["gpu_time_ns"] == 2000)
        other = FakeClient(running, 2, 8)
        client.sample(1, 7000)
        client.sample(1, 9000, how=DOUBTFUL)
        client.launch(1)
        assert eventually(lambda: running.stats(1)["kernels"] == 2)
        stats = running.stats(1)
        assert (stats["gpu_time_ns"], stats["doubtful"], stats["beside"]) == (4000, 2, 0)
        found = {k.get("doubtful", False): k["duration"] for k in running.export_profile(1) if not k["context"]}
        assert (found[True]["mean_ns"], found[False]["mean_ns"], found[False]["count"]) == (2000, 8000, 2)
        running.remove_client(other.number)
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 1)
        client.describe(1, "loaded")
        doubtful = {**profile_entry("loaded", 3000, 500), "beside": True, "doubtful": True}
        running.set_profile(1, [doubtful, {**profile_entry("loaded", 9000, 500), "beside": True}])
        client.launch(1)
        assert eventually(lambda: running.stats(1)["kernels"] == 1)
        stats = running.stats(1)
        assert (stats["gpu_time_ns"], stats["doubtful"], stats["beside"]) == (3000, 1, 0)


def test_a_profile_of_times_beside_others_predicts_but_says_no_span_alone_and_is_not_stored_again() -> None:
    with fake.dispatcher("paper") as running:
        client, _ = FakeClient(running, 1, 1), FakeClient(running, 2, 8)
        client.describe(1, "crowded")
        running.set_profile(1, [{**profile_entry("crowded", 3000, 500, count=8), "beside": True}])
        client.sample(1, 5000)
        client.launch(1)
        assert eventually(lambda: running.stats(1)["gpu_time_ns"] == 3000)
        assert running.stats(1)["span_alone_ns"] is None
        assert running.export_profile(1) == []


def test_a_kernel_that_comes_to_take_other_times_is_reported_and_predicted_anew() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 5)
        client.describe(1, "hot")
        running.set_profile(1, [profile_entry("hot", 1000, 500, count=100)])
        for ns in [1000] * 30 + [1400] * 60:
            client.sample(1, ns)
        client.launch(1)
        stats = running.remove_client(1)
        assert stats["drifted"] == 1
        assert stats["gpu_time_ns"] == 1400


def test_samples_do_not_change_what_a_run_is_compared_with() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 5)
        client.describe(1, "step")
        running.set_profile(1, [profile_entry("step", 1000, 500)])
        for _ in range(50):
            client.sample(1, 1200)
        client.launch(1)
        assert running.remove_client(1)["gpu_time_ns"] == 1000


def test_samples_say_how_long_a_first_run_used_the_gpu_but_not_how_long_it_would_take_alone() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 5)
        client.describe(1, "new")
        client.describe(2, "never timed")
        client.sample(1, 1200)
        for _ in range(99):
            client.launch(1)
        client.launch(2)
        eventually(lambda: running.stats(1)["gpu_time_ns"] == 99 * 1200)
        assert running.stats(1)["span_alone_ns"] is None
        client.launch(2)
        stats = running.remove_client(1)
        assert (stats["gpu_time_ns"], stats["untimed"], stats["beside"]) == (None, 2, 0)


def test_times_beside_others_are_no_drift_also_where_nothing_better_is_known_of_the_kernel_as_such() -> None:
    """A profile that knows it behind certain kernels only, as nobody stores it: then the first times beside others are taken."""
    with fake.dispatcher("paper") as running:
        client, _ = FakeClient(running, 1, 1), FakeClient(running, 2, 8)
        client.describe(1, "step")
        step = f"{identify('step', 7, (1, 1, 1), (64, 1, 1), 0):016x}"
        running.set_profile(1, [{**profile_entry("step", 1000, 500, count=100), "context": [step] * 3}])
        for _ in range(20):
            client.sample(1, 3000, (1, 1, 1))
        (kernel, *_) = running.export_profile(1)
        assert kernel["beside"]
        assert running.remove_client(1)["drifted"] == 0


def test_a_kernel_that_is_slow_beside_others_has_not_drifted() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 5)
        FakeClient(running, 2, 5)
        client.describe(1, "crowded")
        running.set_profile(1, [profile_entry("crowded", 1000, 500, count=100)])
        for ns in [1000] * 30 + [1400] * 60:
            client.sample(1, ns)
        assert running.remove_client(1)["drifted"] == 0
