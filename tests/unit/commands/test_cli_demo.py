"""The demo's arithmetic and plan; the demo itself runs in `make demo`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from fikit.commands.demo import command
from fikit.demo import disturbance, plan
from fikit.demo.experiment import Experiment, Look, Outcome
from fikit.demo.result import Result
from fikit.demo.told import Told
from fikit.demo.usage import Usage, share
from fikit.errors import UserError
from fikitd.config.fikit_toml import SchedulerConfig

NOTHING = Usage("", 0, {})


def outcomes(alone: float, shared: float, fikit: float) -> dict[str, Outcome]:
    begin = Usage("Emulated GPU", 10_000, {"high": 1_000, "low": 2_000})
    end = Usage("Emulated GPU", 20_000, {"high": 5_000, "low": 5_000})
    return {
        "alone_high": Outcome({"high": alone}, NOTHING, NOTHING),
        "alone_low": Outcome({"low": 8.0}, NOTHING, NOTHING),
        "again_high": Outcome({"high": alone * 1.5}, NOTHING, NOTHING),
        "again_low": Outcome({"low": 8.5}, NOTHING, NOTHING),
        "shared": Outcome({"high": shared, "low": 9.0}, NOTHING, NOTHING),
        "fikit": Outcome({"high": fikit, "low": 9.5}, begin, end),
    }


def test_summary_has_the_documented_shape() -> None:
    summary = Result.of(outcomes(2.0, 6.0, 2.2), emulated=True, slurm_version="22.05.8").summary()
    assert summary == {
        "device": {
            "name": "Emulated GPU",
            "emulated": True,
            "sharing": "slices mode: 1,024 us, switch 50 us (assumed), emulated",
        },
        "max_slowdown": "2%",
        "slurm_version": "22.05.8",
        "high": {"alone_s": 2.0, "solo_s": 2.0, "shared_s": 6.0, "fikit_s": 2.2, "reports": {}},
        "low": {"alone_s": 8.0, "solo_s": 8.0, "shared_s": 9.0, "fikit_s": 9.5, "reports": {}},
        "high_slowdown": 1.1,
        "high_speedup": 2.7273,
        "low_share": 0.5,  # 3000 ns of low in 10000 - 4000 ns that high left
        "disturbed": "",
    }


@pytest.mark.parametrize(
    ("seconds", "missed"),
    [((2.0, 6.0, 2.18), []), ((2.0, 6.0, 2.24), ["took 1.12x"]), ((2.0, 2.8, 2.0), ["was 1.40 times"]),
     ((2.0, 3.0, 3.0), ["took 1.50x", "was 1.00 times"])],
)  # fmt: skip
def test_failures_say_which_bound_was_missed(seconds: tuple[float, float, float], missed: list[str]) -> None:
    failures = Result.of(outcomes(*seconds), emulated=True, slurm_version=None).failures()
    assert [said in text for said, text in zip(missed, failures, strict=True)] == [True] * len(missed)


def test_alone_a_job_takes_as_long_as_in_its_shorter_run() -> None:
    found = outcomes(2.0, 6.0, 2.2)
    found["again_low"] = Outcome({"low": 7.5}, NOTHING, NOTHING)
    result = Result.of(found, emulated=True, slurm_version=None)
    assert (result.seconds["high"]["alone"], result.seconds["low"]["alone"]) == (2.0, 7.5)


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
    assert steps["alone_high"].jobs[0].argv == steps["fikit"].jobs[0].argv
    assert not steps["alone_high"].jobs[0].options
    assert [steps[f"again_{name}"].jobs for name in ("high", "low")] == [
        steps[f"alone_{name}"].jobs for name in ("high", "low")
    ]
    assert steps["fikit"].jobs[0].options["max-slowdown"] == plan.MAX_SLOWDOWN
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


class _Program:
    """A program of the demo that is ready at once, and done as soon as it may begin."""

    def __init__(self, meet: Path, name: str, pid: int) -> None:
        self._result = meet / f"{name}.result"
        (meet / f"{name}.ready").write_text(json.dumps({"pid": pid}))

    def poll(self) -> int | None:
        self._result.write_text('{"seconds": 1.0}')
        return 0

    def stop(self) -> None:
        """It has ended."""


class _Launcher:
    slurm_version = None

    def __init__(self, root: Path) -> None:
        self.run_dir, self.emulator_env = root, dict[str, str]()
        self.pids = {"high": 41, "low": 42}

    def set_policy(self, name: str) -> None:
        """Any will do."""

    def start(self, job: plan.Job, env: dict[str, str], output: Path) -> _Program:
        output.write_text("fikit: unmanaged, fikitd speaks another version\n")
        return _Program(Path(env["MEET"]), job.name, self.pids[job.name])


def record(elapsed: float, **parts: float) -> dict[str, float]:
    return {"elapsed_s": elapsed, "waited_s": 0.0, "delayed_s": 0.0, "host_s": 0.0, "unexplained_s": 0.0, **parts}


def test_a_report_says_where_the_time_of_the_loop_went_and_not_that_of_start_and_end() -> None:
    told = Told.between(record(20, host_s=9, waited_s=1), record(31, host_s=9.5, waited_s=2.5, delayed_s=0.5), 10.0)
    assert told == Told(elapsed_s=10, alone_s=7.5, waited_s=1.5, delayed_s=0.5, host_s=0.5, unexplained_s=0)
    assert told.summary(1.25)["slowdown"] == 1.3333
    assert told.summary(1.25)["apart"] == pytest.approx(8 / 7.5 - 1, abs=1e-4), (
        "1.33x by the report, 1.25x by the clock"
    )


def test_a_report_of_more_than_the_loops_time_sums_all_the_same() -> None:
    told = Told.between(record(0), record(3, waited_s=1.2), 1.0)
    assert (told.elapsed_s, told.alone_s, told.slowdown) == (1.2, 0.0, None)


def test_no_ratio_where_the_sum_supports_none() -> None:
    told = Told.between(record(0), record(10, unexplained_s=0.6), 10.0)
    assert (told.slowdown, told.summary(1.1)["apart"]) == (None, None)
    assert Told.between(record(0), record(10, unexplained_s=0.5), 10.0).slowdown is not None


def test_the_summary_has_what_the_reports_say_in_the_modes_that_have_them() -> None:
    told = {"high": Told.between(record(0), record(3, waited_s=1), 3.0)}
    found = {name: replace(one, told=told) for name, one in outcomes(2.0, 3.0, 3.0).items()}
    summary = Result.of(found, emulated=True, slurm_version=None).summary()
    assert summary["high"]["reports"]["fikit"]["apart"] == 0.0
    assert list(summary["high"]["reports"]) == ["shared", "fikit"]
    assert summary["low"]["reports"] == {}


def test_a_loops_report_is_taken_while_its_program_is_still_there(tmp_path: Path) -> None:
    (meet := tmp_path / "meet").mkdir()
    taken: list[tuple[str, bool, bool]] = []

    def report(job: str) -> dict[str, float]:
        name = {"7": "high", "8": "low"}[job]
        taken.append((name, (meet / f"{name}.result").exists(), (meet / f"{name}.seen").exists()))
        return record(2.0 * len(taken), waited_s=0.25 * len(taken))

    look = Look(lambda _: NOTHING, lambda: {41: "7", 42: "8"}, report)
    both = plan.Step("both", "budget", tuple(plan.Job(name, (), {"priority": name}) for name in ("high", "low")))
    told = Experiment(_Launcher(tmp_path), {"MEET": str(meet)}, look, meet, tmp_path).run("both", both).told
    assert taken == [("high", False, False), ("low", False, False), ("high", True, False), ("low", True, False)]
    assert {name: one.waited_s for name, one in told.items()} == {"high": 0.5, "low": 0.5}
    assert {name: one.elapsed_s for name, one in told.items()} == {"high": 1.0, "low": 1.0}, "the clock's"
    assert sorted(path.name for path in meet.glob("*.seen")) == ["high.seen", "low.seen"]


@pytest.mark.parametrize("managed", [{41: "7", 42: "8"}, {41: "7"}])
def test_a_figure_of_a_job_that_fikit_does_not_manage_is_no_result(managed: dict[int, str], tmp_path: Path) -> None:
    (meet := tmp_path / "meet").mkdir()
    look = Look(lambda _: NOTHING, lambda: managed, lambda _: None)
    experiment = Experiment(_Launcher(tmp_path), {"MEET": str(meet)}, look, meet, tmp_path)
    alone = plan.Step("alone", "budget", (plan.Job("low", ()),))
    assert experiment.run("alone", alone).seconds == {"low": 1.0}  # nobody asked fikit for it
    both = plan.Step("both", "budget", tuple(plan.Job(name, (), {"priority": name}) for name in ("high", "low")))
    if len(managed) == 2:
        assert experiment.run("both", both).seconds == {"high": 1.0, "low": 1.0}
    else:
        with pytest.raises(UserError, match=r"low-priority job runs, but fikit does not manage it .*another version"):
            experiment.run("both", both)
