"""Job records: written by us, by the C plugin, or by somebody who should not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fikitd.base import priorities
from fikitd.store.records import JobRecord, JobRecords, RecordError

MINIMAL = "version=1\njob=12\nuid=1000\ngid=100\npriority=1\n"


def test_a_record_survives_writing_and_reading(tmp_path: Path) -> None:
    record = JobRecord("12.a", 1000, 100, 8, True, 2**34, "my-net", "0,1", "train", 77, 1_700_000_000_000_000_000)
    path = record.write(tmp_path)
    assert JobRecord.read(path) == record
    assert path.stat().st_mode & 0o777 == 0o644
    assert [entry.name for entry in path.parent.iterdir()] == ["12.a"]


def test_unknown_keys_are_ignored_and_missing_ones_have_defaults() -> None:
    record = JobRecord.parse(MINIMAL + "colour=blue\nmode=a=b\n")
    assert record == JobRecord("12", 1000, 100, 1)


def test_what_lower_jobs_may_cost_survives_too(tmp_path: Path) -> None:
    record = JobRecord("12", 1000, 100, 1, max_slowdown=0.012345, max_delay_ns=0)
    assert JobRecord.read(record.write(tmp_path)) == record
    assert "max_" not in JobRecord("12", 1000, 100, 1).text()


def test_host_memory_survives_and_is_not_said_of_others(tmp_path: Path) -> None:
    record = JobRecord("12", 1000, 100, 8, mem_bytes=2**33, mem_host_bytes=2**34)
    assert JobRecord.read(record.write(tmp_path)) == record
    assert "mem_host" not in JobRecord("12", 1000, 100, 8, mem_bytes=2**33).text()


def test_a_name_cannot_add_lines_to_its_record(tmp_path: Path) -> None:
    path = JobRecord("12", 1000, 100, 8, name="x\npriority=0\n").write(tmp_path)
    assert JobRecord.read(path).priority == 8


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\r"])
def test_no_character_of_a_name_begins_a_line(tmp_path: Path, end: str) -> None:
    path = tmp_path / "12"
    path.write_text(MINIMAL + f"name=x{end}priority=0{end}uid=0\n", newline="")
    record = JobRecord.read(path)
    assert (record.priority, record.uid, record.name) == (1, 1000, "x?priority=0?uid=0")


@pytest.mark.parametrize("name", [b"t\xe4st", b"\xc3", b"caf\xc3", b"\xff\xfe\x80", b"\xed\xa0\x80"])
def test_a_record_with_a_name_that_is_no_utf8_is_read(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / "12"
    path.write_bytes(MINIMAL.encode() + b"name=" + name + b"\n")
    assert JobRecord.read(path).priority == 1
    assert JobRecord.read(path).name.isprintable()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("job=../12", "job is not a job id"),
        ("job=..", "job is not a job id"),
        ("job=", "job is not a job id"),
        ("job=" + "1" * 65, "job is not a job id"),
        ("priority=10", "priority is not an integer from 0 to 9"),
        ("priority=-1", "priority is not a number"),
        ("priority=high", "priority is not a number"),
        ("uid=4294967295", "uid is not an integer"),
        ("measure=2", "measure is not an integer from 0 to 1"),
        ("profile=../../x", "profile is not a profile name"),
        ("profile=..", "profile is not a profile name"),
        ("mem_bytes=" + "9" * 400, "mem_bytes is not a number"),
        ("max_slowdown=1.5", "max_slowdown is not a share"),
        ("max_slowdown=-0.1", "max_slowdown is not a share"),
        ("max_slowdown=nan", "max_slowdown is not a share"),
        ("max_slowdown=", "max_slowdown is not a share"),
        ("max_slowdown=" + "9" * 400, "max_slowdown is not a share"),
        ("max_delay_ns=-1", "max_delay_ns is not a number"),
        ("max_delay_ns=1e9", "max_delay_ns is not a number"),
        ("max_delay_ns=3600000000001", "max_delay_ns is not an integer from 0 to"),
        ("version=2", "version is not an integer from 0 to 1"),
        ("array=12+1", "array is not a task of an array"),
        ("het=12_1", "het is not a component of a heterogeneous job"),
    ],
)
def test_impossible_values_are_refused_and_named(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        JobRecord.parse(MINIMAL + line + "\n")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"x" * 5000, MINIMAL.encode() * 200])
def test_unusable_files_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "12"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=f"job record {path} is unusable"):
        JobRecord.read(path)


def test_a_record_under_another_jobs_name_does_not_count(tmp_path: Path) -> None:
    JobRecord("12", 1000, 100, 1).write(tmp_path).rename(tmp_path / "jobs" / "13")
    assert JobRecords(tmp_path).get("13") is None


def test_links_and_special_files_are_not_followed(tmp_path: Path) -> None:
    path = JobRecord("12", 1000, 100, 1).write(tmp_path)
    (path.parent / "13").symlink_to(path)
    os.mkfifo(path.parent / "14")
    (path.parent / "15").mkdir()
    assert [record.job for record in JobRecords(tmp_path).all()] == ["12"]


def test_records_of_a_directory_that_is_not_there_are_none(tmp_path: Path) -> None:
    assert JobRecords(tmp_path / "no").all() == []
    assert JobRecords(tmp_path).get("../x") is None


def test_priorities_have_names_and_numbers() -> None:
    assert [priorities.parse(text) for text in ("high", "normal", "low", "0", "9")] == [1, 5, 8, 0, 9]
    assert [priorities.name(number) for number in (1, 5, 8, 3)] == ["high", "normal", "low", "3"]


@pytest.mark.parametrize("text", ["urgent", "10", "-1", "", "HIGH", "1.5", "\u0663"])
def test_unknown_priorities_are_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(ValueError, match="use high, normal, low, or a number from 0"):
        priorities.parse(text)


def test_what_a_killed_prolog_began_to_write_is_no_job(tmp_path: Path) -> None:
    JobRecord("12", os.getuid(), 100, 1).write(tmp_path)
    records = JobRecords(tmp_path)
    (records.directory / ".13.4711").write_text("version=1\njob=13\n")
    assert [record.job for record in records.all()] == ["12"]
    records.remove("12")
    assert not records.any()
