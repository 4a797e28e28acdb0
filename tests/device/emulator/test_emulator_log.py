"""EMUCUDA_LOG: what a new client calls, and what of it the emulator lacks."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import SOURCES, driver_flags

Env = Callable[..., dict[str, str]]


@pytest.fixture(scope="module")
def client(native: Path, cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_client.c", *driver_flags(native))


@pytest.fixture(scope="module")
def conformance(native: Path, cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_conformance.c", *driver_flags(native))


def calls(text: str) -> list[str]:
    assert all(line.startswith("emucuda[") for line in text.splitlines())
    return [line.split("] ", 1)[1] for line in text.splitlines()]


def test_every_function_has_one_line(client: Path, emulator_env: Env) -> None:
    env = emulator_env(EMUCUDA_LOG="1")
    done = subprocess.run([client, "order", "50"], env=env, check=True, capture_output=True, text=True)
    seen = calls(done.stderr)
    assert len(seen) == len(set(seen))
    assert {"cuCtxCreate_v2", "cuModuleLoadData", "cuLaunchKernel", "cuStreamWaitEvent", "cuMemcpyDtoH_v2"} <= set(seen)
    assert seen.index("cuCtxCreate_v2") < seen.index("cuModuleLoadData") < seen.index("cuLaunchKernel")


def test_what_is_missing_is_named(conformance: Path, emulator_env: Env, tmp_path: Path) -> None:
    env = emulator_env(EMUCUDA_LOG=str(tmp_path / "calls"))
    for case in ("unsupported", "proc_address"):
        subprocess.run([conformance, case], env=env, check=True, capture_output=True)
    seen = calls((tmp_path / "calls").read_text())  # both programs appended to it
    assert seen.count("cuTexRefCreate is not emulated") == 1
    assert any(line.startswith("cuGetProcAddress found no ") for line in seen)


def test_without_it_nothing_is_said(client: Path, emulator_env: Env) -> None:
    done = subprocess.run([client, "order", "50"], env=emulator_env(), check=True, capture_output=True, text=True)
    assert done.stderr == ""


def test_log_that_cannot_be_opened_is_one_sentence_and_no_harm(client: Path, emulator_env: Env, tmp_path: Path) -> None:
    env = emulator_env(EMUCUDA_LOG=str(tmp_path / "none" / "calls"))
    done = subprocess.run([client, "order", "50"], env=env, check=True, capture_output=True, text=True)
    assert done.stderr == f"emucuda: couldn't open {tmp_path}/none/calls, which EMUCUDA_LOG names: nothing is logged\n"
