"""`fikit sim`: what a policy would do, on recorded timelines and the emulated device model, in no time."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from fikitd.config import SchedulerConfig

from fikit.errors import UserError, did_you_mean
from fikit.quantities import nanoseconds, share
from fikit.reporters import json, simulation, table
from fikitd import simulator

_TRACE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--high", required=True, metavar="TRACE", type=_TRACE, help="Recording of the high-priority job.")
@click.option(
    "--low", "lows", required=True, multiple=True, metavar="TRACE", type=_TRACE,
    help="Recording of a low-priority job, which repeats it for ever; may be given several times.",
)  # fmt: skip
@click.option(
    "--policy", default=SchedulerConfig.policy, show_default=True, metavar="NAME",
    help=f"One of {', '.join(simulator.POLICIES)}.",
)  # fmt: skip
@click.option(
    "--arrivals", type=click.Choice(list(simulator.ARRIVALS)), default="closed", show_default=True,
    help="Requests of the high job (a request is one pass through its recording): one after the other, or at random "
    "times with 30 or 70 % of what it could serve alone.",
)  # fmt: skip
@click.option(
    "--max-slowdown", callback=share, default="5%", show_default=True, metavar="SHARE",
    help="How much longer the high job may take because of the low ones; for the policies budget and oracle.",
)  # fmt: skip
@click.option(
    "--max-delay", callback=nanoseconds, metavar="TIME",
    help="The longest single delay of the high job, as 200us or 1.5ms; default: any. For budget and oracle.",
)  # fmt: skip
@click.option(
    "--requests", type=click.IntRange(1, 10_000_000), help="So many requests; default: two seconds of the high job."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the random arrivals.")
@click.option("--cold", is_flag=True, help="Without profiles; by default each job was measured alone before.")
@click.option("--json", "as_json", is_flag=True, help="One object; times in the units of their names.")
def command(  # noqa: PLR0917
    high: Path, lows: tuple[Path, ...], policy: str, arrivals: str, max_slowdown: float, max_delay: int | None,
    requests: int | None, seed: int, cold: bool, as_json: bool,
) -> None:  # fmt: skip
    """What POLICY does to a high-priority job and to low ones, all of them recorded timelines (*.csv.gz).

    Nothing runs on a GPU: the device is the emulated one's model, in manual time. The same command prints the same numbers.
    """
    if policy not in simulator.POLICIES:
        near = did_you_mean(policy, simulator.POLICIES) or f"; use one of {', '.join(simulator.POLICIES)}"
        raise click.UsageError(f'there is no policy "{policy}"{near}')
    try:
        scenario = simulator.Scenario(
            simulator.load(high), [simulator.load(low) for low in lows], arrivals, seed, requests, cold,
            max_slowdown, max_delay,
        )  # fmt: skip
        outcome = simulator.simulate(scenario, policy)
    except simulator.SimulatorError as error:
        raise UserError(str(error)) from error
    if as_json:
        json.emit(asdict(outcome) | {"arrivals": arrivals, "seed": seed, "emulated": True})
    else:
        table.show(simulation.table(outcome, scenario))
