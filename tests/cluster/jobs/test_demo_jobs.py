"""The demo through its first launcher, a throw-away Slurm, with programs that are over in no time: what it shows is measured by `make demo`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from fikit.commands.demo import command
from fikit.demo import plan
from fikit.sandbox.sandbox import Sandbox

MANAGED = {"measure_high": "high", "measure_low": "low", "shared": "high low", "fikit": "high low"}  # jobs by step


@pytest.fixture(autouse=True)
def _needs_slurm(sandbox: Sandbox) -> None:
    """Skipped where the session's sandbox is skipped."""


def test_every_job_of_the_demo_is_managed_under_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "HIGH_REQUESTS", 3)
    monkeypatch.setattr(plan, "MEASURED_REQUESTS", 3)
    monkeypatch.setattr(plan, "LOW_STEPS", 2)
    monkeypatch.setattr(plan, "MEASURED_STEPS", 2)
    out = tmp_path / "out"
    told = CliRunner().invoke(command, ["--out", str(out), "--json"])
    logs = {path.stem: path.read_text() for path in (out / "logs").glob("*.out")}
    for step, jobs in MANAGED.items():
        for job in jobs.split():
            said = logs.get(f"{step}-{job}", "")
            assert "fikit: job" in said, (step, said, told.output)
            assert "unmanaged" not in said
    summary = json.loads((out / "summary.json").read_text())
    assert summary["device"]["emulated"] is True
    assert summary["slurm_version"]
    assert summary["low_share"] is not None  # the device's own record knew both jobs
    for job in ("high", "low"):
        for told in (reports := summary[job]["reports"]).values():
            parts = ("alone_s", "waited_s", "delayed_s", "host_s", "unexplained_s")
            assert sum(told[part] for part in parts) == pytest.approx(told["elapsed_s"], abs=1e-3)
        assert sorted(reports) == ["fikit", "shared"], "the jobs were asked under both policies"
