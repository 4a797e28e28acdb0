"""`import fikit`: what docs/python.md says of it holds, and it says what the command line says."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import os
import pickle
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_type_hints

import fikit
import pytest
from cli_samples import MEASURED, REPORT, site_without_daemon, without_advice
from click.testing import CliRunner
from fikit import library
from fikit.advice import rules, run_rules, use_rules
from fikit.api import job_report, node_use, node_view
from fikit.commands import report as report_command
from fikitd.api.reports import ReportStore
from node_looks import client, look, spent, strangers

PAGE = (Path(__file__).resolve().parents[3] / "docs/python.md").read_text()
CLASSES = [each for name in library.__all__ if dataclasses.is_dataclass(each := getattr(library, name))]
UNITLESS = {  # numbers that have no unit: counts, ids, ratios
    "uid", "priority", "processes", "unmanaged", "kernels", "slowdown", "max_slowdown", "count", "refused", "jobs", "users", "harvest",
    "median_slowdown", "highest_slowdown",
}  # fmt: skip
UNITS = ("_s", "_us", "_bytes", "_share", "_per_s", "_jobs")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReportStore:
    return ReportStore(site_without_daemon(tmp_path, monkeypatch))


def test_all_its_names_are_there_and_on_the_page() -> None:
    assert fikit.__all__ == library.__all__ == sorted(library.__all__)
    assert set(fikit.__all__) <= set(dir(fikit))
    for name in fikit.__all__:
        assert getattr(fikit, name) is getattr(library, name)
        assert f"`{name}" in PAGE, name


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'repord'"):
        _ = fikit.repord  # type: ignore[attr-defined]


@pytest.mark.parametrize("class_", CLASSES)
def test_every_field_is_on_the_page_frozen_and_has_its_unit(class_: Any) -> None:
    said = set(re.findall(r"`(\w+)`", PAGE))
    hints = get_type_hints(class_)
    for field in dataclasses.fields(class_):
        assert field.name in said, field.name
        if re.search(r"\b(float|int)\b", str(hints[field.name])) and not field.name.endswith("pids"):
            assert field.name in UNITLESS or field.name.endswith(UNITS), field.name
    assert class_.__dataclass_params__.frozen


@pytest.mark.starts_processes
def test_import_fikit_loads_nothing_until_something_is_asked_for() -> None:
    code = "import sys, fikit; print('click' in sys.modules, 'rich' in sys.modules); fikit.JobReport; print('fikit.commands' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "False", "False"]


# Forgets all of fikit's modules before each, as a program that begins with that one; prints those that fail.
EACH_FIRST = """
import importlib, pkgutil, sys
import fikit
for name in [module.name for module in pkgutil.walk_packages(fikit.__path__, "fikit.") if module.name != "fikit.__main__"]:
    for loaded in [loaded for loaded in sys.modules if loaded.partition(".")[0] == "fikit"]:
        del sys.modules[loaded]
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(name, error)
"""


@pytest.mark.starts_processes
def test_any_module_may_be_the_first_that_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", EACH_FIRST], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout == ""


def test_the_example_of_the_page_runs(store: ReportStore, capsys: pytest.CaptureFixture[str]) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    store.save({**REPORT, "started": now, "ended": now})
    example = re.findall(r"```python\n(.+?)```", PAGE, re.S)[0]
    exec(compile(example, "docs/python.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == [
        "fikit: job 12 high: 1.04x of its time alone (1.05x allowed), 1834 kernels, GPU time 3.2 s, waited 12 ms (emulated GPU)",
        "9.0 s, 1.04 times its time alone",
        "waited 0.009 s: behind, job 17",
        "waited 0.002 s: does_not_fit, job 17",
        "waited 0.001 s: reaction, job 12",
        *(line for each in fikit.report(12).advice for line in (each.text, f"    {each.line}")),
        "12 serve 1.0395",
        "1.0395",
    ]


def test_a_report_says_what_its_record_says(store: ReportStore) -> None:
    store.save(REPORT)
    report = fikit.report(12)
    assert (
        report.record == REPORT == without_advice(CliRunner().invoke(report_command.command, ["12", "--json"]).output)
    )
    for field in dataclasses.fields(report):
        if isinstance(REPORT.get(field.name), str | int | float | None) and field.name in REPORT:
            value = getattr(report, field.name)
            assert value == REPORT[field.name] or field.name in {"started", "ended"}, field.name
    assert report.started is not None
    assert report.ended is not None
    assert (report.ended - report.started).total_seconds() == 9
    assert report.device == fikit.Device("Emulated GPU", "GPU-0", 2**34, emulated=True)
    assert report.wait_reasons[1].kernel == "gemm_[64]"
    assert report.delays == (fikit.Delay("18", 8, 0.013, 7),)
    assert report.memory == fikit.Memory(10 * 2**30, 9_400_000_000, 3)


def test_a_reports_advice_is_what_the_command_line_says(store: ReportStore) -> None:
    store.save({**REPORT, "kept": False, "memory": {**REPORT["memory"], "refused": 3}})
    advice = fikit.report(12).advice
    said = json.loads(CliRunner().invoke(report_command.command, ["12", "--json"]).output)["advice"]
    assert [dataclasses.asdict(each) for each in advice] == said
    assert {each.rule for each in advice} >= {"promise", "refused memory"}
    text = CliRunner().invoke(report_command.command, ["12"]).output
    assert all(" ".join(each.text.split()) in " ".join(text.split()) for each in advice)


def test_the_page_names_every_rule_of_reports_and_its_figures() -> None:
    table = PAGE.split("## Advice")[1].split("## ")[0].split("|---|---|")[1]
    rows = dict(re.findall(r"^\| `([a-z ]+)` \| (.+) \|$", table, re.MULTILINE))
    found = _figures(inspect.getsource(run_rules))
    for rule, keys in _figures(inspect.getsource(use_rules)).items():
        assert found.get(rule, set()) <= keys, f"{rule} has one name for a figure, whoever knows it"
        found[rule] = keys
    found["memory"] = _figures(inspect.getsource(rules))["memory"]
    assert {rule: set(re.findall(r"`(\w+)`", row)) for rule, row in rows.items()} == found
    assert all(
        re.search(r"_(s|us|bytes|gib|share)$", key) or key in {"job", "kernel", "kernels", "untimed", "refused", "slowdown", "max_slowdown", "more_gpus",
                                                              "looks", "gpus"}
        for keys in found.values()
        for key in keys
    )  # fmt: skip


def _figures(source: str) -> dict[str, set[str]]:
    """By rule the names of its figures: of every function that returns an Advice, the keys of its dicts."""
    found: dict[str, set[str]] = {}
    for function in [each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)]:
        advices = [
            each for each in ast.walk(function) if isinstance(each, ast.Call) and ast.unparse(each.func) == "Advice"
        ]
        for name in {ast.literal_eval(each.args[0]) for each in advices}:
            found.setdefault(name, set()).update(
                str(ast.literal_eval(key)) for each in ast.walk(function) if isinstance(each, ast.Dict) for key in each.keys if key is not None
            )  # fmt: skip
    return found


def test_a_report_can_be_hashed_compared_and_sent_to_another_process() -> None:
    one = job_report.of(REPORT)
    assert {one, job_report.of(REPORT)} == {one}
    assert one != job_report.of(MEASURED)
    assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.slowdown = 1.0  # type: ignore[misc]


def test_a_report_of_before_has_no_slowdown_that_means_something_else() -> None:
    old = {
        key: value
        for key, value in REPORT.items()
        if key not in {"alone_s", "memory", "wait_reasons", "held", "delays", "delayed", "device_mode"}
    }
    report = job_report.of(old)
    assert (report.slowdown, report.elapsed_s, report.host, report.memory, report.device_mode) == (None,) * 5
    assert (report.wait_reasons, report.delays) == ((), ())


def test_there_is_none_is_an_error_of_its_own_with_the_command_lines_sentence(store: ReportStore) -> None:
    with pytest.raises(fikit.NoReport, match="there is no report in "):
        fikit.report()
    with pytest.raises(fikit.NoReport) as said:
        fikit.report(5)
    assert f"Error: {said.value}\n" == CliRunner().invoke(report_command.command, ["5"]).output
    assert isinstance(said.value, fikit.UserError)


@pytest.mark.starts_processes  # it asks Slurm which tasks the array has
def test_an_array_is_not_one_job(store: ReportStore) -> None:
    for number, task in (("13", "12_0"), ("12", "12_1")):
        store.save({**REPORT, "job": number, "array": task})
    with pytest.raises(fikit.UserError, match="job 12 is an array: name one of its tasks, 12_0, 12_1"):
        fikit.report(12)
    assert fikit.report("12_0").job == "13"
    assert fikit.report("12_0").part == "12_0"


def test_jobs_are_chosen_as_the_command_line_chooses(store: ReportStore) -> None:
    for number in range(4):
        at_s = time.time() - 3600 * number
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s))
        os.utime(store.save({**REPORT, "job": str(number), "started": at, "ended": at}), (at_s, at_s))
    assert [each.job for each in fikit.jobs()] == ["0", "1", "2", "3"]
    assert [each.job for each in fikit.jobs(limit=2)] == ["0", "1"]
    assert [each.job for each in fikit.jobs(since="90min")] == ["0", "1"]
    assert [each.job for each in fikit.jobs(since="90min", limit=1)] == ["0"]
    assert fikit.jobs(state="running") == []
    assert len(fikit.jobs(user=os.getuid())) == 4
    assert fikit.jobs(user=os.getuid() + 1) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"since": "1x"}, '"1x" is neither'),
        ({"state": "lost"}, '"lost" is no state of a job'),
        ({"limit": -1}, "there are no -1 jobs"),
        ({"user": "nobody-of-that-name"}, "there is no user"),
    ],
)
def test_a_wrong_argument_is_a_sentence(store: ReportStore, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(fikit.UserError, match=said):
        fikit.jobs(**wrong)


def test_reports_that_cannot_be_read_are_a_warning_of_pythons(
    store: ReportStore, capsys: pytest.CaptureFixture[str]
) -> None:
    store.save(REPORT)
    (store.directory / str(os.getuid()) / "13.json").write_text("{")
    with pytest.warns(RuntimeWarning, match="13.json could not be read") as told:
        assert [each.job for each in fikit.jobs()] == ["12"]
    with pytest.warns(RuntimeWarning, match="13.json could not be read") as told_too:
        assert fikit.report().job == "12"
    assert {each.filename for each in [*told, *told_too]} == {__file__}
    assert capsys.readouterr().err == ""


def test_a_node_says_what_top_says() -> None:
    before = look(10, client(1, job_time=spent(9, waited_s=1.0)), strangers(2, "13", 8, 0.0))
    after = look(
        12,
        client(1, gpu_time_s=1.0, kernels=100, job_time=spent(11, 1.04, waited_s=1.5)),
        strangers(2, "13", 8, 0.5),
        unmanaged=({"gpu": "GPU-a", "pid": 77},),
    )
    use = node_use.between(before, after)
    node = node_view.of(use)
    assert (node.node, node.interval_s, node.record) == ("n1", 2.0, use)
    [gpu] = node.gpus
    assert (gpu.device_share, gpu.harvest, gpu.unmanaged_pids, gpu.switch_us) == (0.75, 0.5, (77,), None)
    own, other = gpu.jobs
    assert (own.own, own.waited_share, own.slowdown, own.launches_per_s, own.pids) == (True, 0.25, 1.04, 50.0, (101,))
    assert (other.own, other.job, other.device_share, other.name, other.memory_bytes) == (False, "13", 0.25, None, None)
    assert hash(node) == hash(node_view.of(use))


def test_without_a_fikitd_it_is_an_error_of_its_own(store: ReportStore) -> None:
    with pytest.raises(
        fikit.NoDaemon,
        match=r"fikitd does not answer at .*, so none runs here.*the first job that shares a GPU starts it",
    ):
        fikit.node()
    with pytest.raises(fikit.UserError, match="nobody looks for -1 s"):
        fikit.node(-1)
