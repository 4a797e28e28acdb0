"""Jobs of known length: what is made up, which starts count, and what is kept of a policy that was measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from subprocess import CompletedProcess

import pytest

from bench import placed
from bench.placed.jobs import GPUS, KINDS, POLICIES, Job, busy_shares, made_up, simulated_jct_s
from bench.placed.live import Lived, Measured, _Site
from bench.record import BenchError


def lived(came_s: float, began_s: float, ended_s: float) -> Lived:
    return Lived(Job("x", 0, 1, came_s), came_s, began_s, ended_s, "0")


def test_jobs_are_the_same_each_time_and_bring_the_work_that_was_asked_for() -> None:
    jobs = made_up(400, 2.0, 1)
    assert jobs == made_up(400, 2.0, 1) != made_up(400, 2.0, 2)
    brought = sum(job.work_s for job in jobs) / (jobs[-1].submit_s * GPUS)
    assert brought == pytest.approx(2.0, rel=0.1)
    assert len({job.name for job in jobs}) == len(jobs)


def test_a_kind_keeps_the_device_as_busy_as_it_is_called() -> None:
    for kind, share in zip(KINDS, busy_shares(), strict=True):
        assert share == pytest.approx(kind.busy, abs=0.1)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_alone_takes_its_known_length(policy: str) -> None:
    job = made_up(1, 1.0, 1)[0]
    assert simulated_jct_s([job], 8, policy) == [pytest.approx(job.work_s)]


def test_who_shares_evenly_takes_longer_than_who_goes_first() -> None:
    jobs = [replace(job, submit_s=0.0) for job in made_up(2 * GPUS, 1.0, 1)]
    assert fmean(simulated_jct_s(jobs, 8, "auto")) < fmean(simulated_jct_s(jobs, 8, "spread"))


def test_only_starts_on_idle_gpus_of_jobs_that_nobody_waits_before_count() -> None:
    first = [lived(number, number + 0.5, 100) for number in range(GPUS)]
    full = lived(50, 50.7, 100)
    alone = lived(200, 200.25, 300)
    behind = lived(200.1, 201, 300)
    assert Measured([*first, full, alone, behind], []).starts_s() == [0.5] * GPUS + [0.25]


class Told:
    """A sandbox whose jobs end as soon as sbatch is told of them."""

    def __init__(self, root: Path) -> None:
        self.root, self.logs = root, root
        self.jobs: dict[str, list[str]] = {}

    def run(self, command: list[str], **_: object) -> CompletedProcess[str]:
        name = next(word for word in command if word.startswith("--job-name=")).partition("=")[2]
        self.jobs[name] = command
        (self.root / f"{name}.mark").write_text("0 1000000000 0\n")
        return CompletedProcess(command, 0, "", "")


def test_jobs_that_run_alone_have_no_option_that_makes_them_share(tmp_path: Path) -> None:
    told = Told(tmp_path)
    assert all(longer > 0 for longer in _Site(told).learn())  # type: ignore[arg-type]
    options = {name: {word for word in command if word.startswith("--fikit-")} for name, command in told.jobs.items()}
    assert [options[f"alone-{kind.name}"] for kind in KINDS] == [set()] * len(KINDS)
    assert all(
        options[f"measured-{kind.name}"] == {"--fikit-measure", f"--fikit-profile={kind.name}"} for kind in KINDS
    )


@pytest.mark.parametrize(("policy", "priority"), [("spread", "normal"), ("auto", "auto")])
def test_jobs_say_what_the_policy_needs(tmp_path: Path, policy: str, priority: str) -> None:
    told, job = Told(tmp_path), Job("x", 1, 3, 0.0)
    (lived,) = _Site(told).live([job], 8, policy)  # type: ignore[arg-type]
    assert lived.job is job
    assert {f"--fikit-priority={priority}", "--fikit-mem=8G", f"--fikit-profile={KINDS[1].name}"} <= set(told.jobs["x"])
    assert "--requests 3" in told.jobs["x"][-1]


def test_what_was_measured_is_read_again_and_other_settings_are_not_believed(tmp_path: Path) -> None:
    row = {
        "policy": "auto", "seed": 1, "slurm": "26.5.5", "measured_jct_s": 33.0, "simulated_jct_s": 30.0, "starts_s": [0.2, 0.4, 0.9],
    }  # fmt: skip
    about = {"jobs": 40, "load": 2.0, "memory_gib": 8, "seeds": 1, "policy": "auto"}
    file = tmp_path / "auto-1.json"
    file.write_text(json.dumps({"format": placed.FORMAT, "about": about, "row": row}))
    found = placed.run(emulated=True, policies=["auto"], resume=tmp_path)
    assert found.values["auto: off"] == pytest.approx(0.1)
    assert "| `auto` | 33.0 | 30.0 | +10.0 % | 0.40 / 0.90 |" in found.table
    with pytest.raises(BenchError, match="other settings"):
        placed.run(emulated=True, policies=["auto"], resume=tmp_path, load=1.0)
    file.write_text("{")
    with pytest.raises(BenchError, match="no such file"):
        placed.run(emulated=True, policies=["auto"], resume=tmp_path)
