"""The run for real GPUs, tried on the emulated one: whoever gets a GPU for ten minutes must not find it broken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from daemon_process import eventually
from gpu_machine import Machine, alive

from bench.gpu import calls, conformance, crew, pairs, parts, processes
from bench.gpu.crew import Worker
from bench.gpu.place import Place
from bench.record import ROOT, BenchError
from fikitd import paths


def test_all_of_the_run_works_on_a_machine_with_little_on_it(machine: Machine, native: Path, tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    logs = tmp_path / "logs.tar.gz"
    done = machine.run(
        "--quick",
        "--evict",
        "--parts",
        *calls.PARTS,
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
    for part in ("costs", "launch", "timing", "slices", "mps", "memory", "conformance", "plans", "pairs"):
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
    for cell in got["pairs"]["cells"]:
        assert "error" not in cell, cell
        assert (cell["harvest"] > 0) is (cell["way"] != "budget_alone")
        assert cell["host_ns"]["p50"] > 0
    ways = {cell["way"] for cell in got["pairs"]["cells"]}
    assert ways == set(pairs.WAYS)
    of_high = got["pairs"]["device_ns"]["short_kernels"]
    assert of_high["launches"] == pytest.approx(6)
    assert of_high["fikit"] == pytest.approx(350_000, rel=0.05)  # 20, 60, 30, 120, 40 and 80 us
    assert got["questions"]["server begins"]["answer"]["with_flag"]["server"] > 0
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_leaves_its_file_and_no_process(
    number: signal.Signals, bench_env: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "gpu.json"
    command = [sys.executable, "-m", "bench.gpu", "--quick", "--seconds", "2", "--parts", "pairs", "--json", str(file)]
    process = subprocess.Popen(
        [*command, "--programs", "driver"], cwd=ROOT, env=bench_env, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    found: dict[str, Any] = {}
    while not found.get("parts", {}).get("pairs", {}).get("cells"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
        if file.exists():
            found = json.loads(file.read_text())  # never half a file
    process.send_signal(number)
    assert process.wait(30) == 130
    assert process.stderr is not None
    assert "what was found is in" in process.stderr.read()
    assert json.loads(file.read_text())["parts"]["pairs"]["cells"]
    assert alive(str(tmp_path)) == []
    assert alive("fikit-gpu-") == []


def test_a_program_that_hangs_is_ended_with_all_that_it_started(somewhere: Place) -> None:
    begin = time.monotonic()
    with pytest.raises(BenchError, match="sleeper took longer than 0 s"):
        processes.run("sleeper", ["sh", "-c", "sleep 4711 & sleep 4711"], somewhere.env, somewhere.directory, 0.2)
    assert time.monotonic() - begin < 5
    eventually(lambda: not alive("sleep 4711"))  # what is killed is gone a moment later


def test_a_worker_that_says_nothing_is_ended_and_the_other_ones_answer_is_not_lost(somewhere: Place) -> None:
    command = ["sh", "-c", 'echo "{}"; sleep 4712', "sh"]
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
    (requests,) = crew.run([(worker, "short_kernels", [0, 50_000_000])], now, now + 200_000_000)
    assert [arrival - now for arrival, _, _ in requests] == [0, 50_000_000]
    with pytest.raises(BenchError, match="nothing_of_this_name"):
        crew.run([(worker, "nothing_of_this_name", None)], now, now)
    worker.end()


def measurement(somewhere: Place, **more: Any) -> pairs.Measurement:
    setting = {"place": somewhere, "library": "", "device": "cuda", "pairs": pairs.DRIVER_PAIRS, "seconds": 0.2,
               "deadline": time.monotonic() + 60, "exclusive": False, "kinds": ("closed",)}  # fmt: skip
    return pairs.Measurement(pairs.Setting(**{**setting, **more}), lambda found: None)


def test_a_worker_that_is_killed_is_started_again(somewhere: Place) -> None:
    part = measurement(somewhere, ways=("slices", "prio"))
    real = part._cell
    killed = []

    def kill_first(cell: pairs.Cell) -> dict[str, Any]:
        if not killed:
            killed.append(cell)
            os.kill(part._workers["bare.low"].pid, signal.SIGKILL)
        return real(cell)

    part._cell = kill_first  # type: ignore[method-assign]
    found = part.run()
    assert "error" in found["cells"][0]
    assert "error" not in found["cells"][1], found
    assert any("bare.low is started again" in note for note in found["notes"])


def test_a_cell_behind_a_change_of_the_policy_counts_its_own_kernels_only(somewhere: Place) -> None:
    part = measurement(somewhere, ways=("prio", "budget", "paper"))
    real, launched = part._cell, 0

    def and_look(cell: pairs.Cell) -> dict[str, Any]:
        nonlocal launched
        found = real(cell)
        assert part._service is not None
        said = part._service.report(part._workers["managed.high"].pid)
        assert said is not None
        launched = said["kernels"]
        return found

    part._cell = and_look  # type: ignore[method-assign]
    cells = part.run()["cells"]
    assert sum(cell["kernels"][0] for cell in cells) <= launched, cells


def test_an_exclusive_gpu_is_shared_by_nobody_but_mps(somewhere: Place) -> None:
    found = measurement(somewhere, ways=("slices",), exclusive=True).run()
    assert "there is no worker bare.low" in found["cells"][0]["error"]
    assert any("exclusive compute mode" in note for note in found["notes"])


def test_the_time_that_is_over_is_said(somewhere: Place) -> None:
    found = measurement(somewhere, ways=("slices", "prio"), deadline=time.monotonic() + 3.5).run()
    assert any("of 2 cells were not measured" in note for note in found["notes"])


def test_a_fikitd_that_cannot_start_costs_the_policies_only(somewhere: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.gpu.service.COMMAND", [sys.executable, "-c", "raise SystemExit('no fikitd today')"])
    found = measurement(somewhere, ways=("slices", "prio")).run()
    assert "error" not in found["cells"][0]
    assert "error" in found["cells"][1]
    assert any("no fikitd today" in note for note in found["notes"])


def test_programs_that_run_unmanaged_are_no_figures_of_a_policy(
    somewhere: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.gpu.service.Service.managed", lambda service, command, *options: command)
    found = measurement(somewhere, ways=("prio",)).run()
    assert "ran unmanaged" in found["cells"][0]["error"]


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


def test_an_mps_that_does_not_listen_is_ended_all_the_same(somewhere: Place, with_mps: Path) -> None:
    from bench.gpu import mps  # noqa: PLC0415

    with mps.server(somewhere, "") as env:
        (Path(env["CUDA_MPS_PIPE_DIRECTORY"]) / "deaf").touch()
        assert alive(str(with_mps))
    deadline = time.monotonic() + 5
    while alive(str(with_mps)):
        assert time.monotonic() < deadline


def test_the_pairs_by_mps_are_measured_too(somewhere: Place, with_mps: Path) -> None:
    found = measurement(somewhere, ways=("mps", "mps_priority")).run()
    assert ["error" in cell for cell in found["cells"]] == [False, False], found
    assert alive(str(with_mps)) == []


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
    names = ["convolution", "batch", "triton_softmax", "decode", "transformer"]
    worker = Worker("worker", somewhere, "cpu", somewhere.env)
    crew.load({"a.all": worker}, {"a.all": names}, time.monotonic() + 120)
    assert worker.errors == {}
    worker.end()


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["transformer", "decode", "convolution", "batch", "triton_softmax"])
def test_the_programs_of_the_pairs_run_on_the_processor(somewhere: Place, name: str) -> None:
    pytest.importorskip("torch")
    worker = Worker("worker", somewhere, "cpu", somewhere.env)
    crew.load({"a.high": worker}, {"a.high": [name]}, time.monotonic() + 120)
    assert worker.errors == {}
    now = time.monotonic_ns()
    (requests,) = crew.run([(worker, name, None)], now, now + 300_000_000)
    assert requests
    worker.end()


def test_a_managed_program_is_also_measured_with_nothing_beside_it_and_beside_a_fikitd_that_sleeps(
    somewhere: Place,
) -> None:
    part = measurement(somewhere, ways=("budget_alone", "budget_asleep"))
    alone, asleep = part.run()["cells"]
    assert "error" not in alone, alone
    assert "error" not in asleep, asleep
    assert (len(alone["kernels"]), alone["low_per_s"]) == (1, 0)
    assert asleep["low_per_s"] > 0
    for cell in (alone, asleep):
        account = cell["account"][0]
        parts = sum(account[f"{name}_s"] for name in ("alone", "waited", "delayed", "host", "unexplained"))
        assert account["elapsed_s"] > 0
        assert parts == pytest.approx(account["elapsed_s"], abs=1e-3)
