"""Call 1 of the kit for real GPUs, end to end on the emulated one from a copy of the tree, and each question with the answer that breaks it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from gpu_machine import Machine
from gpu_run_samples import shown

from bench import record
from bench.gpu import asking, mps, processes, questions
from bench.gpu.context import Context, Options
from bench.gpu.place import Place
from bench.gpu.sharing import cells
from bench.record import ROOT

Found = dict[str, Any]
BEYOND_S = 0.5  # bench/gpu/README.md counts with so much beyond a cell's windows
SMI = f"#!/bin/sh\necho '{', '.join(['550.54', 'Emulated GPU', 'GPU-0', 'Default', 'Disabled', '[N/A]', '100.00 W', '1500 MHz', '[N/A]'])}'\n"


def put(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize("driver", ["multi-user", "550"])
def test_the_first_call_works_on_a_machine_with_little_on_it(
    driver: str, machine: Machine, native: Path, tmp_path: Path
) -> None:
    """Also where the driver's MPS does not know -multiuser-server."""
    file = tmp_path / "gpu.json.gz"
    put(machine.root / "venv/bin/nvidia-smi", SMI)
    for directory in (machine.root / "driver").parents[:-2]:
        directory.chmod(directory.stat().st_mode | 0o011)  # for another user's client
    short = ["--ways", *tuple(cells.WAYS)[:1], "fifo_mps"] if driver == "550" else []
    if driver == "550":  # its program does not have the flag's name in it
        control = machine.root / "driver" / mps.COMMAND
        put(machine.root / "venv/bin" / mps.COMMAND, f'#!/bin/sh\nEMUCUDA_MPS_DRIVER={driver} exec {control} "$@"\n')
    done = machine.run("--quick", "--json", str(file), *short, **machine.bring_core(native))
    assert (done.returncode, done.stderr) == (0, "")
    found = record.read(file)
    assert (found["emulated"], found["settings"]["call"], found["settings"]["stuck"]) == (True, 1, [])
    assert list(found["parts"]) == ["questions", "pairs"]
    for name, entry in found["parts"]["questions"].items():
        assert "answer" in entry, (name, entry)
    begins = found["parts"]["questions"]["server begins"]["answer"]
    assert ("without_flag" in begins) is (driver == "550" or os.geteuid() != 0)
    pairs = found["parts"]["pairs"]
    for cell in pairs["cells"]:
        assert "error" not in cell, cell
        assert cell["jct_ratio"] > 0
        assert cell["low_alone"]["per_s"] > 0
        assert cell["sm_clock_mhz"]["mean"] == 1500
        assert cell["power_w"]["mean"] == 100
        assert cell["host_ns"]["p50"] > 0
        assert {window["kind"] for window in cell["windows"]} == {"low alone", "alone", "shared"}
        assert ("account" in cell) is (cells.WAYS[cell["way"]].policy != "")
    order = cells.cells(cells.DRIVER_PAIRS, tuple(short[1:]) or tuple(cells.WAYS), cells.KINDS)
    assert [(cell["way"], cell["kind"]) for cell in pairs["cells"]] == [(cell.way, cell.kind) for cell in order]
    for program in cells.DRIVER_PAIRS[0]:
        assert all(entry["equal"] for entry in pairs["correctness"][program].values())
    assert {"bare", "managed_mps"} <= set(pairs["correctness"]["long_kernels"])
    assert pairs["device_ns"]["short_kernels"]["launches"] == pytest.approx(7)
    assert pairs["device_ns"]["short_kernels"]["fikit"] == pytest.approx(355_000, rel=0.05)
    windows_s = 0.9  # --quick
    assert statistics.median(cell["took_s"] - windows_s for cell in pairs["cells"]) < BEYOND_S
    assert "budget_mps" in done.stdout
    count = len(pairs["cells"])
    asked = len(found["parts"]["questions"]) - 1  # "machine" is for readers of the file
    assert shown(file) == {"runs": 1, "questions": asked, "pairs": count, "conditions": count, "correctness": 2}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_stopped_leaves_its_file_and_no_process(
    number: signal.Signals, bench_env: dict[str, str], native: Path, tmp_path: Path
) -> None:
    """SIGKILL: the run itself is killed in the middle of fikitd's MPS; the process that guards it ends the daemons."""
    file = tmp_path / "gpu.json"
    env = {**bench_env, "PATH": f"{native / 'emulator'}:{bench_env['PATH']}", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "bench.gpu", "--quick", "--seconds", "2", "--parts", "pairs", "--json", str(file)]
    process = subprocess.Popen(
        [*command, "--programs", "driver"],
        cwd=ROOT,
        env=env,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    deadline = time.monotonic() + 90
    found: Found = {}
    while not found.get("parts", {}).get("pairs", {}).get("cells"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
        if file.exists():
            found = json.loads(file.read_text())  # never half a file
    started = processes.family(process.pid)[1:]
    assert any("mps" in name(pid) for pid in started)
    os.kill(started[0] if number == signal.SIGKILL else process.pid, number)
    assert process.wait(30) == (137 if number == signal.SIGKILL else 130)
    assert process.stderr is not None
    assert ("what was found is in" in process.stderr.read()) is (number != signal.SIGKILL)
    assert json.loads(file.read_text())["parts"]["pairs"]["cells"]
    assert [pid for pid in started if name(pid)] == []


def name(pid: int) -> str:
    """A process's command line; empty where it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return ""


def test_a_part_that_hangs_is_broken_off(bench_env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    hangs = (
        "import signal, sys, time\nfrom bench.gpu import __main__ as kit, calls\nfrom bench.gpu.context import Part\n"
        "kit.GRACE_S = 0.1\n"
        "calls.PARTS.update(questions=Part(lambda context: time.sleep(60), 0.2), pairs=Part(lambda context: {'a': 1}))\n"
        f"sys.argv = ['kit', '--quick', '--json', {str(file)!r}]\nsys.exit(kit.main())\n"
    )
    subprocess.run([sys.executable, "-c", hangs], cwd=ROOT, env=bench_env, check=True, capture_output=True, timeout=30)
    found = json.loads(file.read_text())["parts"]
    assert "was broken off" in found["questions"]["error"]
    assert found["pairs"] == {"a": 1}


# --- questions

CLIENT = """
import os, runpy, sys, time
how = {broken}.get(sys.argv[1]) or ({uuid} if "CUDA_VISIBLE_DEVICES" in os.environ else None)
if how == "nonsense":
    print("what?")
elif how == "hang":
    time.sleep(60)
elif how == "exit":
    sys.exit(3)
elif how == "refuse":
    print('{{"pid": 1, "cuInit": 999}}')
else:
    sys.argv[0] = {client!r}
    runpy.run_path({client!r}, run_name="__main__")
"""


def asked(somewhere: Place, native: Path) -> Found:
    command = [sys.executable, "-m", "bench.gpu.probe"]
    gpu = json.loads(processes.run("probe", command, somewhere.env, somewhere.directory, 20))
    library = str(native / "emulator" / "libcuda.so.1")
    context = Context(
        somewhere, library, gpu, Options(), time.monotonic() + 60, lambda found: None, lambda name, text: None
    )
    return questions.questions(context)


def failed(found: Found) -> set[str]:
    return {name for name, entry in found.items() if "error" in entry}


@pytest.fixture
def stand_ins(somewhere: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Programs that the questions call, and a client that fails in some modes."""
    monkeypatch.setattr(questions, "MOST_S", 3.0)
    monkeypatch.setattr(questions, "LONE_S", 0.1)
    monkeypatch.setattr(asking, "LEAVE_S", 0.2)
    folder = tmp_path / "programs"
    folder.mkdir()
    put(folder / "nvidia-smi", SMI)
    somewhere.env["PATH"] = f"{folder}:{os.environ['PATH']}"
    real = asking.CLIENT.read_text()

    def client(broken: dict[str, str], uuid: str | None = None) -> Path:
        kept, path = somewhere.directory / "real_client.py", tmp_path / "mps_client.py"
        put(kept, real)
        path.write_text(CLIENT.format(broken=broken, uuid=repr(uuid), client=str(kept)))
        monkeypatch.setattr(asking, "CLIENT", path)
        return folder

    return client


def test_questions_whose_clients_break_are_errors_and_the_others_are_answered(
    somewhere: Place, native: Path, stand_ins: Callable[..., Path]
) -> None:
    stand_ins({"marks": "nonsense", "stay": "exit", "hold_value": "refuse"}, uuid="hang")
    found = asked(somewhere, native)
    assert failed(found) == {
        "markers of a client", "files of a client", "a waiting stream beside lone kernels", "GPU by UUID",
    }  # fmt: skip
    assert "no JSON object" in found["markers of a client"]["error"]


def test_questions_whose_programs_break_are_errors_and_the_others_are_answered(
    somewhere: Place, native: Path, stand_ins: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stand_ins({"spin": "nonsense", "late_env": "exit", "late_env_ctx": "nonsense", "alloc": "refuse"})
    put(folder / "setpriv", "#!/bin/sh\nexit 7\n")
    put(folder / "unshare", "#!/bin/sh\nexec sleep 60\n")
    put(folder / "nvidia-smi", "#!/bin/sh\necho No devices were found\n")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: (_ for _ in ()).throw(OSError("there is no /dev/shm")))
    found = asked(somewhere, native)
    assert failed(found) == {
        "machine", "nvidia-smi", "client of another user", "client with a private /dev/shm", "client priority beside many waves",
        "pipe directory changed late", "listed after the end",
    }  # fmt: skip
    assert "took too long" in found["client with a private /dev/shm"]["error"]


def test_a_daemon_that_does_not_start_costs_the_questions_to_it(
    somewhere: Place, native: Path, stand_ins: Callable[..., Path]
) -> None:
    stand_ins({})
    somewhere.env["EMUCUDA_MPS_FAULTS"] = "refuse start"
    found = asked(somewhere, native)
    assert failed(found) == set(found) - {"machine", "nvidia-smi"}
    assert "no MPS server began" in found["server begins"]["error"]


def test_a_machine_without_mps_answers_the_other_questions(
    somewhere: Place, native: Path, stand_ins: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_ins({})
    monkeypatch.setattr(mps, "COMMAND", "no-such-control-daemon")
    found = asked(somewhere, native)
    assert failed(found) == set(found) - {"machine", "nvidia-smi"}
    assert "there is no MPS here" in found["server begins"]["error"]
