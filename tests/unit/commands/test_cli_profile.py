"""`fikit profile` against stored profiles."""

from __future__ import annotations

import errno
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fikit.commands.profile import command
from fikitd.profiles.profile_store import ProfileStore

from fikitd import _core


def statistics(*values_ns: int) -> dict[str, Any]:
    mean = sum(values_ns) / len(values_ns)
    histogram: dict[str, int] = {}
    for value in values_ns:
        bucket = str(_core.bucket_of(value))
        histogram[bucket] = histogram.get(bucket, 0) + 1
    m2 = sum((value - mean) ** 2 for value in values_ns)
    return {"count": len(values_ns), "mean_ns": mean, "m2": m2, "histogram": histogram}


def kernel(name: str, *values_ns: int, context: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "name": name, "module": "0" * 16, "grid": [1, 1, 1], "block": [32, 1, 1], "shared_bytes": 0, "kind": 0,
        "context": list(context), "duration": statistics(*values_ns), "gap": statistics(1000),
    }  # fmt: skip


def profile(key: str, device: str = "Emulated GPU") -> dict[str, Any]:
    return {
        "format": "fikit-profile", "version": 1, "key": key, "command": ["python3", "train.py"],
        "created": "2026-11-21T12:00:00Z", "device": {"name": device, "memory_bytes": 1, "emulated": True},
        "span_ns": 10_000_000, "launches": 5,
        "kernels": [
            kernel("short", 10_000, 10_000), kernel("long", 400_000, 500_000, 600_000),
            kernel("long", 400_000, context=("1", "2", "3")),
        ],
    }  # fmt: skip


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProfileStore:
    config = tmp_path / "fikit.toml"
    config.write_text(f'[daemon]\nprofile_dir = "{tmp_path}/profiles"\n')
    monkeypatch.setenv("FIKIT_CONFIG", str(config))
    return ProfileStore(tmp_path / "profiles")


def run(*argv: str) -> Result:
    return CliRunner().invoke(command, list(argv))


def test_show_sorts_by_total_time_and_leaves_out_contexts(store: ProfileStore) -> None:
    store.save(os.getuid(), profile("train-1"), "run1")
    shown = json.loads(run("show", "train-1", "--json").output)
    assert [(k["name"], k["count"]) for k in shown["kernels"]] == [("long", 3), ("short", 2)]
    long = shown["kernels"][0]
    assert long["total_ns"] == pytest.approx(1_500_000)
    assert long["p50_ns"] == pytest.approx(500_000, rel=0.1)  # a histogram's bucket is that wide
    assert long["p99_ns"] == pytest.approx(600_000, rel=0.1)


def test_show_says_what_was_timed_beside_other_jobs(store: ProfileStore) -> None:
    crowded = {
        **profile("train-1"),
        "kernels": [kernel("alone", 10_000), {**kernel("crowded", 30_000), "beside": True}],
    }
    store.save(os.getuid(), crowded, "run1")
    shown = json.loads(run("show", "train-1", "--json").output)
    assert {k["name"]: k["beside"] for k in shown["kernels"]} == {"alone": False, "crowded": True}
    assert "crowded *" in run("show", "train-1").output


def test_show_prints_a_table(store: ProfileStore) -> None:
    store.save(os.getuid(), profile("train-1"), "run1")
    assert "500 µs" in run("show", "train-1").output


def test_ls_has_one_line_per_key_and_device(store: ProfileStore) -> None:
    store.save(os.getuid(), profile("train-1"), "run1")
    store.save(os.getuid(), profile("train-1"), "run2")
    store.save(os.getuid(), profile("train-1", device="Other"), "run3")
    listed = json.loads(run("ls", "--json").output)
    assert [(e["device"]["name"], e["runs"], e["launches"]) for e in listed] == [
        ("Emulated GPU", 2, 10),
        ("Other", 1, 5),
    ]


def test_a_file_that_is_no_profile_is_named_once(store: ProfileStore) -> None:
    bad = store.save(os.getuid(), profile("train-1"), "run1").with_name("bad.json")
    bad.write_text("{")
    listed = run("ls")
    assert "train-1" in listed.stdout
    assert [
        line.startswith(f"fikit: warning: profile file {bad} was skipped: ") for line in listed.stderr.splitlines()
    ] == [True]


def test_what_is_logged_after_the_command_is_no_line_of_it(store: ProfileStore) -> None:
    before = list(logging.getLogger("fikitd").handlers)
    run("ls")
    assert logging.getLogger("fikitd").handlers == before


def test_unknown_key_names_the_nearest(store: ProfileStore) -> None:
    store.save(os.getuid(), profile("train-1"), "run1")
    result = run("show", "trian-1")
    assert result.exit_code == 1
    assert result.output.strip() == 'Error: there is no profile "trian-1"; did you mean "train-1"?'


def test_device_that_was_not_measured_names_those_that_were(store: ProfileStore) -> None:
    store.save(os.getuid(), profile("train-1"), "run1")
    result = run("show", "train-1", "--device", "H200")
    assert result.exit_code == 1
    assert 'was not measured on "H200" but on Emulated GPU' in result.output


def test_a_directory_that_nobody_can_look_into_is_not_called_empty(store: ProfileStore) -> None:
    store.directory.touch()
    for words in (("ls",), ("show", "train-1")):
        result = run(*words)
        assert result.exit_code == 1
        assert f" in {store.directory} (which could not be read: Not a directory)" in result.output


def test_ls_without_profiles_says_how_to_get_one(store: ProfileStore) -> None:
    assert "--fikit-measure" in run("ls").output


def test_ls_says_when_how_large_and_of_how_many_kinds_of_runs(store: ProfileStore) -> None:
    path = store.save(os.getuid(), profile("train-1"), "run1")
    other = {**profile("train-1"), "command": ["python3", "train.py", "--lr", "2"], "created": "2026-11-23T12:00:00Z"}
    path_2 = store.save(os.getuid(), other, "run2")
    (entry,) = json.loads(run("ls", "--json").output)
    assert (entry["runs"], entry["variants"], entry["created"]) == (2, 2, "2026-11-23T12:00:00Z")
    assert entry["bytes"] == path.stat().st_size + path_2.stat().st_size
    assert "2026-11-23" in run("ls").output


def test_rm_asks_and_removes_all_runs_of_a_program(store: ProfileStore) -> None:
    for key in ("train-1", "serve-1"):
        store.save(os.getuid(), profile(key), "run1")
    store.save(os.getuid(), profile("train-1", "NVIDIA H200"), "run2")
    refused = CliRunner().invoke(command, ["rm", "train-1"], input="n\n")
    assert refused.exit_code == 1
    assert "Remove train-1 (2 runs)?" in refused.output
    assert store.keys(os.getuid()) == ["serve-1", "train-1"]
    removed = CliRunner().invoke(command, ["rm", "train-1"], input="y\n")
    assert (removed.exit_code, store.keys(os.getuid())) == (0, ["serve-1"])
    assert run("rm", "-y", "serve-1").output == "removed serve-1 (1 run)\n"
    assert store.keys(os.getuid()) == []


def test_rm_that_nobody_answers_says_so(store: ProfileStore) -> None:
    store.save(os.getuid(), profile("train-1"), "run1")
    unanswered = CliRunner().invoke(command, ["rm", "train-1"], input="")
    assert (unanswered.exit_code, unanswered.output.splitlines()[-1]) == (
        1, "Error: nothing was removed, because nobody answered: --yes removes without asking",
    )  # fmt: skip
    assert store.keys(os.getuid()) == ["train-1"]


def test_rm_of_what_is_not_there_removes_nothing(store: ProfileStore) -> None:
    store.save(os.getuid(), profile("train-1"), "run1")
    result = run("rm", "-y", "train-1", "train-2")
    assert (result.exit_code, "did you mean" in result.output) == (1, True)
    assert store.keys(os.getuid()) == ["train-1"]


def test_rm_says_what_it_could_not_remove(store: ProfileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(os.getuid(), profile("train-1"), "run1")

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(ProfileStore, "remove", refuse)
    assert 'profile "train-1" could not be removed: Read-only file system' in run("rm", "-y", "train-1").output


def sized(key: str, peak_gib: float, gpu_gib: int = 16) -> dict[str, Any]:
    found = profile(key)
    return {**found, "peak_bytes": int(peak_gib * 2**30), "device": {**found["device"], "memory_bytes": gpu_gib << 30}}


def test_show_says_what_memory_is_needed_and_who_would_fit_beside_it(store: ProfileStore) -> None:
    for key, gib in (("train-1", 9.5), ("small-1", 2), ("large-1", 8), ("huge-1", 20)):
        store.save(os.getuid(), sized(key, gib), "run1")
    memory = json.loads(run("show", "train-1", "--json").output)["memory"]
    assert (memory["peak_bytes"], memory["gpu_bytes"]) == (int(9.5 * 2**30), 16 << 30)
    assert {each["key"]: each["how"] for each in memory["beside"]} == {"small-1": "together", "large-1": "turns", "huge-1": "none"}  # fmt: skip
    shown = " ".join(run("show", "train-1").output.split())
    assert "it needs 9.50 GiB of 16.0 GiB at most" in shown
    assert "fits on the GPU together with small-1" in shown
    assert "with large-1 (8.00 GiB) it would fit in turns only: each change of turns moves 3.00 GiB in 134 ms at 24 GB/s (assumed)" in shown  # fmt: skip


def test_show_says_nothing_of_memory_that_no_run_told(store: ProfileStore) -> None:
    store.save(os.getuid(), profile("train-1"), "run1")
    assert json.loads(run("show", "train-1", "--json").output)["memory"]["beside"] == []
    assert "it needs" not in run("show", "train-1").output
