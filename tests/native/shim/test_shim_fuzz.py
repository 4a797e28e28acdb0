"""What the shim reads from fikitd, mutated: understood or refused, and nothing left open (tests/fuzz/shim_connect.c)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_mutated_answers_are_understood_or_refused(cc: Callable[..., Path]) -> None:
    program = cc(
        ROOT / "tests" / "fuzz" / "shim_connect.c",
        "-DALONE",
        "-D_GNU_SOURCE",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        f"-I{ROOT / 'shim'}",
        f"-I{ROOT / 'fikitd' / 'core' / 'protocol'}",
        str(ROOT / "shim/attach/connect.c"),
    )
    done = subprocess.run([program, "3000"], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3000 answers\n", "")
