"""`fikit sim`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from fikit.commands import run, sandbox
from fikit.commands.sim import command
from fikit.options import quantities
from fikitd.config.fikit_toml import SchedulerConfig

from bench import recordings


@pytest.fixture
def traces(tmp_path: Path) -> list[str]:
    high, low = tmp_path / "high.csv", tmp_path / "low.csv"
    high.write_bytes(recordings.inference(1).text())
    low.write_bytes(recordings.training(1).text())
    return ["--high", str(high), "--low", str(low), "--requests", "5"]


def test_json_has_the_promised_keys_and_says_that_it_is_emulated(traces: list[str]) -> None:
    done = CliRunner().invoke(command, [*traces, "--policy", "prio", "--arrivals", "open30", "--json"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    keys = [
        "policy",
        "high_jct_ratio",
        "high_p99_ratio",
        "low_share",
        "harvest",
        "kernels",
        "grants",
        "mispredicted_us_p99",
    ]
    assert set(keys) <= set(result)
    assert result["policy"] == "prio"
    assert result["emulated"] is True
    again = CliRunner().invoke(command, [*traces, "--policy", "prio", "--arrivals", "open30", "--json"])
    assert again.stdout == done.stdout


def test_people_get_a_table(traces: list[str]) -> None:
    done = CliRunner().invoke(command, [*traces, "--policy", "fifo"])
    assert done.exit_code == 0, done.output
    assert "harvest" in done.stdout
    assert "simulated: slices of 1024 us, a switch of 50 us (assumed)" in done.stdout


def test_the_model_of_mps_is_an_option_of_mps(traces: list[str]) -> None:
    asked = [*traces, "--policy", "fifo", "--mps-model", "admission"]
    done = CliRunner().invoke(command, [*asked, "--device", "mps"])
    assert done.exit_code == 0, done.output
    assert "mps by admission" in done.stdout
    refused = CliRunner().invoke(command, asked)
    assert refused.exit_code == 2
    assert "slices has no MPS: leave the model of MPS away" in refused.output


def test_the_papers_policy_is_known_by_its_former_name_and_a_line_says_so(traces: list[str]) -> None:
    done, now = (CliRunner().invoke(command, [*traces, "--policy", name, "--json"]) for name in ("fikit", "paper"))
    assert done.exit_code == 0, done.output
    assert done.stdout == now.stdout
    assert done.stderr.startswith('fikit: warning: policy "fikit" is called "paper" now')
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("of", [run.command, sandbox.command], ids=["run", "sandbox"])
def test_whoever_starts_a_daemon_takes_the_former_name_too(
    of: click.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    option = next(param for param in of.params if param.name == "policy")
    assert option.type_cast_value(click.Context(of), "fikit") == "paper"
    assert 'policy "fikit" is called "paper" now' in capsys.readouterr().err
    with pytest.raises(click.BadParameter, match="'budget'"):
        option.type_cast_value(click.Context(of), "bugdet")


def test_the_policy_is_what_a_daemon_runs_by_default(traces: list[str]) -> None:
    done = CliRunner().invoke(command, [*traces, "--json"])
    assert json.loads(done.stdout)["policy"] == SchedulerConfig().policy


@pytest.mark.starts_processes
def test_ctrl_c_ends_a_long_simulation(traces: list[str]) -> None:
    # Whoever runs the tests in the background ignores SIGINT, and programs inherit that.
    program = ["env", "--default-signal=INT", sys.executable, "-m", "fikit", "sim"]
    running = subprocess.Popen([*program, *traces[:-1], "5000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        took, at_work = Path(f"/proc/{running.pid}/stat"), 3 * os.sysconf("SC_CLK_TCK")
        while int(took.read_text().rpartition(")")[2].split()[11]) < at_work:
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        assert running.communicate(timeout=20) == (b"", b"\n")  # behind ^C
        assert running.returncode == 130
    finally:
        running.kill()
        running.wait()


def test_two_low_jobs(traces: list[str]) -> None:
    done = CliRunner().invoke(command, [*traces, "--low", traces[3], "--policy", "prio", "--json"])
    assert done.exit_code == 0, done.output


def test_more_requests_than_can_be_is_one_sentence(traces: list[str]) -> None:
    done = CliRunner().invoke(command, [*traces[:-1], "99999999999999999999"])
    assert done.exit_code == 2
    assert "99999999999999999999 is not in the range" in done.output


def test_unknown_policy_names_the_nearest(traces: list[str]) -> None:
    done = CliRunner().invoke(command, [*traces, "--policy", "proi"])
    assert done.exit_code == 2
    assert 'there is no policy "proi"; did you mean "prio"' in done.output


def test_bad_recording_is_one_sentence(traces: list[str], tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("hello\n")
    done = CliRunner().invoke(command, ["--high", str(bad), "--low", traces[3], "--policy", "prio"])
    assert done.exit_code == 1
    assert f"{bad}: couldn't use line 1" in done.output


def test_a_tighter_budget_costs_the_high_job_less(traces: list[str]) -> None:
    ratios = []
    for bound in ("1%", "50%"):
        done = CliRunner().invoke(command, [*traces, "--policy", "budget", "--max-slowdown", bound, "--json"])
        assert done.exit_code == 0, done.output
        ratios.append(json.loads(done.stdout)["high_jct_ratio"])
    assert ratios[0] < ratios[1]


def test_a_bound_on_delays_holds_long_kernels_back(traces: list[str]) -> None:
    shares = []
    for options in ([], ["--max-delay", "20us"]):
        done = CliRunner().invoke(command, [*traces, "--policy", "budget", *options, "--json"])
        assert done.exit_code == 0, done.output
        shares.append(json.loads(done.stdout)["low_share"])
    assert shares[1] < shares[0]


@pytest.mark.parametrize(
    ("option", "text", "advice"),
    [
        ("--max-slowdown", "five", "write 5% or 0.05"),
        ("--max-slowdown", "-1%", "write 5% or 0.05"),
        ("--max-slowdown", "120%", "write 5% or 0.05"),
        ("--max-delay", "200", "write it as 200us"),
        ("--max-delay", "2 weeks", "write it as 200us"),
    ],
)
def test_a_bad_quantity_says_how_to_write_it(traces: list[str], option: str, text: str, advice: str) -> None:
    done = CliRunner().invoke(command, [*traces, "--policy", "budget", option, text])
    assert done.exit_code == 2
    assert advice in done.output


@pytest.mark.parametrize(("text", "ns"), [("200us", 200_000), ("1.5ms", 1_500_000), ("2s", 2_000_000_000), ("5ns", 5)])
def test_times_are_read_with_their_units(text: str, ns: int) -> None:
    context = click.Context(command)
    assert quantities.nanoseconds(context, command.params[0], text) == ns
