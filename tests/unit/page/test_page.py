"""`fikit report --html`: every figure is one of the report's JSON, names are text and nothing else, and who cannot see it can read it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cli_samples import MEASURED, MOVED, REPORT, site_without_daemon
from click.testing import CliRunner
from fikit.advice import of_run
from fikit.api import job_report
from fikit.api.advice import Advice
from fikit.commands.report import command
from fikit.page import document, render
from fikit.page.document import Sources
from fikit.page.figures import Source
from fikit.wording import units
from fikitd.api.elapsed import KEYS
from fikitd.api.reports import ReportStore
from fikitd.api.traces import TraceStore
from page_samples import HOSTILE, PARTNER, PROFILE, TRACE, Seen, launch, seen, trace, wait

NOW = datetime(2026, 11, 26, 9, 0, tzinfo=UTC)
ALL = Sources(TRACE, {"18": PARTNER}, PROFILE)


def page(record: dict[str, Any] = REPORT, sources: Sources = ALL) -> str:
    run = job_report.of(record)
    return render.html(document.of(run, of_run.advise(run), sources, NOW))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReportStore:
    return ReportStore(site_without_daemon(tmp_path, monkeypatch))


def figures(found: Seen) -> dict[str, tuple[float, str]]:
    """By what they are of: value and text."""
    return {
        str(each.attributes["data-of"]): (float(each.attributes["value"] or "nan"), each.text)
        for each in found.all("data")
    }


def test_every_figure_is_what_the_reports_json_says(store: ReportStore, tmp_path: Path) -> None:
    store.save(REPORT)
    TraceStore(store.directory).save(TRACE, [json.dumps(TRACE).encode()])
    out = tmp_path / "page.html"
    assert CliRunner().invoke(command, ["12", "--html", str(out)]).output == ""
    said = json.loads(CliRunner().invoke(command, ["12", "--json"]).output)
    shown = {of: figure for of, figure in figures(seen(out.read_text())).items() if of not in ("trace:", "")}
    json_ = Source(said)
    for of, (value, text) in shown.items():
        part, _, whole = of.partition("/")
        assert value == (json_.at(part) / json_.at(whole) if whole else json_.at(part)), of
        if whole:
            assert text == units.percent(json_.at(part), json_.at(whole)), of
        else:
            assert text in (units.duration(value), units.count(round(value)), units.gibibytes(round(value))), of
    wanted = {
        *(f"{each}_s" for each in ("elapsed", "alone", "waited", "delayed", "host", "unexplained", "gpu_time")), "kernels", "processes",
        *(f"{each}_s/elapsed_s" for each in ("alone", "waited", "delayed", "host", "unexplained", "gpu_time")),
        *(f"host.{each}_s" for each in ("start", "late")), *(f"host.{each}_s/elapsed_s" for each in ("start", "late")),
        *(f"held.{number}.{each}" for number in range(3) for each in ("total_s", "count")), "delayed.0.total_s", "delayed.0.count",
        "memory.peak_bytes", "memory.limit_bytes", "memory.refused", "device.memory_bytes", "memory.peak_bytes/memory.limit_bytes",
    }  # fmt: skip
    assert set(shown) == wanted


def test_every_number_of_a_table_is_a_figure() -> None:
    found = seen(page())
    cells = [each for each in found.all("td") if "number" in (each.attributes.get("class") or "")]
    assert len(cells) > 100
    inside = Counter(each.text for each in found.all("data") if "td" in each.path)
    assert Counter(each.text for each in cells if each.text != "-") == inside


def test_the_profiles_figures_are_the_profiles() -> None:
    found = seen(page())
    shown = {of.removeprefix("profile:"): figure for of, figure in figures(found).items() if of.startswith("profile:")}
    assert {of: value for of, (value, _) in shown.items()} == {of: Source(PROFILE).at(of) for of in shown}
    rows = [each.text for each in found.all("code") if re.fullmatch(r"k\d+", each.text)]
    assert rows == [f"k{number}" for number in range(22, 2, -1)], (
        "those that take most of the time first, twenty of them"
    )
    assert "And 3 more: <code>fikit profile show classify-0a1b2c3d</code>" in page()
    assert "timed beside other jobs only" in page(
        sources=Sources(profile={**PROFILE, "kernels": PROFILE["kernels"][:1]})
    )  # type: ignore[index]


def test_the_bar_of_the_elapsed_time_is_as_long_as_its_parts() -> None:
    bars = [
        each
        for each in seen(page()).all("rect")
        if each.attributes.get("class") in ("alone", "waited", "delayed", "host", "unexplained")
    ]
    bars = [each for each in bars if each.attributes.get("height") == "40"]
    widths = {str(each.attributes["class"]): float(each.attributes["width"] or 0) for each in bars}
    assert widths == {
        part: pytest.approx(1000 * REPORT[f"{part}_s"] / REPORT["elapsed_s"], abs=0.05) for part in ("alone", "waited", "delayed", "host", "unexplained")
    }  # fmt: skip
    ends = [float(each.attributes["x"] or 0) + float(each.attributes["width"] or 0) for each in bars]
    assert ends[-1] == pytest.approx(1000, abs=0.2)
    assert [float(each.attributes["x"] or 0) for each in bars[1:]] == [
        pytest.approx(end, abs=0.11) for end in ends[:-1]
    ]


def test_the_timeline_says_whose_time_it_is() -> None:
    rows = re.findall(r"</svg> (.*?): <data value=\"([^\"]*)\"[^>]*>([^<]*)</data>, <data value=\"([^\"]*)\"", page())
    assert [(name, text, round(float(share), 6)) for name, _, text, share in rows] == [
        ("kernels of this job", "60.0 ms", 0.6), ("kernels of job 18 (low)", "30.0 ms", 0.3), ("waited: job 17 (0)", "10.0 ms", 0.1),
        ("waited: its own earlier work", "10.0 ms", 0.1), ("delayed: kernels of job 18 (low)", "5.00 ms", 0.05), ("waited: another job (high)", "1.00 ms", 0.01),
    ]  # fmt: skip
    assert "<span>0</span><span>25.0 ms</span><span>50.0 ms</span><span>75.0 ms</span><span>100 ms</span>" in page()
    assert "1 launch of a kernel of unknown length is not drawn" in page()


def test_memory_on_the_host_has_its_names() -> None:
    waits = trace(launch(10, 5), wait(50, 20, 6, "memory"))
    text = page({**REPORT, "memory": MOVED}, Sources(waits, {}, PROFILE))
    assert "waited: the memory of other jobs had its turn" in text
    assert "of what it may have (--fikit-mem and --fikit-mem-host)" in text
    assert "of what it may have (--fikit-mem)" in page()


def test_a_line_to_type_is_text() -> None:
    run = job_report.of(REPORT)
    text = render.html(document.of(run, [Advice("memory", HOSTILE, {}, HOSTILE)], ALL, NOW))
    assert seen(text).wrong == []
    assert "<script" not in text


@pytest.mark.parametrize("place", ["name", "kernel", "warning", "profile", "gpu", "device"])
def test_a_name_is_text_wherever_it_stands(place: str) -> None:
    record = {**REPORT, "warnings": []}
    sources = ALL
    if place == "name":
        record["name"] = HOSTILE
    elif place == "kernel":
        record["wait_reasons"] = [{**REPORT["wait_reasons"][1], "kernel": HOSTILE, "total_s": 2.0}]
        sources = Sources(TRACE, {}, {**PROFILE, "kernels": [{**PROFILE["kernels"][0], "name": HOSTILE}]})  # type: ignore[index, dict-item]
    elif place == "warning":
        record["warnings"] = [HOSTILE]
    elif place == "profile":
        record["profile"] = {**REPORT["profile"], "key": HOSTILE}
    elif place == "gpu":
        sources = Sources({**TRACE, "clients": [{**TRACE["clients"][0], "gpu": HOSTILE}]}, {}, PROFILE)
    else:
        record["device"] = {**REPORT["device"], "name": HOSTILE}
    honest, found = seen(page()), seen(page(record, sources))
    assert found.wrong == []
    assert {each.tag for each in found.elements} <= {each.tag for each in honest.elements}, "no element of its own"
    assert not any(key.startswith("on") for each in found.elements for key in each.attributes)
    assert "<script" not in page(record, sources)
    assert any("{{7*7}}" in each.text for each in found.elements), "shown as it is, and once"


def test_nothing_comes_from_elsewhere_and_only_its_style_sheet_is_allowed() -> None:
    text = page()
    found = seen(text)
    assert found.wrong == []
    (style,) = found.all("style")
    digest = base64.b64encode(hashlib.sha256(style.text.encode()).digest()).decode()
    (policy,) = [each.attributes["content"] for each in found.all("meta") if each.attributes.get("http-equiv")]
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert not any({"src", "style", "srcset", "xlink:href"} & set(each.attributes) for each in found.elements)
    assert all((each.attributes.get("href") or "#").startswith("#") for each in found.elements)
    assert not {"script", "link", "img", "iframe", "object", "base", "form"} & {each.tag for each in found.elements}
    assert "url(" not in style.text
    assert "@import" not in style.text
    assert "<" not in style.text


def test_who_does_not_see_it_can_read_it() -> None:
    found = seen(page())
    assert [each.attributes.get("lang") for each in found.all("html")] == ["en"]
    assert [len(found.all(tag)) for tag in ("header", "main", "footer", "nav", "h1")] == [1, 1, 1, 1, 1]
    assert len(found.all("caption")) == len(found.all("table")) > 4
    assert all(each.attributes.get("scope") in ("col", "row") for each in found.all("th"))
    for svg in found.all("svg"):
        assert svg.attributes.get("aria-hidden") == "true" or (
            svg.attributes["role"] == "img" and svg.attributes["aria-label"]
        ), svg
    ids = [str(each.attributes["id"]) for each in found.elements if "id" in each.attributes]
    assert len(ids) == len(set(ids))
    asked = [each.attributes["href"] for each in found.all("a")] + [
        f"#{each.attributes['aria-labelledby']}" for each in found.all("section")
    ]
    assert {str(each)[1:] for each in asked} <= set(ids)


def test_the_verdict_and_what_to_do_come_first() -> None:
    text = page({**REPORT, "kept": False, "slowdown": 1.2})
    order = [
        "The promise was not kept: 1.20x",
        'id="advice"',
        "sbatch --gres=gpu:1 SCRIPT",
        'id="time"',
        'id="timeline"',
        'id="waits"',
        'id="memory"',
        'id="kernels"',
    ]
    assert [text.index(each) for each in order] == sorted(text.index(each) for each in order)
    assert 'class="verdict missed"' in text
    assert "emulated GPU: these figures say nothing about a real one" in text
    assert "say nothing about a real" not in page(
        {**REPORT, "device": {**REPORT["device"], "name": "H200", "emulated": False}}
    )


def test_what_there_is_not_is_said() -> None:
    none = page({**REPORT, "wait_reasons": [], "delays": [], "memory": {**REPORT["memory"], "refused": 0}}, Sources())
    for text in (
        "There is no trace of this job", "It never waited at the gate", "There is no profile of it (classify-0a1b2c3d) that can be read",
        "How its memory went over time is not recorded",
    ):  # fmt: skip
        assert text in none
    assert 'href="#advice"' not in none
    before = {
        key: value
        for key, value in REPORT.items()
        if key not in {*KEYS, "memory", "wait_reasons", "held", "delays", "delayed", "device_mode"}
    }
    old = page(before, Sources())
    assert "Its report does not say where the time went" in old
    assert "Its report says nothing of its GPU memory" in old
    assert "It was measured, alone on its GPU: its own times are the profile." in page(MEASURED)
    assert "no profile says how long it takes to start and end." in page(
        {
            **REPORT,
            "slowdown": None,
            "no_slowdown": "start_or_end_unknown",
            "profile": {**REPORT["profile"], "found": False},
        }
    )


@pytest.mark.starts_processes  # it asks Slurm which tasks the array has
def test_a_page_is_of_one_job(store: ReportStore, tmp_path: Path) -> None:
    for number in (3, 20):
        store.save({**REPORT, "job": str(10 + number), "array": f"12_{number}"})
    out = str(tmp_path / "page.html")
    said = CliRunner().invoke(command, ["12", "--html", out])
    assert (said.exit_code, said.output) == (1, "Error: job 12 is an array: name one of its tasks, 12_3, 12_20\n")
    assert CliRunner().invoke(command, ["12_3", "--html", out]).exit_code == 0
    assert "<h1>Job 13 (12_3) serve</h1>" in Path(out).read_text()
    for other in (["--json"], ["--list"], ["--since", "1d"], ["--csv"]):
        assert "--html is a page of one job" in CliRunner().invoke(command, ["--html", out, *other]).output
    said = CliRunner().invoke(command, ["13", "--html", str(tmp_path / "no" / "page.html")])
    assert said.output == f"Error: {tmp_path}/no/page.html could not be written: No such file or directory\n"


def test_the_report_in_the_page_is_the_report() -> None:
    (pre,) = [each.text for each in seen(page({**REPORT, "name": HOSTILE})).all("pre") if each.text.startswith("{")]
    assert json.loads(pre) == {**REPORT, "name": HOSTILE}
