"""Errors for people: one sentence, no stack trace, exit code not 0."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

import click


class UserError(click.ClickException):
    """What happened, to what, why, what to do: one sentence. `fikit` prints it and exits 1."""


class NoReport(UserError):
    """No job, or no job of that number, has a report that the caller may see."""


class NoDaemon(UserError):
    """No fikitd answers on this node."""


def nearest(word: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The names in `known` that a person who typed `word` may have meant, best first."""
    return difflib.get_close_matches(word, list(known), n=limit, cutoff=0.6)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean "a" or "b"?`, or nothing when no name is near."""
    close = nearest(word, known)
    if not close:
        return ""
    return "; did you mean " + " or ".join(f'"{name}"' for name in close) + "?"


def write(file: Path, content: str | bytes) -> None:
    """To a file that somebody named, text as UTF-8. UserError: it cannot be written."""
    try:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise UserError(f"{file} could not be written: {error.strerror}") from None
