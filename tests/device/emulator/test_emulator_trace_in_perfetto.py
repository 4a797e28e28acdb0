"""What Perfetto itself makes of the file of `emuctl trace -o`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import SOURCES, driver_flags
from perfetto_engine import PROBLEMS, SLICES, ask


@pytest.mark.heavy
def test_perfetto_sees_each_kernel_as_long_as_it_was(
    native: Path, cc: Callable[..., Path], emulator_env: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    client = cc(SOURCES / "emu_client.c", *driver_flags(native))
    subprocess.run([client, "spin", "300", "4"], env=emulator_env(EMUCUDA_TRACE="on"), input=b"\n", check=True)
    picture = tmp_path / "t.json"
    subprocess.run([native / "bin" / "emuctl", "trace", "-o", picture], env=emulator_env(), check=True)
    problems, slices = ask(picture.read_bytes(), PROBLEMS, SLICES)
    assert problems == []
    kernels = [row for row in slices if row["name"] == "fikit_spin"]
    assert [row["dur"] for row in kernels] == [300_000] * 4
    drawn = [e for e in json.loads(picture.read_text())["traceEvents"] if e["ph"] in "XiB"]
    assert len(slices) == len(drawn)
