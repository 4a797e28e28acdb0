"""Which profile a process uses when its job names none."""

from __future__ import annotations

from pathlib import Path

import pytest
from daemon_fakes import FakeProc
from fikitd.profile_key import derive, key_of_process, script_of
from fikitd.untrusted import is_name


def key(proc: FakeProc, pid: int = 7) -> str:
    return key_of_process(proc.root, pid)[0]


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def test_the_key_tells_program_and_script(proc: FakeProc) -> None:
    proc.add(7, command=("python3", "/home/u/train.py", "--lr", "1"), exe="/usr/bin/python3.11")
    words, _, digits = key(proc).rpartition("-")
    assert words == "python-train"
    assert len(digits) == 8
    assert int(digits, 16) >= 0


def test_every_virtual_environment_gives_the_same_key(proc: FakeProc) -> None:
    proc.add(7, command=("/a/.venv/bin/python", "train.py"), exe="/usr/bin/python3.11")
    proc.add(8, command=("/b/env/bin/python3", "train.py"), exe="/opt/conda/bin/python3.12")
    assert key(proc, 7) == key(proc, 8)


def test_other_arguments_give_another_key(proc: FakeProc) -> None:
    proc.add(7, command=("python3", "train.py", "--batch", "1"), exe="/usr/bin/python3.11")
    proc.add(8, command=("python3", "train.py", "--batch", "2"), exe="/usr/bin/python3.11")
    proc.add(9, command=("python3", "train.py", "--batch2"), exe="/usr/bin/python3.11")
    assert len({key(proc, pid) for pid in (7, 8, 9)}) == 3


def test_a_rebuilt_program_gives_another_key_and_a_copy_the_same(proc: FakeProc, tmp_path: Path) -> None:
    for pid, directory, content in ((7, "a", b"one"), (8, "b", b"one"), (9, "c", b"two")):
        (tmp_path / directory).mkdir()
        program = tmp_path / directory / "solver"
        program.write_bytes(content)
        proc.add(pid, command=("./solver", "-n", "3"), exe=str(program))
    assert key(proc, 7) == key(proc, 8) != key(proc, 9)
    assert key(proc, 7).startswith("solver-")


@pytest.mark.parametrize(
    ("arguments", "script"),
    [
        (["train.py"], "train"),
        (["-u", "-X", "dev", "-W", "ignore", "/x/train.py", "a.py"], "train"),
        (["-m", "torch.distributed.run", "train.py"], "torch.distributed.run"),
        (["-c", "print(1)"], ""),
        (["-"], ""),
        ([], ""),
        (["-m"], ""),
        (["-X"], ""),
    ],
)
def test_the_script_among_pythons_arguments(arguments: list[str], script: str) -> None:
    assert script_of(arguments) == script


@pytest.mark.parametrize(
    "words", [["x", "../../etc"], ["x", "\x1b[2J"], ["x", "a" * 500], ["x", "é ü"], [""], ["x", "..."]]
)
@pytest.mark.parametrize("program", ["python3", "..", "a b/c", "-", "ü", "x" * 300])
def test_every_command_line_gives_a_name(words: list[str], program: str) -> None:
    assert is_name(derive(words, program, "i"))
