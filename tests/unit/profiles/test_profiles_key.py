"""Which profile a process uses when its job names none."""

from __future__ import annotations

from pathlib import Path

import pytest
from daemon_fakes import FakeProc
from fikitd.base.validation import is_name
from fikitd.profiles.profile_key import (
    FIRST,
    OTHERS,
    container_of,
    derive,
    derive_earlier,
    program_of_process,
    role_of,
    script_of,
    words_of,
)


def key(proc: FakeProc, pid: int = 7) -> str:
    return program_of_process(proc.root, pid).key


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


def test_other_arguments_are_another_variant_of_the_same_program(proc: FakeProc) -> None:
    for pid, arguments in enumerate((("--batch", "1"), ("--batch", "2"), ("--batch2",), ("--batch", "1")), start=7):
        proc.add(pid, command=("python3", "train.py", *arguments), exe="/usr/bin/python3.11")
    programs = [program_of_process(proc.root, pid) for pid in (7, 8, 9, 10)]
    assert len({program.key for program in programs}) == 1
    assert [program.variant == programs[0].variant for program in programs] == [True, False, False, True]
    assert len({program.earlier_key for program in programs}) == 3, "as fikit called them before"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["a.py"], ["b.py"]),
        (["-m", "train"], ["train.py"]),
        (["-m", "train"], ["-m", "train.fast"]),
        (["-c", "import a"], ["-c", "import b"]),
        (["-c", "import a"], ["-"]),
    ],
)
def test_another_script_module_or_code_is_another_program(one: list[str], other: list[str]) -> None:
    assert derive(["python3", *one], "python3", "") != derive(["python3", *other], "python3", "")


def test_a_script_is_the_same_wherever_it_lies() -> None:
    commands = ["train.py"], ["/home/u/train.py", "--lr", "1"], ["-u", "./train.py"]
    assert len({derive(["python3", *command], "python3", "") for command in commands}) == 1


@pytest.mark.parametrize(
    ("environment", "role"),
    [
        ({}, ""),
        ({"RANK": "0", "WORLD_SIZE": "1"}, ""),
        ({"RANK": "0", "WORLD_SIZE": "4"}, FIRST),
        ({"RANK": "3", "WORLD_SIZE": "4"}, OTHERS),
        ({"OMPI_COMM_WORLD_RANK": "10", "OMPI_COMM_WORLD_SIZE": "16"}, OTHERS),
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, FIRST),
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}, OTHERS),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, ""),  # a batch script runs alone, whatever its steps do
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "RANK": "0", "WORLD_SIZE": "8"}, FIRST),
        ({"RANK": "x", "WORLD_SIZE": "-3"}, ""),
        ({"RANK": "0", "WORLD_SIZE": "9" * 5000}, ""),
    ],
)
def test_the_role_of_a_process_is_what_its_starter_says(environment: dict[str, str], role: str) -> None:
    assert role_of(environment) == role


def test_the_first_rank_and_the_others_are_two_variants(proc: FakeProc) -> None:
    for pid, rank in ((7, 0), (8, 1), (9, 2)):
        proc.add(pid, command=("python3", "train.py"), exe="/usr/bin/python3.11")
        (proc.root / str(pid) / "environ").write_bytes(f"A=1\0RANK={rank}\0WORLD_SIZE=3\0".encode())
    first, second, third = (program_of_process(proc.root, pid) for pid in (7, 8, 9))
    assert first.key == second.key == third.key
    assert first.variant != second.variant == third.variant


@pytest.mark.parametrize(
    ("environment", "image"),
    [
        ({}, ""),
        ({"APPTAINER_CONTAINER": "/images/torch-2.4.sif", "SINGULARITY_CONTAINER": "/other.sif"}, "torch-2.4.sif"),
        ({"SINGULARITY_CONTAINER": "docker://nvcr.io/nvidia/pytorch:24.01-py3"}, "pytorch:24.01-py3"),
        ({"APPTAINER_CONTAINER": "/scratch/sandbox/"}, "sandbox"),
        ({"APPTAINER_CONTAINER": "", "SINGULARITY_CONTAINER": "/"}, ""),
    ],
)
def test_the_image_of_a_container_is_what_its_starter_says(environment: dict[str, str], image: str) -> None:
    assert container_of(environment) == image


def test_a_script_in_another_container_is_another_program(proc: FakeProc) -> None:
    for pid, image in ((7, ""), (8, "/a/torch-2.3.sif"), (9, "/a/torch-2.4.sif"), (10, "/copy/of/torch-2.4.sif")):
        proc.add(pid, command=("python3", "train.py"), exe="/usr/bin/python3.11")
        (proc.root / str(pid) / "environ").write_bytes(f"APPTAINER_CONTAINER={image}\0".encode())
    outside, one, other, copy = (key(proc, pid) for pid in (7, 8, 9, 10))
    assert len({outside, one, other}) == 3
    assert other == copy
    assert words_of(one) == words_of(other) == words_of(outside), (
        "one may stand in for the other until it has a profile"
    )
    assert outside == derive(["python3", "train.py"], "python3", ""), "as before"


def test_a_program_file_is_the_same_in_every_container() -> None:
    assert derive(["./solver"], "solver", "9:ab", "a.sif") == derive(["./solver"], "solver", "9:ab")


def test_a_very_long_command_is_cut(proc: FakeProc) -> None:
    proc.add(7, command=("python3", "train.py", *("x" * 100 for _ in range(2000))), exe="/usr/bin/python3.11")
    command = program_of_process(proc.root, 7).command
    assert command[:2] == ["python3", "train.py"]
    assert 20_000 < sum(map(len, command)) <= 2**15


def test_keys_of_before_and_of_now_have_their_words_in_common() -> None:
    command = ["python3", "train.py", "--lr", "1"]
    earlier, now = derive_earlier(command, "python3", ""), derive(command, "python3", "")
    assert earlier != now
    assert words_of(earlier) == words_of(now) == "python-train"
    assert words_of("mine") == "mine"


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
    assert is_name(derive_earlier(words, program, "i"))
