"""MPS and the SPANK plugin: what a step's tasks find in their environment where fikit.toml has `[gpu] mps`. Job 12 of user 33."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from plugin_fake import HAVE_HEADERS, Node, answering, environment, load, set_job_option, set_step

pytestmark = pytest.mark.skipif(not HAVE_HEADERS, reason="needs libslurm-dev")

UUID = "GPU-1a2b3c4d-0000-0000-0000-000000000000"
SHARES = {"SLURM_SHARDS_ON_NODE": "4"}


@pytest.fixture
def node(cc: Callable[..., Path], tmp_path: Path) -> Iterator[Node]:
    """A node with MPS, on which job 12 has a record; its fikitd says what it needs to join."""
    (tmp_path / "shim.so").touch()
    with answering(Node(load(cc, tmp_path / "slurm"), tmp_path / "run", f"shim={tmp_path}/shim.so")) as node:
        set_job_option(node.plugin, "fikit-priority", "low")
        node.prolog()
        (node.run_dir / "mps").mkdir()
        said = {**told(node), "LD_AUDIT": "/evil.so", "CUDA_VISIBLE_DEVICES": UUID}
        node.answer = "".join(["ok\n", *(f"{name}={value}\n" for name, value in said.items())]).encode()
        yield node


def told(node: Node) -> dict[str, str]:
    return {
        "CUDA_MPS_PIPE_DIRECTORY": f"{node.run_dir}/mps/1a2b3c4d",
        "CUDA_MPS_CLIENT_PRIORITY": "1",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=5120M",
    }


def start(node: Node, **env: str) -> dict[str, str]:
    """A step's first task up to its exec: what it has of CUDA's variables, and of what no fikitd can give."""
    set_step(node.plugin, 0)
    environment(node.plugin, env)
    node.post_opt()
    node.task_init()
    return {name: value for name, value in environment(node.plugin).items() if name.startswith(("CUDA_", "LD_AUDIT"))}


def test_a_task_with_shards_gets_what_fikitd_says_and_of_that_only_what_belongs_to_mps(node: Node) -> None:
    assert start(node, **SHARES) == {**told(node), "CUDA_VISIBLE_DEVICES": UUID}
    assert node.heard[-1] == "mps 12"


def test_the_gpus_own_number_takes_the_place_of_slurms_only_where_they_differ(node: Node) -> None:
    assert start(node, **SHARES, CUDA_VISIBLE_DEVICES="0")["CUDA_VISIBLE_DEVICES"] == "0"
    assert start(node, **SHARES, CUDA_VISIBLE_DEVICES="3")["CUDA_VISIBLE_DEVICES"] == UUID


def test_a_step_that_has_no_shards_does_not_ask(node: Node) -> None:
    assert start(node, CUDA_VISIBLE_DEVICES="0") == {"CUDA_VISIBLE_DEVICES": "0"}
    assert "mps 12" not in node.heard


def test_a_measuring_job_does_not_ask_whatever_its_user_says_of_shards(node: Node) -> None:
    set_job_option(node.plugin, "fikit-measure", "")
    node.prolog()
    assert start(node, **SHARES) == {}
    assert "mps 12" not in node.heard


def test_without_mps_on_the_node_nobody_is_asked(node: Node) -> None:
    (node.run_dir / "mps").rmdir()
    assert start(node, **SHARES) == {}
    assert "mps 12" not in node.heard


@pytest.mark.parametrize("shares", [{}, SHARES])
@pytest.mark.parametrize("managed", [False, True])
def test_what_another_job_had_is_left_behind(node: Node, shares: dict[str, str], managed: bool) -> None:
    node.answer = b"ok\n"
    if not managed:
        node.record.unlink()
    inherited = {**told(node), "CUDA_MPS_PIPE_DIRECTORY": f"{node.run_dir}/mps/other"}
    assert start(node, **shares, **inherited) == {}


def test_what_another_job_had_makes_room_for_the_jobs_own(node: Node) -> None:
    inherited = {"CUDA_MPS_PIPE_DIRECTORY": f"{node.run_dir}/mps/other", "CUDA_MPS_CLIENT_PRIORITY": "0"}
    assert start(node, **SHARES, **inherited) == {**told(node), "CUDA_VISIBLE_DEVICES": UUID}


@pytest.mark.parametrize("own", ["/home/me/mps", "", "/run/fikit2/mps/x"])
def test_a_users_own_mps_is_left_alone(node: Node, own: str) -> None:
    env = {"CUDA_MPS_PIPE_DIRECTORY": own, "CUDA_MPS_CLIENT_PRIORITY": "0", "CUDA_VISIBLE_DEVICES": "3"}
    assert start(node, **SHARES, **env) == env


@pytest.mark.parametrize("answer", [b"error no such verb\n", b"ok\nCUDA_MPS_CLIENT_PRIORITY=0\n", b"ok\n=\n\nnonsense", b"ok\n"])  # fmt: skip
def test_without_a_pipe_directory_from_fikitd_a_task_gets_nothing(node: Node, answer: bytes) -> None:
    node.answer = answer
    assert start(node, **SHARES) == {}


def test_a_task_that_cannot_have_the_shim_does_not_join(node: Node, tmp_path: Path) -> None:
    (tmp_path / "shim.so").unlink()
    assert start(node, **SHARES) == {}


def test_a_fikitd_that_does_not_answer_costs_a_step_two_seconds(node: Node) -> None:
    node.stops_answering()
    begun = time.monotonic()
    assert start(node, **SHARES) == {}
    assert 1.9 < time.monotonic() - begun < 10.0
    assert "did not say whether job 12 joins MPS" in node.log()


def test_srun_and_sbatch_in_a_job_leave_what_it_had_behind_and_nothing_else(node: Node) -> None:
    own = {"CUDA_MPS_PIPE_DIRECTORY": "/home/me/mps", "CUDA_MPS_CLIENT_PRIORITY": "1"}
    for env, left in ((told(node), {}), (own, own)):
        with pytest.MonkeyPatch.context() as variables:
            for name in told(node):
                variables.delenv(name, raising=False)
            for name, value in env.items():
                variables.setenv(name, value)
            node.plugin.fikit_mps_leave_outer_job(ctypes.byref(node.config))
            assert c_environment(told(node)) == left


def c_environment(names: dict[str, str]) -> dict[str, str]:
    """As C sees it, which os.environ does not follow."""
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_char_p
    found = {name: libc.getenv(os.fsencode(name)) for name in names}
    return {name: os.fsdecode(value) for name, value in found.items() if value is not None}
