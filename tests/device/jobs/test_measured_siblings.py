"""Several processes of one job, measured and not: what is stored of a kernel is how long it takes alone, and ratios are near 1."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from daemon_process import SOURCE, Fikitd, Runner, usual_daemon
from fikitd.profiles.profile_store import ProfileStore

from fikitd import paths

NS = 200_000
LAUNCHES = 600
SCRIPT = 'n=$1; shift; while [ $n -gt 0 ]; do "$@" & n=$((n - 1)); sleep 0.05; done; wait; echo done'

daemon: Callable[..., Iterator[Fikitd]] = pytest.fixture(usual_daemon)


@pytest.fixture
def ranks(
    daemon: Fikitd, cc: Callable[..., Path], emulator_env: Callable[..., dict[str, str]]
) -> Callable[..., dict[str, Any]]:
    """A job with so many processes, which begin one after the other; its report."""
    client = str(cc(SOURCE))
    runner = Runner(daemon, Path("/bin/sh"), paths.shim(), emulator_env())

    def run(count: int, **facts: Any) -> dict[str, Any]:
        job, process = runner.start("-c", SCRIPT, "sh", count, client, LAUNCHES, NS, profile="mine", **facts)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        runner.end(job)
        return daemon.report(job)

    return run


@pytest.mark.parametrize("count", [2, 4])
def test_ranks_that_are_measured_together_leave_times_of_kernels_alone(
    count: int, daemon: Fikitd, ranks: Callable[..., dict[str, Any]]
) -> None:
    measured = ranks(count, measure=True)
    assert measured["kernels"] == count * LAUNCHES
    assert measured["slowdown"] is None, "its own times are the profile"
    assert 0.7 < measured["span_s"] / measured["span_alone_s"] < 1.3
    profile = ProfileStore(daemon.profiles).load(os.getuid(), "mine")
    assert profile is not None
    (kernel,) = (kernel for kernel in profile["kernels"] if not kernel["context"])
    # The first launch of each process loads the kernel; a call that its host was held up in says as little.
    assert 0.9 * count * LAUNCHES <= kernel["duration"]["count"] <= count * (LAUNCHES - 1)
    assert kernel["duration"]["mean_ns"] == pytest.approx(NS, rel=0.08)

    one, many = ranks(1), ranks(count)
    for record in (one, many):
        assert 0.75 < record["span_s"] / record["span_alone_s"] < 1.35
        assert (record["delayed_s"], record["unexplained_s"]) == (0, 0), "siblings are no others"
