"""The policy `budget`: the high job is protected and the low one is not starved, whatever a change between them costs; and what
it takes lower work to cost, in manual time."""

from __future__ import annotations

import pytest
from claims import protects_and_feeds
from decisions import grants
from fikitd._core import Policy
from fikitd.simulation import simulator
from fikitd.simulation.simulator import MPS, Device, Scenario

from bench import recordings

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HIGH, LOW = 1, 2
SLOW_SWITCH = Device("slices", switch_ns=200 * US)


def shared(arrivals: str = "closed", device: Device = SLOW_SWITCH) -> Scenario:
    """Made-up inference above made-up training."""
    high = simulator.parse("inference", recordings.inference(1).text().decode())
    low = simulator.parse("training", recordings.training(1).text().decode())
    return Scenario(high, [low], arrivals, requests=100, device=device)


@pytest.mark.takes_seconds
@pytest.mark.parametrize("arrivals", ["closed", "open30"])
@pytest.mark.parametrize("device", [Device("slices", switch_ns=20 * US), SLOW_SWITCH, MPS], ids=str)
def test_the_high_job_is_protected_and_the_low_one_fed(arrivals: str, device: Device) -> None:
    protects_and_feeds("budget", shared(arrivals, device), high_jct_ratio=1.05, harvest=0.2)


class Below:
    """A low job below a high one whose segments are a kernel and a wait."""

    def __init__(self, idle: int, ageing: int = 1000 * S) -> None:
        self.policy = Policy("budget", starvation_timeout_ns=ageing)
        self.now = 0
        self.requests = 0
        self.idle = idle
        for client, priority in ((HIGH, 1), (LOW, 8)):
            self.policy.event("client_added", client, 0, priority=priority)

    def segment(self, work: int, late: int = 0) -> None:
        """It waits at once, and for so much longer than alone."""
        self.policy.event("launched", HIGH, self.now, duration_ns=work, slack_ns=[0])
        began, self.now = self.now, self.now + work + late
        self.policy.event(
            "drained", HIGH, self.now, began_ns=began, duration_ns=0, span_ns=work, slack_ns=[0], idle_ns=[self.idle]
        )  # fmt: skip

    def asks(self, length: int) -> bool:
        """The low job: does its kernel go? If not, it asks again another time."""
        self.requests += 1
        went = LOW in grants(self.policy.event("waiting", LOW, self.now, request=self.requests, duration_ns=length))
        if went:
            self.policy.event("launched", LOW, self.now, granted=True, request=self.requests, duration_ns=length)
        else:
            self.policy.event("waiting_ended", LOW, self.now, request=self.requests)
        return went

    def done(self) -> None:
        self.policy.event("grant_done", LOW, self.now, request=self.requests)


def test_below_a_client_that_nobody_knows_lower_work_waits_for_the_word_that_other_lower_work_is_over() -> None:
    """Its end may say that the device is far behind: a client with several streams gives no marks."""
    below = Below(idle=MS)
    below.policy.event("launched", HIGH, 0, duration_ns=10 * US, slack_ns=[S])
    below.now = 50 * US
    assert below.asks(10 * US)
    below.now += 20 * US
    below.done()  # it says when its work is over
    assert below.asks(50 * US)
    first = below.requests
    below.now += 500 * US
    assert not below.asks(50 * US)
    below.policy.event("grant_done", LOW, below.now, request=first)
    below.now += 50 * US
    assert below.asks(50 * US)


def test_a_client_that_has_stayed_away_for_long_is_feared_less() -> None:
    """Its waits ended late, and nobody had foreseen it. Soon after one nothing goes; after ten seconds it does."""
    went = {}
    for away in (2 * MS, 10 * S):
        below = Below(idle=MS)
        for _ in range(20):
            if below.asks(MS):
                below.now += MS
                below.done()
            below.segment(10 * MS, late=MS)
            below.now += 100 * US
        below.now += away
        went[away] = below.asks(MS)
    assert went == {2 * MS: False, 10 * S: True}
