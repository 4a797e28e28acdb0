"""`emuctl trace`: what every op on the emulated GPU did, as a program or a person reads it."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from emulator_tools import SOURCES, driver_flags, finish, start, start_together, stats

Env = Callable[..., dict[str, str]]
Emuctl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def client(native: Path, cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_client.c", *driver_flags(native))


@pytest.fixture
def emuctl(native: Path, emulator_env: Env) -> Emuctl:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [native / "bin/emuctl", *arguments]
        return subprocess.run(command, env=emulator_env(), check=False, capture_output=True, text=True)

    return run


def traced(emuctl: Emuctl) -> dict[str, Any]:
    done = emuctl("trace", "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def events(emuctl: Emuctl, kind: str = "kernel") -> list[dict[str, Any]]:
    return [event for event in traced(emuctl)["events"] if event["kind"] == kind]


def test_kernels_have_names_shapes_and_model_times(client: Path, emulator_env: Env, emuctl: Emuctl) -> None:
    subprocess.run([client, "spin", "300", "4"], env=emulator_env(EMUCUDA_TRACE="on"), input=b"\n", check=True)
    kernels = events(emuctl)
    assert [k["name"] for k in kernels] == ["fikit_spin"] * 4
    assert [(k["grid"], k["block"], k["work_ns"]) for k in kernels] == [([1, 1, 1], [1, 1, 1], 300_000)] * 4
    assert [k["demand"] for k in kernels] == [pytest.approx(1 / (132 * 32), abs=1e-6)] * 4  # one block of so many
    assert [k["outcome"] for k in kernels] == ["done"] * 4
    for kernel, following in itertools.pairwise(kernels):
        assert kernel["enqueue_ns"] <= kernel["start_ns"] == kernel["end_ns"] - 300_000
        assert following["start_ns"] == max(kernel["end_ns"], following["enqueue_ns"])
        assert following["seq"] > kernel["seq"]
    assert [e["outcome"] for e in events(emuctl, "marker")] == ["done"] * 2  # the two event records


PROGRAM = """
import ctypes, json, os, sys
cuda = ctypes.CDLL("libcuda.so.1")
ids = {}
def call(name, *arguments):
    assert getattr(cuda, name)(*arguments) == 0, name
def pointer(): return ctypes.c_void_p()
context, module, function, stream, memory, host = (pointer() for _ in range(6))
number = ctypes.c_ulonglong()
call("cuInit", 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
call("cuCtxGetId", context, ctypes.byref(number)); ids["context"] = number.value
call("cuStreamCreate", ctypes.byref(stream), 1)
call("cuStreamGetId", stream, ctypes.byref(number)); ids["stream"] = number.value
call("cuModuleLoadData", ctypes.byref(module), sys.argv[1].encode())
call("cuModuleGetFunction", ctypes.byref(function), module, b"shaped")
call("cuMemAlloc_v2", ctypes.byref(memory), 4096)
call("cuMemHostAlloc", ctypes.byref(host), 4096, 0)
call("cuMemcpyHtoDAsync_v2", memory, host, ctypes.c_size_t(3000), stream)
call("cuLaunchKernel", function, 7, 2, 1, 64, 2, 1, 0, stream, None, None)
hook = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
call("cuLaunchHostFunc", stream, hook, None)
call("cuMemsetD8Async", memory, 0, ctypes.c_size_t(1000), stream)
call("cuMemcpyDtoHAsync_v2", host, memory, ctypes.c_size_t(2000), stream)
call("cuStreamSynchronize", stream)
print(json.dumps({**ids, "pid": os.getpid()}))
"""
PTX = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry shaped()\n{\n  ret;\n}\n"


def test_records_join_with_what_the_program_knows(emulator_env: Env, emuctl: Emuctl) -> None:
    env = emulator_env(EMUCUDA_TRACE="1000")
    done = subprocess.run([sys.executable, "-c", PROGRAM, PTX], env=env, check=True, capture_output=True, text=True)
    ids = json.loads(done.stdout)
    seen = traced(emuctl)["events"]
    assert [(e["kind"], e["bytes"]) for e in seen] == [
        ("copy_in", 3000),
        ("kernel", 0),
        ("host", 0),
        ("fill", 1000),
        ("copy_out", 2000),
    ]
    assert all({key: e[key] for key in ids} == ids for e in seen)
    assert (seen[1]["name"], seen[1]["grid"], seen[1]["block"]) == ("shaped", [7, 2, 1], [64, 2, 1])
    assert [e["seq"] for e in seen] == [0, 1, 2, 3, 4]
    for before, after in itertools.pairwise(seen):
        assert after["start_ns"] >= before["end_ns"]
    assert seen[2]["end_ns"] > seen[2]["start_ns"]  # the host function ran in between


def test_slices_of_others_lie_between_start_and_end(
    native: Path, client: Path, emulator_env: Env, emuctl: Emuctl
) -> None:
    env = emulator_env(EMUCUDA_TRACE="on")
    partners = start_together(client, "spin", 10_000, 3, env=env)
    for partner in partners:
        finish(partner)
    kernels = events(emuctl)
    assert {k["pid"] for k in kernels} == {p.pid for p in partners}
    assert sum(k["work_ns"] for k in kernels) == stats(native, env)[0]["busy_ns"]
    assert all(k["end_ns"] - k["start_ns"] >= k["work_ns"] for k in kernels)


def test_running_program_is_traced_and_lost_records_are_counted(
    client: Path, emulator_env: Env, emuctl: Emuctl
) -> None:
    partner = start(client, "spin", 10, 100, env=emulator_env())
    assert emuctl("trace", "--on", "16").returncode == 0
    finish(partner)
    done = emuctl("trace", "--json")
    assert done.stderr == ("emuctl: 86 of 102 records of GPU 0 are lost, make room with `emuctl trace --on RECORDS`\n")
    seen = json.loads(done.stdout)
    assert (seen["devices"][0]["made"], seen["devices"][0]["lost"], len(seen["events"])) == (102, 86, 16)
    assert emuctl("trace", "--off").returncode == 0
    finish(start(client, "spin", 10, 5, env=emulator_env()))
    assert traced(emuctl)["devices"][0]["made"] == 102


def test_failed_and_dropped_ops_say_so(client: Path, emulator_env: Env, emuctl: Emuctl) -> None:
    env = emulator_env(EMUCUDA_TRACE="on", EMUCUDA_FAULTS="kernel=fikit_spin nth=2 error=700")
    partner = start(client, "spin", 1_000_000, 3, env=env)  # long enough for the third to be queued in time
    partner.communicate("\n")
    kernels = events(emuctl)
    assert [k["outcome"] for k in kernels] == ["done", "failed", "dropped"]
    assert kernels[1]["end_ns"] - kernels[1]["start_ns"] == 1_000_000_000
    assert (kernels[2]["start_ns"], kernels[2]["end_ns"]) == (None, kernels[1]["end_ns"])


def test_ops_of_a_killed_process_are_dropped(client: Path, emulator_env: Env, emuctl: Emuctl) -> None:
    partner = start(client, "forever", 5_000_000, env=emulator_env(EMUCUDA_TRACE="on"))
    (running, *queued) = events(emuctl)
    assert (running["outcome"], running["end_ns"]) == ("pending", None)
    assert running["start_ns"] > 0
    assert {k["outcome"] for k in queued} <= {"pending"}
    partner.kill()
    partner.communicate()
    kernels = events(emuctl)
    assert {k["outcome"] for k in kernels} == {"dropped"}
    assert kernels[0]["start_ns"] < kernels[0]["end_ns"] < kernels[0]["start_ns"] + 5_000_000_000


def test_chrome_form_goes_into_a_file(client: Path, emulator_env: Env, emuctl: Emuctl, tmp_path: Path) -> None:
    finish(start(client, "spin", 100, 3, env=emulator_env(EMUCUDA_TRACE="on")))
    done = emuctl("trace", "-o", str(tmp_path / "t.json"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    spans = [e for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"] if e["cat"] == "kernel"]
    assert [(e["ph"], e["name"], e["dur"]) for e in spans] == [("X", "fikit_spin", 100.0)] * 3
    assert spans[1]["ts"] == pytest.approx(spans[1]["args"]["start_ns"] / 1000, abs=0.002)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("trace", "--json"), "nothing was recorded: turn it on with `emuctl trace --on`"),
        (("trace", "--on", "many"), 'must be "on" or a number of records from 1 to 1048576, not "many"'),
        (("trace", "--on", "1048577"), "from 1 to 1048576"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    client: Path, emulator_env: Env, emuctl: Emuctl, arguments: tuple[str, ...], complaint: str
) -> None:
    assert "no emulated GPU in use" in emuctl("trace", "--json").stderr
    finish(start(client, "spin", 10, 1, env=emulator_env()))
    done = emuctl(*arguments)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_trace_that_cannot_be_written_is_one_sentence(
    client: Path, emulator_env: Env, emuctl: Emuctl, tmp_path: Path
) -> None:
    finish(start(client, "spin", 10, 1, env=emulator_env(EMUCUDA_TRACE="on")))
    for path in (tmp_path / "none" / "t.json", Path("/dev/full")):
        done = emuctl("trace", "-o", str(path))
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
        assert f"couldn't write {path}" in done.stderr


def test_bad_environment_is_one_sentence(client: Path, emulator_env: Env) -> None:
    env = emulator_env(EMUCUDA_TRACE="yes please")
    done = subprocess.run([client, "hold", "1"], env=env, input="\n", capture_output=True, text=True, check=False)
    assert done.stdout == "802\n"
    assert 'EMUCUDA_TRACE must be "on" or a number' in done.stderr
