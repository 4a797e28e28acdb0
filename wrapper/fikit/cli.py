"""The click group `fikit`. A command's module is imported only when that command runs."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.metadata import version

import click

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
INTERRUPTED = 130  # what a shell reports for a program that Ctrl-C ended


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


def _sentence(error: click.ClickException) -> str:
    """What click says, and what to do where it does not say that."""
    message = error.format_message()
    unhelped = isinstance(error, click.MissingParameter | click.NoSuchOption) and "Did you mean" not in message
    if unhelped and isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{message.rstrip('.')}; see {error.ctx.command_path} --help"
    return message


def run_command(command: click.Command, name: str) -> None:
    """Run `command` as a program: an error is one sentence on stderr, Ctrl-C is exit code 130 and nothing else."""
    try:
        result = command.main(prog_name=name, standalone_mode=False)
        sys.stdout.flush()
        sys.exit(result if isinstance(result, int) else 0)
    except click.ClickException as error:
        click.echo(f"{name}: {_sentence(error)}", err=True)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader (`| head`) has seen enough. Python would complain once more when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def main() -> None:
    """Entry point of `fikit`."""
    run_command(cli, "fikit")
