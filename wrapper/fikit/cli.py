"""The click group `fikit`. A command's module is imported only when that command runs."""

from __future__ import annotations

import importlib

import click
from fikitd.base import interrupt
from fikitd.base.command_line import run_command, version_option

from fikit.errors import did_you_mean

# In the order of the help page, with what it says of each: it loads none of them.
COMMANDS = {
    "run": "Run CMD under fikit on this machine's GPU, without Slurm.",
    "top": "Who uses this node's GPUs now, through fikit and around it.",
    "report": "What fikit did for a job, the newest or JOBID.",
    "advise": "What a batch script may expect on each GPU, and what to type.",
    "priority": "Show or change the priority of job JOBID while it runs.",
    "trace": "The schedule of job JOBID, as a file for ui.perfetto.dev.",
    "profile": "What is known of your programs' kernels.",
    "limits": "Which priorities the site lets your jobs use.",
    "queue": "Which jobs that share a GPU wait, for what, and for how long.",
    "place": "Which waiting job is first: the placement agent.",
    "mail": "The line about job JOBID that Slurm's mails get.",
    "lua": "Make Slurm's job_submit.lua and cli_filter.lua call fikit's.",
    "doctor": "Check this machine and say what to do.",
    "demo": "Two jobs on one GPU: alone, with default sharing, with fikit.",
    "sandbox": "Run CMD inside a throw-away Slurm with emulated GPUs.",
    "sim": "What a policy does to recorded jobs, in simulated time.",
}


class LazyGroup(click.Group):
    """Finds the command NAME as `command` in fikit/commands/NAME.py."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        with interrupt.loading():
            command = importlib.import_module(f"fikit.commands.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(
                f'there is no command "{args[0]}"{did_you_mean(args[0], COMMANDS) or "; see fikit --help"}', ctx
            )
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@version_option("fikit")
def cli() -> None:
    """Share one GPU by priority: low-priority kernels run in a high-priority job's idle time."""


def main() -> None:
    """Entry point of `fikit`."""
    run_command(cli, "fikit")
