"""Jobs with --fikit-mem-host that are clients of MPS, fikitd's or another one's: their memory stays on the GPU, and they hear why."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from emulator_tools import stats
from mps_site import MpsSite, eventually, mps_site

MIB = 2**20
SUPPORT = Path(__file__).resolve().parents[1] / "support"
ASKED = {"mem_bytes": 64 * MIB, "mem_host_bytes": 64 * MIB, "priority": 8}
PROGRAM = """
from memory_child import *
context()
pointers = [made(alloc(8 * MIB)), made(stream_ordered(8 * MIB))]
say("there")
pause()
"""


@pytest.fixture
def site(native: Path, emulator_env: Callable[..., dict[str, str]]) -> Iterator[MpsSite]:
    """Its jobs are Python programs, and may have memory on the host."""
    env = emulator_env(PYTHONPATH=str(SUPPORT))
    with mps_site(native, Path(sys.executable), env) as made:
        made.daemon.config.write_text(made.daemon.config.read_text() + '[oversubscribe]\nallow = "lower"\n')
        yield made


def account(site: MpsSite, pid: int) -> dict[str, Any]:
    (found,) = [p for device in stats(site.native, site.device) for p in device["processes"] if p["pid"] == pid]
    assert isinstance(found, dict)
    return found


def test_under_fikitds_own_mps_a_job_has_none_and_its_report_says_why(site: MpsSite) -> None:
    site.start()
    job, program = site.job("-c", PROGRAM, **ASKED)
    assert (program.first_word, site.in_mps(program.pid)) == ("there", True)
    assert account(site, program.pid)["managed_bytes"] == 0
    report = site.report(job)
    assert "moved" not in report["memory"]
    assert report["warnings"] == ["--fikit-mem-host has no effect: fikitd runs an MPS server on this node's GPUs"]
    assert program.communicate("\n", timeout=20)[1] == ""


def test_under_another_mps_its_program_hears_why(site: MpsSite, tmp_path: Path) -> None:
    own = {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path / "own"), "CUDA_MPS_LOG_DIRECTORY": str(tmp_path / "own_log")}
    control = site.native / "emulator" / "nvidia-cuda-mps-control"
    env = {**site.device, **own}

    def say(command: str) -> bool:
        return (
            subprocess.run(
                [control], input=f"{command}\n", env=env, capture_output=True, text=True, check=False
            ).returncode
            == 0
        )

    subprocess.run([control, "-d"], env=env, check=True)
    eventually(lambda: say("get_server_list"))
    say(f"start_server -uid {os.getuid()}")
    try:
        site.daemon.config.write_text(site.daemon.config.read_text().replace('mps = "multi-user"', 'mps = "off"'))
        site.start()
        job, program = site.job("-c", PROGRAM, env=own, **ASKED)
        assert (program.first_word, site.in_mps(program.pid)) == ("there", True)
        assert account(site, program.pid)["managed_bytes"] == 0
        assert site.report(job)["device_mode"] == "other-mps"
        said = program.communicate("\n", timeout=20)[1]
        assert said.count("\n") == 1
        assert "it is a client of MPS, and what a server's limits do to managed memory is not known.\n" in said
    finally:
        say("quit -t 0")
