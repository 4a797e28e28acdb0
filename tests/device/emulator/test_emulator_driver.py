"""libcuda.so.1 of the emulator, as C programs see it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import ROOT, SOURCES, driver_flags, stats

Env = Callable[..., dict[str, str]]
CASES = [
    "devices",
    "modules",
    "events",
    "host_functions",
    "memory",
    "wrong_handles",
    "clusters",
    "proc_address",
    "unsupported",
    "threads",
    "forked_child",
]


@pytest.fixture(scope="module")
def conformance(native: Path, cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_conformance.c", *driver_flags(native))


@pytest.fixture(scope="module")
def client(native: Path, cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_client.c", *driver_flags(native))


@pytest.mark.parametrize("case", CASES)
def test_driver(conformance: Path, emulator_env: Env, case: str) -> None:
    done = subprocess.run(
        [conformance, case], env=emulator_env(), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_every_driver_case_is_listed(conformance: Path, emulator_env: Env) -> None:
    assert (
        subprocess.run([conformance], env=emulator_env(), capture_output=True, text=True, check=True).stdout.split()
        == CASES
    )


def test_unsupported_calls_say_so_once(conformance: Path, emulator_env: Env) -> None:
    done = subprocess.run([conformance, "unsupported"], env=emulator_env(), capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert sum("cuTexRefCreate" in line for line in lines) == 1
    assert sum("cuGetExportTable is refused" in line for line in lines) == 1


def test_every_driver_name_is_exported_and_nothing_else(native: Path) -> None:
    library = native / "emulator/libcuda.so.1"
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1] for line in out.splitlines()}
    assert exported == set((ROOT / "driver_api/symbols.txt").read_text().split())


def test_no_name_is_found_that_is_newer_than_the_driver(emulator_env: Env) -> None:
    code = (
        "import ctypes; cu = ctypes.CDLL('libcuda.so.1'); p = ctypes.c_void_p(7); s = ctypes.c_int()\n"
        "print(cu.cuGetProcAddress_v2(b'cuStreamBeginRecaptureToGraph', ctypes.byref(p), 13050, ctypes.c_uint64(0),"
        " ctypes.byref(s)), p.value, s.value)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=emulator_env(), capture_output=True, text=True, check=True)
    assert done.stdout == "500 None 1\n"


def test_every_result_has_a_name(native: Path, emulator_env: Env) -> None:
    header = (ROOT / "emulator/libcuda/driver/driver_api.hpp").read_text()
    results = re.findall(r"^  (CUDA_\w+) = (\d+),$", header, re.M)
    assert len(results) > 30
    script = (
        "import ctypes, sys; cu = ctypes.CDLL('libcuda.so.1')\n"
        "for code in sys.argv[1:]:\n"
        "    name, text = ctypes.c_char_p(), ctypes.c_char_p()\n"
        "    assert cu.cuGetErrorName(int(code), ctypes.byref(name)) == 0, code\n"
        "    assert cu.cuGetErrorString(int(code), ctypes.byref(text)) == 0, code\n"
        "    print(name.value.decode())\n"
    )
    codes = [code for _, code in results]
    done = subprocess.run(
        ["python3", "-c", script, *codes], env=emulator_env(), check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == [name for name, _ in results]


def test_needs_no_cxx_runtime_of_the_program(native: Path) -> None:
    out = subprocess.run(
        ["readelf", "-d", native / "emulator/libcuda.so.1"], check=True, capture_output=True, text=True
    ).stdout
    assert "libstdc++" not in out
    assert "Library soname: [libcuda.so.1]" in out


def test_both_library_names_are_one_driver(native: Path, emulator_env: Env) -> None:
    script = (
        "import ctypes; a = ctypes.CDLL('libcuda.so'); b = ctypes.CDLL('libcuda.so.1')\n"
        "address = lambda f: ctypes.cast(f, ctypes.c_void_p).value\n"
        "assert address(a.cuInit) == address(b.cuInit)"
    )
    subprocess.run(["python3", "-c", script], env=emulator_env(), check=True)


def test_launch_order_holds_across_streams(client: Path, emulator_env: Env) -> None:
    assert subprocess.run([client, "order", "3000"], env=emulator_env(), check=False, timeout=60).returncode == 0


def test_dilation_stretches_time_but_not_event_times(client: Path, emulator_env: Env, tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text(
        '[device]\ndilation = 10\n[[kernel]]\nmatch = "fikit_spin"\nduration = "param0_ns"\n'
    )
    env = emulator_env(EMUCUDA_CONFIG=str(tmp_path / "slow.toml"))
    out = subprocess.run(
        [client, "spin", "1000", "10"], env=env, input="\n", check=True, capture_output=True, text=True
    ).stdout
    wall_ms, event_ms = map(float, out.splitlines()[1].split())
    assert wall_ms >= 100
    assert event_ms == pytest.approx(10, rel=0.01)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[device]\nnmae = 'Emulated'\n", "line 2: unknown key 'nmae'"),
        ("[device]\nname = 'H200'\n", 'must contain "Emulated"'),
        ("[device]\nmemory = 'lots'\n", "line 2: memory must be a size"),
        ("[device\n", "line 1"),
        ("[[kernel]]\nus = 5\n", "needs match"),
        ("[driver]\nfirst_launch_waits = 1\n", "line 2: first_launch_waits must be true or false"),
        ("[device]\ndilation = 0\n", "dilation must be a number"),
        ("[device]\nmps_model = 'fair'\n", 'line 2: mps_model must be "proportion" or "admission"'),
    ],
)
def test_bad_model_file_is_one_sentence(
    client: Path, emulator_env: Env, tmp_path: Path, text: str, complaint: str
) -> None:
    (tmp_path / "bad.toml").write_text(text)
    env = emulator_env(EMUCUDA_CONFIG=str(tmp_path / "bad.toml"))
    done = subprocess.run([client, "count"], env=env, check=True, capture_output=True, text=True)
    assert done.stdout == "error 802\n"
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_visible_devices(native: Path, client: Path, emulator_env: Env, tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text("[device]\ncount = 2\n")

    def count(**env: str) -> str:
        full = emulator_env(EMUCUDA_CONFIG=str(tmp_path / "two.toml"), **env)
        return subprocess.run([client, "count"], env=full, check=True, capture_output=True, text=True).stdout.strip()

    number, first = count().split()
    assert number == "2"
    number, second = count(CUDA_VISIBLE_DEVICES="1").split()
    assert number == "1"
    assert second != first
    assert count(CUDA_VISIBLE_DEVICES="1,0") == f"2 {second}"
    assert count(CUDA_VISIBLE_DEVICES=second) == f"1 {second}"
    assert count(CUDA_VISIBLE_DEVICES=second[:12]) == f"1 {second}"
    assert count(CUDA_VISIBLE_DEVICES="0,7,1") == f"1 {first}"
    assert count(CUDA_VISIBLE_DEVICES="") == count(CUDA_VISIBLE_DEVICES="-1") == "error 100"
    subprocess.run(
        [client, "order", "10"],
        env=emulator_env(EMUCUDA_CONFIG=str(tmp_path / "two.toml"), CUDA_VISIBLE_DEVICES="1"),
        check=True,
    )
    assert [(d["index"], d["uuid"]) for d in stats(native, emulator_env())] == [(1, second)]
