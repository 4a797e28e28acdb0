"""Programs with the shim and without it: the same output, byte for byte, and the same calls of the driver in the same order.

Managed twice: through an open gate, and through a closed one, launch by launch, on a device that a neighbour keeps busy.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from call_recorder import Recorder
from emulator_tools import ROOT, SOURCES, driver_flags
from shim_daemon import LONGEST_LEASE_S, Daemon, granting, wait_for
from test_emulator_clients import CUDA_CORE, TINYGRAD_EAGER, TINYGRAD_JIT
from test_emulator_offload import COMPILERS

pytest_plugins = ["shim_fixtures"]

Env = Callable[..., dict[str, str]]
CONFORMANCE = sorted((ROOT / "tests/conformance").rglob("*.c"))
# What the shim asks the driver on its own account. None of it enqueues, allocates, waits or changes anything.
QUESTIONS = {
    "cuCtxGetCurrent", "cuCtxGetDevice", "cuDeviceGetUuid", "cuDeviceGetUuid_v2", "cuDeviceGetName", "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2", "cuDevicePrimaryCtxGetState", "cuDriverGetVersion", "cuStreamGetCtx", "cuStreamGetCtx_v2",
    "cuStreamIsCapturing", "cuPointerGetAttribute",
    "cuFuncGetName", "cuKernelGetName", "cuGraphGetNodes", "cuGraphNodeGetType", "cuGraphGetEdges", "cuGraphGetEdges_v2",
    "cuGraphKernelNodeGetParams", "cuGraphKernelNodeGetParams_v2", "cuGraphMemcpyNodeGetParams", "cuGraphMemsetNodeGetParams",
    "cuGraphKernelNodeGetAttribute",
    "cuGraphMemAllocNodeGetParams", "cuGraphMemFreeNodeGetParams", "cuGraphChildGraphNodeGetGraph",
}  # fmt: skip
# How often a program asks whether something is done depends on the moment.
POLLS = {"cuStreamQuery", "cuStreamQuery_ptsz", "cuEventQuery"}
# How it learns when a granted launch has completed: by a write of the device's to its page, or by an event of its own.
MARKS = {
    "cuMemHostRegister_v2", "cuMemHostGetDevicePointer_v2", "cuThreadExchangeStreamCaptureMode", "cuStreamWriteValue32_v2",
    "cuEventCreate", "cuEventRecord",
}  # fmt: skip


def without_marks(calls: list[str], alone: list[str]) -> list[str]:
    """The calls less those that mark launches, but for the ones that the program makes alone, too."""
    own = iter([*alone, None])
    expected = next(own)
    left = []
    for name in calls:
        if name == expected:
            expected = next(own)
        elif name in MARKS:
            continue
        left.append(name)
    return left


def in_pairs(alone: list[list[str]], managed: list[list[str]]) -> list[tuple[list[str], list[str]]]:
    """The threads of both runs that made the same calls, but for marks."""

    def key(calls: list[str]) -> list[str]:
        return [name for name in calls if name not in MARKS]

    return list(zip(sorted(alone, key=key), sorted(managed, key=key), strict=True))


@dataclass(frozen=True)
class Comparison:
    """Runs one program without and with the shim, with a recorder and a device of the test's own."""

    recorder: Recorder
    shim: Path
    neighbour: Path
    open: Daemon
    closed: Daemon
    env: Env
    directory: Path

    def run(self, command: list[str | Path], daemon: Daemon | None, **more: str) -> tuple[bytes, list[list[str]]]:
        calls = self.directory / "calls"
        env = self.recorder.environment(self.env(**more), calls)
        if daemon:
            env |= {"LD_PRELOAD": str(self.shim), "FIKIT_SOCKET": str(daemon.path)}
        for _ in range(5):
            calls.unlink(missing_ok=True)
            done = subprocess.run(command, env=env, capture_output=True, timeout=120, check=False)
            if b"no answer within" not in done.stderr:  # what a program says that a starved machine left unmanaged
                break
        assert done.returncode == 0, done.stderr.decode()
        assert b"fikit:" not in done.stderr, done.stderr.decode()
        return done.stdout, self.recorder.calls(calls, QUESTIONS | POLLS)

    def check(self, command: list[str | Path], **more: str) -> None:
        alone = self.run(command, None, **more)
        assert self.run(command, self.open, **more) == alone
        wait_for(lambda: self.open.pages, "client: the program was not managed")
        with self.busy_device(), granting(self.closed):
            output, calls = self.run(command, self.closed, **more)
        assert output == alone[0]
        for own, managed in in_pairs(alone[1], calls):
            assert without_marks(managed, own) == own
        launches = sum(page.launches() for page in self.closed.pages)
        assert launches == sum(page.launches() for page in self.open.pages)
        assert [page.u64("expired_count") for page in self.closed.pages] == [0] * len(self.closed.pages)
        assert sum(page.u64("wait_count") for page in self.closed.pages) >= launches  # a refused one waited, too

    @contextmanager
    def busy_device(self) -> Iterator[None]:
        """Another process's kernels of 300 us on the device, 1 ms apart."""
        beat = subprocess.Popen(
            [self.neighbour, "beat", "300"], env=self.env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert beat.stdout
        try:
            assert beat.stdout.readline() == b"running\n"
            yield
        finally:
            beat.kill()
            beat.communicate()


@pytest.fixture(scope="module")
def recorder(native: Path, cc: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return Recorder(native / "emulator" / "libcuda.so.1", tmp_path_factory.mktemp("recorder"), cc)


@pytest.fixture(scope="module")
def neighbour(native: Path, cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_faults.c", *driver_flags(native))


@pytest.fixture
def comparison(
    *, recorder: Recorder, shim: Path, neighbour: Path, daemon: Callable[..., Daemon], emulator_env: Env, tmp_path: Path
) -> Comparison:
    return Comparison(
        recorder, shim, neighbour, daemon(), daemon(closed=True, lease_s=LONGEST_LEASE_S), emulator_env, tmp_path
    )


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
    source = SOURCES / f"offload_{model}.c"
    subprocess.run([compiler, "-O1", *offload, source, "-o", tmp_path / "program"], check=True, capture_output=True)
    comparison.check([tmp_path / "program"], OMP_TARGET_OFFLOAD="MANDATORY", ACC_DEVICE_TYPE="nvidia")
