"""The placement agent on a real Slurm: the shorter job is first, and whatever becomes of the agent, no job waits for it."""

from __future__ import annotations

import json
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

if TYPE_CHECKING:
    from cluster_jobs import Cluster

MULTIFACTOR = ("PriorityType=priority/multifactor", "PriorityWeightAge=100")
ALL_OF_IT = "--gres=shard:16"


@pytest.fixture(scope="module")
def ordered(sandbox: Sandbox, make_cluster: Callable[[Sandbox], Cluster]) -> Iterator[Cluster]:
    """`sandbox` only says whether there can be one."""
    with Sandbox(slurm_lines=MULTIFACTOR) as own:
        yield make_cluster(own)


def set_mode(cluster: Cluster, mode: str) -> None:
    file = cluster.sandbox.fikit_toml
    text = re.sub(r'\n\[placement\]\nmode = "\w+"\n', "", file.read_text())
    file.write_text(f'{text}\n[placement]\nmode = "{mode}"\n')


class Agent:
    """`fikit place --daemon`, as its unit runs it: what follows its end by whatever way is --clear."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster, self.directory = cluster, directory
        self.command = [sys.executable, "-m", "fikit", "place", "--state", str(directory)]
        self.process = subprocess.Popen(
            [*self.command, "--daemon"], env=cluster.sandbox.env, stderr=subprocess.PIPE, text=True
        )

    def end(self, number: int = signal.SIGTERM) -> str:
        """What it said."""
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(number)
        return self.process.communicate(timeout=20)[1]

    def clear(self) -> str:
        return self.cluster.sandbox.run([*self.command, "--clear"]).stderr


@pytest.fixture
def agent(ordered: Cluster, tmp_path: Path) -> Iterator[Agent]:
    set_mode(ordered, "order")
    running = Agent(ordered, tmp_path)
    yield running
    if running.process.poll() is None:
        running.end(signal.SIGKILL)
    running.clear()
    ordered.run("scancel", "--user=root")
    ordered.until(lambda: not ordered.run("squeue", "--noheader").stdout.strip(), "jobs are left")


def sleeping(cluster: Cluster, seconds: float, *options: str) -> str:
    return cluster.submit(cluster.script(f"sleep-{seconds}", f"sleep {seconds}"), ALL_OF_IT, *options)


def comment(cluster: Cluster, job: str) -> str:
    found = re.search(r"AdminComment=(\S*)", cluster.run("scontrol", "show", "job", "-o", job).stdout)
    return found[1] if found else ""


def priority(cluster: Cluster, job: str) -> int:
    return int(cluster.fields(job)["Priority"])


def started(cluster: Cluster, job: str) -> float:
    return time.mktime(time.strptime(cluster.fields(job)["StartTime"], "%Y-%m-%dT%H:%M:%S"))


def steered(cluster: Cluster, job: str) -> None:
    cluster.until(lambda: priority(cluster, job) > 100, f"job {job} was not ordered")


def test_the_shorter_job_starts_first_and_users_see_why(ordered: Cluster, agent: Agent) -> None:
    first = sleeping(ordered, 4)
    long, short = sleeping(ordered, 1, "--time=300"), sleeping(ordered, 1, "--time=2")
    steered(ordered, short)
    assert comment(ordered, short) == "fikit:order,expected_s=120"
    queue = ordered.run("fikit", "queue").stdout.splitlines()
    assert [line.split()[0] for line in queue if line.split()[:1] and line.split()[0].isdigit()] == [short, long]
    assert "2 min" in next(line for line in queue if line.split()[:1] == [short])
    for job in (first, short, long):
        ordered.wait(job)
    assert started(ordered, short) < started(ordered, long)
    ordered.until(lambda: comment(ordered, short) == "", "what was set of a job that began was not taken away")


def test_a_job_with_a_wish_of_its_own_is_left_alone(ordered: Cluster, agent: Agent) -> None:
    running = sleeping(ordered, 30)
    others = [
        sleeping(ordered, 1, "--time=2", f"--dependency=afterany:{running}"), sleeping(ordered, 1, "--time=2", "--array=1-3%1"),
        sleeping(ordered, 1, "--time=2", "--hold"), sleeping(ordered, 1, "--time=2", f"--nodelist={ordered.sandbox.nodes[0]}"),
    ]  # fmt: skip
    steered(ordered, sleeping(ordered, 1, "--time=2"))
    assert [comment(ordered, job) for job in others] == [""] * 4
    assert all(priority(ordered, job) <= 100 for job in others)


def test_the_owner_takes_a_job_out_of_the_order(ordered: Cluster, agent: Agent) -> None:
    running = sleeping(ordered, 30)
    job = sleeping(ordered, 1, "--time=2")
    steered(ordered, job)
    ordered.run("scontrol", "update", f"JobId={job}", f"Dependency=afterany:{running}")
    ordered.until(lambda: priority(ordered, job) <= 100 and comment(ordered, job) == "", "what was set stayed")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_without_its_agent_a_job_starts_as_soon_as_slurm_lets_it(ordered: Cluster, agent: Agent, number: int) -> None:
    running = sleeping(ordered, 3)
    before = sleeping(ordered, 0, "--time=2")
    steered(ordered, before)
    agent.process.send_signal(number)
    after = sleeping(ordered, 0, "--time=1")
    for job in (running, before, after):
        ordered.wait(job)
    alone = sleeping(ordered, 0)
    ordered.wait(alone)
    fields = ordered.fields(alone)
    assert fields["StartTime"] <= fields["SubmitTime"] or started(ordered, alone) - time.time() < 5


def test_what_a_killed_agent_had_set_is_taken_back(ordered: Cluster, agent: Agent) -> None:
    sleeping(ordered, 30)
    job = sleeping(ordered, 1, "--time=2")
    steered(ordered, job)
    agent.end(signal.SIGKILL)
    assert priority(ordered, job) > 100
    assert "taken back from" in agent.clear()
    assert (priority(ordered, job) <= 100, comment(ordered, job)) == (True, "")


def test_an_agent_that_is_ended_takes_back_what_it_set(ordered: Cluster, agent: Agent) -> None:
    sleeping(ordered, 30)
    job = sleeping(ordered, 1, "--time=2")
    steered(ordered, job)
    agent.end()
    assert (agent.process.returncode, priority(ordered, job) <= 100, comment(ordered, job)) == (0, True, "")


def test_slurmctld_is_restarted_under_it(ordered: Cluster, agent: Agent) -> None:
    sandbox = ordered.sandbox
    sleeping(ordered, 30)
    job = sleeping(ordered, 1, "--time=2")
    steered(ordered, job)
    sandbox._group.end("slurmctld")
    time.sleep(2)
    sandbox._start("slurmctld", "-D", "-f", str(sandbox.env["SLURM_CONF"]))
    ordered.until(lambda: ordered.fields(job), "slurmctld did not come back")
    sandbox.restart_slurmd()  # or slurmctld knows no GPUs of the node until it next asks for them
    assert priority(ordered, job) > 100, "Slurm keeps what was set"
    other = sleeping(ordered, 1, "--time=1")
    ordered.until(lambda: priority(ordered, other) > priority(ordered, job), "the agent did not go on", timeout_s=60)
    assert agent.process.poll() is None


@pytest.mark.parametrize("mode", ["off", "advise"])
def test_nothing_of_a_job_changes(ordered: Cluster, agent: Agent, mode: str, tmp_path: Path) -> None:
    agent.end()
    set_mode(ordered, mode)
    sleeping(ordered, 30)
    job = sleeping(ordered, 1, "--time=2")
    before = {
        key: value
        for key, value in ordered.fields(job).items()
        if key not in {"AccrueTime", "LastSchedEval", "Reason", "Scheduler", "StartTime", "EndTime", "Priority"}
    }
    other = Agent(ordered, tmp_path)
    time.sleep(3)
    said = other.end() if mode == "advise" else other.process.communicate(timeout=20)[1]
    assert ("placement is off" if mode == "off" else f"job {job}: SiteFactor would become") in said
    after = ordered.fields(job)
    assert {key: after[key] for key in before} == before
    assert priority(ordered, job) <= 100
    assert other.process.returncode == 0
    assert not list(tmp_path.glob("*.json")) or json.loads((tmp_path / "placed.json").read_text())["jobs"] == {}
