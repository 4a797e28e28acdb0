"""`fikit report` of a job whose launches fikit did not see."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_samples import REPORT, site_without_daemon
from click.testing import CliRunner
from fikit.advice import rules, use_rules
from fikit.commands.report import command
from fikitd.api.reports import ReportStore
from fikitd.api.uses import UseStore
from site_samples import GPU, USE

UNUSED = {**USE, "shared": True, "looks": 0, "busy": None, "peak_bytes": None, "gpus": [], "name": "train.sh"}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return site_without_daemon(tmp_path, monkeypatch)


def said(use: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(advice.rule, advice.text, advice.line) for advice in rules.advise(use_rules.situation(use))]


def test_a_gpu_that_was_idle_for_the_most_part_would_be_shared() -> None:
    [(rule, text, line)] = said(USE)
    assert (rule, text) == ("share", "it kept its GPU busy 21 % of the time: beside others it leaves 79 % to them")
    assert line == "sbatch --gres=gpu:1 --fikit-priority=high --fikit-mem=11G SCRIPT"


@pytest.mark.parametrize("more", [{"busy": 0.6}, {"looks": 2}, {"busy": None}])
def test_of_a_busy_gpu_or_of_few_looks_nothing_is_said(more: dict[str, Any]) -> None:
    assert said({**USE, **more}) == []


def test_of_several_gpus_there_is_no_line_to_type() -> None:
    [(_, text, line)] = said({**USE, "gpus": [GPU, GPU]})
    assert ("its 2 GPUs, in the mean, busy 21 %" in text, "fewer GPUs would do" in text, line) == (True, True, "")


def test_a_share_that_nobody_used_is_left_to_others() -> None:
    [(rule, text, line)] = said(UNUSED)
    assert (rule, line) == ("unused", "sbatch --gres=none train.sh")
    assert "it had a GPU or a share of one, and no program of it launched anything there through fikit" in text


@pytest.mark.parametrize(("whole", "words"), [(1, "a GPU alone"), (2, "2 GPUs alone")])
def test_a_whole_gpu_that_nobody_used_is_no_share(store: Path, whole: int, words: str) -> None:
    UseStore(store).save({**UNUSED, "whole": whole})
    assert f"used no GPU through fikit, and had {words}\n" in re.sub(
        " +\n", "\n", CliRunner().invoke(command, ["31"]).output
    )
    listed = CliRunner().invoke(command, ["--list"]).output
    assert f"{words}, unused" in listed
    assert "share" not in said({**UNUSED, "whole": whole})[0][1]


def test_a_name_that_is_no_scripts_is_not_typed() -> None:
    for name in ("", "wrap", "x.sh; rm -rf ~", "-x.sh"):
        assert [line for *_, line in said({**UNUSED, "name": name})] == ["sbatch --gres=none SCRIPT"]


def test_there_is_no_page_of_it_and_that_is_said(store: Path) -> None:
    UseStore(store).save(USE)
    done = CliRunner().invoke(command, ["31", "--html", str(store / "31.html")])
    assert (done.exit_code, done.output) == (
        1, "Error: job 31 launched nothing through fikit, so there is no page of it; fikit-report 31 says what is known\n",
    )  # fmt: skip
    assert not (store / "31.html").exists()


def test_the_report_has_the_looks_and_what_to_do(store: Path) -> None:
    UseStore(store).save(USE)
    done = CliRunner().invoke(command, ["31"])
    assert done.exit_code == 0, done.output
    assert "had its GPU to itself, so fikit did nothing for it" in done.output
    assert "21 %, in the mean of 115 looks by NVML, 15 s apart" in done.output
    assert "at most 10.0 GiB of 141 GiB, by NVML" in done.output
    assert done.output.index("What to do") > done.output.index("GPU memory")
    assert "2026-11-21 12:00:00 to 12:29:00 UTC (29 min) on n1" in done.output


@pytest.mark.parametrize("known", [{"gpus": [], "whole": 1}, {"gpus": [GPU]}])
def test_how_busy_an_instance_was_is_not_known_and_that_is_said(store: Path, known: dict[str, Any]) -> None:
    UseStore(store).save({**USE, "busy": None, "looks": 0, "split": True, **known})
    shown = CliRunner().invoke(command, ["31"]).output
    assert "had its GPU to itself" in shown
    assert "GPU busy     not known: NVML does not say how busy a MIG instance is" in shown
    assert "a GPU alone" in CliRunner().invoke(command, ["--list"]).output


def test_json_is_the_record_and_what_to_do(store: Path) -> None:
    UseStore(store).save(UNUSED)
    found = json.loads(CliRunner().invoke(command, ["31", "--json"]).output)
    assert [each["rule"] for each in found.pop("advice")] == ["unused"]
    assert found == UNUSED


def test_a_report_goes_before_it(store: Path) -> None:
    UseStore(store).save({**USE, "job": "12"})
    ReportStore(store).save(REPORT)
    assert "of its time alone" in CliRunner().invoke(command, ["12"]).output


def test_a_damaged_one_is_one_sentence(store: Path) -> None:
    UseStore(store).save(USE).write_text("{")
    done = CliRunner().invoke(command, ["31"])
    assert done.exit_code == 1
    assert "31.use" in done.output
    assert done.output.count("\n") == 1
