"""The dispatcher thread against clients that behave."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import core_fake_client as fake
import pytest
from core_fake_client import LEASE, LONG_LEASE, MS, FakeClient, eventually, now, profile_entry
from fikitd._core import MAX_CLIENTS, identify


def test_a_lower_client_is_closed_before_add_client_returns_and_opened_when_the_higher_leaves() -> None:
    with fake.dispatcher("paper") as running:
        low = FakeClient(running, 1, 8)
        assert not low.closed
        FakeClient(running, 2, 1)
        assert low.closed
        assert low.page.gate_until_ns > now()
        running.remove_client(2)
        assert not low.closed


def test_every_change_moves_the_futex_word() -> None:
    with fake.dispatcher("paper") as running:
        low = FakeClient(running, 1, 8)
        before = low.page.wake
        FakeClient(running, 2, 1)
        assert low.page.wake > before
        before = low.page.wake
        low.pass_gate()
        assert low.page.wake > before


def test_stop_leaves_every_gate_open() -> None:
    with fake.dispatcher("prio") as running:
        low, _ = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        assert low.closed
        running.stop()
        assert not low.closed
        with pytest.raises(RuntimeError, match="stopped"):
            FakeClient(running, 3, 1)


def test_the_lease_of_a_closed_gate_is_renewed_well_before_it_ends() -> None:
    with fake.dispatcher("paper", lease_ns=200 * MS) as running:
        low, _ = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        for _ in range(4):
            until = low.page.gate_until_ns
            assert eventually(lambda until=until: low.page.gate_until_ns > until)
            assert low.page.gate_until_ns > now()


def test_no_request_is_lost_between_a_doorbell_and_a_dispatcher_that_falls_asleep() -> None:
    with fake.dispatcher("paper", LONG_LEASE, spin_ns=0) as running:
        low, _ = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        for i in range(300):
            time.sleep((i % 7) * 0.0003)  # meets the dispatcher polling, falling asleep and asleep
            started = now()
            request = low.ask()
            assert eventually(lambda request=request: low.granted(request))
            assert now() - started < LONG_LEASE / 5, "only the renewal of the lease woke it"
            low.take(request)
            low.put(fake.DONE, 0, request)


def test_a_busy_higher_client_holds_a_lower_one_until_it_drains() -> None:
    with fake.dispatcher("prio") as running:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        high.launch()
        request = low.ask()
        time.sleep(0.02)  # no condition to wait for: it must NOT happen
        assert not low.granted(request)
        high.drained()
        assert eventually(lambda: low.granted(request))


def test_a_partial_drain_does_not_free_the_device() -> None:
    with fake.dispatcher("prio") as running:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        high.launch()
        high.launch()
        high.put(fake.DRAINED, value=1)
        request = low.ask()
        time.sleep(0.02)
        assert not low.granted(request)
        high.drained()
        assert eventually(lambda: low.granted(request))


def test_a_higher_client_that_falls_silent_with_unknown_work_holds_others_for_about_a_lease() -> None:
    with fake.dispatcher("paper") as running:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        high.launch()
        launched = now()
        request = low.ask()
        assert eventually(lambda: low.granted(request))
        assert LEASE * 0.9 < now() - launched < 5 * LEASE


def fill_a_gap_of_80_ms() -> tuple[dict[str, Any], int]:
    """One gap with a request that is too long for it and two that fit; the high client's figures, and how long it was."""
    with fake.dispatcher("paper") as running:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        for client in (low, high):
            client.describe(1, "long" if client is low else "step")
            client.describe(2, "short")
        running.set_profile(2, [profile_entry("step", 100_000, 80 * MS)])
        running.set_profile(1, [profile_entry("long", 90 * MS, 0), profile_entry("short", MS, 0)])
        began = now()
        high.launch(slot=1)
        request = low.ask(slot=1)
        time.sleep(0.01)
        granted = low.granted(request)
        low.page.waiting = 0
        low.pass_gate(slot=2)
        low.pass_gate(slot=2)
        took = now() - began
        high.launch(slot=1)
        assert not granted or took > 40 * MS, "longer than the gap"
        assert eventually(lambda: running.stats(2)["gaps_offered"] == 1 or took > 40 * MS)
        return running.stats(2), took


def test_a_predicted_gap_is_filled_with_what_fits_and_the_books_say_so() -> None:
    for _ in range(10):  # a busy machine may take longer than the gap for it
        stats, took = fill_a_gap_of_80_ms()
        if took < 40 * MS:
            break
    assert (stats["gaps_filled"], stats["others_kernels"]) == (1, 2)
    assert stats["predicted_gap_ns"] == pytest.approx(80 * MS, rel=0.13)  # a bucket's width
    assert 0 < stats["actual_gap_ns"] < 80 * MS
    error = abs(stats["predicted_gap_ns"] - stats["actual_gap_ns"])
    assert error * 0.85 < stats["gap_error_p50_ns"] < error * 1.15


def test_a_request_that_the_gate_opened_for_counts_anew_if_it_closes_again() -> None:
    with fake.dispatcher("prio") as running:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        high.launch()
        request = low.ask()
        assert eventually(lambda: any(entry["by"] == 2 for entry in running.stats(1)["held"])), "it has been seen"
        running.remove_client(2)
        FakeClient(running, 3, 1)
        assert low.closed
        assert eventually(lambda: low.granted(request))


def test_a_measuring_client_is_open_and_its_samples_become_a_profile_with_context() -> None:
    with fake.dispatcher("paper") as running:
        measured = FakeClient(running, 1, 9, measure=True)
        FakeClient(running, 2, 0)
        assert not measured.closed
        for slot, name in ((1, "a"), (2, "b")):
            measured.describe(slot, name)
        launched: tuple[int, ...] = ()
        for slot, ns in ((1, 100), (1, 100), (1, 100), (2, 700), (1, 100), (1, 100), (1, 100), (2, 900)):
            measured.launch(slot)
            measured.sample(slot, ns, launched[-3:])
            measured.sample(slot, 50, launched[-3:], kind=fake.GAP)
            launched += (slot,)
        measured.drained()
        kernels = {(k["name"], len(k["context"])): k for k in running.export_profile(1)}
        assert kernels["b", 0]["duration"]["count"] == kernels["b", 3]["duration"]["count"] == 2
        assert kernels["b", 3]["duration"]["mean_ns"] == 800
        assert kernels["a", 0]["gap"]["mean_ns"] == 50
        stats = running.remove_client(1)
        assert stats["kernels"] == 8
        assert stats["gpu_time_ns"] == 6 * 100 + 700 + 900
        assert stats["span_alone_ns"] == stats["gpu_time_ns"] + 8 * 50


def test_span_alone_is_unknown_without_a_profile_and_exact_with_one() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 5)
        client.describe(1, "step")
        for _ in range(10):
            client.launch(1)
        client.ring()
        assert eventually(lambda: client.read), "without a profile: with one, pauses of the host would count, too"
        assert running.stats(1)["gpu_time_ns"] is None
        running.set_profile(1, [profile_entry("step", 1000, 500)])
        stats = running.stats(1)
        assert (stats["gpu_time_ns"], stats["span_alone_ns"]) == (10_000, 15_000)
        client.launch(3)  # never described: a tenth of the work is unknown
        assert running.stats(1)["span_alone_ns"] is None


def test_what_is_not_known_to_be_complete_may_have_used_the_gpu_until_now() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 5)
        for _ in range(10):
            client.launch(1)
        client.drained()
        done = running.remove_client(1)
        client = FakeClient(running, 2, 5)
        client.launch(1)
        client.drained()
        for _ in range(9):
            client.launch(1)
        begun_ns = client.page.first_launch_ns
        left = running.remove_client(2)
    assert (done["unfinished"], done["under_way_ns"]) == (0, done["span_ns"])
    assert done["span_ns"] > 0
    assert left["unfinished"] == 9
    assert left["span_ns"] < left["under_way_ns"] <= now() - begun_ns


def test_span_alone_is_that_of_the_kernels_in_their_contexts_with_the_gaps_that_were_passed() -> None:
    slow = {"context": [f"{identify('step', 7, (1, 1, 1), (64, 1, 1), 0):016x}"] * 3}
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 5)
        client.describe(1, "step")
        client.describe(2, "last")
        profile = [
            profile_entry("step", 1_000, 500),
            profile_entry("last", 20_000, 700),
            {**profile_entry("last", 80_000, 900), **slow},  # after three steps it takes four times as long
        ]
        running.set_profile(1, profile)
        begin = now()
        time.sleep(0.02)
        client.page.first_launch_ns = begin
        moment = begin
        for slot, pause_ns in ((2, 0), (1, 0), (1, 0), (1, 0), (2, 5 * MS), (1, 0)):
            client.launch(slot, t_ns=moment)
            moment += 100_000 + pause_ns
        stats = running.remove_client(1)
    assert stats["gpu_time_ns"] == 20_000 + 3 * 1_000 + 80_000 + 1_000
    # No gap after the newest launch, and none where the next request began.
    assert stats["span_alone_ns"] == stats["gpu_time_ns"] + 700 + 3 * 500


def test_a_pause_of_about_a_boundary_is_left_out_of_span_and_span_alone_alike() -> None:
    """Alone it took 1.1 ms each time, now 0.9 ms: a job that was not delayed at all has not taken longer."""
    paused = profile_entry("last", 20_000, 0)
    paused |= {
        "boundary": profile_entry("last", 1_100_000, 0)["duration"],
        "gap": {**paused["gap"], "count": 0, "histogram": {}},
    }
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 5)
        client.describe(1, "step")
        client.describe(2, "last")
        running.set_profile(1, [profile_entry("step", 10_000, 50_000), paused])
        begin = now()
        time.sleep(0.02)
        client.page.first_launch_ns = begin
        moment = begin
        for _ in range(10):
            client.launch(1, t_ns=moment)
            client.launch(2, t_ns=moment + 60_000)
            moment += 60_000 + 20_000
            client.page.last_drained_ns = moment
            moment += 900_000
        stats = running.remove_client(1)
    assert stats["span_alone_ns"] == 10 * (10_000 + 50_000 + 20_000)
    assert stats["span_ns"] == stats["span_alone_ns"]


def test_waits_and_span_are_those_of_the_page() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 5)
        client.page.wait_count, client.page.wait_total_ns, client.page.expired_count = 100, 5000, 3
        client.page.wait_histogram[4], client.page.wait_histogram[10] = 98, 2
        client.page.first_launch_ns, client.page.last_drained_ns = 1000, 51000
        stats = running.stats(1)
        assert (stats["wait_count"], stats["wait_total_ns"], stats["expired"]) == (100, 5000, 3)
        assert 1024 <= stats["wait_p99_ns"] <= 2048
        assert stats["span_ns"] == 50_000


@pytest.mark.parametrize("waits", [[1_000_000_000], [9_999_000_000, 16_000], [600, 600, 600, 1100]])
def test_no_wait_of_a_report_is_longer_than_those_that_there_were(waits: list[int]) -> None:
    with fake.dispatcher("paper") as running:
        page = FakeClient(running, 1, 5).page
        page.wait_count, page.wait_total_ns = len(waits), sum(waits)
        for wait in waits:
            page.wait_histogram[wait.bit_length() - 1] += 1
        assert max(waits) / 2 <= running.stats(1)["wait_p99_ns"] <= 1.3 * max(waits)
        if len(waits) == 1:
            assert running.stats(1)["wait_p99_ns"] == waits[0]


def test_boundaries_count_neither_as_span_nor_as_gaps() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 5, measure=True)
        client.describe(1, "step")
        begin = now()
        time.sleep(0.07)  # reports from before the client came, or from the future, are not believed
        client.page.first_launch_ns = begin
        client.launch(1, t_ns=begin)
        client.put(fake.DRAINED, value=1, t_ns=begin + 1 * MS)
        client.launch(1, t_ns=begin + 1 * MS + MS // 2)  # a gap of 0.5 ms
        client.put(fake.DRAINED, value=2, t_ns=begin + 12 * MS)
        client.launch(1, t_ns=begin + 67 * MS)  # the next request, after 55 ms
        client.put(fake.DRAINED, value=3, t_ns=begin + 68 * MS)
        client.page.last_drained_ns = begin + 68 * MS
        for gap_ns in (MS // 2, 55 * MS):
            client.put(fake.SAMPLE, 1, 1 * MS)
            client.put(fake.GAP, 1, gap_ns)
        (kernel,) = [entry for entry in running.export_profile(1) if not entry["context"]]
        assert (kernel["gap"]["count"], kernel["gap"]["mean_ns"]) == (1, MS // 2)
        assert (kernel["boundary"]["count"], kernel["boundary"]["mean_ns"]) == (1, 55 * MS)
        assert running.stats(1)["span_ns"] == 13 * MS


def test_a_pause_counts_once_where_the_gate_opens_instead_of_a_grant() -> None:
    with fake.dispatcher("paper") as running:
        low = FakeClient(running, 1, 8)
        low.launch()
        time.sleep(0.02)
        low.drained()
        time.sleep(0.05)  # the pause
        high = FakeClient(running, 2, 1)
        high.launch()
        low.ask()
        assert eventually(lambda: running.stats(1)["held"])  # it was heard
        assert not low.granted(low.page.request_seq)
        running.remove_client(2)
        assert not low.closed
        low.page.waiting = 0
        low.launch()
        low.drained()
        assert eventually(lambda: low.read)
        assert running.stats(1)["span_ns"] >= 20 * MS


def test_a_dispatcher_that_has_nothing_to_decide_uses_no_processor_time() -> None:
    with fake.dispatcher("paper") as running:
        FakeClient(running, 1, 1)
        low = FakeClient(running, 2, 8)
        assert eventually(lambda: not low.page.awake)
        before = time.process_time()
        time.sleep(0.5)
        assert time.process_time() - before < 0.02  # this thread sleeps, so all of it is the dispatcher's


def test_clients_come_and_go_from_many_threads() -> None:
    failures = []
    with fake.dispatcher("paper") as running:

        def come_and_go(first: int) -> None:
            try:
                for number in range(first, first + 20):
                    client = FakeClient(running, number, number % 10)
                    client.launch()
                    client.drained()
                    assert running.remove_client(number)["kernels"] == 1
                    os.close(client.doorbell)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=come_and_go, args=(100 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with pytest.raises(IndexError):
            running.stats(100)
    assert failures == []


def test_one_client_too_many_is_an_error_and_changes_nothing() -> None:
    with fake.dispatcher("paper") as running:
        clients = [FakeClient(running, number, 5) for number in range(MAX_CLIENTS)]
        with pytest.raises(RuntimeError, match="already has"):
            FakeClient(running, MAX_CLIENTS, 0)
        assert not any(client.closed for client in clients)
        with pytest.raises(ValueError, match="in use"):
            FakeClient(running, 0, 0)
        for client in clients:
            os.close(client.doorbell)


def test_a_priority_that_is_changed_moves_the_gates_and_what_stood_there_goes_on() -> None:
    with fake.dispatcher("prio") as running:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        high.launch()
        request = low.ask()
        assert eventually(lambda: any(entry["by"] == 2 for entry in running.stats(1)["held"])), "it has been seen"
        running.set_priority(1, 0)
        assert not low.closed
        assert high.closed
        low.launch()
        waits = high.ask()
        running.set_priority(1, 8)
        assert low.closed
        assert not high.closed
        assert not high.granted(waits), "its gate was opened for it"
        high.drained()
        again = low.ask()
        assert again != request
        assert eventually(lambda: low.granted(again))


def test_a_priority_that_cannot_be_is_refused() -> None:
    with fake.dispatcher("prio") as running:
        FakeClient(running, 1, 8)
        FakeClient(running, 2, 1, measure=True)
        for client, priority, why in ((1, 10, "0 .highest. to 9"), (2, 3, "measures"), (7, 3, "client")):
            with pytest.raises((ValueError, IndexError, KeyError), match=why):
                running.set_priority(client, priority)


def test_priorities_change_while_clients_ask_and_nobody_is_left_at_a_gate() -> None:
    with fake.dispatcher("budget", lease_ns=20 * MS) as running:
        clients = [FakeClient(running, number, 8) for number in (1, 2, 3)]
        for round_ in range(60):
            running.set_priority(1 + round_ % 3, round_ % 10)
            for client in clients:
                if client.closed:
                    request = client.ask()
                    assert eventually(lambda c=client, r=request: not c.closed or c.granted(r)), f"round {round_}"
                    if client.granted(request):
                        client.pass_gate()
                else:
                    client.launch()
                    client.drained()
