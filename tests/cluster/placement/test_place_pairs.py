"""`pair` on a real Slurm whose GPUs have types of their own: where jobs run, for whom they wait, and that nobody waits for a dead agent."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fikit.sandbox.sandbox import Sandbox
from fikit.slurm import versions as slurm_versions
from fikitd.api.outcomes import HEAD, SUFFIX, Outcome, name_key

if TYPE_CHECKING:
    from cluster_jobs import Cluster

TYPED = ("PriorityType=priority/multifactor", "PriorityWeightAge=100")
VERSION = slurm_versions.installed() or ()
can_pair = pytest.mark.skipif(
    VERSION < slurm_versions.CHANGES_TYPES, reason="Slurm older than 24.11 does not change a job's type"
)
RUN_S = {"soon": 6.0, "long": 1000.0}


@pytest.fixture(scope="module")
def typed(sandbox: Sandbox, make_cluster: Callable[[Sandbox], Cluster]) -> Iterator[Cluster]:
    """Jobs called "soon" and "long" have run before, and keep a GPU busy. `sandbox` only says whether there can be one."""
    with Sandbox(gpus=2, gpu_types=("g0", "g1"), slurm_lines=TYPED) as own:
        spool = own.root / "outcomes"
        spool.mkdir(mode=0o700)
        runs = [
            Outcome(1, 0, name_key(name), 1_700_000_000, seconds, 1.0, 100, 1.0, 0.0, 1).text() for name, seconds in RUN_S.items()
        ]  # fmt: skip
        (spool / f"node{SUFFIX}").write_text("\n".join([HEAD, *runs, ""]))
        (own.root / "place").mkdir()
        own.daemon = {"outcomes_dir": str(spool), "outcomes_user": "root"}
        own.set_access({})
        with own.fikit_toml.open("a") as file:
            file.write(f'\n[placement]\nmode = "pair"\nrun_dir = "{own.root}/place"\n')
        yield make_cluster(own)


class Agent:
    """`fikit place --daemon` that decides; what it says is in `log`."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster, self.heartbeat, self.log = (
            cluster,
            cluster.sandbox.root / "place" / "heartbeat",
            directory / "log",
        )
        self.command = [sys.executable, "-m", "fikit", "place", "--state", str(directory)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen([*self.command, "--daemon"], env=cluster.sandbox.env, stderr=log)

    def end(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(number)
        self.process.wait(timeout=20)

    def clear(self) -> None:
        self.cluster.sandbox.run([*self.command, "--clear"])


@pytest.fixture
def agent(typed: Cluster, tmp_path: Path) -> Iterator[Agent]:
    running = Agent(typed, tmp_path)
    if slurm_versions.CHANGES_TYPES <= VERSION:
        typed.until(running.heartbeat.exists, "the agent did not begin")
    yield running
    if running.process.poll() is None:
        running.end(signal.SIGKILL)
    running.clear()
    running.heartbeat.unlink(missing_ok=True)
    typed.run("scancel", "--user=root")
    typed.until(lambda: not typed.run("squeue", "--noheader").stdout.strip(), "jobs are left")


def submit(cluster: Cluster, name: str, seconds: float) -> str:
    script = cluster.script(f"{name}-{seconds:g}", f"sleep {seconds}")
    return cluster.submit(script, "--gres=shard:4", f"--job-name={name}")


def shown(cluster: Cluster, job: str, pattern: str) -> str:
    found = re.search(pattern, cluster.run("scontrol", "--details", "show", "job", "-o", job).stdout)
    return found[1] if found else ""


def gpu(cluster: Cluster, job: str) -> str:
    """The type of the GPU on which it runs."""
    return str(
        cluster.until(lambda: shown(cluster, job, r" GRES=(?:\S*,)?shard:(\w+):[1-9]"), f"job {job} did not start")
    )


def state(cluster: Cluster, job: str) -> str:
    return cluster.fields(job).get("JobState", "")


def waited_s(cluster: Cluster, job: str) -> float:
    cluster.until(lambda: state(cluster, job) not in {"PENDING", ""}, f"job {job} did not start")
    submitted, started = (
        time.mktime(time.strptime(cluster.fields(job)[key], "%Y-%m-%dT%H:%M:%S")) for key in ("SubmitTime", "StartTime")
    )
    return started - submitted


@can_pair
def test_two_jobs_that_slurm_would_pack_are_apart_and_start_at_once(typed: Cluster, agent: Agent) -> None:
    first, second = submit(typed, "long", 8), submit(typed, "long", 8)
    assert {gpu(typed, first), gpu(typed, second)} == {"g0", "g1"}
    assert max(waited_s(typed, first), waited_s(typed, second)) <= 3


@can_pair
def test_steps_of_a_job_that_was_given_a_gpu_start(typed: Cluster, agent: Agent) -> None:
    script = typed.script(
        "steps", "srun true && srun --gres=gpu:1 true && srun --gres=shard:1 true && echo all of them"
    )
    job = typed.submit(script, "--gres=gpu:1", "--fikit-priority=low", "--job-name=long")
    assert "all of them" in typed.wait(job)


@can_pair
def test_a_job_waits_for_one_that_ends_soon_and_takes_its_gpu(typed: Cluster, agent: Agent) -> None:
    soon, long = submit(typed, "soon", 7), submit(typed, "long", 60)
    place = gpu(typed, soon)
    assert gpu(typed, long) != place
    third = submit(typed, "long", 1)
    typed.until(lambda: f"afterany:{soon}" in shown(typed, third, r"Dependency=(\S*)"), "it does not wait")
    assert shown(typed, third, r"AdminComment=(\S*)").startswith(f"fikit:waits,for={soon},until~")
    assert f"for a better place than beside {soon}" in " ".join(typed.run("fikit", "queue").stdout.split())
    assert gpu(typed, third) == place
    assert state(typed, long) == "RUNNING"


@can_pair
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_without_its_agent_a_job_starts_within_five_seconds(typed: Cluster, agent: Agent, number: int) -> None:
    submit(typed, "long", 20)
    agent.process.send_signal(number)
    assert waited_s(typed, submit(typed, "long", 1)) <= 6, "five, and a second that slurmctld's clock cuts off"


@can_pair
def test_who_waits_when_the_agent_is_killed_starts_when_its_unit_clears(typed: Cluster, agent: Agent) -> None:
    soon, long = submit(typed, "soon", 60), submit(typed, "long", 60)
    assert gpu(typed, soon) != gpu(typed, long)
    third = submit(typed, "long", 1)
    typed.until(lambda: "afterany" in shown(typed, third, r"Dependency=(\S*)"), "it does not wait")
    agent.end(signal.SIGKILL)
    assert state(typed, third) == "PENDING"
    agent.clear()
    typed.until(lambda: state(typed, third) not in {"PENDING", ""}, "it still waits", timeout_s=5)


@can_pair
def test_an_owner_who_clears_the_dependency_is_obeyed(typed: Cluster, agent: Agent) -> None:
    soon, long = submit(typed, "soon", 60), submit(typed, "long", 60)
    assert gpu(typed, soon) != gpu(typed, long)
    third = submit(typed, "long", 1)
    typed.until(lambda: "afterany" in shown(typed, third, r"Dependency=(\S*)"), "it does not wait")
    typed.run("scontrol", "update", f"JobId={third}", "Dependency=")
    typed.until(lambda: state(typed, third) not in {"PENDING", ""}, "it waits again", timeout_s=10)


@can_pair
def test_a_job_that_is_requeued_without_an_agent_does_not_wait_for_its_gpu_for_ever(
    typed: Cluster, agent: Agent
) -> None:
    """What looks for it is fikit-place-clear.timer."""
    job = submit(typed, "long", 300)
    place = gpu(typed, job)
    agent.end()
    everything = typed.script("everything", "sleep 300")
    other = typed.submit(everything, f"--gres=shard:{place}:16", "--job-name=other")
    typed.run("scontrol", "requeue", job)
    typed.until(lambda: state(typed, other) == "RUNNING", "the other one does not run")
    typed.start_again(job)
    typed.until(lambda: shown(typed, job, r"Reason=(\S+)") == "Resources", "it does not ask for its GPU again")
    assert state(typed, job) == "PENDING"
    agent.clear()
    typed.until(lambda: state(typed, job) == "RUNNING", "it waits for its GPU", timeout_s=10)
    assert gpu(typed, job) != place


@can_pair
def test_a_job_that_is_to_wait_for_one_that_has_ended_begins(typed: Cluster, agent: Agent) -> None:
    """It ended in the middle of the decision."""
    ended = submit(typed, "soon", 0)
    typed.end(ended)
    job = typed.submit(typed.script("after", "sleep 1"), "--gres=shard:4", "--begin=now+60")
    told = (
        "from fikit.placement.commands import Commands; from fikit.placement.plan import NOTHING, Change, Mark; "
        f"print(Commands().update([Change({job}, NOTHING, Mark(waits_for=({ended},)), '', begins=True)]))"
    )
    done = typed.sandbox.run([sys.executable, "-c", told])
    assert done.returncode == 0, done.stderr
    typed.until(lambda: state(typed, job) not in {"PENDING", ""}, "it waits for nobody", timeout_s=10)


@pytest.mark.skipif(VERSION >= slurm_versions.CHANGES_TYPES, reason="this Slurm changes a job's type")
def test_under_an_older_slurm_pair_is_order(typed: Cluster, agent: Agent) -> None:
    typed.until(lambda: "pair acts as order" in agent.log.read_text(), "nothing was said")
    assert waited_s(typed, submit(typed, "long", 1)) <= 3
    assert not agent.heartbeat.exists()
