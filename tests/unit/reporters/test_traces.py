"""Stored traces, and the picture that `fikit trace` makes of one."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from cli_samples import REPORT, site_without_daemon
from click.testing import CliRunner, Result
from daemon_fakes import journal_of
from fikit.commands.trace import command
from fikit.reporters import perfetto
from fikitd.api.held import Owners
from fikitd.api.reports import ReportStore, against_alone
from fikitd.api.traces import KEPT_CLIENTS, ROWS, JobTrace, Story, TraceError, TraceStore, begin, block, pieces
from trace_samples import ABOUT, EVENTS, event, story, trace


def save(store: TraceStore, trace: dict[str, Any]) -> Path:
    return store.save(trace, [json.dumps(trace).encode()])


def tracks(events: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found = defaultdict(list)
    for each in events:
        if each["ph"] != "M":
            found[names[each["pid"], each["tid"]]].append(each)
    return found


def check_format(text: str) -> list[dict[str, Any]]:
    """The rules of the Trace Event Format (the JSON object form) that viewers rely on."""
    data = json.loads(text)
    assert set(data) <= {"traceEvents", "displayTimeUnit", "otherData"}
    assert data["displayTimeUnit"] in {"ms", "ns"}
    assert all(isinstance(value, str) for value in data["otherData"].values())
    ends: dict[tuple[int, int], float] = {}
    for each in data["traceEvents"]:
        assert isinstance(each["name"], str)
        assert isinstance(each["pid"], int)
        assert isinstance(each["tid"], int)
        assert each["ph"] in {"X", "i", "M"}
        if each["ph"] == "M":
            assert each["name"] in {"process_name", "thread_name", "thread_sort_index"}
            continue
        assert each["ts"] >= 0
        if each["ph"] == "i":
            assert each["s"] == "t"
            continue
        track = each["pid"], each["tid"]
        assert each["dur"] > 0
        assert each["ts"] >= ends.get(track, 0), "slices of one track follow each other"
        ends[track] = round(each["ts"] + each["dur"], 3)
    return list(data["traceEvents"])


def test_every_kind_of_event_has_its_track() -> None:
    shown = tracks(check_format(json.dumps(perfetto.convert(trace()))))
    assert {name: len(events) for name, events in shown.items()} == {
        "launches": 3, "kernels, as reckoned": 2, "waits": 2, "gaps": 1, "gaps, as predicted": 1, "grants": 1, "host waited": 1,
    }  # fmt: skip
    first, second = shown["kernels, as reckoned"]
    assert (first["name"], first["ts"], first["dur"]) == ("gemm", 10_000.0, 2000.0)
    assert (second["name"], second["ts"], second["dur"]) == ("kernel without a name", 12_000.0, 1000.0)
    (gap,) = shown["gaps"]
    assert (gap["dur"], gap["args"]) == (3000.0, {"predicted_us": 2000.0, "real_us": 3000.0})
    assert [e["args"]["predicted_us"] for e in shown["launches"]] == [2000.0, None, 2000.0]


@pytest.mark.parametrize(("uid", "who"), [(8, "another job, priority 1"), (7, "job 17, priority 1")])
def test_a_wait_names_the_other_job_only_to_its_own_user(uid: int, who: str) -> None:
    made = trace(uid)
    behind, reaction = tracks(perfetto.convert(made)["traceEvents"])["waits"]
    assert behind["args"] == {"reason": "behind", "by": who, "kernel": "gemm"}
    assert reaction["args"]["by"] == "this job"
    assert ("17" in {o["job"] for o in made["others"].values()}) == (uid == 7), "nor is it in the file"


def test_a_wait_for_others_memory_names_nobody() -> None:
    made = trace()
    for client in made["clients"]:
        client["events"] = [[*row[:5], "memory", *row[6:]] if row[5] == "reaction" else row for row in client["events"]]
    waits = {each["name"]: each["args"]["by"] for each in tracks(perfetto.convert(made)["traceEvents"])["waits"]}
    assert waits["memory"] == "other jobs"


def test_the_file_says_that_the_gpu_was_emulated() -> None:
    picture = perfetto.convert(trace())
    assert picture["otherData"]["emulated"] == "true"
    assert "emulated GPU" in picture["traceEvents"][0]["args"]["name"]


def test_the_file_says_where_the_time_went_in_the_words_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = site_without_daemon(tmp_path, monkeypatch)
    save(TraceStore(reports), {**trace(), "uid": REPORT["uid"]})
    out = tmp_path / "trace.json"

    def other() -> dict[str, str]:
        assert CliRunner().invoke(command, ["12", "-o", str(out)]).exit_code == 0
        return dict(json.loads(out.read_text())["otherData"])

    assert "elapsed" not in other(), "a trace is worth something without a report"
    ReportStore(reports).save(REPORT)
    assert other()["result"] == against_alone(REPORT)
    assert (
        other()["elapsed"]
        == "9.00 s = 8.66 s alone + 9.00 ms waited + 13.0 ms delayed + 300 ms host + 20.0 ms unexplained"
    )
    ReportStore(reports).save({**REPORT, "slowdown": None, "no_slowdown": "nothing_launched"})
    assert "result" not in other()


def test_the_file_says_how_the_gpu_was_shared_where_fikitd_knew() -> None:
    assert perfetto.convert(trace(device_mode="mps"))["otherData"]["device mode"] == "mps"
    assert "device mode" not in perfetto.convert(trace())["otherData"]


def test_a_stored_trace_comes_back(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    save(store, trace())
    assert store.load("12") == trace()
    assert store.load("13") is None
    assert store.load("../12") is None
    with pytest.raises(ValueError, match="not a job id"):
        store.save({**trace(), "job": "../12"}, [])


def test_a_long_trace_is_written_in_pieces_and_is_the_same(tmp_path: Path) -> None:
    owners = Owners()
    long = [story(EVENTS * 400, lost=3), story(EVENTS), story(event("drain", 1) * ROWS)]
    text = list(pieces(iter([begin({**ABOUT}), *(block(each, 7, owners) for each in long)])))
    assert max(map(len, text)) < 64 * ROWS
    document = json.loads(b"".join(text))
    assert [len(client["events"]) for client in document["clients"]] == [8 * 400, 8, ROWS]
    assert document["clients"][0]["events"][:8] == document["clients"][1]["events"]
    assert document["clients"][0]["kernels"] == {"1": "gemm"}
    assert (document["clients"][0]["lost"], set(document["others"])) == (3, {"1", "2"})


def bomb() -> bytes:
    return gzip.compress(b" " * 2**20)[:-9]


@pytest.mark.parametrize(("data", "why"), [
    (b"no gzip", "could not be read"), (bomb(), "it is cut off"), (gzip.compress(b"[]"), "is not a version 1 fikit-trace"),
    (gzip.compress(b"{"), "could not be read"),
], ids=["no gzip", "cut off", "a list", "half"])  # fmt: skip
def test_a_damaged_trace_is_one_sentence(tmp_path: Path, data: bytes, why: str) -> None:
    (tmp_path / "12.trace.gz").write_bytes(data)
    with pytest.raises(TraceError, match=why):
        TraceStore(tmp_path).load("12")


def test_of_many_processes_the_newest_are_kept_and_silent_ones_are_not() -> None:
    job = JobTrace()
    for number in range(KEPT_CLIENTS + 3):
        job.came(number, number, "GPU-0", lambda: journal_of(EVENTS))
        job.went(number)
        job.keep(Story(number, "GPU-0", journal_of(EVENTS)))
    job.keep(Story(98, "GPU-0", journal_of(b"")))
    job.came(99, 99, "GPU-0", lambda: journal_of(EVENTS))
    assert [tell().pid for tell in job.tellers()] == [3, 4, 5, 6, 99]
    job.went(99)
    assert [tell().pid for tell in job.tellers()] == [3, 4, 5, 6]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TraceStore:
    return TraceStore(site_without_daemon(tmp_path, monkeypatch))


def fikit_trace(*argv: str) -> Result:
    return CliRunner().invoke(command, list(argv))


def test_the_command_writes_the_picture_of_a_job_that_has_ended(store: TraceStore, tmp_path: Path) -> None:
    save(store, trace())
    assert fikit_trace("12", "-o", str(tmp_path / "t.json")).exit_code == 0
    assert check_format((tmp_path / "t.json").read_text()) == check_format(fikit_trace("12").output)


def test_the_command_says_where_it_looked(store: TraceStore) -> None:
    result = fikit_trace("5")
    assert result.exit_code == 1
    assert result.output.strip() == (
        f"Error: there is no trace of job 5 in {store.directory}; while it runs, its node knows more: "
        "srun --overlap --jobid=5 fikit trace 5"
    )


def test_a_file_that_cannot_be_written_is_one_sentence(store: TraceStore) -> None:
    save(store, trace())
    result = fikit_trace("12", "-o", "/nonexistent/t.json")
    assert result.exit_code == 1
    assert "/nonexistent/t.json could not be written: No such file or directory" in result.output


def test_a_damaged_trace_is_one_sentence_of_the_command(store: TraceStore) -> None:
    (store.directory / "12.trace.gz").write_bytes(b"no gzip")
    result = fikit_trace("12")
    assert result.exit_code == 1
    assert "12.trace.gz could not be read" in result.output


@pytest.mark.starts_processes
def test_a_terminal_is_not_filled_with_a_trace() -> None:
    screen, terminal = os.openpty()
    words = [sys.executable, "-m", "fikit", "trace", "12"]
    done = subprocess.run(words, stdout=terminal, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    os.close(terminal)
    os.close(screen)
    said = "fikit: a trace is for a program: name a file (fikit trace 12 -o trace.json), or use a pipe\n"
    assert (done.returncode, done.stderr) == (2, said)
