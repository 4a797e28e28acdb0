"""The profile store: what it keeps, merges and refuses. Profile files are hostile input."""

from __future__ import annotations

import copy
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from daemon_fakes import kernel, statistics
from fikitd._core import merge_statistics
from fikitd.profiles import profile_format, profile_store, run_files
from fikitd.profiles.profile_format import merge
from fikitd.profiles.profile_store import ProfileStore
from fikitd.store.storage import become
from hypothesis import given
from hypothesis import strategies as st
from profile_documents import document

ME = os.getuid()


@pytest.fixture
def store(tmp_path: Path) -> ProfileStore:
    return ProfileStore(tmp_path / "profiles")


def collect(store: ProfileStore, key: str = "net", device: str | None = "GPU A") -> tuple[Any, list[str]]:
    warnings: list[str] = []
    return store.load(ME, key, device, warnings.append), warnings


def test_a_saved_profile_is_found(store: ProfileStore) -> None:
    path = store.save(ME, document(), "run1")
    profile, warnings = collect(store)
    assert profile == {**document(), "runs": 1, "variants": 1}
    assert warnings == []
    assert store.keys(ME) == ["net"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["run1.json"]


def test_sampled_runs_fill_the_room_that_measured_ones_leave(
    store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "MAX_RUNS", 4)
    for day in range(3):
        store.save(ME, document(launches=1), f"2026010{day}")
    for day in range(6):
        store.save(ME, document(launches=100), f"2026020{day}", sampled=True)
    profile, warnings = collect(store)
    assert (profile["runs"], profile["launches"], warnings) == (4, 2 * 1 + 2 * 100, [])
    for day in range(4):
        store.save(ME, document(launches=1), f"2026030{day}")
    profile, _ = collect(store)
    assert (profile["runs"], profile["launches"]) == (4, 4)


def test_sampled_runs_that_nobody_reads_any_more_are_removed(store: ProfileStore) -> None:
    measured = store.save(ME, document(), "2025")
    for second in range(run_files.MAX_RUNS + 5):
        last = store.save(ME, document(), f"20260101T0000{second:02}", sampled=True)
    left = sorted(path.name for path in last.parent.iterdir())
    assert len(left) == run_files.MAX_RUNS + 1
    assert left[0] == measured.name
    assert left[-1] == last.name == f"20260101T0000{run_files.MAX_RUNS + 4:02}-sampled.json"


def test_runs_of_a_clock_that_was_years_ahead_do_not_stay_the_newest(store: ProfileStore) -> None:
    for number in range(run_files.MAX_RUNS):
        store.save(ME, document(launches=1), f"20380119T031407Z-{number:02}", sampled=True)
    for number in range(3):
        store.save(ME, document(launches=100), f"20261121T120000Z-{number:02}", sampled=True)
    profile, _ = collect(store)
    assert profile["launches"] == 300 + (run_files.MAX_RUNS - 3)
    names = {path.name for path in (store.directory / str(ME) / "net").iterdir()}
    assert len(names) == run_files.MAX_RUNS
    assert len([name for name in names if name.startswith("2026")]) == 3


def test_runs_are_merged(store: ProfileStore) -> None:
    store.save(ME, document(kernels=[kernel(duration=statistics(1, 100.0))]), "a")
    store.save(ME, document(kernels=[kernel(duration=statistics(3, 200.0)), kernel("other")]), "b")
    profile, _ = collect(store)
    durations = {k["name"]: k["duration"] for k in profile["kernels"]}
    assert durations["k"] == {"count": 4, "mean_ns": 175.0, "m2": 7500.0, "histogram": {"80": 4}}
    assert (profile["runs"], profile["launches"], profile["span_ns"]) == (2, 2, 20)
    assert "other" in durations


def test_times_beside_others_count_only_while_nobody_timed_the_kernel_alone(store: ProfileStore) -> None:
    crowded = {"beside": True, "duration": statistics(8, 765.0)}
    store.save(
        ME,
        document(
            kernels=[kernel(**crowded), kernel("other", **crowded), {**kernel(**crowded), "context": [16 * "0"] * 3}]
        ),
        "a",
    )
    store.save(ME, document(kernels=[kernel("other", **crowded)]), "b", sampled=True)
    counts = [(k["name"], len(k["context"]), k["duration"]["count"], k["beside"]) for k in collect(store)[0]["kernels"]]
    assert counts == [("k", 0, 8, True), ("k", 3, 8, True), ("other", 0, 16, True)]
    store.save(ME, document(kernels=[kernel(duration=statistics(1, 200.0)), kernel(**crowded)]), "c")
    found = [(k["name"], k["duration"]["mean_ns"], k.get("beside")) for k in collect(store)[0]["kernels"]]
    assert found == [("k", 200.0, None), ("other", 765.0, True)]


def test_doubtful_times_stay_apart_from_those_beside_others(store: ProfileStore) -> None:
    crowded = {"beside": True, "duration": statistics(1, 765.0)}
    doubtful = {"beside": True, "doubtful": True, "duration": statistics(1, 300.0)}
    store.save(ME, document(kernels=[kernel(**crowded), kernel(**doubtful), kernel("other", **doubtful)]), "a")
    store.save(ME, document(kernels=[kernel(**doubtful), kernel("other", duration=statistics(1, 200.0))]), "b")
    found = [(k["name"], k["duration"]["count"], k.get("doubtful", False)) for k in collect(store)[0]["kernels"]]
    assert found == [("k", 1, False), ("k", 2, True), ("other", 1, False)]


def test_only_runs_on_a_device_of_that_name_count(store: ProfileStore) -> None:
    store.save(ME, document(), "a")
    store.save(ME, document(name="GPU B", created="2026-11-22T12:00:00Z"), "b")
    assert collect(store, device="GPU B")[0]["runs"] == 1
    assert collect(store, device="GPU C")[0] is None
    assert collect(store, device=None)[0]["device"]["name"] == "GPU B"
    assert store.devices(ME, "net") == ["GPU A", "GPU B"]


def test_only_the_newest_runs_are_merged(store: ProfileStore) -> None:
    for number in range(run_files.MAX_RUNS + 4):
        store.save(ME, document(), f"run{number:03}")
    assert collect(store)[0]["runs"] == run_files.MAX_RUNS


def test_newer_runs_come_first_when_there_is_too_much_to_read(
    store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        path = store.save(ME, document(created=f"2026-11-2{number}T00:00:00Z"), f"run{number}")
    monkeypatch.setattr(profile_store, "MAX_TOTAL_BYTES", 2 * path.stat().st_size)
    profile, warnings = collect(store)
    assert (profile["runs"], profile["created"], warnings) == (2, "2026-11-23T00:00:00Z", [])


def test_a_profile_that_no_reader_would_take_is_not_written(
    store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile_store, "MAX_FILE_BYTES", 100)
    with pytest.raises(ValueError, match="no reader takes more than 100"):
        store.save(ME, document(), "a")
    assert collect(store) == (None, [])


def test_what_was_never_measured_is_none(store: ProfileStore) -> None:
    assert collect(store) == (None, [])
    assert store.keys(ME) == []


@pytest.mark.parametrize("key", ["..", ".", "../other", "a/b", "", "x" * 65, ".hidden"])
def test_a_key_cannot_leave_its_directory(store: ProfileStore, key: str) -> None:
    with pytest.raises(ValueError, match="not a profile name"):
        store.load(ME, key, "GPU A")
    with pytest.raises(ValueError, match=r"key is not|key .* string"):
        store.save(ME, document(key=key), "a")


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def with_kernel(**facts: Any) -> bytes:
    return json.dumps(document(kernels=[kernel(**facts)])).encode()


CORRUPT = {
    "empty": b"",
    "half a file": json.dumps(document()).encode()[:-40],
    "binary": bytes(range(256)),
    "nested": nested(200_000),
    "a list": b"[]",
    "another format": json.dumps(document(format="other")).encode(),
    "a later version": json.dumps(document(version=2)).encode(),
    "a path as key": json.dumps(document(key="../x")).encode(),
    "kernels missing": json.dumps(document(kernels=None)).encode(),
    "NaN": with_kernel(duration={**statistics(), "mean_ns": float("nan")}),
    "infinite": with_kernel(duration={**statistics(), "mean_ns": float("inf")}),
    "1e999": with_kernel(gap={**statistics(), "mean_ns": 1.5}).replace(b"1.5", b"1e999"),
    "negative count": with_kernel(gap=statistics(count=-1)),
    "negative mean": with_kernel(gap=statistics(mean_ns=-1.0)),
    "huge count": with_kernel(gap=statistics(count=2**60)),
    "true as count": with_kernel(gap={**statistics(), "count": True}),
    "bucket that is not": with_kernel(gap={**statistics(), "histogram": {"-1": 1}}),
    "bucket beyond": with_kernel(gap={**statistics(), "histogram": {"99999": 1}}),
    "module not hex": with_kernel(module="xyz"),
    "grid of two": with_kernel(grid=[1, 1]),
    "context of one": with_kernel(context=["ab"]),
    "kind beyond": with_kernel(kind=9),
    "name too long": with_kernel(name="x" * 2000),
}


@pytest.mark.parametrize("content", CORRUPT.values(), ids=CORRUPT.keys())
def test_a_corrupt_file_is_skipped_with_one_warning_that_names_it(store: ProfileStore, content: bytes) -> None:
    bad = store.save(ME, document(), "a").with_name("b.json")
    bad.write_bytes(content)
    profile, warnings = collect(store)
    assert profile["runs"] == 1
    assert len(warnings) == 1
    assert warnings[0].startswith(f"profile file {bad} was skipped: ")
    assert "\n" not in warnings[0]


def make_link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def make_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(profile_store.MAX_FILE_BYTES + 1)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, make_link, make_large])
def test_what_is_no_plain_file_of_bounded_size_is_skipped(store: ProfileStore, make: Callable[[Path], None]) -> None:
    odd = store.save(ME, document(), "a").with_name("b.json")
    make(odd)
    profile, warnings = collect(store)
    assert profile["runs"] == 1
    assert str(odd) in warnings[0]


def test_an_unfinished_file_is_not_seen(store: ProfileStore) -> None:
    store.save(ME, document(), "a").with_name(".b.json.1234").write_bytes(b"{")
    assert collect(store) == ({**document(), "runs": 1, "variants": 1}, [])


def test_terminal_sequences_do_not_survive(store: ProfileStore) -> None:
    store.save(ME, document(command=["\x1b[2J"]), "a")
    assert collect(store)[0]["command"] == ["?[2J"]


def test_a_file_in_place_of_the_directory_is_an_error_that_says_so(store: ProfileStore) -> None:
    store.directory.write_text("")
    with pytest.raises(OSError, match="Not a directory"):
        store.save(ME, document(), "a")


def test_a_failed_write_leaves_nothing_behind(store: ProfileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    first = store.save(ME, document(), "a")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        store.save(ME, document(), "b")
    assert list(first.parent.iterdir()) == [first]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second uid")
def test_as_root_the_files_are_the_users_and_a_trap_is_not_entered(tmp_path: Path) -> None:
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o011)
    store = ProfileStore(tmp_path / "profiles")
    errors: list[BaseException] = []

    def as_user(function: Callable[[], object]) -> None:
        def work() -> None:
            try:
                become(1234, 1235)
                function()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    store.prepare(1234, 1235)
    as_user(lambda: store.save(1234, document(), "a"))
    assert errors == []
    (path,) = (store.directory / "1234" / "net").iterdir()
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)
    assert os.geteuid() == 0, "only the thread changed"

    # Another user's directory under that name: neither read nor written.
    os.chown(store.directory / "1234", 4321, 4321)
    (store.directory / "1234").chmod(0o777)
    as_user(lambda: store.save(1234, document(), "b"))
    assert "belongs to uid 4321" in str(errors[0])
    # Root's own files are out of reach for the thread.
    secret = tmp_path / "secret"
    secret.write_text("")
    secret.chmod(0o600)
    as_user(secret.read_text)
    assert isinstance(errors[1], PermissionError)


samples = st.lists(st.integers(0, 10**9), min_size=0, max_size=20)


def summarise(values: list[int]) -> dict[str, Any]:
    mean = sum(values) / len(values) if values else 0.0
    histogram: dict[str, int] = {}
    for value in values:
        histogram[str(value.bit_length())] = histogram.get(str(value.bit_length()), 0) + 1
    return {
        "count": len(values),
        "mean_ns": mean,
        "m2": float(sum((v - mean) ** 2 for v in values)),
        "histogram": histogram,
    }


@given(samples, samples)
def test_merging_is_commutative_and_says_what_both_say(a: list[int], b: list[int]) -> None:
    merged = merge_statistics(summarise(a), summarise(b))
    assert merged == merge_statistics(summarise(b), summarise(a))
    whole = summarise(a + b)
    assert (merged["count"], merged["histogram"]) == (whole["count"], whole["histogram"])
    assert merged["mean_ns"] == pytest.approx(whole["mean_ns"], rel=1e-9)
    assert merged["m2"] == pytest.approx(whole["m2"], rel=1e-6, abs=1.0)


def test_statistics_that_do_not_add_up_count_nothing() -> None:
    good, bad = summarise([3, 5, 9]), {**summarise([4, 4]), "count": 7}
    assert merge_statistics(good, bad) == merge_statistics(bad, good) == good
    assert merge_statistics(bad, bad) == {"count": 0, "mean_ns": 0.0, "m2": 0.0, "histogram": {}}


@given(st.permutations([0, 1, 2]))
def test_the_order_of_files_does_not_matter(order: list[int]) -> None:
    runs = [
        document(created=f"2026-11-2{i}T00:00:00Z", kernels=[kernel("ab"[i % 2], duration=statistics(i + 1, 10.0 * i))])
        for i in range(3)
    ]
    assert merge(runs[i] for i in order) == merge(runs)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@given(
    st.sampled_from(
        ["key", "command", "created", "device", "span_ns", "launches", "kernels", "duration", "gap", "grid"]
    ),
    json_values,
)
def test_any_value_in_any_field_is_accepted_or_refused_but_never_a_fault(field: str, value: Any) -> None:
    broken = copy.deepcopy(document())
    (broken["kernels"][0] if field in broken["kernels"][0] else broken)[field] = value
    try:
        checked = profile_format.checked(broken)
    except ValueError:
        return
    assert profile_format.parse(json.dumps(checked).encode()) == checked
