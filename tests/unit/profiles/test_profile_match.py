"""Which of a program's runs say what a new run will do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from daemon_fakes import kernel, statistics
from fikitd._core import identify
from fikitd.profiles import profile_store, run_files
from fikitd.profiles.profile_key import FIRST, OTHERS, Program
from fikitd.profiles.profile_match import Match, match
from fikitd.profiles.profile_store import ProfileStore

ME = os.getuid()


def run(*arguments: str, kernels: list[Any], day: int = 1, role: str = "", key: str = "python-train-00000000") -> Any:
    return profile_store.document(
        key=key, command=["python3", "train.py", *arguments], created=f"2026-11-{day:02}T12:00:00Z", role=role,
        device={"name": "GPU A", "memory_bytes": 2**34, "emulated": True}, span_ns=10, launches=1, peak_bytes=1,
        kernels=kernels,
    )  # fmt: skip


def program(*arguments: str, role: str = "", key: str = "python-train-00000000", earlier: str = "") -> Program:
    return Program(key, ["python3", "train.py", *arguments], role, earlier)


def timed(name: str, mean_ns: float) -> Any:
    return kernel(name, duration=statistics(4, mean_ns))


def known(found: Match) -> dict[str, tuple[float, bool]]:
    """Mean and whether it was borrowed, by kernel."""
    assert found.profile is not None
    return {k["name"]: (k["duration"]["mean_ns"], k.get("borrowed", False)) for k in found.profile["kernels"]}


def test_a_sweep_knows_its_kernels_from_a_run_with_other_arguments() -> None:
    found = match([run("--lr", "1", kernels=[timed("gemm", 500.0)])], program("--lr", "2"))
    assert known(found) == {"gemm": (500.0, True)}
    assert (found.stood_in, found.choices) == (["python3", "train.py", "--lr", "1"], 1)


def test_what_runs_with_the_same_arguments_know_is_not_borrowed() -> None:
    runs = [
        run("--lr", "1", kernels=[timed("gemm", 500.0), timed("log", 30.0)]),
        run("--lr", "2", kernels=[timed("gemm", 700.0)]),
    ]
    assert known(match(runs, program("--lr", "2"))) == {"gemm": (700.0, False), "log": (30.0, True)}


def test_the_run_with_most_arguments_in_common_stands_in() -> None:
    runs = [
        run("--batch", "8", "--out", "a", kernels=[timed("gemm", 500.0)], day=1),
        run("--batch", "64", "--out", "b", kernels=[timed("gemm", 4000.0)], day=2),
    ]
    assert known(match(runs, program("--batch", "8", "--out", "c"))) == {"gemm": (500.0, True)}


def test_kernels_that_were_seen_tell_more_than_arguments() -> None:
    runs = [
        run("--model", "a", "--fast", kernels=[timed("gemm", 500.0)]),
        run("--model", "b", kernels=[timed("gemm", 4000.0), timed("attention", 90.0)]),
    ]
    wanted = program("--model", "c", "--fast")
    assert known(match(runs, wanted))["gemm"] == (500.0, True)
    each = kernel("attention")
    seen = [identify(each["name"], int(each["module"], 16), each["grid"], each["block"], each["shared_bytes"])]
    found = match(runs, wanted, seen)
    assert known(found)["gemm"] == (4000.0, True)
    assert found.stood_in == ["python3", "train.py", "--model", "b"]


def test_of_runs_that_are_as_much_alike_the_newest_stands_in() -> None:
    runs = [run("--lr", str(day), kernels=[timed("gemm", 100.0 * day)], day=day) for day in (1, 3, 2)]
    assert known(match(runs, program("--lr", "9"))) == {"gemm": (300.0, True)}


def test_a_rank_is_told_by_runs_of_its_role() -> None:
    runs = [
        run(kernels=[timed("gemm", 500.0), timed("checkpoint", 9000.0)], role=FIRST, day=2),
        run(kernels=[timed("gemm", 600.0)], role=OTHERS),
    ]
    assert known(match(runs, program(role=OTHERS)))["gemm"] == (600.0, False)
    assert known(match(runs, program(role=FIRST)))["gemm"] == (500.0, False)
    assert known(match(runs, program("--lr", "2", role=OTHERS)))["gemm"] == (600.0, True)


def test_times_taken_beside_others_are_not_lent() -> None:
    crowded = {**timed("gemm", 900.0), "beside": True}
    found = match([run("--lr", "1", kernels=[crowded, timed("log", 30.0)])], program("--lr", "2"))
    assert known(found) == {"log": (30.0, True)}


def test_two_programs_of_one_name_have_nothing_to_lend_each_other() -> None:
    other = run("--x", kernels=[timed("render", 500.0)])
    found = match([other, run(kernels=[timed("gemm", 100.0)])], program())
    assert known(found)["gemm"] == (100.0, False)
    assert known(found)["render"] == (500.0, True), "which it never launches"


def test_nothing_is_known_of_no_runs() -> None:
    assert match([], program()) == Match(None, [], 0)


@pytest.fixture
def store(tmp_path: Path) -> ProfileStore:
    return ProfileStore(tmp_path)


def save(store: ProfileStore, document: Any, name: str, *, sampled: bool = False) -> Path:
    wanted = Program(document["key"], document["command"], document["role"])
    return store.save(ME, document, name, sampled=sampled, variant=wanted.variant)


def test_a_profile_of_before_is_found(store: ProfileStore) -> None:
    store.save(ME, run("--lr", "1", kernels=[timed("gemm", 500.0)], key="python-train-11111111"), "20260101")
    assert known(store.match(ME, program("--lr", "1", earlier="python-train-11111111"), "GPU A")) == {
        "gemm": (500.0, False)
    }
    assert known(store.match(ME, program("--lr", "2", earlier="python-train-22222222"), "GPU A")) == {
        "gemm": (500.0, True)
    }


def test_another_program_or_device_lends_nothing(store: ProfileStore) -> None:
    save(store, run(kernels=[timed("gemm", 500.0)], key="python-serve-11111111"), "20260101")
    save(store, run(kernels=[timed("gemm", 500.0)]), "20260101")
    assert store.match(ME, program(key="python-other-22222222"), "GPU A").profile is None
    assert store.match(ME, program(), "GPU B").profile is None
    assert not store.may_know(ME, program(key="python-other-22222222"))
    assert store.may_know(ME, program(key="python-train-33333333"))


def test_a_sweep_of_hundreds_leaves_the_measured_run_and_is_bounded(store: ProfileStore) -> None:
    measured = save(store, run("--lr", "0", kernels=[timed("gemm", 500.0)]), "20260101")
    for number in range(run_files.MAX_FILES + 20):
        last = save(
            store, run("--lr", f"{number + 1}", kernels=[timed("gemm", 300.0)]), f"20260102T{number:06}", sampled=True
        )
    left = {path.name for path in last.parent.iterdir()}
    assert len(left) == run_files.MAX_FILES
    assert {measured.name, last.name} <= left


def test_runs_with_these_arguments_are_read_before_others(store: ProfileStore) -> None:
    save(store, run("--mine", kernels=[timed("gemm", 500.0)]), "20260101")
    for number in range(2 * run_files.MAX_RUNS):
        save(store, run(f"--other={number}", kernels=[timed("gemm", 300.0)]), f"20260102T{number:06}")
    assert known(store.match(ME, program("--mine"), "GPU A")) == {"gemm": (500.0, False)}


def test_a_damaged_run_is_skipped_and_named(store: ProfileStore) -> None:
    path = save(store, run(kernels=[timed("gemm", 500.0)]), "20260101")
    path.write_text("{}")
    skipped: list[str] = []
    assert store.match(ME, program(), "GPU A", warn=skipped.append).profile is None
    assert path.name in skipped[0]


@pytest.mark.parametrize("role", ["first ", "x", 3, None])
def test_a_role_that_is_none_is_refused(store: ProfileStore, role: object) -> None:
    path = save(store, run(kernels=[]), "20260101")
    path.write_text(
        path.read_text().replace('"role":""', f'"role":{"null" if role is None else repr(role)}'.replace("'", '"'))
    )
    skipped: list[str] = []
    store.match(ME, program(), "GPU A", warn=skipped.append)
    assert "role is none" in skipped[0]


def test_a_profile_is_removed_whole(store: ProfileStore) -> None:
    path = save(store, run(kernels=[timed("gemm", 500.0)]), "20260101")
    assert store.bytes_of(ME, "python-train-00000000") == path.stat().st_size
    assert store.remove(ME, "python-train-00000000")
    assert store.keys(ME) == []
    assert not store.remove(ME, "python-train-00000000")
