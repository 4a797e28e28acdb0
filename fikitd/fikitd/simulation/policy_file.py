"""A policy in a Python file, as a simulation uses it: found, made, watched, and its faults in one sentence."""

from __future__ import annotations

import importlib.util
import itertools
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType

from fikitd import _simulator
from fikitd.simulation.policy import Policy
from fikitd.store.storage import reason

ANSWER_S = 10.0
"""In real time: a policy that has not answered for so long is stuck."""

_numbers = itertools.count()


class PolicyFileError(Exception):
    """One sentence: which policy cannot be used, where in its file, and why."""


class _Stuck(Exception):
    """It does not answer."""


@dataclass
class PolicyFile:
    """A policy of somebody's own. `name`: as it was asked for."""

    name: str
    path: Path
    kind: type[Policy]
    made: list[Policy] = field(default_factory=list)  # one for each level

    def __str__(self) -> str:
        return self.name

    def make(self) -> Policy:
        """For one level."""
        try:
            self.made.append(self.kind())
        except TypeError as error:
            if _line_of(self.path, error.__traceback__) is not None:
                raise
            raise PolicyFileError(
                f"couldn't make the policy of {self.path}: {error}; its __init__ takes nothing"
            ) from error
        return self.made[-1]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Whatever goes wrong with the policy within is a PolicyFileError."""
        self.made.clear()
        try:
            with self._watched():
                yield
        except PolicyFileError:
            raise
        except _simulator.NotAllowed as error:
            raise PolicyFileError(f"couldn't go on with {self.path}: {error}") from error
        except (Exception, SystemExit) as error:
            if (where := _line_of(self.path, error.__traceback__)) is None:
                raise  # not its fault
            raise PolicyFileError(f"couldn't go on with {self.path}: {where}: {_said(error)}") from error
        finally:
            self.made.clear()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """A policy whose method runs on and on is interrupted there; in the main thread, which alone hears signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = -1

        def look(_signal: int, _frame: FrameType | None) -> None:
            nonlocal before
            levels = [made._level for made in self.made if hasattr(made, "_level")]
            asked = sum(level.asked for level in levels)
            if asked == before and any(level.answering for level in levels):
                raise _Stuck(f"it has not answered for {ANSWER_S:g} s")
            before = asked

        former = signal.signal(signal.SIGALRM, look)
        timer = signal.setitimer(signal.ITIMER_REAL, ANSWER_S, ANSWER_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, *timer)  # somebody else's
            signal.signal(signal.SIGALRM, former)


def is_file(text: str) -> bool:
    """Whether this names a file rather than a policy of fikit's."""
    return "/" in text or text.partition(":")[0].endswith(".py")


def load(text: str) -> PolicyFile:
    """The policy in FILE.py, or FILE.py:CLASS where there are several. Runs the file. Raises PolicyFileError."""
    file, _, wanted = text.partition(":")
    path = Path(file)
    try:
        source = path.read_bytes()
    except OSError as error:
        raise PolicyFileError(f"couldn't read the policy {path}: {reason(error)}") from error
    name = f"fikit_policy_{next(_numbers)}"
    spec = importlib.util.spec_from_loader(name, loader=None, origin=str(path))
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses look there
    try:
        exec(compile(source, str(path), "exec"), vars(module))
    except SyntaxError as error:
        raise PolicyFileError(f"couldn't read the policy {path}: line {error.lineno}: {error.msg}") from error
    except ValueError as error:
        raise PolicyFileError(f"couldn't read the policy {path}: {_at(path, error)}{error}") from error
    except (Exception, SystemExit) as error:
        raise PolicyFileError(f"couldn't run the policy {path}: {_at(path, error)}{_said(error)}") from error
    found = {
        each.__name__: each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Policy) and each.__module__ == name
    }
    if not found:
        raise PolicyFileError(
            f"there is no policy in {path}: write a class that derives from fikitd.simulation.policy.Policy"
        )
    if wanted and wanted not in found:
        raise PolicyFileError(f'there is no policy "{wanted}" in {path}, which has {", ".join(found)}')
    if not wanted and len(found) > 1:
        raise PolicyFileError(
            f"there are several policies in {path}: say which one, as {path}:{next(iter(found))} "
            f"(it has {', '.join(found)})"
        )
    return PolicyFile(f"{path.name}:{wanted}" if wanted else path.name, path, found[wanted or next(iter(found))])


def _line_of(path: Path, at: TracebackType | None) -> str | None:
    """Where in its file; None: nowhere in it."""
    here = [frame for frame in traceback.extract_tb(at) if frame.filename == str(path)]
    return f"line {here[-1].lineno}, in {here[-1].name}()" if here else None


def _at(path: Path, error: BaseException) -> str:
    where = _line_of(path, error.__traceback__)
    return f"{where.split(', in ')[0]}: " if where else ""


def _said(error: BaseException) -> str:
    if isinstance(error, _Stuck):
        return str(error)
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
