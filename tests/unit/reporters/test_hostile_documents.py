"""Reports, traces, answers, peaks and sacct's words are others': whatever is in them, no reader falls over, and no terminal sees it."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import csv
import io
import json
import logging
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cli_samples import DEVICE, MOVED, PROFILE, REPORT, site_without_daemon
from click.testing import CliRunner
from fikit.advice import of_run
from fikit.api import job_report, node_use
from fikit.api.queries import Choice
from fikit.api.sums import totals
from fikit.commands import report
from fikit.page import document as pages
from fikit.page import render
from fikit.reporters import csv as csv_reporter
from fikit.reporters import job_table, many, perfetto, table, top
from fikit.reporters import json as json_reporter
from fikit.wording import screen
from fikit.wording.line import say
from fikitd.api import node_format, report_format, trace_format
from fikitd.api.client import Control, ControlError, DaemonUnreachable
from fikitd.api.reports import ReportStore, summary_line
from fikitd.daemon.log_lines import Lines
from fikitd.jobs import admin_comment
from fikitd.jobs.admin_comment import AdminComments
from fikitd.profiles.memory_history import MemoryHistory
from fikitd.profiles.profile_store import ProfileStore
from hostile_values import TEXTS, as_bytes, is_text, junk, paths, spoiled, strings, values
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from page_samples import seen
from rich.text import Text

from examples import examples

ME = os.getuid()
FULL: dict[str, Any] = {
    **REPORT, "array": "12_3", "het": "", "unmanaged": 1, "gpu_time_at_most_s": None, "untimed": 3, "beside": 2,
    "unfinished": 1, "drifted": 1, "warnings": ["its profile could not be stored"],
    "memory": {**MOVED, "plan": {
        "budget_bytes": 5 * 2**30, "peak_bytes": 8 * 2**30, "moved_bytes_per_pass": 3 * 2**30, "expected_loss": 0.05, "passes": 400, "skipped": 3,
        "processes": 2,
    }},
}  # fmt: skip
TRACE: dict[str, Any] = {
    "format": "fikit-trace", "version": 1,
    **{key: REPORT[key] for key in ("job", "name", "uid", "node", "priority", "policy", "state", "device")},
    "clients": [{
        "pid": 7, "gpu": "GPU-0", "lost": 0, "kernels": {"1": "gemm"},
        "events": [["launch", 10, 5, 20, 1, "none", None], ["wait", 11, 5, -1, 1, "behind", 3], ["gap", 30, 4, 5, 0, "none", None]],
    }],
    "others": {"3": {"job": "17", "priority": 1}},
}  # fmt: skip
CLIENT = {
    "client": 1, "gpu": "GPU-0", "job": "12", "uid": ME, "priority": 1, "priority_name": "high", "gpu_time_s": 0.5,
    "name": "train", "pid": 4, "kernels": 3, "others_kernels": 2, "memory_bytes": 5, "memory_limit_bytes": None,
    "job_time": {"elapsed_s": 3.0, "alone_s": 2.0, "waited_s": 0.5, "delayed_s": 0.25, "host_s": 0.25, "unexplained_s": 0.0,
                 "slowdown": 1.5, "max_slowdown": 0.05},
    "memory_on_gpu_bytes": 3, "memory_plan": {"budget_bytes": 2, "peak_bytes": 5},
}  # fmt: skip
NODE: dict[str, Any] = {
    "format": "fikit-node", "version": 1, "node": "n1", "policy": "budget", "now_ns": 10**9,
    "gpus": [{
        **{key: DEVICE[key] for key in ("uuid", "name", "memory_bytes", "emulated")},
        "switch": {"switch_us": 50.0, "spread_us": 4.0, "samples": 40},
    }],
    "unmanaged": [{"gpu": "GPU-0", "pid": 9}],
    "clients": [CLIENT, {**{key: CLIENT[key] for key in node_format.PUBLIC}, "client": 2, "job": "13", "priority": 8}],
}  # fmt: skip
quickly = settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def all_text(shown: str) -> None:
    assert is_text(shown)


def shown(*renderables: Any, width: int = 100) -> str:
    sink = io.StringIO()
    screen.console(file=sink, width=width).print(*renderables)
    return sink.getvalue()


@quickly
@given(spoiled(FULL))
def test_any_value_in_a_report_is_accepted_or_refused_and_what_is_accepted_can_be_shown(document: Any) -> None:
    try:
        accepted = report_format.parse(as_bytes(document))
    except ValueError as error:
        all_text(str(error))
        return
    assert report_format.checked(accepted) == accepted
    assert all(map(str.isprintable, strings(accepted)))
    assert is_text(shown(job_table.report(accepted), table.reports([accepted, FULL])))
    assert is_text(shown(job_table.report(accepted), table.reports([accepted]), width=20))
    assert is_text(summary_line(accepted))


@quickly
@given(spoiled(FULL))
def test_any_report_that_is_accepted_counts_in_the_totals_of_many_and_is_a_line_of_csv(document: Any) -> None:
    try:
        accepted = report_format.parse(as_bytes(document))
    except ValueError as error:
        all_text(str(error))
        return
    found = [job_report.of(accepted), job_report.of(FULL)]
    for order in many.ORDERS:
        in_order = many.ordered(found, order)
        assert is_text(shown(*many.view(in_order, totals(in_order))))
    with contextlib.redirect_stdout(io.StringIO()) as out:
        csv_reporter.emit(found)
    assert is_text(out.getvalue())
    assert len(list(csv.DictReader(io.StringIO(out.getvalue())))) == 2
    since = Choice(since=datetime(2026, 1, 1, tzinfo=UTC))
    assert found[1] in [each for each in found if since.takes(each)]
    assert is_text(found[0].summary)


@quickly
@given(spoiled(FULL["memory"]), st.one_of(st.just(FULL["elapsed_s"]), st.floats(0, 1e18)))
@example(FULL["memory"], 5e-324)  # what is divided by it is without end
def test_whatever_a_report_says_of_memory_is_refused_or_stands_in_its_page(memory: Any, elapsed_s: float) -> None:
    try:
        accepted = report_format.parse(as_bytes({**FULL, "memory": memory, "elapsed_s": elapsed_s}))
    except ValueError as error:
        all_text(str(error))
        return
    run = job_report.of(accepted)
    found = seen(render.html(pages.of(run, of_run.advise(run), pages.Sources(), datetime(2026, 11, 26, tzinfo=UTC))))
    assert found.wrong == []
    assert is_text(shown(job_table.report(accepted)))


@quickly
@given(spoiled(FULL))
def test_any_report_that_is_accepted_has_a_whole_page(report_: Any) -> None:
    with contextlib.suppress(ValueError):
        run = job_report.of(report_format.parse(as_bytes(report_)))
        page = render.html(pages.of(run, of_run.advise(run), pages.Sources(), datetime(2026, 11, 26, tzinfo=UTC)))
        assert seen(page).wrong == []


@pytest.mark.parametrize("said", [FULL, TRACE, NODE], ids=["report", "trace", "node"])
def test_every_text_in_every_place_is_refused_or_becomes_printable(said: Any) -> None:
    check = {id(FULL): report_format.checked, id(TRACE): trace_format.checked, id(NODE): node_format.checked}[id(said)]
    for path in paths(said):
        for text in TEXTS:
            hostile = copy.deepcopy(said)
            place = hostile
            for key in path[:-1]:
                place = place[key]
            if not path or not isinstance(place[path[-1]], str):
                continue
            place[path[-1]] = text
            with contextlib.suppress(ValueError):
                assert all(map(str.isprintable, strings(check(hostile)))), (path, text)


@pytest.mark.starts_processes
@quickly
@given(st.one_of(junk, spoiled(FULL).map(as_bytes)))
def test_the_command_shows_any_report_or_says_in_a_line_that_it_is_none(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        reports = site_without_daemon(tmp_path_factory.mktemp("site"), patch)
        own = reports / str(ME)
        own.mkdir()
        (own / "12.json").write_bytes(data)
        ReportStore(reports).save({**REPORT, "job": "11"})
        for argv in (["12"], ["--list"], ["12", "--json"], ["--list", "--json"], ["12_3"], []):
            done = CliRunner().invoke(report.command, argv)
            assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
            assert is_text(done.output)
            if argv[:1] == ["--list"]:
                assert "11" in done.output, "one that is none hides no other"


@quickly
@given(st.one_of(junk, spoiled(TRACE).map(as_bytes)))
def test_any_trace_becomes_a_picture_or_is_refused(data: bytes) -> None:
    try:
        accepted = trace_format.parse(data)
    except ValueError as error:
        all_text(str(error))
        return
    assert all(map(str.isprintable, strings(accepted)))
    assert is_text(json.dumps(perfetto.convert(accepted)))


@pytest.mark.takes_seconds
@quickly
@given(st.one_of(junk, spoiled(NODE).map(as_bytes)), spoiled(NODE).map(as_bytes))
def test_any_answer_about_the_node_can_be_shown_or_is_none(before: bytes, after: bytes) -> None:
    looks = []
    for data in (before, after, as_bytes(NODE)):
        try:
            looks.append(answered(data).node())
        except (DaemonUnreachable, ControlError) as error:
            all_text(str(error))
    for earlier in looks:
        for later in looks:
            assert is_text(shown(top.view(node_use.between(earlier, later))))


def answered(data: bytes, status: bytes = b"ok\n") -> Control:
    control = Control("/nowhere")
    control._answer = lambda *_: status + data  # type: ignore[method-assign]
    return control


@quickly
@given(
    st.one_of(junk, spoiled([FULL]).map(as_bytes), spoiled(FULL).map(as_bytes)),
    st.sampled_from([b"ok\n", b"error ", b""]),
)
def test_any_answer_is_understood_or_refused(data: bytes, status: bytes) -> None:
    control = answered(data, status)
    asked: list[Any] = [
        control.jobs, control.node, control.ping, control.shutdown, lambda: control.job("12"), lambda: control.trace("12"),
        lambda: control.summary("12"), lambda: control.end("12"),
    ]  # fmt: skip
    for ask in asked:
        try:
            answer = ask()
        except (DaemonUnreachable, ControlError) as error:
            all_text(str(error))
        else:
            assert ask != control.ping or len(answer.split()) == 3
            assert is_text(answer or "") if not isinstance(answer, list | dict) else is_text(shown(repr(answer)))


@quickly
@given(st.binary(max_size=5000))
def test_any_bytes_are_peaks_or_none(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    store = ProfileStore(tmp_path_factory.mktemp("profiles"))
    directory = store.directory / str(ME) / ".memory"
    directory.mkdir(parents=True)
    (directory / "train").write_bytes(data)
    for job, peak in MemoryHistory(store).of(ME, "train").items():
        assert is_text(job)
        assert 0 <= peak < 10**16


cells = st.sampled_from(["12", "12_3", "COMPLETED", "RUNNING", "12_[1-5]", "12 where jobid=13", *TEXTS])
sacct = st.one_of(
    st.text(max_size=60), st.lists(st.tuples(st.just("12"), cells, cells).map("|".join), max_size=3).map("\n".join)
)


@quickly
@given(st.lists(sacct, min_size=1, max_size=3))
def test_whatever_sacct_says_ends_no_watch_and_names_one_job(
    tmp_path_factory: pytest.TempPathFactory, said: list[str]
) -> None:
    run_dir = tmp_path_factory.mktemp("run")
    (run_dir / admin_comment.DIRECTORY).mkdir()
    (run_dir / admin_comment.DIRECTORY / "12").write_text("fikit:gpu_s=1.000")
    answers, commands = iter(said), []

    async def run(*command: str) -> str:
        commands.append(command)
        assert not any("\0" in word for word in command)
        return next(answers, "").encode(errors="replace").decode()

    comments = AdminComments(run_dir, 1, run)
    os.utime(run_dir / admin_comment.DIRECTORY / "12", (time.time() - 60, time.time() - 60))
    asyncio.run(comments.round())
    for command in commands:
        if command[0] == "sacctmgr":
            assert command[5].removeprefix("jobid=").replace("_", "").replace("+", "").isdecimal()


@quickly
@given(values)
def test_json_says_what_it_was_given_and_shows_it_as_text(value: Any) -> None:
    sink: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(screen.click, "echo", lambda text, err: sink.append(text))
        json_reporter.emit(value)
    assert is_text(sink[0])
    assert json.loads(sink[0]) == json.loads(json.dumps(value)) or "NaN" in sink[0]


@given(st.text() | st.sampled_from(TEXTS))
def test_no_text_moves_a_cursor_or_is_taken_for_markup(text: str) -> None:
    assert is_text(shown(text, Text(text), table.title(text)))
    plain = "".join(c for c in text if c.isprintable())
    if plain == text and len(text) < 90:
        assert shown(text).rstrip("\n").rstrip() == text.rstrip()
    sink: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(screen.click, "echo", lambda text, err: sink.append(text))
        say(text)
    assert is_text(sink[0])


@given(st.text() | st.sampled_from(TEXTS))
def test_a_message_of_the_log_is_one_line_of_text(text: str) -> None:
    record = logging.LogRecord("fikitd", logging.WARNING, "", 0, "job %s: %s", ("12", text), None)
    line = Lines("fikitd: %(levelname)s: %(message)s").format(record)
    assert line.isprintable()
    assert line.startswith("fikitd: ")


def test_names_in_a_profile_are_shown_as_they_are_written() -> None:
    odd = {**PROFILE, "key": "[red]x", "kernels": [{**PROFILE["kernels"][0], "name": "k[bold]"}]}
    assert "k[bold]" in shown(table.profile(odd))


def test_everything_that_is_shown_goes_one_way() -> None:
    """reporters/screen.py, and what every program has in common."""
    folder = Path(report.__file__).parents[1]
    ways = ("click.echo(", "Console(", " print(", "click.secho(", "sys.stdout.write(", "sys.stderr.write(")
    for file in folder.rglob("*.py"):
        code = file.read_text()
        if file.name == "screen.py" or 'if __name__ == "__main__"' in code:  # what other scripts run
            continue
        for ours in ("screen.echo(", "screen.console(", "\nprint(json"):
            code = code.replace(ours, "")
        assert [way for way in ways if way in code] == [], f"{file}: use fikit.wording.screen"


def test_one_client_whose_counters_are_nonsense_hides_no_other() -> None:
    """They come from a page that its user may write."""
    nonsense = [
        {**CLIENT, "client": 7, "kernels": -1},
        {**CLIENT, "client": 8, "job_time": {"elapsed_s": float("nan")}},
        None,
        {},
    ]
    look = answered(as_bytes({**NODE, "clients": [*nonsense, *NODE["clients"]]})).node()
    assert [client["client"] for client in look["clients"]] == [1, 2]
    spoilt = [{**FULL, "kernels": 2**64 + 1}, {**FULL, "span_s": float("inf")}, {**FULL, "job": "7", "kernels": 2**64}]
    assert [record["job"] for record in answered(as_bytes([*spoilt, FULL])).jobs()] == ["7", "12"]
