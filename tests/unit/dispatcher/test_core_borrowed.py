"""What runs of the same program with other arguments have taught: used at once, trusted when the run itself has timed the kernel."""

from __future__ import annotations

from typing import Any

import core_fake_client as fake
import pytest
from core_fake_client import MS, FakeClient, eventually, profile_entry
from fikitd._core import bucket_of, pack_profile, unpack_profile

SHORT, LONG = 20 * MS, 200 * MS  # gaps


def entry(name: str = "step", duration_ns: int = 1 * MS, **more: Any) -> dict[str, Any]:
    return {**profile_entry(name, duration_ns, 500), "borrowed": True, **more}


def gap_that_varies() -> dict[str, Any]:
    histogram = {str(bucket_of(SHORT)): 2, str(bucket_of(LONG)): 8}
    return {"count": 10, "mean_ns": 0.2 * SHORT + 0.8 * LONG, "m2": 0.0, "histogram": histogram}


def predicted_gap(running: fake.Dispatcher, high: FakeClient) -> float:
    before = running.stats(1)
    high.launch(1)
    high.drained()
    high.launch(1)
    assert eventually(lambda: running.stats(1)["gaps_offered"] > before["gaps_offered"])
    after = running.stats(1)
    return float(after["predicted_gap_ns"] - before["predicted_gap_ns"]) / (
        after["gaps_offered"] - before["gaps_offered"]
    )


def test_a_borrowed_kernel_is_known_and_counted_apart() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 1)
        for slot, name in ((1, "step"), (2, "mine"), (3, "new")):
            client.describe(slot, name)
        running.set_profile(1, [entry(), profile_entry("mine", 3000, 500), entry("never launched")])
        assert eventually(lambda: client.knows(1) and client.knows(2))
        assert not client.knows(3)
        for slot in (1, 1, 2, 3):
            client.launch(slot)
        assert eventually(lambda: running.stats(1)["kernels"] == 4)
        stats = running.stats(1)
        assert (stats["distinct"], stats["distinct_profiled"], stats["distinct_borrowed"]) == (3, 1, 1)
        assert running.export_profile(1) == [], "it was not measured here"


@pytest.mark.parametrize(
    ("ns", "believed"), [(1 * MS, True), (int(1.25 * MS), True), (3 * MS, False), (MS // 3, False)]
)
def test_one_time_of_its_own_confirms_what_was_borrowed_or_ends_it(ns: int, believed: bool) -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 1)
        client.describe(1, "step")
        running.set_profile(1, [entry()])
        client.sample(1, ns)
        client.launch(1)
        assert eventually(lambda: running.export_profile(1) and running.stats(1)["kernels"] == 1)
        stats = running.stats(1)
        assert stats["distinct_borrowed"] == int(believed)
        assert stats["gpu_time_ns"] == pytest.approx(1 * MS if believed else ns)
        assert (stats["span_alone_ns"] is None) is not believed


def test_a_doubtful_time_neither_confirms_nor_ends_it() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 1)
        client.describe(1, "step")
        running.set_profile(1, [entry(gap=gap_that_varies())])
        client.sample(1, 90 * MS, how=1 << 49)
        assert predicted_gap(running, client) == pytest.approx(SHORT, rel=0.13)
        assert running.stats(1)["distinct_borrowed"] == 1


def test_of_borrowed_gaps_only_what_nearly_all_outlast_is_counted_on_until_the_kernel_was_timed() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 1)
        client.describe(1, "step")
        running.set_profile(1, [entry(gap=gap_that_varies())])
        assert predicted_gap(running, client) == pytest.approx(SHORT, rel=0.13)
        client.sample(1, 1 * MS)
        assert predicted_gap(running, client) > 2 * SHORT


def test_a_profile_that_is_chosen_again_does_not_doubt_what_was_timed_already() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 1)
        client.describe(1, "step")
        client.sample(1, 1 * MS)
        running.set_profile(1, [entry(gap=gap_that_varies())])
        assert predicted_gap(running, client) > 2 * SHORT


def test_a_profile_that_is_chosen_again_is_compared_with_what_was_timed_already() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 1)
        client.describe(1, "step")
        client.sample(1, 3 * MS)
        client.launch(1)
        assert eventually(lambda: running.export_profile(1) and running.stats(1)["kernels"] == 1)
        running.set_profile(1, [entry()])
        stats = running.stats(1)
        assert (stats["distinct_borrowed"], stats["gpu_time_ns"]) == (0, pytest.approx(3 * MS))


def test_it_survives_packing() -> None:
    packed = pack_profile([entry(), profile_entry("mine", 3000, 500)], {}, 2**20)
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 1)
        client.describe(1, "step")
        client.describe(2, "mine")
        running.use_profile(1, packed)
        client.launch(1)
        client.launch(2)
        assert eventually(lambda: running.stats(1)["kernels"] == 2)
        stats = running.stats(1)
        assert (stats["distinct_profiled"], stats["distinct_borrowed"]) == (1, 1)
    names = {k["name"] for k in unpack_profile(pack_profile([entry()], {}, 2**20, names=True))[0]}
    assert names == {"step"}
