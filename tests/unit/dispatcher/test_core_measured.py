"""What a run that times its every launch leaves to the runs after it."""

from __future__ import annotations

import pytest
from core_fake_client import LONG_LEASE, MS, FakeClient, dispatcher, eventually, now


@pytest.mark.parametrize(("policy", "measure"), [("budget", False), ("budget", True), ("paper", True)])
def test_where_the_host_of_a_timed_run_waits_says_nothing_of_an_untimed_one(policy: str, measure: bool) -> None:
    """Timing a launch takes the host longer than many a launch itself: the slack of such a segment is not there in the next run. What follows what
    is, and is learnt under every policy."""
    with dispatcher(policy, LONG_LEASE) as running:
        client = FakeClient(running, 1, 5, measure=measure)
        client.describe(1, "step")
        client.sample(1, MS // 100)
        for _ in range(6):
            client.launch(1, t_ns=now())
            client.launch(1, t_ns=now())
            client.drained()
            client.ring()
            assert eventually(lambda: client.read)
        learnt = running.export_rhythm(1)
        departed = running.take_client(1)
    assert bool(learnt["segments"]) is not measure
    assert bool(learnt["slacks"]) is not measure
    assert learnt["runs"]
    assert departed is not None
