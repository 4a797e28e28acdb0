"""What every policy has to show, in pairs: the high job is protected **and** the low one is not starved.

One without the other says nothing: whoever protects by starving, or feeds by hurting, shows it in one of the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fikitd.simulation.simulator import MPS, SLICES, Device, Outcome, PolicyFile, Scenario, load_policy, simulate

DEVICES = (SLICES, MPS)


@dataclass(frozen=True)
class Claim:
    """The JCT ratio of the high job is at most `high_jct_ratio`, and of what it leaves idle the low one uses more than `harvest`."""

    high_jct_ratio: float
    harvest: float

    def check(self, outcome: Outcome) -> None:
        """Raises AssertionError that says which half does not hold."""
        where = f"{outcome.policy} on {outcome.device}"
        assert outcome.high_jct_ratio <= self.high_jct_ratio, (
            f"{where}: the high job takes {outcome.high_jct_ratio:.3f} times as long as alone, not {self.high_jct_ratio}"
        )
        assert outcome.harvest > self.harvest, (
            f"{where}: the low job is starved: harvest {outcome.harvest:.3f}, not {self.harvest}"
        )


def outcome(policy: str | Path, scenario: Scenario) -> Outcome:
    """Of a policy by its name, or in a Python file."""
    chosen: str | PolicyFile = load_policy(str(policy)) if isinstance(policy, Path) else policy
    return simulate(scenario, chosen)


def protects_and_feeds(
    policy: str | Path, scenario: Scenario, *, high_jct_ratio: float, harvest: float, devices: Sequence[Device] = ()
) -> None:
    """On each of these devices, or on the scenario's."""
    for device in devices or (scenario.device,):
        Claim(high_jct_ratio, harvest).check(outcome(policy, replace(scenario, device=device)))


def lies_between(
    policy: str | Path,
    scenario: Scenario,
    *,
    protects_more_than: str,
    feeds_more_than: str,
    devices: Sequence[Device] = (),
) -> None:
    """The high job is better off than under one policy, **and** the low one than under another, on each of these devices."""
    for device in devices or (scenario.device,):
        here = replace(scenario, device=device)
        less = math.nextafter(outcome(protects_more_than, here).high_jct_ratio, 0)
        Claim(high_jct_ratio=less, harvest=outcome(feeds_more_than, here).harvest).check(outcome(policy, here))
