"""What lower jobs may cost a job: what it asks for, what the site allows, and that the dispatcher gets it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeClient, FakeCore, FakeProc, eventually
from fikitd.api.client import Control
from fikitd.base.quantities import nanoseconds, percent, share
from fikitd.config.fikit_toml import Config, SchedulerConfig
from fikitd.config.protection import Protection, of_job, of_site
from fikitd.store.records import JobRecord

JOB = JobRecord("12", 0, 0, 1)
STRICT_SITE = SchedulerConfig(max_slowdown="10%", min_allowed_slowdown="2%", max_delay_us=500, min_allowed_delay_us=100)


@pytest.mark.parametrize(("text", "value"), [("5%", 0.05), ("0.05", 0.05), ("0%", 0.0), ("100%", 1.0), ("1", 1.0)])
def test_shares_are_read_as_people_write_them(text: str, value: float) -> None:
    assert share(text) == value


@pytest.mark.parametrize(
    "text", ["", "5", "101%", "-5%", "nan", "inf", "1e-2", "5%%", "five", "5 %", "5.%", ".5", "٥%", "9" * 5000]
)
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write 5% or 0\.05"):
        share(text)


@pytest.mark.parametrize(("text", "ns"), [("200us", 200_000), ("1.5ms", 1_500_000), ("0us", 0), ("3600s", 36 * 10**11)])
def test_times_are_read_as_people_write_them(text: str, ns: int) -> None:
    assert nanoseconds(text) == ns


@pytest.mark.parametrize(
    "text", ["", "200", "-1us", "us", "1h", "1.us", "200 us", "3601s", "1e3us", "nanus", "9" * 5000 + "s"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write it as 200us"):
        nanoseconds(text)


def test_a_job_that_asks_for_nothing_has_what_the_site_says() -> None:
    assert of_site(SchedulerConfig()) == Protection(0.05, None)
    assert of_job(JOB, STRICT_SITE, pytest.fail) == Protection(0.1, 500_000)


def test_a_job_may_ask_for_more_protection_or_less() -> None:
    assert of_job(replace(JOB, max_slowdown=0.02, max_delay_ns=100_000), STRICT_SITE, pytest.fail).max_slowdown == 0.02
    asked = replace(JOB, max_slowdown=0.5, max_delay_ns=10**9)
    assert of_job(asked, STRICT_SITE, pytest.fail) == Protection(0.5, 10**9)


def test_below_what_the_site_allows_it_gets_the_lowest_and_is_told() -> None:
    told: list[str] = []
    asked = replace(JOB, max_slowdown=0.0, max_delay_ns=0)
    assert of_job(asked, STRICT_SITE, told.append) == Protection(0.02, 100_000)
    assert told == [
        "it asked for a max slowdown of 0 %, the lowest that this site allows is 2 %",
        "it asked for a max delay of 0 us, the lowest that this site allows is 100 us",
    ]


def test_percentages_are_shown_without_zeros() -> None:
    assert [percent(value) for value in (0.05, 0.0, 1.0, 0.0125)] == ["5 %", "0 %", "100 %", "1.25 %"]


@contextmanager
def daemon(tmp_path: Path, scheduler: SchedulerConfig) -> Iterator[tuple[Config, FakeCore, FakeProc]]:
    config, core, proc = fakes.config_in(tmp_path), FakeCore(), FakeProc(tmp_path / "proc")
    config = replace(config, scheduler=scheduler)
    proc.root.mkdir()
    with fakes.serving(config, core, proc.root):
        yield config, core, proc


def admitted(config: Config, proc: FakeProc, **facts: Any) -> FakeClient:
    me = fakes.os.getuid()
    JobRecord("12", me, fakes.os.getgid(), 1, **facts).write(config.daemon.run_dir)
    proc.add(fakes.os.getpid(), uid=me, cgroup="0::/system.slice/slurmstepd.scope/job_12/step_0\n")
    return FakeClient(config.daemon.run_dir).welcome()


def test_the_dispatcher_gets_the_sites_values_and_each_client_its_jobs(tmp_path: Path) -> None:
    with daemon(tmp_path, replace(STRICT_SITE, starvation_timeout_ms=0)) as (config, core, proc):
        client = admitted(config, proc, max_slowdown=0.3)
        terms = {"max_slowdown": 0.1, "max_delay_ns": 500_000, "starvation_timeout_ns": None, "trace_events": 16_384}
        assert core.dispatchers[0].terms == terms
        assert core.seen[1]["protection"] == {"max_slowdown": 0.3, "max_delay_ns": 500_000}
        client.close()


def test_the_report_says_what_a_job_asked_for_in_vain(tmp_path: Path) -> None:
    with daemon(tmp_path, STRICT_SITE) as (config, core, proc):
        client = admitted(config, proc, max_slowdown=0.01)
        assert core.seen[1]["protection"]["max_slowdown"] == 0.02
        warnings = eventually(lambda: Control(config.daemon.run_dir).job("12")["warnings"])
        assert warnings == ["it asked for a max slowdown of 1 %, the lowest that this site allows is 2 %"]
        client.close()


def test_the_dispatcher_is_told_whose_job_it_is_by_the_record(tmp_path: Path) -> None:
    """Equals share by user, then by job: two processes of a job are of one owner."""
    with daemon(tmp_path, SchedulerConfig()) as (config, core, proc):
        clients = [admitted(config, proc), admitted(config, proc)]
        owners = [core.seen[number]["owner"] for number in (1, 2)]
        assert owners[0] == owners[1]
        assert owners[0][0] == fakes.os.getuid()
        assert owners[0][1] > 0
        for client in clients:
            client.close()
