"""The alerts and the dashboard of site/: they ask for metrics that there are, and the alerts ring when they should and not else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from fikitd.metrics.table import METRICS

SITE = Path(__file__).resolve().parents[3] / "site"
RULES, DASHBOARD = SITE / "prometheus_rules.yml", SITE / "grafana_dashboard.json"
KNOWN = {metric.name: metric for metric in METRICS}
LABELS = {"instance", "job", *(label for metric in METRICS for label in metric.labels)}
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (Debian's prometheus)")


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def queries() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_every_query_asks_for_metrics_that_there_are() -> None:
    asked = [*queries(), *(alert["expr"] for alert in alerts())]
    assert len(asked) >= 15
    for query in asked:
        names = set(re.findall(r"fikit_\w+", query))
        assert names, query
        assert names <= set(KNOWN), query
        by = re.findall(r"(?:by|on) \(([\w, ]+)\)", query)
        assert {label.strip() for labels in by for label in labels.split(",")} <= LABELS


def test_counters_are_asked_for_their_growth() -> None:
    for query in [*queries(), *(alert["expr"] for alert in alerts())]:
        for name in re.findall(r"fikit_\w+", query):
            grows = re.search(rf"(?:rate|increase)\({name}\b", query) is not None
            assert grows == (KNOWN[name].kind == "counter"), query


def test_panels_are_named_and_none_lies_on_another() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["title"] for panel in panels}) == len({panel["id"] for panel in panels}) == len(panels)
    taken = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24


def series(name: str, values: str, **labels: str) -> dict[str, str]:
    said = ",".join(f'{key}="{value}"' for key, value in {"instance": "n1:9836", **labels}.items())
    return {"series": f"{name}{{{said}}}", "values": values}


JOB = {"jobid": "12", "user": "ana", "priority": "1"}
GPU = {"gpu": "GPU-1"}
CASES = [
    ("FikitPromiseBroken", 3600, [series("fikit_budget_exceeded_total", "0x30 1x30")], True),
    ("FikitPromiseBroken", 3600, [series("fikit_budget_exceeded_total", "3x60")], False),
    ("FikitJobTooSlow", 1800, [series("fikit_job_slowdown_ratio", "1.2x30", **JOB),
                               series("fikit_job_slowdown_allowed_ratio", "1.05x30", **JOB)], True),
    ("FikitJobTooSlow", 1800, [series("fikit_job_slowdown_ratio", "1.08x30", **JOB),
                               series("fikit_job_slowdown_allowed_ratio", "1.05x30", **JOB)], False),
    ("FikitJobTooSlow", 1800, [series("fikit_job_slowdown_ratio", "1.0x20 1.2x10", **JOB),
                               series("fikit_job_slowdown_allowed_ratio", "1.05x30", **JOB)], False),
    ("FikitJobTooSlow", 1800, [series("fikit_job_slowdown_ratio", "1.2x30", **JOB)], False),
    ("FikitAround", 1200, [series("fikit_unmanaged_processes", "2x20", **GPU),
                           series("fikit_gpu_emulated", "0x20", **GPU)], True),
    ("FikitAround", 1200, [series("fikit_unmanaged_processes", "2x20", **GPU),
                           series("fikit_gpu_emulated", "1x20", **GPU)], False),
    ("FikitAround", 1200, [series("fikit_unmanaged_processes", "0x20", **GPU)], False),
]  # fmt: skip


@needs_promtool
@pytest.mark.starts_processes
@pytest.mark.parametrize(("alert", "at_s", "given", "rings"), CASES)
def test_an_alert_rings_when_it_should(
    alert: str, at_s: int, given: list[dict[str, str]], rings: bool, tmp_path: Path
) -> None:
    """By Prometheus' own reading of the rules, in made-up time: promtool counts the alerts that ring."""
    query = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)'
    expected = {"expr": query, "eval_time": f"{at_s}s", "exp_samples": [{"labels": "{}", "value": int(rings)}]}
    test = {"interval": "1m", "input_series": given, "promql_expr_test": [expected]}
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.starts_processes
def test_prometheus_accepts_the_rules() -> None:
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "3 rules found" in done.stdout


def panel(title: str) -> str:
    """Its query, of all nodes."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    [found] = [each["targets"][0]["expr"] for each in panels if each["title"] == title]
    return str(found).replace("$node", ".*")


MEMORY = [
    series("fikit_job_memory_peak_bytes", "9x30", **JOB), series("fikit_job_memory_limit_bytes", "12x30", **JOB),
    series("fikit_job_memory_peak_bytes", "9x30", jobid="18", user="bob", priority="8"),
]  # fmt: skip
PANELS = [
    ("How much of their time GPUs are shared",
     [series("fikit_gpu_occupied_seconds_total", "0+60x30", **GPU), series("fikit_gpu_shared_seconds_total", "0+15x30", **GPU),
      series("fikit_gpu_occupied_seconds_total", "0+60x30", gpu="GPU-2"), series("fikit_gpu_shared_seconds_total", "0+0x30", gpu="GPU-2")],
     {'{instance="n1:9836"}': 0.125}),
    ("How busy GPUs are that one job has alone",
     [series("fikit_gpu_use_ratio", "0.2x30", **GPU), series("fikit_gpu_alone", "1x30", **GPU),
      series("fikit_gpu_use_ratio", "0.9x30", gpu="GPU-2"), series("fikit_gpu_alone", "0x30", gpu="GPU-2")],
     {'fikit_gpu_use_ratio{gpu="GPU-1",instance="n1:9836"}': 0.2}),
    ("Memory of jobs: the most that they held, of what they may have", MEMORY,
     {'{instance="n1:9836",jobid="12",priority="1",user="ana"}': 0.75}),
    ("Requests for memory that were refused", [series("fikit_job_memory_refused_total", "0+2x30", **JOB)],
     {'{jobid="12",user="ana"}': 10}),
]  # fmt: skip


@needs_promtool
@pytest.mark.starts_processes
@pytest.mark.parametrize(("title", "given", "shown"), PANELS, ids=[title for title, _, _ in PANELS])
def test_a_panel_shows_what_it_says(
    title: str, given: list[dict[str, str]], shown: dict[str, float], tmp_path: Path
) -> None:
    """By Prometheus' own reading of its query, in made-up time."""
    expected = [{"labels": labels, "value": value} for labels, value in shown.items()]
    query = {"expr": panel(title), "eval_time": "20m", "exp_samples": expected}
    test = {"interval": "1m", "input_series": given, "promql_expr_test": [query]}
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
