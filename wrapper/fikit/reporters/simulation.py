"""What a simulated policy did, for people."""

from __future__ import annotations

from fikitd.simulator import ARRIVALS, Outcome, Scenario
from rich import box
from rich.table import Table
from rich.text import Text

from fikit.reporters import units


def table(outcome: Outcome, scenario: Scenario) -> Table:
    """One simulation."""
    title = f"{outcome.policy}: {scenario.high.name} (high) with {', '.join(low.name for low in scenario.lows)}"
    result = Table(
        box=box.SIMPLE, show_header=False, title=Text(title, style="bold"), title_justify="left", pad_edge=False
    )
    result.add_column(style="dim", no_wrap=True)
    result.add_column()
    load = ARRIVALS[scenario.arrivals]
    how = "one after the other" if load is None else f"at random, {load:.0%} load, seed {scenario.seed}"
    rows = [
        ("high job", f"{units.ratio(outcome.high_jct_ratio)} of its time alone, p99 of its requests "
                     f"{units.ratio(outcome.high_p99_ratio)}"),
        ("low jobs", f"{outcome.low_share:.1%} of the device's time, {units.ratio(outcome.low_jct_ratio)} of their time alone"),
        ("harvest", f"{outcome.harvest:.1%} of what the high job leaves idle"),
        ("requests", f"{units.count(outcome.requests)}, {how}; {units.duration(outcome.span_ms / 1e3)} of device time"),
        ("kernels", f"{units.count(outcome.kernels)}, {units.count(outcome.grants)} of them granted one by one"),
        ("misprediction", f"p99 {units.microseconds(outcome.mispredicted_us_p99)} of a kernel's duration"),
        ("device", "emulated: a model in manual time, no claim about hardware"),
    ]  # fmt: skip
    for name, value in rows:
        result.add_row(name, value)
    return result
