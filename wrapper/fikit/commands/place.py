"""`fikit place`: the placement agent, once or as a daemon."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType

import click
from fikitd.config import fikit_toml
from fikitd.gpus.placement import Device
from fikitd.history import SpoolHistory

from fikit.errors import UserError
from fikit.placement.agent import Agent
from fikit.placement.commands import Commands, SlurmError, setting
from fikit.placement.journal import Journal
from fikit.placement.pairing import Pairing
from fikit.placement.plan import Change, Settings
from fikit.reporters import json, table
from fikit.reporters import placement as shown
from fikit.slurm import versions as slurm_versions
from fikit.wording import screen

STATE_DIR = Path("/var/lib/fikit-place")
ORDERED_BY = "priority/multifactor"

_log = logging.getLogger("fikit.place")


@click.command()
@click.option("--daemon", is_flag=True, help="Do it, once a second until SIGTERM, as [placement] mode says.")
@click.option("--clear", is_flag=True, help="Take back what an agent has set that is gone; nothing while one runs.")
@click.option(
    "--state", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help=f"Where the agent notes what it has set; default: $STATE_DIRECTORY, else {STATE_DIR}.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="A list of {job, site_factor, why}.")
def command(*, daemon: bool, clear: bool, state: Path | None, as_json: bool) -> None:
    """Which waiting jobs that share a GPU the placement agent would put first, and why; nothing is changed without --daemon.

    For SlurmUser, on the controller. [placement] in fikit.toml says what the daemon does: nothing (off), only say it (advise), order the
    queue (order), or also choose the GPU (pair); docs/placement-agent.md has more.
    """
    if daemon and clear:
        raise click.UsageError("--daemon and --clear exclude each other")
    try:
        site = fikit_toml.load()
    except fikit_toml.ConfigError as error:
        raise UserError(str(error)) from error
    journal = Journal(_state(state))
    if daemon:
        _daemon(site, journal)
    elif clear:
        _clear(site, journal)
    else:
        _once(site, as_json)


def _state(named: Path | None) -> Path:
    return named or Path(os.environ.get("STATE_DIRECTORY") or STATE_DIR)


def _agent(
    site: fikit_toml.Config,
    journal: Journal,
    *,
    advises: bool,
    pairing: Pairing | None = None,
    heartbeat: Path | None = None,
) -> Agent:
    settings = Settings(max_wait_s=site.placement.max_wait_s, span=site.placement.span)
    return Agent(
        Commands(),
        SpoolHistory.of(site.daemon),
        journal,
        settings,
        advises=advises,
        pairing=pairing,
        heartbeat=heartbeat,
    )


def _once(site: fikit_toml.Config, as_json: bool) -> None:
    try:
        changes = _agent(site, Journal(Path(os.devnull)), advises=True).look().changes
    except SlurmError as error:
        raise UserError(
            f"the queue could not be read: {error}; `fikit doctor` says whether this machine is in a cluster"
        ) from error
    rows = [_row(change) for change in changes]
    json.emit(rows) if as_json else table.show(shown.wanted(rows, site.placement.mode))


def _row(change: Change) -> dict[str, object]:
    return {"job": change.job, "site_factor": change.after.factor, "why": change.why}


def _clear(site: fikit_toml.Config, journal: Journal) -> None:
    with journal.held() as ours:
        if not ours:
            screen.echo("an agent runs: it takes back what it has set when it ends", err=True)
            return
        agent = _agent(site, journal, advises=False)
        count = len(agent.marks)
        if count and not agent.clear():
            raise UserError(
                "what was set could not be taken back, because Slurm does not answer: try again when it does"
            )
        left = f"; {len(agent.marks)} run where they were put" if agent.marks else ""
        screen.echo(f"taken back from {count - len(agent.marks)} jobs{left}", err=True)


def _daemon(site: fikit_toml.Config, journal: Journal) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    mode = site.placement.mode
    if mode == "off":
        _log.info(
            "placement is off: nothing is read and nothing is changed; [placement] mode in fikit.toml turns it on"
        )
        return
    stop = threading.Event()

    def leave(number: int, frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    with journal.held() as ours:
        if not ours:
            raise UserError("another agent runs with the same --state: end that one first")
        _steer(site, journal, stop)


def _steer(site: fikit_toml.Config, journal: Journal, stop: threading.Event) -> None:
    mode = site.placement.mode
    advises = mode == "advise" or not _can_order(stop)
    pairing = None if advises or mode != "pair" else _pairing(site)
    heartbeat = Path(site.placement.run_dir) / "heartbeat" if pairing else None
    agent = _agent(site, journal, advises=advises, pairing=pairing, heartbeat=heartbeat)
    _log.info(
        "placement: %s",
        "what would be done is said, nothing is changed" if advises else "jobs that share a GPU, the shortest first",
    )
    agent.run(stop)


def _pairing(site: fikit_toml.Config) -> Pairing | None:
    """None where Slurm cannot be told on which GPU a job runs."""
    version = slurm_versions.installed()
    if version is None or version < slurm_versions.CHANGES_TYPES:
        _log.warning(
            "Slurm older than 24.11 does not let the type of a waiting job's GPU be changed: pair acts as order"
        )
        return None
    nodes = Commands()
    try:
        if not nodes.gpus():
            _log.warning("no node has GPUs and shards with a Type of their own in gres.conf: pair acts as order")
            return None
    except SlurmError as error:
        _log.warning("the nodes could not be read: %s; pair acts as order", error)
        return None
    device = Device.SLICES if site.gpu.mps == "off" else Device.MPS
    return Pairing(nodes, device, time.monotonic)


def _can_order(stop: threading.Event) -> bool:
    """Waits for a slurmctld that answers."""
    complained = False
    while not stop.is_set():
        try:
            found = setting("PriorityType")
        except SlurmError as error:
            if not complained:
                _log.warning("waiting for slurmctld: %s", error)
            complained = True
            stop.wait(5.0)
            continue
        if found != ORDERED_BY:
            _log.warning("PriorityType is %s, which knows no SiteFactor: the agent only says what it would do; set PriorityType=%s in "
                         "slurm.conf", found or "not set", ORDERED_BY)  # fmt: skip
        return found == ORDERED_BY
    return False
