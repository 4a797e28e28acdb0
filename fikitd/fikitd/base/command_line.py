"""A click command as a program: what every one of fikit's programs has in common."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from fikitd.base import build, interrupt
from fikitd.base.validation import printable_lines

_F = TypeVar("_F", bound=Callable[..., Any])
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # what a file or terminal behind stdout says
ALIKE = 0.6  # of 1, from here on a word is taken for a mistyped option


def version_option(name: str) -> Callable[[_F], _F]:
    """`--version` of a program: `fikit 0.1.0+3f9c01ab27`."""

    def show(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            click.echo(f"{name} {build.identity()}")
            context.exit()

    return click.option(
        "--version", is_flag=True, expose_value=False, is_eager=True, callback=show, help="Show the version and exit."
    )


def _sentence(error: click.ClickException) -> str:
    """What click says, and what to do where it does not say that."""
    if isinstance(error, click.BadParameter) and (variable := _variable(error)):
        error.param_hint = variable
    message = error.format_message()
    if not isinstance(error, click.MissingParameter | click.NoSuchOption) or error.ctx is None:
        return message.removesuffix(".")
    if isinstance(error, click.NoSuchOption):
        message = f"No such option '{error.option_name}'"
        if meant := _meant(error.option_name, error.ctx):
            return f"{message}; did you mean {meant}?"
    return f"{message.rstrip('.')}; see {error.ctx.command_path} --help"


def _variable(error: click.BadParameter) -> str | None:
    """The environment variable that said it: who set that long ago looks for it in vain on the command line."""
    context, parameter = error.ctx, error.param
    if context is None or parameter is None or not parameter.name:
        return None
    if context.get_parameter_source(parameter.name) is not ParameterSource.ENVIRONMENT:
        return None
    return f"{parameter.envvar} ({parameter.opts[0]})"


def _meant(word: str, context: click.Context) -> str | None:
    """The option that is most like `word`, or begins most like it: who types --chekc means --check-config, not --help."""
    parameters = context.command.get_params(context)
    likeness = {
        option: max(SequenceMatcher(None, word, other).ratio() for other in (option, option[: len(word)]))
        for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts) if option.startswith("--")
    }  # fmt: skip
    best = max(likeness, key=lambda option: likeness[option])
    return best if likeness[best] >= ALIKE else None


def run_command(command: click.Command, name: str) -> None:
    """Run `command` as a program: an error is one sentence on stderr, Ctrl-C is exit code 130 and nothing else."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - closed by whoever started us (`>&-`)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a locale without µ and bars is no reason to show nothing
    try:
        interrupt.raises()
        result = command.main(prog_name=name, standalone_mode=False)
        sys.stdout.flush()
        sys.exit(result if isinstance(result, int) else 0)
    except click.ClickException as error:
        asked_nothing = isinstance(error, click.exceptions.NoArgsIsHelpError)  # its message is the help page
        message = error.format_message() if asked_nothing else f"{name}: {_sentence(error)}"
        click.echo(printable_lines(message), err=True)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(interrupt.INTERRUPTED)
    except BrokenPipeError:
        _drop_output()  # the reader (`| head`) has seen enough
        sys.exit(0)
    except OSError as error:
        if error.filename is not None and error.strerror is not None:
            click.echo(f"{name}: {error.filename} could not be used: {error.strerror}", err=True)
        elif error.errno in UNWRITABLE:
            _drop_output()
            click.echo(f"{name}: the output could not be written: {error.strerror}", err=True)
        else:
            raise
        sys.exit(1)
    finally:
        interrupt.ends_at_once()


def _drop_output() -> None:
    """Python would complain once more when it flushes stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
