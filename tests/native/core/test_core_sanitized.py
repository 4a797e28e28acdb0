"""The dispatcher under ThreadSanitizer, with clients that come, go and lie (core_stress.cpp)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import sanitized_core

pytestmark = pytest.mark.starts_processes


def test_dispatcher_has_no_races(tmp_path: Path) -> None:
    stress = Path(__file__).with_name("core_stress.cpp")
    program = sanitized_core.build(tmp_path, ["-fsanitize=thread", "-Wno-tsan"], [stress])
    done = subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip(f"the sanitizer does not run on this kernel: {done.stderr}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
