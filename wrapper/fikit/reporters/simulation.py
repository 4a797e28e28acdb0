"""What a simulated policy did, for people."""

from __future__ import annotations

from collections.abc import Sequence

from fikitd.simulation.simulator import ARRIVALS, Outcome, Scenario
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from fikit.reporters.grid import Column, Grid
from fikit.wording import units

LABEL_WIDTH = 12
"""What a narrow terminal leaves of a policy's name."""


def comparison(outcomes: Sequence[Outcome], scenario: Scenario) -> Group:
    """Several policies beside each other, under the same conditions."""
    grid = Grid(
        [
            Column("policy", [Text(each.policy) for each in outcomes], LABEL_WIDTH),
            Column("high JCT", [units.ratio(each.high_jct_ratio) for each in outcomes], justify="right"),
            Column("high p99", [units.ratio(each.high_p99_ratio) for each in outcomes], goes=2, justify="right"),
            Column("harvest", [units.share(each.harvest, 1) for each in outcomes], justify="right"),
            Column("low JCT", [units.ratio(each.low_jct_ratio) for each in outcomes], goes=1, justify="right"),
            Column("granted", [units.count(each.grants) for each in outcomes], goes=3, justify="right"),
        ]
    )
    first = outcomes[0]
    return Group(
        Text(_jobs(scenario), style="bold"),
        grid,
        Text(
            f"JCT, p99: times alone. harvest: of what the high job leaves idle. {units.count(first.requests)} requests, {_arrivals(scenario)}."
        ),
        Text(_device(first, scenario), style="dim"),
    )


def _jobs(scenario: Scenario) -> str:
    return f"{scenario.high.name} (high) with {', '.join(low.name for low in scenario.lows)}"


def _arrivals(scenario: Scenario) -> str:
    load = ARRIVALS[scenario.arrivals]
    return "one after the other" if load is None else f"at random, {units.share(load)} load, seed {scenario.seed}"


def _device(outcome: Outcome, scenario: Scenario) -> str:
    return f"simulated: {outcome.device} ({scenario.device.origin}); a model, no claim about hardware"


def table(outcome: Outcome, scenario: Scenario) -> Table:
    """One simulation."""
    title = f"{outcome.policy}: {_jobs(scenario)}"
    result = Table(
        box=box.SIMPLE, show_header=False, title=Text(title, style="bold"), title_justify="left", pad_edge=False
    )
    result.add_column(style="dim", no_wrap=True)
    result.add_column()
    rows = [
        ("high job", f"{units.ratio(outcome.high_jct_ratio)} of its time alone, p99 of its requests "
                     f"{units.ratio(outcome.high_p99_ratio)}"),
        ("low jobs", f"{units.share(outcome.low_share, 1)} of the device's time, {units.ratio(outcome.low_jct_ratio)} of their time alone"),
        ("harvest", f"{units.share(outcome.harvest, 1)} of what the high job leaves idle"),
        ("requests", f"{units.count(outcome.requests)}, {_arrivals(scenario)}; {units.duration(outcome.span_ms / 1e3)} of device time"),
        ("kernels", f"{units.count(outcome.kernels)}, {units.count(outcome.grants)} of them granted one by one"),
        ("misprediction", f"{units.microseconds(outcome.mispredicted_us_p99)} (p99) between the predicted and the real duration of a kernel"),
        ("device", _device(outcome, scenario)),
    ]  # fmt: skip
    for name, value in rows:
        result.add_row(name, value)
    return result
