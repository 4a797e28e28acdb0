"""The demo's arithmetic and plan; the demo itself runs in `make demo`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from fikit.commands.demo import command
from fikit.demo import disturbance, plan
from fikit.demo.experiment import Outcome
from fikit.demo.result import Result
from fikit.demo.usage import Usage, share
from fikitd.config import SchedulerConfig

NOTHING = Usage("", 0, {})


def outcomes(solo: float, shared: float, fikit: float) -> dict[str, Outcome]:
    begin = Usage("Emulated GPU", 10_000, {"high": 1_000, "low": 2_000})
    end = Usage("Emulated GPU", 20_000, {"high": 5_000, "low": 5_000})
    return {
        "solo_high": Outcome({"high": solo}, NOTHING, NOTHING),
        "solo_low": Outcome({"low": 8.0}, NOTHING, NOTHING),
        "shared": Outcome({"high": shared, "low": 9.0}, NOTHING, NOTHING),
        "fikit": Outcome({"high": fikit, "low": 9.5}, begin, end),
    }


def test_summary_has_the_documented_shape() -> None:
    summary = Result.of(outcomes(2.0, 6.0, 2.2), emulated=True, slurm_version="22.05.8").summary()
    assert summary == {
        "device": {"name": "Emulated GPU", "emulated": True},
        "slurm_version": "22.05.8",
        "high": {"solo_s": 2.0, "shared_s": 6.0, "fikit_s": 2.2},
        "low": {"solo_s": 8.0, "shared_s": 9.0, "fikit_s": 9.5},
        "high_slowdown": 1.1,
        "high_speedup": 2.7273,
        "low_share": 0.5,  # 3000 ns of low in 10000 - 4000 ns that high left
    }


@pytest.mark.parametrize(
    ("seconds", "missed"),
    [((2.0, 6.0, 2.2), []), ((2.0, 6.0, 2.4), ["took 1.20x"]), ((2.0, 3.0, 2.0), ["was 1.50 times"]),
     ((2.0, 3.0, 3.0), ["took 1.50x", "was 1.00 times"])],
)  # fmt: skip
def test_failures_say_which_bound_was_missed(seconds: tuple[float, float, float], missed: list[str]) -> None:
    failures = Result.of(outcomes(*seconds), emulated=True, slurm_version=None).failures()
    assert [said in text for said, text in zip(missed, failures, strict=True)] == [True] * len(missed)


def test_share_counts_only_the_window_between_the_samples() -> None:
    begin = Usage("g", 1000, {"high": 100, "low": 900})
    assert share(begin, Usage("g", 2000, {"high": 600, "low": 1150}), low="low", high="high") == 0.5


def test_share_of_nothing_is_unknown() -> None:
    begin = Usage("g", 0, {"high": 0, "low": 0})
    assert share(begin, Usage("g", 100, {"high": 100, "low": 0}), low="low", high="high") is None


def test_steps_measure_first_and_compare_the_same_jobs() -> None:
    steps = plan.steps(Path("/meet"))
    assert list(steps)[:2] == ["measure_high", "measure_low"]
    assert [job.argv for job in steps["shared"].jobs] == [job.argv for job in steps["fikit"].jobs]
    assert steps["solo_high"].jobs[0].argv == steps["fikit"].jobs[0].argv
    assert not steps["solo_high"].jobs[0].options
    profiles = [steps[f"measure_{name}"].jobs[0].options["profile"] for name in ("high", "low")]
    assert [job.options["profile"] for job in steps["fikit"].jobs] == profiles
    assert (steps["shared"].policy, steps["fikit"].policy) == ("fifo", SchedulerConfig().policy)


def test_programs_of_the_plan_exist() -> None:
    for step in plan.steps(Path("/meet")).values():
        for job in step.jobs:
            assert Path(job.argv[1]).is_file()
    assert plan.MODEL.is_file()


def test_a_directory_that_cannot_be_made_is_one_sentence_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = CliRunner().invoke(command, ["--no-slurm", "--out", str(tmp_path / "file" / "out")])
    assert done.exit_code == 1
    assert "could not be made: Not a directory; choose another directory with --out" in done.output


def test_a_failure_on_a_busy_machine_says_so() -> None:
    before = [100, 0, 50, 1000, 10, 0, 5, 0, 0, 0]
    idle = [105, 0, 50, 1090, 15, 0, 5, 0, 0, 0]
    taken = [110, 20, 60, 1040, 10, 0, 5, 20, 15, 0]  # 40 of 100 ticks idle; 20 taken by the host; a guest's are user's
    assert disturbance.sentence(disturbance.busy_cores(before, idle, 2), 2) == ""
    assert "1.2 of 2 cores were busy" in disturbance.sentence(disturbance.busy_cores(before, taken, 2), 2)
    assert disturbance.busy_cores(before, before, 2) == 0.0
