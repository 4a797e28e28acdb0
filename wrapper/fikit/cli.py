"""The click group `fikit`. A command's module is imported only when that command runs."""

from __future__ import annotations

import importlib
from importlib.metadata import version

import click
from fikitd.command_line import run_command

from fikit.errors import did_you_mean

COMMANDS = (
    "run",
    "top",
    "report",
    "trace",
    "profile",
    "limits",
    "doctor",
    "demo",
    "sandbox",
    "sim",
)  # in the order of the help page


class LazyGroup(click.Group):
    """Finds the command NAME as `command` in fikit/commands/NAME.py."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"fikit.commands.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(
                f'there is no command "{args[0]}"{did_you_mean(args[0], COMMANDS) or "; see fikit --help"}', ctx
            )
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("fikit"), message="fikit %(version)s")
def cli() -> None:
    """Share one GPU by priority: low-priority kernels run in a high-priority job's idle time."""


def main() -> None:
    """Entry point of `fikit`."""
    run_command(cli, "fikit")
