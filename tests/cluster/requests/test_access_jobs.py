"""Who may use which priority: slurmctld refuses the rest, however a job comes, and nothing that is a user's changes that."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fikit.sandbox.sandbox import Sandbox
from users import as_user, can_run_fikit

if TYPE_CHECKING:
    from cluster_jobs import Cluster, Probe

GPU = "--gres=gpu:1"
HIGH, NORMAL, LOW = (f"--fikit-priority={name}" for name in ("high", "normal", "low"))
RULES: dict[str, Any] = {
    "highest_priority": "normal",
    "rule": [
        {"partition": "debug", "highest_priority": "low"},
        {"group": "www-data", "partition": ["prod", "all"], "highest_priority": "high"},
    ],
}
PARTITIONS = [f"PartitionName={name} Nodes=ALL State=UP OverSubscribe=YES" for name in ("debug", "prod")]
WHOLE_NODES = "PartitionName=whole Nodes=ALL State=UP OverSubscribe=EXCLUSIVE"


@pytest.fixture(scope="module")
def ruled(sandbox: Sandbox, make_cluster: Callable[[Sandbox], Cluster]) -> Iterator[Cluster]:
    """A cluster with rules; `sandbox` only says whether there can be one."""
    with Sandbox(gpus=1, access=RULES, slurm_lines=[*PARTITIONS, WHOLE_NODES]) as own:
        yield make_cluster(own)


@pytest.fixture(autouse=True)
def _rules(ruled: Cluster) -> Iterator[None]:
    yield
    ruled.sandbox.set_access(RULES)


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one sentence of ours with which a command failed."""
    assert done.returncode != 0, done.stdout
    ours = [line for line in done.stdout.splitlines() if "fikit: " in line]
    assert len(ours) == 1, done.stdout
    return ours[0].partition("fikit: ")[2]


def updated(ruled: Cluster, job: str, change: str, *user: str) -> subprocess.CompletedProcess[str]:
    """`scontrol update`, again while slurmctld answers with the errno of something else, as 24.11 and newer do where no
    slurmdbd knows an association (`_update_job`: error_code = errno)."""
    done: list[subprocess.CompletedProcess[str]] = []

    def answered() -> bool:
        done[:] = [ruled.run(*user, "scontrol", "update", f"JobId={job}", change)]
        return "Resource temporarily unavailable" not in done[0].stdout

    ruled.until(answered, f"slurmctld does not answer to {change}")
    return done[0]


@pytest.mark.parametrize("command", ["srun", "sbatch", "salloc"])
def test_priority_above_the_sites_is_one_sentence(ruled: Cluster, command: str) -> None:
    sentence = "--fikit-priority=high is not for this job here (partition all; `fikit limits` shows the rules): "
    sentence += "use --fikit-priority=normal, low or a number from 5 to 9"
    assert refused(ruled.run(command, GPU, HIGH, ruled.probe)) == sentence
    by_variable = refused(ruled.run(command, GPU, ruled.probe, FIKIT_PRIORITY="high"))
    assert by_variable == sentence.replace("--fikit-priority", "FIKIT_PRIORITY")
    assert "(partition debug;" in refused(ruled.run(command, "-p", "debug,prod", GPU, NORMAL, ruled.probe))


@pytest.mark.parametrize("partitions", ["whole", "whole,all"])
def test_nobody_shares_where_every_job_has_whole_nodes(ruled: Cluster, partitions: str) -> None:
    sentence = "partition whole gives every job whole nodes, where no job shares a GPU: leave it or {} out"
    assert refused(ruled.run("sbatch", "-p", partitions, GPU, LOW, ruled.probe)) == sentence.format("--fikit-priority")
    wished = ruled.run("srun", "-p", partitions, GPU, ruled.probe, FIKIT_PRIORITY="low")
    assert refused(wished) == sentence.format("FIKIT_PRIORITY")
    alone = ruled.run("srun", "-p", "whole", GPU, "true")
    assert alone.returncode == 0, alone.stdout


def test_rule_by_group_and_partition(ruled: Cluster, parsed: Callable[[str], Probe]) -> None:
    done = ruled.run(*as_user("www-data"), "srun", "-p", "prod", GPU, HIGH, ruled.probe)
    assert parsed(done.stdout).record["priority"] == "1"
    assert "use --fikit-priority=low" in refused(
        ruled.run(*as_user("www-data"), "srun", "-p", "debug", GPU, HIGH, "true")
    )
    assert "use --fikit-priority=normal" in refused(
        ruled.run(*as_user("nobody"), "srun", "-p", "prod", GPU, HIGH, "true")
    )


def test_jobs_that_share_nothing_are_as_ever(ruled: Cluster) -> None:
    for options in ((), (GPU,), (GPU, "-p", "debug"), (GPU, "--fikit-measure", "-p", "debug")):
        assert ruled.run("srun", *options, "true").returncode == 0
    assert ruled.run("srun", "true", FIKIT_PRIORITY="high").returncode == 0


def test_arrays_and_components_are_asked_each(ruled: Cluster) -> None:
    def queue() -> str:
        return ruled.run("squeue", "--noheader").stdout.strip()

    script = ruled.script("nothing", "true")
    ruled.until(lambda: not queue(), "jobs of the tests before are not over")
    refused(ruled.run("sbatch", "--array=1-3", GPU, HIGH, script))
    refused(ruled.run("sbatch", GPU, LOW, ":", GPU, HIGH, script))
    assert queue() == ""


def test_a_steps_option_raises_nothing(ruled: Cluster, parsed: Callable[[str], Probe]) -> None:
    step = ("srun", HIGH, "--fikit-max-slowdown=0%", ruled.probe)
    for options in (("--gres=shard:2",), (GPU, LOW)):
        done = ruled.run("salloc", *options, *step, FIKIT_PRIORITY="")
        assert done.returncode == 0, done.stdout
        record = parsed(done.stdout).record
        assert (record["priority"], "max_slowdown" in record) == ("5" if "shard" in options[0] else "8", False)
    assert refused(ruled.run("salloc", "-p", "debug", "--gres=shard:2", *step)).startswith(
        "a job that names no priority gets 5"
    )


def test_forged_options_and_variables_come_into_no_record(ruled: Cluster, parsed: Callable[[str], Probe]) -> None:
    """By a client with a slurm.conf of its user's, which knows no cli_filter; in partition debug everybody is low at most."""
    theirs = ruled.directory / "slurm.conf"
    text = Path(ruled.env["SLURM_CONF"]).read_text()
    theirs.write_text("".join(line for line in text.splitlines(True) if not line.startswith("CliFilterPlugins")))
    mine = {"SLURM_CONF": str(theirs)}
    carried = "_SLURM_SPANK_OPTION_fikit_fikit_priority"
    for options, env in (
        (["--export=ALL,FIKIT_MEASURE=1"], {}),
        (["--export=NONE"], {}),
        (["--exclusive"], {}),
        (["--fikit-measure"], {}),
        ([f"--export=ALL,{carried}=low"], {}),
        ([], {"FIKIT_MEASURE": "1"}),
    ):
        command = ("sbatch", "-p", "debug", "--output=/dev/null", GPU, "--fikit-priority=0", *options, ruled.probe)
        refused(ruled.run(*as_user("nobody"), *command, **mine, **env))
    said = "x\u2028priority=0\u2029measure=1\x85uid=0"
    step = ("srun", f"--job-name='{said}'", HIGH, "--fikit-measure", "--fikit-mem=1G", "--export=ALL", str(ruled.probe))
    forged = {
        carried: "0",
        "SLURM_SPANK_" + carried: "0",
        "FIKIT_PRIORITY": "0",
        "SLURM_JOB_NAME": said,
        "SLURM_JOB_GPUS": "7",
    }
    script = ruled.script(
        "forges", *(f"export {name}='{value}'" for name, value in forged.items()), *(" ".join(step),) * 2
    )
    for request, priority in (
        ((GPU, LOW), "8"),
        (("--gres=shard:2", LOW), "8"),
        (("--gres=shard:2", "-p", "all"), "5"),
    ):
        record = parsed(ruled.batch(script, "-p", "debug", "--export=NONE", *request)).record
        assert (record["priority"], record["measure"], record["mem_bytes"], record["gpus"]) == (priority, "0", "0", "0")


def test_job_cannot_move_to_where_it_may_not_be(ruled: Cluster) -> None:
    user = as_user("www-data")
    submitted = ruled.run(
        *user, "sbatch", "--parsable", "--hold", "--output=/dev/null", GPU, HIGH, ruled.script("t", "true")
    )
    job = submitted.stdout.strip()
    for change in ("Partition=debug", "Partition=prod,debug"):
        assert updated(ruled, job, change, *user).returncode != 0
        assert ruled.fields(job)["Partition"] == "all"
    assert updated(ruled, job, "Partition=prod", *user).returncode == 0
    assert updated(ruled, job, "Partition=debug").returncode == 0, "root is an operator"
    assert updated(ruled, job, "Comment=x", *user).returncode == 0
    ruled.run("scancel", job)


def test_a_wish_gets_no_shards_afterwards(ruled: Cluster) -> None:
    user = as_user("nobody")
    submitted = ruled.run(*user, "sbatch", "--parsable", "--hold", "--output=/dev/null", ruled.script("t", "true"),
                          FIKIT_PRIORITY="high")  # fmt: skip
    job = submitted.stdout.strip()
    assert updated(ruled, job, "Gres=shard:2", *user).returncode != 0
    ruled.run("scancel", job)


def test_requeued_job_keeps_the_priority_that_it_was_given(ruled: Cluster, parsed: Callable[[str], Probe]) -> None:
    ruled.sandbox.set_access({"highest_priority": 0})
    script = ruled.script("again", '[ -n "$SLURM_RESTART_COUNT" ] || sleep 60', f"exec {ruled.probe}")
    job = ruled.submit(script, GPU, HIGH, "--requeue")
    ruled.until(lambda: ruled.fields(job)["JobState"] == "RUNNING", "it does not run")
    ruled.sandbox.set_access(RULES)
    ruled.run("scontrol", "requeue", job)
    ruled.until(lambda: job not in ruled.records(), "the first run's record stayed")
    ruled.start_again(job)
    assert parsed(ruled.wait(job)).record["priority"] == "1"


def test_rules_hold_from_the_next_job_on_and_a_broken_file_keeps_the_last(ruled: Cluster) -> None:
    assert ruled.run("srun", GPU, HIGH, "true").returncode != 0
    ruled.sandbox.set_access({"highest_priority": "high"})
    assert ruled.run("srun", GPU, HIGH, "true").returncode == 0
    ruled.sandbox.fikit_toml.write_text("[access\n")
    assert ruled.run("srun", GPU, HIGH, "true").returncode == 0
    assert ruled.run("srun", GPU, "--fikit-priority=0", "true").returncode != 0
    assert ruled.run("srun", "true").returncode == 0
    log = (ruled.sandbox.logs / "slurmctld.log").read_text()
    said = [line for line in log.splitlines() if "cannot be used: line 1" in line]
    assert len(said) == 1
    assert "the rules of before stay in force" in said[0]


def test_a_users_own_files_and_variables_change_nothing(ruled: Cluster, tmp_path: Path) -> None:
    home = ruled.directory / "home"
    for path in (home / ".config" / "fikit" / "fikit.toml", home / "fikit.toml"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[access]\nhighest_priority = 0\n")
    mine = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "FIKIT_CONFIG": str(home / "fikit.toml")}
    refused(ruled.run(*as_user("nobody"), "srun", GPU, HIGH, "true", **mine))
    inside = {
        "_SLURM_SPANK_OPTION_fikit_fikit_priority": "high",
        "SLURM_SPANK__SLURM_SPANK_OPTION_fikit_fikit_priority": "high",
    }
    done = ruled.run(*as_user("nobody"), "srun", GPU, LOW, ruled.probe, **inside)
    assert done.returncode != 0 or "priority=8" in done.stdout.splitlines(), done.stdout
    assert "priority=1" not in done.stdout.splitlines()


def test_fikit_limits_says_what_is_enforced(ruled: Cluster) -> None:
    if not can_run_fikit("www-data"):
        pytest.skip("other users may not enter the directory of this Python")
    shown = ruled.run(*as_user("www-data"), "fikit", "limits", FIKIT_CONFIG=str(ruled.sandbox.fikit_toml)).stdout
    assert [line.split("  ")[0].strip() for line in shown.splitlines() if "to 9" in line] == [
        "partition debug", "partition prod or all, group www-data", "all others",
    ]  # fmt: skip
