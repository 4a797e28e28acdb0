"""Many short jobs, and many prologs at once: nobody fails, everybody has a report, nothing piles up.

How long things take is `python -m bench load`'s to tell."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fikit.sandbox.sandbox import Sandbox
from remains import daemons, descriptors, nothing_remains

from bench.slurm.load import SHARING, load

SETTLED, JOBS, SRUNS = 16, 32, 24
# What a client's page and its journal take is several times as much.
KIB_PER_JOB = 128


@pytest.fixture
def busy(sandbox: Sandbox) -> Iterator[Sandbox]:
    """A cluster of its own: fikitd is to have had these jobs only."""
    with Sandbox(gpus=1) as busy:
        yield busy


def resident_kib(sandbox: Sandbox) -> int:
    [fikitd] = daemons(sandbox)
    words = Path(f"/proc/{fikitd.pid}/statm").read_text().split()
    return int(words[1]) * 4


def test_many_jobs_all_end_well_with_a_report_and_fikitd_stays_as_it_was(busy: Sandbox) -> None:
    settled = load(busy, SETTLED, 0)
    nothing_remains(busy)
    before, opened = resident_kib(busy), len(descriptors(daemons(busy)[0]))
    outcome = load(busy, JOBS, SRUNS)
    nothing_remains(busy)
    assert (settled.failed, settled.unreported, outcome.failed, outcome.unreported) == ([], [], [], [])
    assert len(set(outcome.jobs) - set(settled.jobs)) == 1 + JOBS + SRUNS
    assert len(descriptors(daemons(busy)[0])) <= opened + 1  # the check's own connection may still be closing
    assert resident_kib(busy) - before < KIB_PER_JOB * (1 + JOBS + SRUNS)


def test_of_many_prologs_without_a_fikitd_one_starts_it(busy: Sandbox) -> None:
    clients = [
        subprocess.Popen(
            ["srun", "--quiet", *SHARING, "true"], env=busy.env, cwd="/", stderr=subprocess.PIPE, text=True
        )
        for _ in range(8)
    ]
    assert [(client.communicate(timeout=60)[1], client.returncode) for client in clients] == [("", 0)] * 8
    nothing_remains(busy)
    log = (busy.run_dir / "fikitd.log").read_text()
    assert (log.count("serving"), log.count("another fikitd")) == (1, 0), log
