"""--fikit-priority=auto under Slurm: what slurmctld approves is in the record, and on the node the job that ends sooner goes first."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fikit.sandbox.sandbox import Sandbox
from fikitd.api.client import Control
from fikitd.api.outcomes import HEAD, SUFFIX, UNKNOWN, Outcome, name_key

if TYPE_CHECKING:
    from cluster_jobs import Cluster

AUTO = "--fikit-priority=auto"


def outcome(name: str, elapsed_s: float) -> Outcome:
    return Outcome(
        job=1, uid=0, name=name_key(name), ended_s=int(time.time()) - 60, elapsed_s=elapsed_s, busy=0.8, peak_mib=1, slowdown=UNKNOWN,
        given_s=0.0, emulated=1,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(
    sandbox: Sandbox, make_cluster: Callable[[Sandbox], Cluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """One GPU, nobody above normal; runs of `short` took a minute, of `long` a day. `sandbox` only says whether there can be one."""
    outcomes = tmp_path_factory.mktemp("outcomes")
    lines = [HEAD, outcome("short", 60).text(), outcome("long", 86_400).text()]
    (outcomes / f"earlier{SUFFIX}").write_text("".join(f"{line}\n" for line in lines))
    (outcomes / f"earlier{SUFFIX}").chmod(0o600)
    own = Sandbox(gpus=1, access={"highest_priority": "normal"})
    own.daemon = {"outcomes_dir": str(outcomes), "outcomes_user": "root"}
    with own:
        yield make_cluster(own)


def started(site: Cluster, spin: Path, name: str, *options: str) -> str:
    """A sharing job that keeps the GPU busy until it is cancelled."""
    program = shutil.copy(spin, site.directory / f"spin-{name}")
    script = site.script(f"job-{name}", f"{program} 10000000 250000")
    return site.submit_running(script, AUTO, "--fikit-mem=2G", f"--job-name={name}", *options)


def now(site: Cluster, *jobs: str) -> list[Any]:
    known = {job["job"]: job for job in Control(site.sandbox.run_dir).jobs()}
    return [known[job]["priority"] for job in jobs if job in known]


def priority(site: Cluster, job: str, *wanted: str) -> str:
    """What `fikit priority` says on the job's node."""
    config = site.sandbox.env["FIKIT_CONFIG"]
    return site.run(
        "srun", "--overlap", f"--jobid={job}", "fikit", "priority", job, *wanted, FIKIT_CONFIG=config
    ).stdout


def test_the_job_that_ends_sooner_goes_first_within_what_slurmctld_approved(site: Cluster, spin: Path) -> None:
    longer = started(site, spin, "long")
    record = (site.sandbox.run_dir / "jobs" / longer).read_text()
    assert "\npriority=5\n" in record
    assert "auto_highest=5\nauto_lowest=8\n" in record
    shorter = started(site, spin, "short", "--requeue")
    site.until(lambda: now(site, longer, shorter) == [6, 5], f"they stay {now(site, longer, shorter)}")
    asked = priority(site, longer)
    assert "job " + longer + " has priority 6: auto, because its expected rest is" in asked
    assert "has priority low" in priority(site, shorter, "8")
    site.until(lambda: now(site, longer, shorter) == [5, 8], "what a user says does not count")
    assert site.run("scontrol", "requeue", shorter).returncode == 0
    site.start_again(shorter)
    site.until(lambda: now(site, longer, shorter) == [6, 5], "a requeued job does not begin with what was approved")
    assert site.run("scancel", "--full", "--signal=KILL", longer, shorter).returncode == 0
    for job in (longer, shorter):
        site.end(job)
    site.until(lambda: not site.records(), "a record stays")


def test_more_than_is_allowed_is_refused_and_tasks_of_an_array_share_their_history(site: Cluster, spin: Path) -> None:
    refused = site.run("sbatch", "--gres=gpu:1", "--fikit-priority=auto:low-high", site.probe)
    assert "--fikit-priority=auto:low-high is not for this job here" in refused.stdout
    wrong = site.run("sbatch", "--gres=gpu:1", "--fikit-priority=auto:low", site.probe)
    assert "is not valid: use high, normal, low, 0 (highest) to 9, auto or auto:LOW-HIGH" in wrong.stdout
    program = shutil.copy(spin, site.directory / "spin-array")
    script = site.script("array", f"{program} 10000000 250000")
    job = site.submit(script, "--gres=gpu:1", AUTO, "--fikit-mem=2G", "--job-name=short", "--array=0-1")

    def states() -> list[Any]:
        return [known["auto"]["state"] for known in Control(site.sandbox.run_dir).jobs() if known["auto"]["runs"]]

    site.until(lambda: len(found := states()) == 2 and "unknown" not in found, "their history is not known")
    assert site.run("scancel", "--full", "--signal=KILL", job).returncode == 0
    site.until(lambda: not site.records(), "a record stays")
