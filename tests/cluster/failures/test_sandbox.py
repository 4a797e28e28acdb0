"""The throw-away Slurm itself: exit codes, other policies, and that nothing stays when it ends, however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fikit.sandbox.needs import SandboxError
from fikit.sandbox.processes import processes_of
from fikit.sandbox.sandbox import Sandbox
from fikit.slurm import versions as slurm_versions
from fikitd.api.client import Control
from fikitd.config.fikit_toml import SchedulerConfig

if TYPE_CHECKING:
    from cluster_jobs import Cluster

FIKIT = str(Path(sys.executable).with_name("fikit"))


@pytest.fixture(autouse=True)
def _needs_slurm(sandbox: Sandbox) -> None:
    """Skipped where the session's sandbox is skipped."""


@pytest.fixture
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A short TMPDIR of the test's own: what a sandbox leaves behind is seen in it."""
    directory = Path("/tmp") / f"fk{os.getpid()}"
    directory.mkdir()
    directory.chmod(0o755)
    yield directory
    left = [path.name for path in directory.iterdir()]
    processes = processes_of(directory)
    subprocess.run(["rm", "-rf", directory], check=True)
    assert left == []
    assert processes == []


def test_exit_code_is_the_commands_and_nothing_stays(temporary: Path) -> None:
    command = "srun --gres=gpu:1 --fikit-priority=low true; sbatch --output=/dev/null --wrap='sleep 1000' >/dev/null; echo on $SLURM_CONF; exit 7"
    done = subprocess.run(
        [FIKIT, "sandbox", "--", "sh", "-c", command],
        env={**os.environ, "TMPDIR": str(temporary)}, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 7, done.stderr
    assert done.stdout.startswith(f"on {temporary}/fikit-")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_command_and_everything_else(temporary: Path, number: signal.Signals) -> None:
    command = "sbatch --gres=gpu:1 --fikit-priority=low --output=/dev/null --wrap='sleep 1000' >/dev/null; echo up; exec sleep 1000"
    with subprocess.Popen(
        [FIKIT, "sandbox", "--", "sh", "-c", command],
        env={**os.environ, "TMPDIR": str(temporary)}, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        assert process.wait(30) != 0


def test_signal_while_starting_leaves_nothing(temporary: Path) -> None:
    with subprocess.Popen(
        [FIKIT, "sandbox", "--", "true"],
        env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        while not list(temporary.glob("fikit-*/log/munged.out")):
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 130


def test_command_that_does_not_exist_is_one_sentence(temporary: Path) -> None:
    done = subprocess.run(
        [FIKIT, "sandbox", "--", "no-such-command"],
        env={**os.environ, "TMPDIR": str(temporary)}, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 127
    assert done.stderr.strip().splitlines() == ['fikit: there is no program "no-such-command"; check the name and PATH']


def test_policy_changes_between_jobs(cluster: Cluster) -> None:
    run = ("srun", "--gres=gpu:1", "--fikit-priority=low", "true")
    try:
        for policy in ("fifo", "prio"):
            cluster.sandbox.set_policy(policy)
            assert cluster.run(*run).returncode == 0
            assert Control(cluster.sandbox.run_dir).ping().endswith(f" {policy}")
    finally:
        cluster.sandbox.set_policy(SchedulerConfig().policy)


def test_plugin_for_another_slurm_is_one_sentence_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_versions, "installed", lambda: (99, 1, 0))
    with pytest.raises(SandboxError) as error:
        Sandbox().start()
    assert re.search(
        r"spank_fikit.so was built for Slurm [0-9.]+, this is 99.01: rebuild it by make slurm-plugin", str(error.value)
    )


def test_user_without_root_hears_what_to_do() -> None:
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        os.setresuid(33, 33, 33)
        try:
            Sandbox().start()
        except SandboxError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    assert os.read(reader, 1000).decode().startswith("the sandbox needs root")
    os.close(reader)
