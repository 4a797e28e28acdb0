"""`make quick`: of the unit tests those that start no process; one that starts one without saying so fails.

A test that starts a process has the mark `starts_processes`, or asks for a fixture that does (FIXTURES). One that computes for seconds
has the mark `takes_seconds`, and is left out, too. What Python itself starts is
noticed, from whatever thread, at the moment it is started; what native code forks is not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

OPTION = "--quick"
MARK = "starts_processes"
LEFT_OUT = (MARK, "takes_seconds")
# Fixtures that start a process for whoever asks for them.
FIXTURES = {"cc", "emulator_env", "musl_program", "program_of_32_bits"}
# Python's audit events of a new process: https://docs.python.org/3/library/audit_events.html
EVENTS = {"subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "pty.spawn"}


class ProcessStarted(Exception):
    """A test that has no mark for it was about to start a process."""


class Quick:
    """The pytest plugin: leaves out what starts processes or takes seconds, and stops the rest from it."""

    def __init__(self) -> None:
        self.test: str | None = None  # that runs
        self.started: list[str] = []  # the events of that test
        sys.addaudithook(self.notice)

    def notice(self, event: str, _arguments: tuple[Any, ...]) -> None:
        """Called by the interpreter; what it raises is raised where the process would have been started."""
        if self.test is not None and event in EVENTS:
            self.started.append(event)
            raise ProcessStarted(f"{self.test} starts a process ({event}): mark it with @pytest.mark.{MARK}")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselects the tests that say so."""
        out = [item for item in items if says_so(item)]
        if out:
            config.hook.pytest_deselected(items=out)
            items[:] = [item for item in items if not says_so(item)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Says whose a process would be, also one of a fixture's beginning or end."""
        self.test = item.nodeid
        self.started.clear()
        try:
            return (yield)
        finally:
            self.test = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Fails the test also where the code under test went on without its process."""
        result = yield
        if self.started:
            raise ProcessStarted(f"{self.test} starts a process ({self.started[0]}): mark it with @pytest.mark.{MARK}")
        return result


def says_so(item: pytest.Item) -> bool:
    """Whether this test says by its mark or its fixtures that it starts processes or takes seconds."""
    marked = any(item.get_closest_marker(mark) is not None for mark in LEFT_OUT)
    return marked or not FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
