"""Imported by programs that run under the shim on the emulated GPU: what else a process does beside its launches, over and over, each in a thread of
its own. None of it may fail."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable

from memory_child import MIB, alloc, call, check, cu, free, made

GoesOn = Callable[[], bool]


class Others:
    """Threads for these, in the context; each is told by a function whether it goes on, which counts how often it was asked."""

    def __init__(self, context: ctypes.c_void_p, *what: Callable[[GoesOn], None]) -> None:
        self._over = threading.Event()
        self._failed: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=(context, each)) for each in what]
        for thread in self._threads:
            thread.start()

    def _run(self, context: ctypes.c_void_p, what: Callable[[GoesOn], None]) -> None:
        times = 0

        def goes_on() -> bool:
            nonlocal times
            times += 1
            return not self._over.is_set()

        try:
            check(cu.cuCtxSetCurrent(context))
            what(goes_on)
            if times < 2:
                raise SystemExit("it did nothing")
        except BaseException as error:  # a thread that ends by one ends no program
            self._failed.append(f"{what.__name__}: {error}")

    def end(self) -> None:
        """All of them have ended, and none has failed."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        if self._failed:
            raise SystemExit("; ".join(self._failed))


def allocations(goes_on: GoesOn, mib: int = 2) -> None:
    while goes_on():
        check(free(made(alloc(mib * MIB))))


def streams(goes_on: GoesOn) -> None:
    while goes_on():
        check(cu.cuStreamDestroy_v2(ctypes.c_void_p(made(call("cuStreamCreate", 1)))))


def contexts(goes_on: GoesOn, allocate: Callable[[], object] = lambda: made(alloc(2 * MIB))) -> None:
    """allocate: in each of them; what is not freed ends with it."""
    while goes_on():
        other = ctypes.c_void_p()
        check(cu.cuCtxCreate_v2(ctypes.byref(other), 0, 0))
        allocate()
        check(cu.cuCtxDestroy_v2(other))


def forks(goes_on: GoesOn) -> None:
    while goes_on():
        child = os.fork()
        if child == 0:
            os._exit(0)
        if (status := os.waitpid(child, 0)[1]) != 0:
            raise SystemExit(f"a child has ended with {status}")
