"""With slurmdbd: what shared jobs cost is what docs/admin.md says, and rules by account and QOS cannot be talked around."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fikit.sandbox import accounting as sandbox_accounting
from fikit.sandbox.accounting import PACKAGES, PROGRAMS
from fikit.sandbox.needs import SandboxError
from fikit.sandbox.sandbox import Sandbox
from users import as_user

if TYPE_CHECKING:
    from cluster_jobs import Cluster, Probe

pytestmark = pytest.mark.skipif(
    any(shutil.which(program, path="/usr/sbin:/usr/bin") is None for program in PROGRAMS), reason=f"needs {PACKAGES}"
)

ADMIN = (Path(__file__).resolve().parents[3] / "docs" / "admin.md").read_text()
GPU = "--gres=gpu:1"
HIGH, LOW = "--fikit-priority=high", "--fikit-priority=low"
RULES: dict[str, Any] = {
    "highest_priority": "normal",
    "rule": [{"qos": "urgent", "highest_priority": "high"}, {"account": "biology", "highest_priority": "low"}],
}
SET_UP = """
add account physics
add account biology
add user www-data account=physics
add user games account=biology
add qos urgent
modify account root set qos=normal,urgent
modify account physics set qos=normal
modify account biology set qos=normal
modify user www-data set qos=normal,urgent defaultqos=normal
"""


def page_line(name: str) -> str:
    """The line of docs/admin.md that begins with `name`."""
    [line] = re.findall(rf"^{name}=.*$", ADMIN, re.MULTILINE)
    return str(line)


@pytest.fixture(scope="module")
def accounted(sandbox: Sandbox, make_cluster: Callable[[Sandbox], Cluster]) -> Iterator[Cluster]:
    """A cluster with slurmdbd, accounts and QOS; `sandbox` only says whether there can be one."""
    lines = [page_line("PartitionName")]
    with Sandbox(gpus=2, accounting=True, access=RULES, slurm_lines=lines) as own:
        cluster = make_cluster(own)
        for line in SET_UP.strip().splitlines():
            done = cluster.run("sacctmgr", "--immediate", *line.split())
            assert done.returncode == 0, done.stdout
        yield cluster


def recorded(cluster: Cluster, job: str) -> dict[str, str]:
    """AllocTRES of an ended job, as slurmdbd has it."""

    def ask() -> dict[str, str] | None:
        line = cluster.run("sacct", "-X", "-n", "-P", "-o", "State,AllocTRES", "-j", job).stdout.strip()
        state, _, tres = line.partition("|")
        return dict(part.split("=") for part in tres.split(",")) if state == "COMPLETED" else None

    found: dict[str, str] = cluster.until(ask, f"job {job} is not in the accounts")
    return found


def refused(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0, done.stdout
    return "".join(line.partition("fikit: ")[2] for line in done.stdout.splitlines() if "fikit: " in line)


def test_jobs_are_billed_as_the_page_says(accounted: Cluster) -> None:
    assert page_line("AccountingStorageTRES") in accounted.run("cat", accounted.sandbox.root / "etc/slurm.conf").stdout
    script = accounted.script("nothing", "true")
    rows = re.findall(r"^\| `(--gres.*?)` \| `(\S+)=(\d+)`(?:, no `(\S+)`)? \| (\d+) \|$", ADMIN, re.MULTILINE)
    assert len(rows) == 2
    for options, tres, count, none, billing in rows:
        job = accounted.submit(script, "--partition=shared", *options.split())
        found = recorded(accounted, job)
        assert (found[tres], found["billing"], found.get(none)) == (count, billing, None), options


def test_limits_on_shards_count_sharing_jobs(accounted: Cluster) -> None:
    [limit] = re.findall(r"`sacctmgr (modify qos urgent set GrpTRES=\S+)`", ADMIN)
    assert "gres/shard=" in limit
    words = re.sub(r"gres/shard=\d+", "gres/shard=8", limit).split()
    assert accounted.run("sacctmgr", "--immediate", *words).returncode == 0
    sleeper = accounted.script("sleeper", "sleep 60")
    jobs = [accounted.submit(sleeper, GPU, "--qos=urgent", "--fikit-mem=6G") for _ in range(2)]
    accounted.until(lambda: accounted.fields(jobs[0])["JobState"] == "RUNNING", "the first does not run")
    accounted.until(lambda: accounted.fields(jobs[1])["Reason"] == "QOSGrpGRES", "the second is not held back")
    accounted.run("scancel", *jobs)


def test_rules_go_by_the_account_and_qos_that_slurm_knows(accounted: Cluster, parsed: Callable[[str], Probe]) -> None:
    physicist, biologist = as_user("www-data"), as_user("games")
    done = accounted.run(*physicist, "srun", GPU, HIGH, "--qos=urgent", accounted.probe)
    assert parsed(done.stdout).record["priority"] == "1"
    assert "(account physics, qos normal, partition all;" in refused(
        accounted.run(*physicist, "srun", GPU, HIGH, "true")
    )
    assert "use --fikit-priority=low" in refused(accounted.run(*biologist, "srun", GPU, "--fikit-mem=1G", "true"))
    assert accounted.run(*biologist, "srun", GPU, LOW, "true").returncode == 0
    # What is not theirs Slurm does not let them name.
    for name in ("--account=physics", "--qos=urgent"):
        assert accounted.run(*biologist, "srun", GPU, "--fikit-priority=normal", name, "true").returncode != 0, name


@pytest.mark.usefixtures("accounted")  # skipped where there is none
def test_command_in_a_sandbox_with_accounting_has_sacct() -> None:
    words = [sys.executable, "-m", "fikit", "sandbox", "--accounting", "--", "sh", "-c"]
    # slurmctld tells slurmdbd of a job when it finds the time.
    script = "sacctmgr -i -n add account x >/dev/null && srun true && until sacct -n -X -o JobName | grep .; do sleep 0.1; done"
    done = subprocess.run([*words, script], text=True, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout.split()) == (0, ["true"]), done.stderr


def test_accounting_without_its_programs_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_accounting, "PROGRAMS", ("no-such-program",))
    with pytest.raises(SandboxError, match=f"accounting needs slurmdbd and MariaDB: install {PACKAGES}"):
        Sandbox(accounting=True).start()


def test_job_keeps_its_qos_while_it_needs_it(accounted: Cluster) -> None:
    user = as_user("www-data")
    script = accounted.script("t", "true")
    done = accounted.run(
        *user, "sbatch", "--parsable", "--hold", "--output=/dev/null", "--qos=urgent", GPU, HIGH, script
    )
    job = done.stdout.strip()
    assert accounted.run(*user, "scontrol", "update", f"JobId={job}", "QOS=normal").returncode != 0
    assert accounted.fields(job)["QOS"] == "urgent"
    accounted.run("scancel", job)
