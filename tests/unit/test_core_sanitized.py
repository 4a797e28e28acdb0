"""The dispatcher under ThreadSanitizer, with clients that come, go and lie (core_stress.cpp)."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CORE = HERE.parent.parent / "fikitd" / "core"


@pytest.mark.timeout(300)  # most of it is the compiler's
def test_dispatcher_has_no_races(tmp_path: Path) -> None:
    sources = [
        path for part in ("policy", "predictor", "foresight", "dispatcher") for path in (CORE / part).glob("*.cpp")
    ]
    sources = [path for path in sources if path.name != "bench.cpp"]
    flags = ["-std=c++20", "-O1", "-g", "-fsanitize=thread", "-Wno-tsan", f"-I{CORE}", f"-I{CORE / 'protocol'}"]

    def compile_(source: Path) -> Path:
        target = tmp_path / f"{source.parent.name}-{source.stem}.o"
        subprocess.run(["c++", *flags, "-c", source, "-o", target], check=True)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_, [*sources, HERE / "core_stress.cpp"]))
    program = tmp_path / "core_stress"
    subprocess.run(["c++", "-fsanitize=thread", "-o", program, *objects, "-lpthread"], check=True)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip(f"the sanitizer does not run on this kernel: {done.stderr}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
