"""Completion of fikit's commands in bash, zsh and fish, as click writes it: the shell asks the command itself what may come next."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete
from fikit.cli import cli as fikit
from fikit.commands.report import command as report

COMMANDS: Final[dict[str, click.Command]] = {"fikit": fikit, "fikit-report": report}
# Where each shell looks below PREFIX/share: of zsh, Fedora's and Debian's place.
PLACES: Final[tuple[tuple[type[ShellComplete], str], ...]] = (
    (BashComplete, "bash-completion/completions/{}"), (ZshComplete, "zsh/site-functions/_{}"), (ZshComplete, "zsh/vendor-completions/_{}"),
    (FishComplete, "fish/vendor_completions.d/{}.fish"),
)  # fmt: skip


def files() -> dict[str, str]:
    """Every file by its path below PREFIX/share."""
    return {
        place.format(name): ShellComplete.source(
            shell(command, {}, name, _variable(name))
        )  # not bash's own, which runs bash
        for name, command in COMMANDS.items()
        for shell, place in PLACES
    }


def _variable(name: str) -> str:
    """By which the command knows that it is a shell that asks."""
    return f"_{name.replace('-', '_').upper()}_COMPLETE"
