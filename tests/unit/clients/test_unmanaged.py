"""Who uses a GPU around fikit: named at the second look, once, and only when NVML answers and jobs share."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from daemon_fakes import IdleDaemon
from fikitd.base.protocol import Device
from fikitd.base.scarcity import scarce
from fikitd.clients.present import Reported
from fikitd.clients.unmanaged import Unmanaged
from fikitd.gpus import nvml
from fikitd.gpus.devices import digits
from fikitd.gpus.nvml import NoNvml
from fikitd.store.records import JobRecord

UUID = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
DEVICE = Device("Emulated GPU", UUID, 2**34)
JOB = "0::/system.slice/slurmstepd.scope/job_12/step_0\n"


class Site(IdleDaemon):
    """A daemon that does not run, with what NVML shows it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        (self.run_dir / "jobs").mkdir()
        self.shown: list[int] | str = []
        self.asked = 0
        self.unmanaged = Unmanaged(
            jobs=self.jobs, records=self.records, storage=self.parts["_storage"], proc=self.proc.root, interval_s=1,
            ask=self.ask,
        )  # fmt: skip

    async def ask(self) -> list[dict[str, Any]]:
        self.asked += 1
        if isinstance(self.shown, str):
            raise NoNvml(self.shown)
        return [{"uuid": UUID, "name": "Emulated GPU", "memory_bytes": 2**34, "processes": self.shown}]

    def record(self) -> None:
        JobRecord(job="12", uid=os.getuid(), gid=os.getgid(), priority=1).write(self.run_dir)

    def looks(self, *shown: list[int]) -> None:
        async def run() -> None:
            for self.shown in shown:
                await self.unmanaged.look()

        asyncio.run(run())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path)
    site.record()
    site.proc.add(500, uid=os.getuid(), cgroup=JOB)
    return site


def test_a_process_is_named_at_the_second_look_and_never_again(site: Site) -> None:
    site.looks([500])
    assert site.jobs.all() == []
    site.looks([500])
    site.looks([500], [500], [], [500], [500])
    [job] = site.jobs.all()
    assert job.unmanaged == 1
    assert len(job.warnings) == 1


def test_those_who_are_still_there_can_be_shown(site: Site) -> None:
    site.looks([500])
    assert site.unmanaged.around() == []
    site.looks([500])
    assert site.unmanaged.around() == [(UUID, 500)]
    site.looks([])
    assert site.unmanaged.around() == []


def test_another_process_with_the_same_pid_is_another(site: Site) -> None:
    site.looks([500], [500])
    site.proc.add(500, uid=os.getuid(), cgroup=JOB, start=900)
    site.looks([500])
    [job] = site.jobs.all()
    assert job.unmanaged == 1
    site.looks([500])
    assert job.unmanaged == 2


def test_processes_of_no_sharing_job_are_nobodys_business(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.proc.add(501, uid=os.getuid(), cgroup="0::/user.slice\n")
    site.looks([501, 999], [501, 999])
    assert site.jobs.all() == []
    assert caplog.text == ""


def test_without_nvml_one_line_says_so_and_nobody_asks_again(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(seconds: float) -> None:
        assert seconds == 1

    monkeypatch.setattr("fikitd.clients.unmanaged.asyncio.sleep", at_once)
    caplog.set_level("INFO")
    site.shown = "NVML Shared Library Not Found"
    asyncio.run(site.unmanaged.watch())
    assert site.asked == 1
    assert caplog.text.count("because of NVML: NVML Shared Library Not Found") == 1


def test_nobody_asks_while_no_job_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, naps = Site(tmp_path), iter(range(5))

    async def a_few_times(seconds: float) -> None:
        if next(naps, None) is None:
            raise asyncio.CancelledError

    monkeypatch.setattr("fikitd.clients.unmanaged.asyncio.sleep", a_few_times)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(site.unmanaged.watch())
    assert site.asked == 0


def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """`script` in the place of the process that asks NVML."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def children() -> set[str]:
    """Of this process, also those that ended and were not waited for."""
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


@pytest.mark.starts_processes
@pytest.mark.filterwarnings("error")
def test_a_child_that_hangs_is_ended_and_leaves_no_zombie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setattr(nvml, "ASK_S", 0.5)
    before = children()
    with pytest.raises(NoNvml, match=r"did not answer within 0\.5 s"):
        asyncio.run(nvml.ask())
    gc.collect()  # a transport that was left open says so now
    assert children() == before


@pytest.mark.starts_processes
def test_why_nvml_tells_nothing_is_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child(tmp_path, monkeypatch, """echo '"Driver Not Loaded"'""")
    with pytest.raises(NoNvml, match=r"^Driver Not Loaded$"):
        asyncio.run(nvml.ask())


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "end", ["echo first >&2; echo MemoryError >&2; exit 1", "kill -KILL $$"], ids=["failed", "killed"]
)
def test_a_child_that_cannot_ask_says_nothing_of_nvml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    child(tmp_path, monkeypatch, end)
    with pytest.raises(OSError, match=r"NVML could not be asked: (MemoryError|exit code -9)") as error:
        asyncio.run(nvml.ask())
    assert scarce(error.value)


class Pages:
    """What a process that is a client on the GPU reports, and what NVML sees it do."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.job = site.jobs.of(JobRecord(job="12", uid=os.getuid(), gid=os.getgid(), priority=1), DEVICE)
        self.reports: dict[tuple[str, int], Reported] = {}
        self.facts: dict[str, Any] = {}
        parts: dict[str, Any] = vars(site.server)
        self.unmanaged = Unmanaged(
            jobs=site.jobs, records=parts["_records"], storage=parts["_storage"], proc=site.proc.root, interval_s=1,
            reported=lambda: dict(self.reports), ask=self.ask,
        )  # fmt: skip

    async def ask(self) -> list[dict[str, Any]]:
        return [{"uuid": UUID, "name": "Emulated GPU", "memory_bytes": 2**34, "processes": [500], **self.facts}]

    def says(self, kernels: int = 0, under_way_ns: int = 0, held_bytes: int = 0, *, pid: int = 500) -> None:
        self.reports[digits(UUID), pid] = Reported(self.job, kernels, under_way_ns, held_bytes)

    def look(self, **facts: Any) -> int:
        """How many have been named after one more look."""
        self.facts = facts
        asyncio.run(self.unmanaged.look())
        return int(self.job.unmanaged)


@pytest.fixture
def pages(site: Site) -> Pages:
    return Pages(site)


def test_a_client_whose_page_is_silent_while_it_computes_is_named(pages: Pages) -> None:
    """It has said hello and become a program without the shim."""
    pages.says()
    assert [pages.look(busy=[500]) for _ in range(4)] == [0, 1, 1, 1]
    assert pages.job.warnings[0].startswith("process 500 uses the GPU around fikit")


def test_a_client_that_reports_some_launches_and_then_computes_in_silence_is_named(pages: Pages) -> None:
    pages.says(kernels=1, under_way_ns=5)
    assert [pages.look(busy=[500]) for _ in range(3)] == [0, 0, 1]


def test_a_client_without_launches_that_holds_much_more_than_its_page_says_is_named(pages: Pages) -> None:
    pages.says(held_bytes=2**20)
    assert [pages.look(used_bytes={"500": 2**32}) for _ in range(2)] == [0, 1]


@pytest.mark.parametrize(
    "facts",
    [
        {"busy": [], "used_bytes": {"500": 2**29}},  # it has made a context, and reads its data
        {"busy": None, "used_bytes": {}},  # NVML does not tell
        {},
    ],
)
def test_an_idle_client_is_not_named(pages: Pages, facts: dict[str, Any]) -> None:
    pages.says()
    assert [pages.look(**facts) for _ in range(3)] == [0, 0, 0]


def test_who_launches_or_runs_one_long_kernel_is_not_named(pages: Pages) -> None:
    for kernels in (1, 2, 3, 4):
        pages.says(kernels)
        assert pages.look(busy=[500], used_bytes={"500": 2**33}) == 0
    for under_way_ns in (10, 20, 30):
        pages.says(4, under_way_ns)
        assert pages.look(busy=[500], used_bytes={"500": 2**33}) == 0


def test_a_client_of_another_gpu_is_none_of_this_one(pages: Pages) -> None:
    pages.says(5)
    [report] = pages.reports.values()
    pages.reports = {("FFFF", 500): report}
    assert [pages.look() for _ in range(2)] == [0, 1]


def test_launches_of_a_process_that_nvml_does_not_see_there_are_named(pages: Pages) -> None:
    for kernels in range(1, 5):
        pages.says(kernels)
        pages.says(kernels, pid=501)
        pages.look()
    assert pages.job.warnings == ["process 501 reports launches on a GPU that it does not use, as far as NVML sees"]


def test_where_nvml_counts_processes_otherwise_nobody_is_taken_for_forged(pages: Pages) -> None:
    for kernels in range(1, 5):
        pages.says(kernels, pid=77)  # in a container of fikitd's own
        pages.look()
    assert pages.job.warnings == [
        "process 500 uses the GPU around fikit: it is not scheduled, and what it does is not in this report"
    ]


def test_every_job_on_the_gpu_is_told_and_none_says_that_the_promise_was_kept(pages: Pages) -> None:
    """From the first look on its word is `unknown`; at the second it is told by whom."""
    other = pages.site.jobs.of(JobRecord(job="13", uid=os.getuid(), gid=os.getgid(), priority=1), DEVICE)
    for job in (pages.job, other):
        job.max_slowdown = 0.05
    pages.reports[digits(UUID), 600] = Reported(other, 1000, 0, 0)
    pages.says()
    pages.look(busy=[500])
    assert other.beside_around
    assert not other.warnings
    pages.look(busy=[500])
    pages.look(busy=[])
    assert [job.beside_around for job in (pages.job, other)] == [True, True]
    assert other.warnings == [
        "process 500 used its GPU around fikit: nobody knows what that cost this job, and its times teach no profile"
    ]


def test_a_suspicion_that_the_next_look_does_not_confirm_is_forgotten(pages: Pages) -> None:
    pages.says()
    pages.look(busy=[500])
    assert pages.job.beside_around
    pages.look(busy=[])
    assert not pages.job.beside_around
