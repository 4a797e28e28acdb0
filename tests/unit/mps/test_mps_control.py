"""What fikit knows of MPS, without any: priorities, limits, environments, notes of control daemons."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from fikitd.mps.control import began, client_environment, client_priority, is_server, joined, memory_limit
from fikitd.mps.servers import states
from fikitd.store.records import JobRecord

MPS = Path("/run/fikit/mps")
UUID = "GPU-1a2b3c4d-0000-0000-0000-000000000000"
SAID = client_environment(JobRecord(job="12", uid=1, gid=1, priority=8, mem_bytes=2**32), MPS / "1a2b3c4d00000", UUID)


def test_high_jobs_are_normal_clients_and_all_others_are_below_them() -> None:
    assert [client_priority(priority) for priority in range(10)] == [0, 0, *[1] * 8]


@pytest.mark.parametrize(("mem_bytes", "limit"), [(2**32, "0=5120M"), (1, "0=1025M"), (2**20 + 1, "0=1026M")])
def test_limit_has_room_for_what_the_driver_takes_itself_and_rounds_up(mem_bytes: int, limit: str) -> None:
    assert memory_limit(mem_bytes) == limit


def test_a_program_gets_what_was_said_to_its_job() -> None:
    assert joined({"HOME": "/h"}, SAID, MPS) == {"HOME": "/h", **SAID}
    assert SAID["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=5120M"


@pytest.mark.parametrize(("before", "after"), [("0", "0"), ("3", UUID), ("", UUID), ("MIG-x", UUID)])
def test_the_gpus_number_stays_where_it_means_the_same_inside_and_outside(before: str, after: str) -> None:
    assert joined({"CUDA_VISIBLE_DEVICES": before}, SAID, MPS)["CUDA_VISIBLE_DEVICES"] == after


def test_what_a_program_inherited_from_another_job_is_left_behind() -> None:
    inherited = {**SAID, "CUDA_VISIBLE_DEVICES": "0"}
    assert joined(inherited, {}, MPS) == {"CUDA_VISIBLE_DEVICES": "0"}
    without_limit = {name: value for name, value in SAID.items() if "LIMIT" not in name}
    assert joined(SAID, without_limit, MPS) == without_limit


@pytest.mark.parametrize("own", ["/home/me/mps", "/run/fikit2/mps/x", ""])
def test_a_users_own_mps_is_left_alone(own: str) -> None:
    env = {"CUDA_MPS_PIPE_DIRECTORY": own, "CUDA_MPS_CLIENT_PRIORITY": "0"}
    assert joined(env, SAID, MPS) == env


def note(directory: Path, **changed: object) -> Path:
    file = directory / "1a2b3c4d00000.json"
    document = {"uuid": UUID, "pid": os.getpid(), "started": began(os.getpid()), "jobs": ["12"], **changed}
    file.write_text(json.dumps({name: value for name, value in document.items() if value is not None}))
    return file


def test_a_control_daemon_that_lives_is_found_by_its_note(tmp_path: Path) -> None:
    note(tmp_path)
    (state,) = states(tmp_path)
    assert (state.uuid, state.pid, state.jobs) == (UUID, os.getpid(), ["12"])


@pytest.mark.parametrize("changed", [
    {"pid": 2**22 + 1}, {"started": 1}, {"pid": "x"}, {"jobs": ["../12"]}, {"jobs": 3}, {"pid": None},
    {"jobs": [["12"]]}, {"uuid": "../../etc"}, {"uuid": 7},
])  # fmt: skip
def test_a_note_of_another_process_or_of_nonsense_is_removed_and_nobody_is_ended(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    file = note(tmp_path, **changed)
    assert states(tmp_path) == []
    assert not file.exists()


@pytest.mark.parametrize("text", ["", "null", "[]", "7", "{", "[" * 100_000, "\xff\xfe"])
def test_what_is_no_note_is_removed(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text, encoding="latin-1")
    assert states(tmp_path) == []
    assert not (tmp_path / "x.json").exists()


def test_a_server_is_a_program_of_roots_whatever_a_process_calls_itself(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-cuda-mps-server"
    program.touch()
    proc = tmp_path / "proc"
    for pid, exe in (("7", program), ("8", Path("/usr/bin/true"))):
        (proc / pid).mkdir(parents=True)
        (proc / pid / "exe").symlink_to(exe)
    assert is_server(proc, 7) == (os.getuid() == 0)
    if os.getuid() == 0:
        os.chown(program, 65534, 65534)
        assert not is_server(proc, 7)
    assert not is_server(proc, 8)
    assert not is_server(proc, 9)
