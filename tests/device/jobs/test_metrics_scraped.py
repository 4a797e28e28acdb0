"""A real fikitd, real programs on the emulated GPU, and what Prometheus reads of them, beside what their reports say."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from daemon_process import Fikitd, client_runner, eventually
from daemon_process import Runner as Jobs
from prometheus_client.parser import text_string_to_metric_families

Values = dict[str, dict[tuple[str, ...], float]]
DASHBOARD = Path(__file__).resolve().parents[3] / "site/grafana_dashboard.json"
# What the dashboard shows of a node on which one job ran alone and is gone.
OF_ONE_JOB = ("How busy the GPUs are", "Of it, harvested", "Work that stood while a lower job's ran")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Site:
    """A fikitd that publishes both ways."""

    def __init__(self, tmp_path: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}/metrics"
        self.file = tmp_path / "fikit.prom"
        self.daemon = Fikitd(tmp_path, "prio")
        listen = self.url.removeprefix("http://").removesuffix("/metrics")
        self.daemon.config.write_text(
            f'{self.daemon.config.read_text()}[metrics]\nlisten = "{listen}"\ntextfile = "{self.file}"\n'
        )

    def scrape(self) -> Values:
        """Values by the labels' values in the order of their names; {} while nothing answers."""
        try:
            with urllib.request.urlopen(self.url, timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            return {}
        found: Values = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, {})[tuple(sample.labels[key] for key in sorted(sample.labels))] = (
                    sample.value
                )
        return found


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    site.daemon.start()
    eventually(site.scrape)
    yield site
    assert site.daemon.stop() == 0, site.daemon.log.read_text()
    assert "Traceback" not in site.daemon.log.read_text()


@pytest.fixture
def jobs(site: Site, cc: object, emulator_env: object) -> Jobs:
    return client_runner(site.daemon, cc, emulator_env)  # type: ignore[arg-type]


def test_prometheus_reads_what_the_reports_say(site: Site, jobs: Jobs) -> None:
    high, first = jobs.start(2000, 500_000, priority=1)
    low, second = jobs.start(2000, 500_000, priority=8)
    user = pwd.getpwuid(os.getuid()).pw_name

    def both_have_run() -> Values:
        seen = site.scrape()
        times = seen.get("fikit_job_gpu_seconds_total", {})
        return seen if times.get((high, "1", user)) and times.get((low, "8", user)) else {}

    seen = eventually(both_have_run)
    [gpu] = seen["fikit_processes"]
    assert seen["fikit_gpu_emulated"] == {gpu: 1}
    assert seen["fikit_jobs"] == {(*gpu, "1"): 1, (*gpu, "8"): 1}
    for job, process in ((high, first), (low, second)):
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        jobs.end(job)
    reports = [site.daemon.report(job) for job in (high, low)]
    over = eventually(lambda: seen if (seen := site.scrape()).get("fikit_jobs_ended_total") == {(): 2} else {})
    assert "fikit_job_gpu_seconds_total" not in over
    used = sum(report["gpu_time_s"] or report["gpu_time_at_most_s"] for report in reports)
    assert over["fikit_gpu_seconds_total"][gpu] == pytest.approx(used, rel=0.01)
    assert 0 <= over["fikit_harvest_seconds_total"][gpu] <= over["fikit_gpu_seconds_total"][gpu]
    waits: dict[tuple[str, ...], float] = {}
    for entry in (entry for report in reports for entry in report["wait_reasons"]):
        waits[entry["reason"],] = waits.get((entry["reason"],), 0.0) + entry["total_s"]
    assert waits, "the low job waited for the high one"
    assert over["fikit_gate_wait_seconds_total"] == pytest.approx(waits, rel=0.01)
    assert site.file.read_text().startswith("# HELP fikit_build_info")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs prometheus (Debian's package)")
def test_a_real_prometheus_scrapes_it(site: Site, jobs: Jobs, tmp_path: Path) -> None:
    job, _, _ = jobs.run(200, 1_000_000, priority=8)
    report = site.daemon.report(job)
    address = site.url.removeprefix("http://").removesuffix("/metrics")
    config, own = tmp_path / "prometheus.yml", f"127.0.0.1:{free_port()}"
    config.write_text(
        f"scrape_configs: [{{job_name: fikit, scrape_interval: 1s, static_configs: [{{targets: ['{address}']}}]}}]\n"
    )
    words = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path}/tsdb",
        f"--web.listen-address={own}",
    ]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
        try:

            def answer(query: str) -> list[Any]:
                """Raises HTTPError where Prometheus does not understand it."""
                url = f"http://{own}/api/v1/query?query={urllib.parse.quote(query)}"
                with urllib.request.urlopen(url, timeout=5) as said:
                    found: list[Any] = json.load(said)["data"]["result"]
                return found

            def scraped() -> list[Any]:
                try:
                    return answer("sum(fikit_gpu_seconds_total) + sum(up{job='fikit'}) - 1")
                except OSError:
                    return []

            [found] = eventually(scraped, 60)
            assert float(found["value"][1]) == pytest.approx(report["gpu_time_s"], rel=0.01)
            eventually(lambda: answer("rate(fikit_gpu_seconds_total[1m])"), 60)  # it was there twice
            for panel in json.loads(DASHBOARD.read_text())["panels"]:
                for target in panel["targets"]:
                    query = target["expr"].replace("$node", ".*").replace("$__range", "5m")
                    assert answer(query) or panel["title"] not in OF_ONE_JOB, panel["title"]
        finally:
            process.terminate()


def test_the_next_fikitd_counts_on_without_counting_twice(site: Site, jobs: Jobs) -> None:
    """Prometheus takes a counter that begins anew for a new one, and all that is in it for new."""
    jobs.run(50, 1_000_000, priority=8)
    assert sum(eventually(lambda: site.scrape().get("fikit_gpu_seconds_total", {})).values()) > 0
    assert site.daemon.stop() == 0
    site.daemon.start()
    eventually(site.scrape)
    assert site.scrape().get("fikit_gpu_seconds_total", {}) == {}
