"""`fikit sandbox`: a command inside a throw-away Slurm."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType

import click
from fikitd.config import fikit_toml
from rich.text import Text

from fikit.commands.run import NotExecutable, NotFound
from fikit.errors import UserError
from fikit.options.numbers import Whole
from fikit.options.policy_name import PolicyName
from fikit.running import child
from fikit.sandbox import slurm_root
from fikit.sandbox.sandbox import Sandbox
from fikit.wording import screen
from fikit.wording.line import say

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # by default they would leave a whole Slurm behind


@click.command(
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--gpus", type=Whole(1, 8), metavar="NUMBER", default=1, show_default=True, help="Emulated GPUs of each node."
)
@click.option(
    "--nodes", type=Whole(1, 8), metavar="NUMBER", default=1, show_default=True,
    help="Nodes, each with a network namespace, a host name, a fikitd and emulated GPUs of its own.",
)  # fmt: skip
@click.option("--gpu-memory", default="16GiB", show_default=True, metavar="SIZE", help="Memory of each GPU.")
@click.option(
    "--policy",
    type=PolicyName(),
    default=fikit_toml.SchedulerConfig().policy,
    show_default=True,
    help="fikitd's policy.",
)
@click.option(
    "--slice-us",
    type=Whole(0),
    metavar="NUMBER",
    help="Time slice of the emulated GPU in microseconds; 0 = kernels run to completion.",
)
@click.option("--config-extra", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="Model file of the emulated GPU, instead of its default.")  # fmt: skip
@click.option(
    "--slurm",
    "line",
    type=click.Choice(list(slurm_root.RELEASES)),
    default=None,
    help="Release line of Slurm, instead of this machine's: in a Debian that is made once and kept (root only).",
)
@click.option("--accounting", is_flag=True, help="With slurmdbd and a MariaDB: sacct, sacctmgr, accounts and QOS.")
@click.option("--keep", is_flag=True, help="Leave the directory with configuration and logs.")
@click.argument("argv", nargs=-1, required=True, metavar="-- CMD...", type=click.UNPROCESSED)
def command(
    *,
    gpus: int,
    nodes: int,
    gpu_memory: str,
    policy: str,
    slice_us: int | None,
    config_extra: Path | None,
    line: str | None,
    accounting: bool,
    keep: bool,
    argv: tuple[str, ...],
) -> int:
    """Run CMD inside a throw-away Slurm with emulated GPUs; exits with CMD's exit code. `fikit sandbox -- bash` is a shell in one.

    SLURM_CONF and PATH are set, so `sbatch`, `srun` and `fikit report` just work. Everything ends with CMD, also by Ctrl-C.
    """
    if line and not slurm_root.installed(line):
        with screen.console(stderr=True).status(Text(f"Slurm {line}")) as status:
            there = slurm_root.command(
                line, [sys.executable, *sys.orig_argv[1:]], lambda step: status.update(Text(step))
            )
        os.execvp(there[0], there)
    try:
        sandbox = Sandbox(
            gpus, gpu_memory, policy, emulator_config=config_extra, slice_us=slice_us, keep=keep,
            nodes=nodes, apart=nodes > 1, accounting=accounting,
        )  # fmt: skip
    except ValueError as error:
        raise UserError(str(error)) from error
    for number in ENDING:
        signal.signal(number, _interrupt)
    try:
        with screen.console(stderr=True).status("starting a throw-away Slurm") as status:
            sandbox.start(lambda step: status.update(Text(f"starting a throw-away Slurm: {step}")))
        return child.run(argv, sandbox.env)
    except FileNotFoundError:
        raise NotFound(f'there is no program "{argv[0]}"; check the name and PATH') from None
    except PermissionError:
        raise NotExecutable(f'"{argv[0]}" is not executable; chmod +x it') from None
    finally:
        _ignore_signals()
        if keep and sandbox.root != Path():
            say(f"the sandbox's files are in {sandbox.root}")
        sandbox.stop()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Once is enough: a second signal must not stop the tidying up after the first."""
    _ignore_signals()
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
