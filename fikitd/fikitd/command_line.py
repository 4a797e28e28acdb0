"""A click command as a program: what every one of fikit's programs has in common."""

from __future__ import annotations

import errno
import os
import sys

import click

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # what a file or terminal behind stdout says
INTERRUPTED = 130  # what a shell reports for a program that Ctrl-C ended


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
        _drop_output()  # the reader (`| head`) has seen enough
        sys.exit(0)
    except OSError as error:
        if error.errno not in UNWRITABLE or error.filename is not None:
            raise
        _drop_output()
        click.echo(f"{name}: the output could not be written: {error.strerror}", err=True)
        sys.exit(1)


def _drop_output() -> None:
    """Python would complain once more when it flushes stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
