"""What the shim reads from fikitd, mutated: understood or refused, and nothing left open (tests/fuzz/shim_connect.c)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from scripts import native_program

ROOT = Path(__file__).resolve().parents[3]


def test_mutated_answers_are_understood_or_refused(tmp_path: Path) -> None:
    flags = ["-O1", "-g", "-DALONE", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    program = native_program.build(tmp_path / "shim_connect", [ROOT / "tests" / "fuzz" / "shim_connect.c"], flags)
    done = subprocess.run([program, "3000"], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3000 answers\n", "")
