"""`fikit lua`: Slurm's Lua scripts call fikit's."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from fikit.checks.native import slurm_files
from fikit.errors import UserError
from fikit.slurm import config as slurm_config
from fikit.slurm import lua_scripts
from fikit.wording.line import say


@click.command()
@click.option("--remove", is_flag=True, help="Take the line out again.")
@click.option("--directory", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR",
              help="Where the scripts are. Default: beside slurm.conf.")  # fmt: skip
def command(remove: bool, directory: Path | None) -> None:
    """Make job_submit.lua and cli_filter.lua call fikit's.

    Their first line loads fikit's part, which puts itself around the site's functions: those decide first. Whatever else
    is in the scripts stays as it is. A second call finds nothing to do.
    """
    conf = slurm_config.path()
    if directory is None and slurm_config.is_sent(conf):
        raise UserError(
            f"{conf.parent} is what slurmctld has sent: type this on slurmctld's host, which sends it again"
        )
    if directory is None and not conf.is_file():
        raise UserError(
            f"there is no {conf}, so nothing was written beside it: type this where slurmctld runs, set SLURM_CONF, or name the scripts' directory with --directory"
        )
    beside = directory or conf.parent
    for name in lua_scripts.NAMES:
        _change(beside / name, slurm_files() / name, remove)


def _change(path: Path, installed: Path, remove: bool) -> None:
    try:
        before = lua_scripts.read(path) if path.exists() else ""
        if lua_scripts.calls_by_itself(before):
            _leave(path, before)
            return
        after = lua_scripts.without_line(before, installed) if remove else lua_scripts.with_line(before, installed)
        if after == before:
            say(f"{path} is as it should be")
            return
        _check(path, after)
        lua_scripts.write(path, after)
    except OSError as error:
        raise UserError(f"couldn't change {path}: {error.strerror}: nothing was written there") from error
    say(f"{path} {'calls fikit no more' if remove else 'calls fikit now'}")


def _leave(path: Path, text: str) -> None:
    """A script that calls fikit's functions in the site's own code."""
    if trouble := lua_scripts.trouble(text, path.name):
        raise UserError(f"{path}: {trouble}: call it there, or take fikit's calls out and type this again")
    say(f"{path} calls fikit's functions by itself, and stays as it is")


def _check(path: Path, text: str) -> None:
    """Slurm would not start with what is no Lua."""
    with tempfile.TemporaryDirectory() as directory:
        trial = Path(directory) / path.name
        lua_scripts.write(trial, text)
        if said := lua_scripts.fault(trial):
            raise UserError(f"{path} is no Lua that Slurm can read, in line {said.partition(':')[2].strip()}: "
                            "mend it first, nothing was written there")  # fmt: skip
