"""`fikit sim`: what a policy would do, on recorded timelines and the emulated device model, in no time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
from fikitd.config.fikit_toml import SchedulerConfig
from fikitd.simulation import simulator

from fikit import jobs_known
from fikit.errors import UserError, did_you_mean, write
from fikit.options import policy_name
from fikit.options.numbers import Number, Whole
from fikit.options.quantities import nanoseconds, share
from fikit.recordings import source
from fikit.reporters import json, simulation, table
from fikit.reporters import picture as svg
from fikit.stored import played
from fikit.wording import units
from fikit.wording.line import say

ALL = "all"
NOTHING = 0.01  # of harvest: what had been launched before the gate was closed


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--high", metavar="RECORDING",
    help="Recording of the high-priority job: a file of fikit's (fikit trace --recording), of PyTorch's profiler (JSON) or of Nsight Systems "
    f"(SQLite), or one that comes with fikit: {', '.join(source.SHIPPED)}.",
)  # fmt: skip
@click.option(
    "--low", "lows", multiple=True, metavar="RECORDING",
    help="Recording of a low-priority job, which repeats it for ever; may be given several times.",
)  # fmt: skip
@click.option(
    "--job", metavar="JOBID", help="Instead of --high a job of yours, as its stored trace has it; it runs once."
)
@click.option(
    "--with", "others", multiple=True, metavar="JOBID",
    help="Instead of --low a job of yours, as its stored trace has it; may be given several times.",
)  # fmt: skip
@click.option("--user", metavar="USER", help="Jobs of this user's; for root.")
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.svg",
    help="Also as a picture, of one policy.",
)
@click.option(
    "--policy", "policies", multiple=True, default=[SchedulerConfig.policy], show_default=True, metavar="NAME|FILE.py",
    help=f"One of {', '.join(simulator.POLICIES)}; all: each of these that the device can have; or your own, in Python "
    "(FILE.py, or FILE.py:CLASS where there are several). May be given several times, to compare.",
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
    "--requests",
    type=Whole(1, 10_000_000),
    metavar="NUMBER",
    help="So many requests; default: two seconds of the high job.",
)
@click.option(
    "--device", default="slices", show_default=True, metavar="DEVICE",
    help="slices: a GPU without MPS, whose jobs take turns; mps: kernels of all jobs overlap; h200: slices as measured on an NVIDIA H200; or a FILE: an emulated GPU's profile.",
)  # fmt: skip
@click.option(
    "--slice", "slice_ns", callback=nanoseconds, metavar="TIME",
    help=f"How long a turn lasts; default: {simulator.SLICES.slice_ns // 1000}us. For slices.",
)  # fmt: skip
@click.option(
    "--switch", "switch_ns", callback=nanoseconds, metavar="TIME",
    help=f"What a change of turns costs; default: {simulator.SLICES.switch_ns // 1000}us, which is assumed. For slices.",
)  # fmt: skip
@click.option(
    "--mps-model", type=click.Choice(simulator.MPS_MODELS),
    help="What kernels do that do not fit beside each other: all slow down in proportion (default), or by admission one waits for room. For mps.",
)  # fmt: skip
@click.option(
    "--overlap", type=Number(1, 100), metavar="TIMES",
    help="How many times as long kernels take while others' run beside them; default: 1. For mps.",
)  # fmt: skip
@click.option("--seed", type=int, metavar="NUMBER", default=1, show_default=True, help="Of the random arrivals.")
@click.option("--cold", is_flag=True, help="Without profiles; by default each job was measured alone before.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="One object; times in the units of their names; of several policies it has a list.",
)
def command(  # noqa: PLR0917
    high: str | None, lows: tuple[str, ...], job: str | None, others: tuple[str, ...], user: str | None, picture: Path | None, policies: tuple[str, ...], arrivals: str, max_slowdown: float, max_delay: int | None,
    device: str, slice_ns: int | None, switch_ns: int | None, mps_model: str | None, overlap: float | None, requests: int | None, seed: int, cold: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """What a policy does to a high-priority job and to low ones: recorded timelines (--high inference --low training), or jobs of yours (--job 12 --with 18).

    Nothing runs on a GPU: the device is a model of a GPU, in simulated time. The same command prints the same numbers.
    """
    try:
        gpu = simulator.named(
            device, slice_ns=slice_ns, switch_ns=switch_ns, mps_model=mps_model, overlap_slowdown=overlap
        )
    except simulator.DeviceError as error:
        raise click.UsageError(str(error)) from error
    try:
        asked = _policies(policies, gpu)
        if picture is not None and len(asked) > 1:
            raise click.UsageError("--picture is of one policy")
        first, rest, lacking = _jobs(high, lows, job, others, user)
        scenario = simulator.Scenario(
            first, rest, arrivals, seed, requests if requests or job is None else 1, cold,
            max_slowdown, max_delay, device=gpu,
        )  # fmt: skip
        outcomes = [simulator.simulate(scenario, policy) for policy in asked]
    except (simulator.SimulatorError, simulator.PolicyFileError) as error:
        raise UserError(str(error)) from error
    for policy, outcome in zip(asked, outcomes, strict=True):
        if isinstance(policy, simulator.PolicyFile) and outcome.grants == 0 and outcome.harvest < NOTHING:
            say(
                f"warning: {outcome.policy} let no low job run in {units.duration(outcome.span_ms / 1e3)}: choose() must return a client that waits"
            )
    for text in lacking:
        say(text)
    if picture is not None:
        write(picture, svg.simulation(outcomes[0], scenario))
    if as_json:
        facts = {"arrivals": arrivals, "seed": seed, "emulated": True, "device_from": gpu.origin}
        found = [asdict(outcome) | facts for outcome in outcomes]
        json.emit(found[0] if len(found) == 1 else {"policies": found})
    elif len(outcomes) == 1:
        table.show(simulation.table(outcomes[0], scenario))
    else:
        table.show(simulation.comparison(outcomes, scenario))


def _jobs(
    high: str | None, lows: Sequence[str], job: str | None, others: Sequence[str], user: str | None
) -> tuple[simulator.Trace, list[simulator.Trace], list[str]]:
    """The high job, the low ones, and what their recordings lack."""
    if (high is None) == (job is None) or bool(lows) == bool(others):
        raise click.UsageError(
            "name a high job (--high RECORDING or --job JOBID) and at least one low one (--low RECORDING or --with JOBID)"
        )
    uid = None if user is None else jobs_known.user(user)
    first = source.named(high) if high is not None else played.of_job(str(job), uid)
    rest = [*map(source.named, lows), *(played.of_job(each, uid) for each in others)]
    lacking = [text for found in (first, *rest) for text in found.lacking]
    return first.trace(), [found.trace() for found in rest], lacking


def _policies(asked: Sequence[str], gpu: simulator.Device) -> list[str | simulator.PolicyFile]:
    """Each once, in the order in which they were asked for."""
    found: dict[str, str | simulator.PolicyFile] = {}
    for each in asked:
        if simulator.is_policy_file(each):
            found.setdefault(each, simulator.load_policy(each))
            continue
        name = policy_name.current(each)
        if name == ALL:
            found |= {known: known for known in simulator.policies_of(gpu) if known not in found}
            continue
        if name not in simulator.POLICIES:
            near = (
                did_you_mean(name, simulator.POLICIES)
                or f"; use one of {', '.join(simulator.POLICIES)}, or a file as ./mine.py"
            )
            raise click.UsageError(f'there is no policy "{name}"{near}')
        found.setdefault(name, name)
    return list(found.values())
