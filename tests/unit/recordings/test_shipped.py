"""Recordings that come with fikit, and those that `fikit trace` writes: `fikit sim` takes both."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from cli_samples import REPORT, site_without_daemon
from click.testing import CliRunner, Result
from fikit.commands.sim import command as sim
from fikit.commands.trace import command as trace_command
from fikit.recordings import made, source
from fikitd.api.reports import ReportStore
from fikitd.api.traces import TraceStore
from page_samples import MS, trace
from profiler_files import dumps, kineto, nsight


def run(command: Any, *arguments: object) -> Result:
    return CliRunner().invoke(command, list(map(str, arguments)))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReportStore:
    return ReportStore(site_without_daemon(tmp_path, monkeypatch))


@pytest.mark.parametrize("name", source.SHIPPED)
def test_each_recording_that_comes_with_fikit_is_one_and_always_the_same(name: str) -> None:
    first, again = source.named(name), source.named(name)
    assert first.text == again.text
    assert first.trace().alone_ns > 1_000_000


def test_sim_takes_shipped_names_files_and_profilers_files_alike(tmp_path: Path) -> None:
    recorded = made.inference(source.SEED).text().decode()
    (tmp_path / "high.csv.gz").write_bytes(gzip.compress(recorded.encode()))
    (tmp_path / "high.json").write_text(dumps(kineto(recorded)))
    nsight(recorded, tmp_path / "high.sqlite")
    said = [
        json.loads(run(sim, "--high", high, "--low", "sparse", "--requests", 6, "--json").stdout)
        for high in ("inference", tmp_path / "high.csv.gz", tmp_path / "high.json", tmp_path / "high.sqlite")
    ]
    assert said[0]["kernels"] > 0
    assert said[1:] == said[:1] * 3


def test_a_name_that_is_nothing_is_told_what_it_may_have_been() -> None:
    said = run(sim, "--high", "inferense", "--low", "training")
    assert (said.exit_code, said.output) == (
        1,
        'Error: there is no file and no recording "inferense"; did you mean "inference"?\n',
    )
    said = run(sim, "--high", "inference", "--low", "qqq.csv.gz")
    assert said.output == (
        'Error: there is no file and no recording "qqq.csv.gz"; those that come with fikit are '
        "inference, training, streams, sparse, dense, copies, threads\n"
    )


def test_a_file_of_a_shipped_name_is_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("inference").write_text("no recording")
    assert "inference: couldn't use line 1" in run(sim, "--high", "inference", "--low", "training").output


def test_a_jobs_trace_is_written_as_a_recording_that_sim_plays_as_the_job(store: ReportStore, tmp_path: Path) -> None:
    launches = [["launch", number * 2 * MS, MS, number * 2 * MS + MS, 1, "none", None] for number in range(40)]
    unknown = ["launch", 90 * MS, -1, -1, 1, "none", None]
    found = trace(*launches, unknown)
    store.save(REPORT)
    TraceStore(store.directory).save(found, [json.dumps(found).encode()])
    for name in ("job12.csv", "job12.csv.gz"):
        said = run(trace_command, "12", "--recording", "-o", tmp_path / name)
        assert (said.exit_code, said.stdout) == (0, "")
        assert said.stderr == "fikit: job 12: 1 of 41 launches have no known length and are left out\n"
    assert (tmp_path / "job12.csv.gz").read_bytes()[:2] == b"\x1f\x8b"
    piped = run(trace_command, "12", "--recording").stdout
    assert (
        piped
        == (tmp_path / "job12.csv").read_text()
        == gzip.decompress((tmp_path / "job12.csv.gz").read_bytes()).decode()
    )
    by_file = run(sim, "--high", tmp_path / "job12.csv.gz", "--low", "sparse", "--requests", 1, "--json")
    by_job = run(sim, "--job", "12", "--low", "sparse", "--json")
    assert json.loads(by_file.stdout) == json.loads(by_job.stdout)


def test_a_profilers_file_is_written_as_a_recording(tmp_path: Path) -> None:
    recorded = made.inference(1).text().decode()
    (tmp_path / "t.json").write_text(dumps(kineto(recorded)))
    out = tmp_path / "t.csv.gz"
    assert run(trace_command, "--from", tmp_path / "t.json", "-o", out).output == ""
    assert source.read(out).text == source.read(tmp_path / "t.json").text
    (tmp_path / "n.json").write_text("{}")
    said = run(trace_command, "--from", tmp_path / "n.json", "-o", out)
    assert (said.exit_code, said.output) == (
        1, f"Error: {tmp_path}/n.json cannot be made a recording: it is JSON, but has no list of traceEvents, as a profiler's trace has\n",
    )  # fmt: skip
    (tmp_path / "n.csv").write_text("#N 1 k\nK,1,2\n")
    assert "couldn't use line 2" in run(trace_command, "--from", tmp_path / "n.csv", "-o", out).output
    (tmp_path / "notes.txt").write_text("Shopping list\n")
    assert run(trace_command, "--from", tmp_path / "notes.txt", "-o", out).output.endswith(
        "; a recording comes from fikit trace --recording, PyTorch's profiler (JSON) or Nsight Systems (SQLite)\n"
    )


def test_trace_wants_a_job_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    for arguments in ([], ["12", "--from", str(tmp_path / "t.json")]):
        said = run(trace_command, *arguments)
        assert said.exit_code == 2
        assert "name a job, or a profiler's file: fikit trace JOBID, or fikit trace --from FILE" in said.output
