"""With slurmdbd: what jobs used of the GPU is in their AdminComment, behind what was there, where the site wants it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fikit.sandbox.accounting import PACKAGES, PROGRAMS
from fikit.sandbox.sandbox import Sandbox
from fikitd.api.reports import ReportStore

if TYPE_CHECKING:
    from cluster_jobs import Cluster

pytestmark = pytest.mark.skipif(
    any(shutil.which(program, path="/usr/sbin:/usr/bin") is None for program in PROGRAMS), reason=f"needs {PACKAGES}"
)
GPU = ("--gres=gpu:1", "--fikit-priority=high")


@pytest.fixture(scope="module")
def commented(sandbox: Sandbox, make_cluster: Callable[[Sandbox], Cluster]) -> Iterator[Cluster]:
    """`sandbox` only says whether there can be one."""
    own = Sandbox(accounting=True)
    own.daemon = {"admin_comment_s": 1}
    with own:
        cluster = make_cluster(own)
        done = cluster.run("sacctmgr", "--immediate", "add", "account", "all")
        assert done.returncode == 0, done.stdout
        yield cluster


def comment(cluster: Cluster, name: str) -> str:
    return cluster.run("sacct", "-n", "-X", "-P", "-o", "AdminComment", "-j", name).stdout.removesuffix("\n")


def written(cluster: Cluster, name: str) -> str:
    return str(cluster.until(lambda: "fikit:" in (text := comment(cluster, name)) and text, f"{name} has no comment"))


def test_it_comes_behind_what_was_there_and_says_what_the_report_says(commented: Cluster, spin: Path) -> None:
    program = shutil.copy(spin, commented.directory / "spin")
    script = commented.script("used", f"{program} 2000 250000", "sleep 1")
    job = commented.submit_running(script, GPU[1])
    assert commented.run("scontrol", "update", f"JobId={job}", "AdminComment=disk ok; x=1").returncode == 0
    commented.wait(job)
    before, _, ours = written(commented, job).partition(";fikit:")
    assert before == "disk ok; x=1"
    report = ReportStore(commented.sandbox.report_dir).load(job)
    assert report is not None
    assert re.match(
        rf"gpu_s={report['gpu_time_s']:.3f},wait_s=\d+\.\d{{3}},peak_mib=\d+,elapsed_s=\d+\.\d{{3}},(\w+=[\d.]+,)*emulated$",
        ours,
    ), ours


def test_each_task_of_an_array_has_its_own(commented: Cluster, spin: Path) -> None:
    program = shutil.copy(spin, commented.directory / "spin")
    script = commented.script("array", f"{program} 100 250000")
    job = commented.submit(script, *GPU, "--array=0-1")
    texts = [written(commented, f"{job}_{task}") for task in (0, 1)]
    assert [text.count("fikit:") for text in texts] == [1, 1]
    plain = commented.submit(commented.script("nothing", "true"))
    commented.wait(plain)
    assert comment(commented, plain) == ""


def test_capital_letters_are_not_changed(commented: Cluster, spin: Path) -> None:
    program = shutil.copy(spin, commented.directory / "spin")
    job = commented.submit_running(commented.script("jobstats", f"{program} 100 250000", "sleep 1"), GPU[1])
    assert commented.run("scontrol", "update", f"JobId={job}", "AdminComment=JS1:H4sIAA==").returncode == 0
    commented.wait(job)
    waiting = commented.sandbox.run_dir / "comments" / job
    commented.until(lambda: not waiting.exists(), "fikitd did not come to it")
    assert comment(commented, job) == "JS1:H4sIAA=="


def test_advice_knows_a_run_by_its_comment(commented: Cluster, spin: Path) -> None:
    program = shutil.copy(spin, commented.directory / "spin")
    script = commented.script(
        "known", f"#SBATCH {' '.join(GPU)} --job-name='by comment' --time=9", f"{program} 400 250000", "sleep 1"
    )
    job = commented.submit(script)
    commented.wait(job)
    written(commented, job)
    reports = commented.sandbox.report_dir
    hidden = reports.rename(reports.with_name("hidden"))  # by the comment alone
    found: dict[str, Any] = {}

    def known() -> bool:
        config = commented.sandbox.env["FIKIT_CONFIG"]
        found.update(json.loads(commented.run("fikit", "advise", "--json", script, FIKIT_CONFIG=config).stdout))
        return bool(found["expected"]["source"] == "name")

    try:  # slurmctld tells slurmdbd in its own time
        commented.until(known, "slurmdbd does not know the job's comment")
    finally:
        hidden.rename(reports)
    assert found["expected"]["runs"] == 1
    assert "runs known from slurmdbd" in found["notes"]
