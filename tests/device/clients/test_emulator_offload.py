"""Unmodified Debian programs on the emulated GPU: ffmpeg's CUDA filters, and what GCC offloads to NVIDIA GPUs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import SOURCES, kernels

Env = Callable[..., dict[str, str]]
FRAMES = 30
CHAIN = "format=yuv420p,hwupload_cuda,scale_cuda=160:120,thumbnail_cuda=10,hwdownload,format=yuv420p"
FFMPEG = ("-nostdin", "-v", "warning", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25", "-frames:v", "3")
COMPILERS = sorted(Path("/usr/lib/gcc").glob("*/*/accel/nvptx-none/mkoffload"))


def run(command: list[str | Path], env: dict[str, str]) -> str:
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "emucuda" not in done.stderr, "a call that the emulator should have"
    return done.stdout


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_ffmpeg_scales_and_picks_frames(native: Path, emulator_env: Env) -> None:
    env = emulator_env()
    # thumbnail_cuda picks one frame of ten: three frames come out of thirty.
    run(["ffmpeg", *FFMPEG, "-vf", CHAIN, "-f", "null", "-"], env)
    assert kernels(native, env) >= 2 * FRAMES, "at least one kernel per frame for each of the two filters"


@pytest.mark.skipif(not COMPILERS, reason="GCC's offloading to nvptx is not installed")
@pytest.mark.parametrize(("model", "launches"), [("openmp", 10), ("openacc", 11)])
def test_gcc_offload(native: Path, emulator_env: Env, tmp_path: Path, model: str, launches: int) -> None:
    compiler = shutil.which(f"gcc-{COMPILERS[-1].parents[2].name}") or "gcc"
    # --no-verify: a newer ptxas in PATH refuses the sm_35 code that GCC 12 makes.
    offload = [f"-f{model}", "-foffload=nvptx-none", "-foffload-options=-Wa,--no-verify"]
    source = SOURCES / f"offload_{model}.c"
    subprocess.run([compiler, "-O1", *offload, source, "-o", tmp_path / "program"], check=True, capture_output=True)
    env = emulator_env(OMP_TARGET_OFFLOAD="MANDATORY", ACC_DEVICE_TYPE="nvidia")
    assert run([tmp_path / "program"], env) == "devices 1\n"
    assert kernels(native, env) == launches
