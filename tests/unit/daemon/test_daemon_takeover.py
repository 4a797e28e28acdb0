"""A job that ends while fikitd takes over its clients from the one before: what they did is in its report."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from daemon_fakes import NOTHING
from fikitd.base.protocol import Device
from fikitd.jobs import registry as jobs_module
from fikitd.jobs.job import Job
from fikitd.jobs.ledger import Ledger
from fikitd.store.records import JobRecord, JobRecords

DEVICE = Device("Emulated GPU", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", 2**34)


class Files:
    """Instead of storing reports and comments: the kernels that each said."""

    def __init__(self) -> None:
        self.said: list[int] = []

    async def store(self, job: Job) -> None:
        self.said.append(job.report()["kernels"])

    def job_is_over(self, job: Job, given_ns: int) -> None:
        self.said.append(job.report()["kernels"])


async def ended(directory: Path, *, comes: bool) -> list[int]:
    """What was said of a job, one of whose clients `comes` after all patience for clients that are there, or never."""
    files = Files()
    jobs = jobs_module.Jobs(
        records=JobRecords(directory), files=files, ledger=Ledger(directory), policy="paper"  # type: ignore[arg-type]
    )  # fmt: skip
    job = jobs.of(JobRecord("12", 0, 0, 1, started_ns=7), DEVICE)
    job.expects(+1)
    ending = asyncio.ensure_future(jobs.end("12"))
    await asyncio.sleep(0.05)
    if comes:
        job.client_came(1, 77, lambda: {**NOTHING, "kernels": 40})  # type: ignore[typeddict-item]
        job.expects(-1)
    await ending
    return files.said


def test_a_report_waits_for_what_a_starved_fikitd_has_not_taken_over_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_module, "ENDING_S", 0.01)
    assert asyncio.run(ended(tmp_path, comes=True)) == [40, 40]


def test_a_client_that_is_never_taken_over_keeps_no_report_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("ENDING_S", "BACK_S"):
        monkeypatch.setattr(jobs_module, limit, 0.01)
    assert asyncio.run(ended(tmp_path, comes=False)) == [0, 0]
