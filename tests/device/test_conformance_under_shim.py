"""Programs with the shim and without it: the same output, byte for byte, and the same calls of the driver in the same order."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from call_recorder import Recorder
from shim_daemon import Daemon, wait_for
from test_emulator_clients import CUDA_CORE, TINYGRAD_EAGER, TINYGRAD_JIT
from test_emulator_offload import COMPILERS

pytest_plugins = ["shim_fixtures"]

Env = Callable[..., dict[str, str]]
HERE = Path(__file__).resolve().parent
CONFORMANCE = sorted((HERE.parent / "conformance").glob("*.c"))
# What the shim asks the driver on its own account. None of it enqueues, allocates, waits or changes anything.
QUESTIONS = {
    "cuCtxGetCurrent", "cuCtxGetDevice", "cuDeviceGetUuid", "cuDeviceGetUuid_v2", "cuDeviceGetName", "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2", "cuDevicePrimaryCtxGetState", "cuDriverGetVersion", "cuStreamGetCtx", "cuStreamIsCapturing",
    "cuFuncGetName", "cuKernelGetName", "cuGraphGetNodes", "cuGraphNodeGetType", "cuGraphGetEdges", "cuGraphGetEdges_v2",
    "cuGraphKernelNodeGetParams", "cuGraphKernelNodeGetParams_v2", "cuGraphMemcpyNodeGetParams", "cuGraphMemsetNodeGetParams",
    "cuGraphKernelNodeGetAttribute",
    "cuGraphMemAllocNodeGetParams", "cuGraphMemFreeNodeGetParams", "cuGraphChildGraphNodeGetGraph",
}  # fmt: skip
# How often a program asks whether something is done depends on the moment.
POLLS = {"cuStreamQuery", "cuStreamQuery_ptsz", "cuEventQuery"}


class Comparison:
    """Runs one program twice, without and with the shim, each time with a recorder and a device of its own."""

    def __init__(self, recorder: Recorder, shim: Path, daemon: Daemon, env: Env, directory: Path) -> None:
        self.recorder, self.shim, self.daemon, self.env, self.directory = recorder, shim, daemon, env, directory

    def run(self, command: list[str | Path], managed: bool, **more: str) -> tuple[bytes, list[list[str]]]:
        calls = self.directory / f"calls-{managed}"
        env = self.recorder.environment(self.env(**more), calls)
        if managed:
            env |= {"LD_PRELOAD": str(self.shim), "FIKIT_SOCKET": str(self.daemon.path)}
        for _ in range(5):
            calls.unlink(missing_ok=True)
            done = subprocess.run(command, env=env, capture_output=True, timeout=120, check=False)
            if b"no answer within" not in done.stderr:  # what a program says that a starved machine left unmanaged
                break
        assert done.returncode == 0, done.stderr.decode()
        assert b"fikit:" not in done.stderr, done.stderr.decode()
        return done.stdout, self.recorder.calls(calls, QUESTIONS | POLLS)

    def check(self, command: list[str | Path], **more: str) -> None:
        alone, managed = self.run(command, False, **more), self.run(command, True, **more)
        wait_for(lambda: self.daemon.pages, "client: the program was not managed")
        assert managed[0] == alone[0]
        assert managed[1] == alone[1]


@pytest.fixture(scope="module")
def recorder(native: Path, cc: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return Recorder(native / "emulator" / "libcuda.so.1", tmp_path_factory.mktemp("recorder"), cc)


@pytest.fixture
def comparison(
    recorder: Recorder, shim: Path, daemon: Callable[..., Daemon], emulator_env: Env, tmp_path: Path
) -> Comparison:
    return Comparison(recorder, shim, daemon(), emulator_env, tmp_path)


@pytest.mark.parametrize("source", CONFORMANCE, ids=lambda source: source.stem)
def test_conformance_programs(source: Path, comparison: Comparison, native: Path, cc: Callable[..., Path]) -> None:
    comparison.check([cc(source, f"-L{native / 'emulator'}", "-l:libcuda.so.1", "-pthread")])


@pytest.mark.parametrize("script", [TINYGRAD_EAGER, TINYGRAD_JIT], ids=["eager", "jit"])
def test_tinygrad(script: str, comparison: Comparison, tmp_path: Path) -> None:
    pytest.importorskip("tinygrad")
    comparison.check([sys.executable, "-c", script], DEV="CUDA:PTX", CACHEDB=str(tmp_path / "cache.db"))


def test_cuda_core(comparison: Comparison) -> None:
    pytest.importorskip("cuda.core")
    comparison.check([sys.executable, "-c", CUDA_CORE])


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_ffmpeg(comparison: Comparison) -> None:
    chain = "format=yuv420p,hwupload_cuda,scale_cuda=160:120,hwdownload,format=yuv420p"
    source = ["-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25", "-frames:v", "20", "-vf", chain]
    comparison.check(["ffmpeg", "-nostdin", "-v", "warning", *source, "-f", "rawvideo", "-"])


@pytest.mark.skipif(not COMPILERS, reason="GCC's offloading to nvptx is not installed")
@pytest.mark.parametrize("model", ["openmp", "openacc"])
def test_gcc_offload(model: str, comparison: Comparison, tmp_path: Path) -> None:
    compiler = shutil.which(f"gcc-{COMPILERS[-1].parents[2].name}") or "gcc"
    offload = [f"-f{model}", "-foffload=nvptx-none", "-foffload-options=-Wa,--no-verify"]
    source = HERE / "src" / f"offload_{model}.c"
    subprocess.run([compiler, "-O1", *offload, source, "-o", tmp_path / "program"], check=True, capture_output=True)
    comparison.check([tmp_path / "program"], OMP_TARGET_OFFLOAD="MANDATORY", ACC_DEVICE_TYPE="nvidia")
