"""PrologFlags=Contain: Slurm keeps an extern step on each node of a job, as pam_slurm_adopt needs it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fikit.sandbox.sandbox import Sandbox
from remains import nothing_remains
from test_no_epilog import FORGET_S, GPU, HIGH, no_epilog

if TYPE_CHECKING:
    from cluster_jobs import Cluster


@pytest.fixture(scope="module")
def contained(sandbox: Sandbox, make_cluster: Callable[[Sandbox], Cluster]) -> Iterator[Cluster]:
    """`sandbox` only says whether there can be one."""
    own = Sandbox(slurm_lines=["PrologFlags=Contain"])
    own.daemon = {"orphan_timeout_s": FORGET_S}
    with own:
        yield make_cluster(own)
        nothing_remains(own)


def test_allocation_lives_through_a_pause_and_is_over_without_an_epilog(contained: Cluster, spin: Path) -> None:
    records = contained.sandbox.run_dir / "jobs"
    script = contained.script("pausing", f"srun {spin} 4000 250000; sleep {3 * FORGET_S}; ls {records}")
    salloc = subprocess.Popen(
        ["salloc", GPU, HIGH, script], env=contained.env, cwd=contained.directory,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    [job] = contained.until(contained.managed, "it is not managed")
    with no_epilog(contained):
        output, _ = salloc.communicate(timeout=60)
        lines = output.splitlines()
        assert (salloc.returncode, lines.count("done"), lines.count(job)) == (0, 1, 1), output
        contained.until(lambda: contained.records() == [], "fikitd waits for ever")
    log = (contained.sandbox.run_dir / "fikitd.log").read_text()
    assert f"job {job}: none of its processes is left" in log
    contained.until(lambda: contained.reported_kernels(job) == 4000, "there is no report")


def test_batch_job_and_its_steps_are_what_they_are_without(contained: Cluster, spin: Path) -> None:
    job = contained.submit(contained.script("contained", f"{spin} 40 20000", f"srun {spin} 40 20000"), GPU, HIGH)
    output = contained.wait(job)
    assert [" 80 kernels" in line for line in contained.summaries(output, job)] == [True], output
