"""The run for real GPUs, tried on the emulated one: whoever gets a GPU for ten minutes must not find it broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import time
import tomllib
from pathlib import Path

import pytest
from daemon_process import eventually
from gpu_machine import Machine, alive

from bench.gpu import processes
from bench.gpu.earlier import conformance, parts
from bench.gpu.place import Place
from bench.gpu.sharing import crew
from bench.gpu.sharing.crew import Work, Worker
from bench.record import ROOT, BenchError
from fikitd import paths

FORMER = ("costs", "launch", "timing", "slices", "mps", "memory", "conformance", "plans", "frameworks")


def test_the_parts_that_are_in_no_call_work_on_a_machine_with_little_on_it(
    machine: Machine, native: Path, tmp_path: Path
) -> None:
    file = tmp_path / "gpu.json"
    logs = tmp_path / "logs.tar.gz"
    done = machine.run(
        "--quick",
        "--evict",
        "--parts",
        *FORMER,
        "--json",
        str(file),
        "--logs",
        str(logs),
        **machine.bring_core(native),
        BENCH_LAYER_MIB="8",
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = json.loads(file.read_text())
    got = found["parts"]
    assert found["emulated"] is True
    assert found["settings"]["stuck"] == []
    for part in FORMER[:-1]:
        assert "error" not in got[part], got[part]
    assert got["costs"]["marks"] is True
    assert got["costs"]["event_record_ns"]["p50"] > 0
    assert got["launch"]["direct_ns"]["p50"] > 0
    assert len(got["timing"]["cases"]) == 8
    for case in got["timing"]["cases"]:
        assert case["true_ns"] == pytest.approx(case["ns"], rel=0.01)
        assert case["measured_count"] > 20
    memory = got["memory"]
    assert memory["concurrent_managed_access"] is True
    assert memory["prefetch_in_gbps"] == pytest.approx(24, rel=0.1)  # the emulated GPU's constants come back
    assert memory["fault_ns_per_chunk"] == pytest.approx(30_000, rel=0.2)
    assert memory["alloc_that_evicts_ns"]["p50"] > 100 * memory["alloc_ns"]["p50"]
    layers = got["plans"]["layers"]
    assert "error" not in layers, layers
    assert layers["memory"]["plan"]["budget_bytes"] < layers["room_bytes"] < layers["peak_bytes"]
    assert layers["memory"]["plan"]["passes"] >= 8
    assert layers["in_bytes_per_pass"] > 0.2 * layers["peak_bytes"]
    with tarfile.open(logs) as packed:
        assert any(name.endswith("fikitd.log") for name in packed.getnames())
    slices = got["slices"]
    for experiment in ("chains", "chains_full"):
        assert slices[experiment]["slice_ns"]["p50"] == pytest.approx(1_024_000, rel=0.1)
        assert slices[experiment]["switch_ns"]["p50"] == pytest.approx(50_000, abs=12_000)
        assert slices[experiment]["overlap"] < 0.05
    assert slices["beside_long"]["switch_ns"] == pytest.approx(50_000, abs=20_000)
    assert slices["gaps"]["idle_yields"] is True
    assert got["mps"]["chains"]["overlap"] > 0.5  # the stand-in of the control daemon lies beside the emulated driver
    assert (got["conformance"]["programs"], got["conformance"]["different"]) == (3, {})
    assert "No module named" in got["frameworks"]["jax_steps"]["error"]  # a framework that is missing costs its line
    assert "Two programs without MPS" in done.stdout


def test_a_run_without_a_driver_says_so(machine: Machine, native: Path, tmp_path: Path) -> None:
    more = {**machine.bring_core(native), "LD_LIBRARY_PATH": "", "BENCH_BUILD_ONLY": "native"}
    done = machine.run("--quick", "--json", str(tmp_path / "gpu.json"), **more)
    assert done.returncode == 1
    assert "there is no CUDA driver on this machine" in done.stderr


def test_what_cannot_be_built_costs_its_parts_only(machine: Machine, native: Path, tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    (machine.tree / "shim/gate/gate.c").write_text("#error no shim today\n")
    done = machine.run(
        "--quick", "--json", str(file), "--parts", "costs", "launch", "timing", **machine.bring_core(native)
    )
    assert done.returncode == 0
    assert "not everything could be built" in done.stderr
    assert "no shim today" in done.stderr
    got = json.loads(file.read_text())["parts"]
    assert got["costs"]["launch_ns"]["p50"] > 0
    assert "error" in got["launch"]
    assert "error" in got["timing"]


@pytest.mark.heavy
def test_everything_is_built_on_a_machine_with_little_on_it(
    machine: Machine, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if "heavy" not in str(request.config.getoption("-m")):
        pytest.skip(
            "it takes two cores half a minute, and the core is built from the same files by `make build`: -m heavy"
        )
    file = tmp_path / "gpu.json"
    done = machine.run("--quick", "--json", str(file), "--parts", "costs", "launch")
    assert (done.returncode, done.stderr) == (0, "")
    got = json.loads(file.read_text())["parts"]
    assert "error" not in {**got["costs"], **got["launch"]}


# --- the rest with the Python that is here


def test_a_program_that_hangs_is_ended_with_all_that_it_started(somewhere: Place) -> None:
    begin = time.monotonic()
    with pytest.raises(BenchError, match="sleeper took longer than 0 s"):
        processes.run("sleeper", ["sh", "-c", "sleep 4711 & sleep 4711"], somewhere.env, somewhere.directory, 0.2)
    assert time.monotonic() - begin < 5
    eventually(lambda: not alive("sleep 4711"))  # what is killed is gone a moment later


def test_a_worker_that_says_nothing_is_ended_and_the_other_ones_answer_is_not_lost(somewhere: Place) -> None:
    command = ["sh", "-c", 'echo "{\\"pid\\": 1}"; sleep 4712', "sh"]
    silent = Worker("silent", somewhere, "cuda", somewhere.env, command)
    with pytest.raises(BenchError, match="silent took too long"):
        silent.answer(time.monotonic() + 0.3)
    assert silent.broken
    patience = time.monotonic() + 5  # what is killed takes a moment to be gone
    while alive("sleep 4712") and time.monotonic() < patience:
        time.sleep(0.01)
    assert alive("sleep 4712") == []


def test_a_program_that_cannot_be_loaded_costs_its_own_cells_only(somewhere: Place) -> None:
    worker = Worker("worker", somewhere, "cuda", somewhere.env)
    crew.load({"a.high": worker}, {"a.high": ["nothing_of_this_name", "short_kernels"]}, time.monotonic() + 30)
    assert "there is no program nothing_of_this_name" in worker.errors["nothing_of_this_name"]
    assert worker.loaded["short_kernels"]["request_s"] > 0
    now = time.monotonic_ns()
    work = Work(worker, "short_kernels", [(now, now + 200_000_000)], [0, 50_000_000])
    ((requests,),) = crew.run([work])
    assert [arrival - now for arrival, _, _ in requests] == [0, 50_000_000]
    with pytest.raises(BenchError, match="nothing_of_this_name"):
        crew.alone(worker, "nothing_of_this_name", 0.1)
    worker.end()


def test_what_a_driver_says_otherwise_is_shown(somewhere: Place, native: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = conformance.expected
    monkeypatch.setattr(conformance, "expected", lambda program: {**real(program), "surprise": "7"})
    library = str(native / "emulator" / "libcuda.so.1")
    found = conformance.conformance(somewhere, 1, library, 30)
    (differences,) = found["different"].values()
    assert differences == {"surprise": {"expected": "7", "said": None}}


def test_a_driver_that_crashes_leaves_what_it_said_before(
    somewhere: Place, native: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = somewhere.directory / "crash.c"
    source.write_text(
        '#include <stdio.h>\nint main(void) { puts("first 1\\nsecond 2"); fflush(stdout); __builtin_trap(); }\n'
    )
    monkeypatch.setattr(conformance, "SOURCES", {"crash": source})
    monkeypatch.setattr(conformance, "PROGRAMS", ["crash"])
    monkeypatch.setattr(conformance, "expected", lambda _: {"first": "1", "second": "3", "third": "4"})
    found = conformance.conformance(somewhere, None, str(native / "emulator" / "libcuda.so.1"), 30)
    assert (found["programs"], found["as_expected"]) == (1, 0)
    assert found["said"] == {"crash": {"first": "1", "second": "2"}}
    different = found["different"]["crash"]
    assert different.pop("error").startswith("crash: ")
    assert different == {"last": "second", "second": {"expected": "3", "said": "2"}}


def test_a_program_that_was_not_built_costs_its_part_only(somewhere: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIKIT_NATIVE", str(somewhere.directory))
    with pytest.raises(BenchError, match="fikit-gpu-costs was not built"):
        parts.costs(somewhere, parts.QUICK, 5)


def test_memory_that_cannot_be_registered_is_said(somewhere: Place) -> None:
    somewhere.env["EMUCUDA_FAULTS"] = "call=cuMemHostRegister* times=all error=801"
    found = parts.costs(somewhere, parts.QUICK, 30)
    assert (found["marks"], found["register_error"]) == (False, 801)
    assert found["launch_ns"]["p50"] > 0


STAND_IN = """#!{python}
import os, pathlib, signal, sys, time
pipe = pathlib.Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
note = pipe / "nvidia-cuda-mps-control.pid"
if sys.argv[1:] == ["-f"]:
    start = pathlib.Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]
    (pipe / "emulated_clients").mkdir()
    (pipe / "emulated_server").write_text(f"{{os.getpid()}} {{start}} 16\\n")
    note.write_text(str(os.getpid()))
    (pipe / "control").touch()
    time.sleep(300)
elif "quit" in sys.stdin.read() and not (pipe / "deaf").exists():
    os.kill(int(note.read_text()), signal.SIGTERM)
"""


@pytest.fixture
def with_mps(somewhere: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A control daemon on PATH as the emulated driver knows one by."""
    program = tmp_path / "nvidia-cuda-mps-control"
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return program


@pytest.fixture
def slow_device(somewhere: Place, tmp_path: Path) -> None:
    """What is queued keeps it busy while other programs have its hosts' cores: kernels overlap where the device lets them."""
    profile = tmp_path / "slow.toml"
    profile.write_text((paths.emulator_dir() / "default.toml").read_text().replace("dilation = 1.0", "dilation = 40"))
    somewhere.env["EMUCUDA_CONFIG"] = str(profile)


@pytest.mark.usefixtures("slow_device")
def test_by_mps_kernels_overlap(somewhere: Place, with_mps: Path) -> None:
    found = parts.by_mps(somewhere, parts.QUICK, "")
    assert found["chains"]["overlap"] > 0.5, found
    assert found["chains_half"]["slowdown"] == pytest.approx([1, 1], abs=0.1)
    assert found["chains_full"]["overlap"] > 0.5
    assert found["gaps_beside_full"]["took_ns"]["all"]["p50"] > 0
    assert alive(str(with_mps)) == []


@pytest.mark.usefixtures("slow_device", "with_mps")
def test_by_mps_and_admission_kernels_that_fill_the_gpu_alternate(somewhere: Place) -> None:
    profile = Path(somewhere.env["EMUCUDA_CONFIG"])
    profile.write_text(profile.read_text().replace('mps_model = "proportion"', 'mps_model = "admission"'))
    found = parts.by_mps(somewhere, parts.QUICK, "")
    assert found["chains"]["overlap"] > 0.5, found
    assert found["chains_half"]["slowdown"] == pytest.approx([1, 1], abs=0.1)
    assert found["chains_full"]["overlap"] < 0.05


def test_an_mps_that_does_not_listen_is_ended_all_the_same(somewhere: Place, with_mps: Path) -> None:
    from bench.gpu import mps  # noqa: PLC0415

    with mps.server(somewhere, "") as env:
        (Path(env["CUDA_MPS_PIPE_DIRECTORY"]) / "deaf").touch()
        assert alive(str(with_mps))
    deadline = time.monotonic() + 5
    while alive(str(with_mps)):
        assert time.monotonic() < deadline


def test_the_device_of_a_run_is_one_for_the_emulator(bench_env: dict[str, str], native: Path, tmp_path: Path) -> None:
    file, profile = tmp_path / "gpu.json", tmp_path / "gpu.toml"
    command = [sys.executable, "-m", "bench.gpu", "--quick", "--json", str(file), "--parts", "slices"]
    subprocess.run(command, cwd=ROOT, env=bench_env, check=True, capture_output=True)
    subprocess.run(
        [sys.executable, "-m", "bench", "gpu", file], cwd=ROOT, env=bench_env, check=True, capture_output=True
    )
    device = tomllib.loads(profile.read_text())["device"]
    assert device["slice_us"] == pytest.approx(1024, rel=0.1)
    assert device["switch_us"] == pytest.approx(50, abs=12)
    env = {**bench_env, "EMUCUDA_CONFIG": str(profile)}
    probed = subprocess.run(
        [sys.executable, "-m", "bench.gpu.probe"], cwd=ROOT, env=env, check=True, capture_output=True
    )
    assert json.loads(probed.stdout)["name"] == device["name"]


@pytest.mark.heavy
def test_one_worker_runs_all_the_programs_of_the_pairs(somewhere: Place) -> None:
    pytest.importorskip("torch")
    names = ["convolution", "batch", "triton_softmax", "decode", "transformer_graph"]
    worker = Worker("worker", somewhere, "cpu", somewhere.env)
    crew.load({"a.all": worker}, {"a.all": names}, time.monotonic() + 120)
    assert worker.errors == {}
    worker.end()


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name", ["transformer", "transformer_graph", "decode", "convolution", "batch", "triton_softmax"]
)
def test_the_programs_of_the_pairs_run_on_the_processor(somewhere: Place, name: str) -> None:
    pytest.importorskip("torch")
    worker = Worker("worker", somewhere, "cpu", somewhere.env)
    crew.load({"a.high": worker}, {"a.high": [name]}, time.monotonic() + 120)
    assert worker.errors == {}
    assert crew.alone(worker, name, 0.3)
    worker.tell({"do": "digest", "program": name, "requests": 2})
    first = worker.answer(time.monotonic() + 60)
    worker.tell({"do": "digest", "program": name, "requests": 2})
    assert worker.answer(time.monotonic() + 60) == first
    worker.end()
