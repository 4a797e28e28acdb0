"""The kit's second call on the emulated GPU: the whole call, and each part once with the answer that breaks the part."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gpu_machine import Machine, alive
from gpu_run_samples import shown

from bench.gpu import asking, mps
from bench.gpu.context import Context, Options
from bench.gpu.place import Place
from bench.gpu.second import PARTS, dangers, long_cells, shaping, slurm, slurm_kit, time_slices
from bench.gpu.service import Service
from bench.record import ROOT, BenchError
from fikitd import paths

QUESTIONS = ("rights of fikitd.service", "terminate_client", "fatal fault", "server killed", "control daemon stopped")
Make = Callable[..., Context]


@pytest.fixture(scope="session")
def slurm_folder() -> Path | None:
    """build/slurm, or None where Debian's packages cannot be had."""
    folder = ROOT / "build" / "slurm"
    archive, plugin = folder / slurm_kit.ARCHIVE, paths.slurm_dir() / "spank_fikit.so"
    if not plugin.exists():
        return None
    if archive.exists() and archive.stat().st_mtime > plugin.stat().st_mtime:
        return folder
    env = {**os.environ, "BENCH_PYTHON": sys.executable}
    done = subprocess.run(
        [ROOT / "bench/gpu/second/pack_slurm.sh"], env=env, capture_output=True, text=True, check=False
    )
    print(done.stdout, done.stderr)
    return folder if done.returncode == 0 else None


@pytest.fixture
def packed(slurm_folder: Path | None) -> Path:
    if slurm_folder is None or os.geteuid() != 0:
        pytest.skip(
            "Slurm was not rehearsed: it needs root and Debian's packages, which bench/gpu/second/pack_slurm.sh fetches"
        )
    return slurm_folder


@pytest.fixture
def context(somewhere: Place, native: Path) -> Make:
    """Makes the context of one part, which has `seconds`."""
    library = str(native / "emulator" / "libcuda.so.1")
    probe = [sys.executable, "-m", "bench.gpu.probe"]
    gpu = json.loads(subprocess.run(probe, env=somewhere.env, cwd=ROOT, capture_output=True, check=True).stdout)

    def make(seconds: float = 60) -> Context:
        options = Options(quick=True, programs="driver")
        deadline = time.monotonic() + seconds
        return Context(somewhere, library, gpu, options, deadline, lambda found: None, lambda name, text: None)

    return make


def test_the_second_call_works_on_a_machine_with_little_on_it(
    machine: Machine, native: Path, slurm_folder: Path | None, tmp_path: Path
) -> None:
    if slurm_folder is not None:
        shutil.copytree(slurm_folder, machine.tree / "build" / "slurm")
    file = tmp_path / "gpu.json.gz"
    done = machine.run(
        "--call", "2", "--quick", "--minutes", "6", "--json", str(file), timeout=400, **machine.bring_core(native)
    )
    assert (done.returncode, done.stderr) == (0, "")
    got = json.loads(subprocess.run(["zcat", file], capture_output=True, check=True).stdout)["parts"]
    assert list(got) == list(PARTS)
    assert shown(file).items() >= {"dangers": len(QUESTIONS), "shaping": 4}.items()
    cells = got["long_cells"]["cells"]
    assert [cell["way"] for cell in cells] == ["budget_mps", "budget"], got["long_cells"]
    assert [cell.get("error") for cell in cells] == [None, None], got["long_cells"]["notes"]
    assert all(cell["high"]["p99_ns"] > 0 and cell["low_per_s"] > 0 for cell in cells)
    assert "error" not in got["shaping"], got["shaping"]
    assert all(cell["low_speed"] > 0 and cell["slowdown"] > 0 for cell in got["shaping"]["cells"])
    assert [cell["shared_kib"] for cell in got["shaping"]["cells"]] == [0, 100, 200]
    assert all("answer" in got["dangers"][name] for name in QUESTIONS), got["dangers"]
    fault = got["dangers"]["fatal fault"]["answer"]
    assert (fault["trap"]["trap"], fault["other"]["code"], fault["after"]["sync"]) == (719, 719, 0)
    assert "no channel group was seen" in got["time_slices"]["error"]  # the emulated driver has no /dev/nvidiactl
    assert alive(str(machine.root)) == []
    if slurm_folder is None or os.geteuid() != 0:
        pytest.skip(f"Slurm was not rehearsed: {got['slurm']['error']}")
    found = got["slurm"]
    assert "error" not in found, found
    assert [name for name, stage in found["stages"].items() if "error" in stage] == []
    jobs = found["jobs"]
    assert {name: job["state"] for name, job in jobs.items()} == {
        "high": "FAILED", "low": "FAILED", "cancelled": "CANCELLED", "trap": "COMPLETED",
    }  # fmt: skip
    assert jobs["high"]["uid"] != jobs["low"]["uid"]
    assert jobs["high"]["alone"]["requests"] > 0
    assert jobs["high"]["beside"]["requests"] > 0
    assert "719" in jobs["high"]["error"]  # a trap of one client ends the GPU work of all
    assert {job["report"]["device_mode"] for job in jobs.values()} == {"mps"}
    assert "trap" in found["blamed"]["low"]  # the low program stays until fikitd has seen the fault


# --- long cells


def test_without_mps_the_long_cells_in_time_slices_are_measured(context: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Service, "begin_mps", lambda service: (_ for _ in ()).throw(BenchError("no MPS today")))
    found = long_cells.measure(context())
    by_mps, in_slices = found["cells"]
    assert "there is no worker managed_mps.high" in by_mps["error"]
    assert "error" not in in_slices, in_slices
    assert any("no MPS today" in note for note in found["notes"])


# --- time slices


@pytest.fixture
def nvidiactl(somewhere: Place, cc: Callable[..., Path]) -> Callable[[str], None]:
    """The programs of `somewhere` see a channel group, whose controls are answered as this word says."""
    library = cc("tests/device/bench/fake_nvidiactl.c", "-shared", "-fPIC", "-ldl")

    def answer(word: str) -> None:
        somewhere.env.update(LD_PRELOAD=str(library), FAKE_NVIDIACTL=word)

    return answer


@pytest.mark.parametrize(("word", "status"), [("ok", "0x0"), ("refuse", "0x1b"), ("nonsense", "0xdeadbeef")])
def test_what_the_driver_says_of_a_control_is_recorded(
    word: str, status: str, context: Make, nvidiactl: Callable[[str], None]
) -> None:
    nvidiactl(word)
    found = time_slices.measure(context())
    assert found["groups"] == [{"engine": 1, "gone": False}]
    assert found["by_libcuda"][0]["command"] == "0xa06c0103"
    assert found["by_libcuda"][0]["status"] == status
    controls = [*found["slices"]["500"]["controls"][0], *found["waits"]["500"]["controls"][1],
                *found["calls"]["preempt"]["controls"], *found["calls"]["schedule"]["controls"]]  # fmt: skip
    assert {control["verb"] for control in controls} == {"timeslice", "preempt", "schedule"}
    assert {control["status"] for control in controls} == {status}
    assert {control["errno"] for control in controls} == {0}
    assert controls[0]["read_back"] == (500 if word == "ok" else 0)
    assert found["slices"]["default"]["turns_ns"]
    assert found["waits"]["default"]["took_ns"]["p50"] > 0


def test_a_driver_with_the_shorter_form_of_a_control_gets_that_form(
    context: Make, nvidiactl: Callable[[str], None]
) -> None:
    nvidiactl("two")
    found = time_slices.measure(context())
    assert [control["status"] for control in found["calls"]["schedule"]["controls"]] == ["0x0", "0x0"]


@pytest.mark.parametrize(("word", "why"), [("hang", "took too long"), ("exit", "exit code 3")])
def test_a_control_that_hangs_or_ends_the_program_costs_its_own_experiment(
    word: str, why: str, context: Make, nvidiactl: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_slices, "LATE_S", 0.5)
    nvidiactl(word)
    found = time_slices.measure(context())
    assert "error" not in found["slices"]["default"]
    assert "error" not in found["waits"]["default"]
    for kind, name in (("slices", "500"), ("waits", "500"), ("calls", "preempt"), ("calls", "schedule")):
        assert why in found[kind][name]["error"]
    assert alive("fikit-gpu-turns") == []


def test_a_driver_without_channel_groups_is_said(context: Make) -> None:
    with pytest.raises(BenchError, match="no channel group was seen"):
        time_slices.measure(context())


# --- occupancy shaping

BROKEN_PROGRAM = """#!/bin/sh
case "$*" in
  "low 0") echo ready; read line; echo nonsense; sleep 60 ;;
  "low 100") echo "no such luck" >&2; exit 1 ;;
  "low 200") echo ready; sleep 4713 ;;
  *) exec {real} "$@" ;;
esac
"""


def test_a_low_program_that_hangs_exits_or_talks_nonsense_costs_its_own_cell(
    context: Make, native: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "fikit-gpu-shaping"
    program.write_text(BROKEN_PROGRAM.format(real=native / "bin" / program.name))
    program.chmod(0o755)
    monkeypatch.setenv("FIKIT_NATIVE", str(tmp_path))
    monkeypatch.setattr(shaping, "LATE_S", 0.5)
    found = shaping.measure(context())
    assert found["high_alone"]["p50"] > 0
    why = [cell["error"] for cell in found["cells"]]
    assert "Expecting value" in why[0]
    assert "no such luck" in why[1]
    assert "took too long" in why[2]
    assert alive("sleep 4713") == []


def test_without_mps_shaping_says_so(context: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mps, "COMMAND", "no-such-daemon")
    with pytest.raises(BenchError, match="there is no MPS here"):
        shaping.measure(context())


# --- dangers

BROKEN_CLIENT = """
import sys, time
mode = sys.argv[1]
if mode == "join":
    time.sleep(4714)
if mode == "twice":
    sys.exit("not today")
print("cuInit? cuInit!", flush=True)
input()
"""


def test_clients_that_hang_exit_or_talk_nonsense_make_an_error_of_their_question(
    context: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = tmp_path / "mps_client.py"
    client.write_text(BROKEN_CLIENT)
    monkeypatch.setattr(asking, "CLIENT", client)
    monkeypatch.setattr(asking, "LEAVE_S", 0.1)
    monkeypatch.setattr(dangers, "CLIENT_S", 0.5)
    found = dangers.measure(context())
    assert tuple(found) == QUESTIONS
    assert "took too long" in found["rights of fikitd.service"]["error"]
    for name in ("terminate_client", "fatal fault", "server killed"):  # they begin with a client that works
        assert "which is no JSON object" in found[name]["error"]
    assert "not today" in found["control daemon stopped"]["error"]
    assert alive("mps_client.py join") == []


def test_a_server_that_does_not_come_makes_an_error_of_each_question(
    context: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / mps.COMMAND
    program.write_text("#!/bin/sh\n# multiuser-server\n[ $# -gt 0 ] && exec sleep 4715\necho none\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(mps, "START_S", 0.2)
    monkeypatch.setattr(dangers, "START_S", 0.3)
    found = dangers.measure(context())
    assert tuple(found) == QUESTIONS
    assert all("no MPS server came" in entry["error"] for entry in found.values()), found
    assert alive("sleep 4715") == []


# --- Slurm


def test_without_the_folder_the_part_says_how_to_get_it(
    context: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    monkeypatch.setattr(slurm_kit, "FOLDER", tmp_path)
    with pytest.raises(BenchError, match=r"run bench/gpu/second/pack_slurm\.sh on a Debian machine"):
        slurm.measure(context())
    (tmp_path / slurm_kit.ARCHIVE).write_text("not an archive")
    with pytest.raises(BenchError, match="couldn't unpack"):
        slurm.measure(context())


def test_a_system_without_debian_s_tools_packs_nothing(tmp_path: Path) -> None:
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    script = ROOT / "bench/gpu/second/pack_slurm.sh"
    done = subprocess.run(
        ["/bin/bash", script], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "this system is not a Debian" in done.stderr


@pytest.fixture
def broken_slurm(packed: Path, native: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Replaces a program of the unpacked Slurm; afterwards the part's directory is gone, and with it every process there."""
    monkeypatch.setenv("PATH", f"{native / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(
        slurm, "_own_python", lambda directory, modules: sys.executable
    )  # the test's environment is large
    real, made = slurm_kit.Kit.__init__, list[Path]()

    def replace(program: str, text: str) -> None:
        def make(kit: slurm_kit.Kit, directory: Path) -> None:
            real(kit, directory)
            (kit.programs / program).write_text(f"#!/bin/sh\n{text}\n")
            made.append(directory)

        monkeypatch.setattr(slurm_kit.Kit, "__init__", make)

    yield replace
    (directory,) = made
    assert not directory.exists()
    assert alive(str(directory)) == []


def test_a_slurmctld_that_ends_is_said(context: Make, broken_slurm: Callable[[str, str], None]) -> None:
    broken_slurm("slurmctld", "exit 1")
    found = slurm.measure(context(30))
    assert "slurmctld ended" in found["error"]
    assert "slurmd.log" in found["logs"]


def test_a_slurm_that_hangs_costs_the_part_its_time_only(
    context: Make, broken_slurm: Callable[[str, str], None]
) -> None:
    broken_slurm("sinfo", "exec sleep 4716")
    begin = time.monotonic()
    found = slurm.measure(context(6))
    assert time.monotonic() - begin < 12
    assert "took longer than" in found["error"]
    assert "slurmd" in found["start"]
    assert alive("sleep 4716") == []


def test_jobs_that_are_refused_are_errors_of_their_stages(
    context: Make, broken_slurm: Callable[[str, str], None]
) -> None:
    broken_slurm("sbatch", "echo 'no jobs today' >&2; exit 1")
    found = slurm.measure(context(40))
    assert "error" not in found, found
    for stage in ("high and low", "scancel in a kernel", "trap"):
        assert "no jobs today" in found["stages"][stage]["error"]
    assert "took_s" in found["stages"]["end"]


@pytest.mark.parametrize("missing", [False, True])
def test_a_python_without_a_module_or_a_way_in_for_other_users_is_copied(
    missing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = tmp_path / "closed" / "venv"
    for folder in ("bin", "lib/python3.11/site-packages"):
        (prefix / folder).mkdir(parents=True)
    (prefix / "bin" / "python3").symlink_to("/usr/bin/python3")
    (prefix / "bin" / "fikitd").write_text(f"#!/bin/sh\nexec {prefix}/bin/python3\n")
    monkeypatch.setattr(slurm.sys, "prefix", str(prefix))
    monkeypatch.setattr(slurm.sys, "executable", str(prefix / "bin" / "python3"))
    monkeypatch.setattr(slurm, "_is_open", lambda python, words="": missing or str(python) != sys.executable)
    modules = tmp_path / "open" / "modules"
    modules.mkdir(parents=True)
    (modules / ("no_such_module.py" if missing else "json.py")).touch()
    python = slurm._own_python(tmp_path / "open", modules)
    assert python == str(tmp_path / "open" / "venv" / "bin" / "python3")
    assert (tmp_path / "open/venv/bin/fikitd").read_text() == f"#!/bin/sh\nexec {tmp_path}/open/venv/bin/python3\n"
    assert (tmp_path / "open/venv/lib/python3.11/site-packages/slurm_kit.pth").read_text() == f"{modules}\n"
