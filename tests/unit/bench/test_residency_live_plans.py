"""What the live bench of plans runs, and what it makes of its runs; the runs themselves start programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fikitd.base.protocol import COPY_IN, COPY_NONE, COPY_OUT, PLAN_MOVE
from fikitd.profiles.memory_plan import WireMove

from bench.residency import live_first_uses, live_plans, live_script, times
from bench.residency.live_plans import Bench, Outcome, Together
from bench.residency.live_script import Scaled, scaled
from bench.residency.placed import CHUNK

MIB = 2**20
RATES = times.Rates(times.ASSUMED, "assumed")
MANNERS = ("known lifetimes", "cached")


@pytest.fixture(scope="module", params=MANNERS)
def resnet(request: pytest.FixtureRequest) -> Scaled:
    return scaled("ResNet50", 16, request.param, 1024 * MIB, RATES)


def test_memory_is_there_when_a_launch_names_it(resnet: Scaled) -> None:
    there = set(resnet.script.kept)
    for launch in resnet.script.launches:
        there |= set(launch.takes)
        assert set(launch.blocks) <= there
        assert set(launch.gives) <= there
        there -= set(launch.gives)
    assert there == set(resnet.script.kept)


def test_only_a_cache_keeps_all_blocks(resnet: Scaled) -> None:
    keeps_all = len(resnet.script.kept) == len(resnet.script.blocks)
    assert keeps_all == (resnet.script.manner == "cached")


def test_the_room_is_the_gpu_that_was_asked_for(resnet: Scaled) -> None:
    assert resnet.room_bytes == pytest.approx(1024 * MIB, rel=0.05)
    assert resnet.room_bytes == pytest.approx(0.7 * resnet.peak_bytes, abs=CHUNK)


def test_a_program_reads_what_was_written(resnet: Scaled, tmp_path: Path) -> None:
    resnet.script.write(tmp_path / "script")
    assert live_script.read(tmp_path / "script") == resnet.script


def outcome(step_s: float, in_mib: float = 0, missed_mib: float = 0, *, right: bool = True, planned_mib: float = 0) -> Outcome:  # fmt: skip
    plan = {"moved_bytes_per_pass": planned_mib * MIB, "budget_bytes": 700 * MIB} if planned_mib else {}
    return Outcome([step_s] * 3, right, in_mib * MIB, in_mib * MIB, missed_mib * MIB, plan)


def test_figures_are_beside_a_run_with_all_the_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    steps = [outcome(1.0, missed_mib=10), outcome(1.05, 100, 110, planned_mib=190), outcome(3.0, 400, 410, right=False)]
    alone, ours, faults = (
        Together(low, [took], 9.0) for low, took in (([], 1.0), ([outcome(1.2)], 1.05), ([outcome(2.4)], 1.2))
    )
    two, turns = Together([outcome(2.0), outcome(2.0)], [], 6.0), Together([outcome(3.0), outcome(9.0)], [], 9.0)
    runs = [*(Together([each], [], 9.0) for each in steps), alone, ours, faults, two, turns]
    monkeypatch.setattr(live_plans, "CASES", (("VGG16", "known lifetimes"),))
    monkeypatch.setattr(Bench, "measure", lambda self, of: None)
    monkeypatch.setattr(Bench, "run", lambda *arguments, **options: runs.pop(0))
    found = {each["figure"]: each for each in Bench(tmp_path, RATES).rows()}
    assert found["EOR at MSR 0.30"]["value"] == pytest.approx(0.05)
    assert found["EOR at MSR 0.30"]["holds"]
    assert found["faults alone: EOR at MSR 0.30"]["value"] == pytest.approx(2.0)
    assert found["bytes moved / bytes planned"]["value"] == pytest.approx(200 / 190, abs=1e-3)
    missed, by_faults = (
        found["missed bytes of those touched"]["value"],
        4 * found["missed bytes of those touched"]["value"],
    )
    assert 0 < missed < 0.05
    assert found["missed bytes of those touched"]["note"] == f"faults alone {by_faults:.2f}"
    assert found["high JCT"]["value"] == pytest.approx(1.05)
    assert found["low work / that of page faults alone"]["value"] == pytest.approx(2.0)
    assert found["work / that of turns"]["value"] == pytest.approx(1.5)  # six steps in 6 s beside six in 9 s
    assert (found["longest step, s"]["value"], found["longest step, s"]["note"]) == (2.0, "in turns 9.0")
    assert found["jobs whose buffers are all right"]["holds"] is False


def test_first_uses_are_beside_the_same_plans_without_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(self: Bench, lows: object, memory: int, seconds: float, left_out: str = "", *, waits: bool) -> Together:
        assert waits
        return Together([outcome(2.0, missed_mib=1000) if not left_out else outcome(4.0, missed_mib=4000)], [], 9.0)

    monkeypatch.setattr(live_first_uses, "CASES", (("VGG16", "known lifetimes"),))
    monkeypatch.setattr(Bench, "measure", lambda self, of: None)
    monkeypatch.setattr(Bench, "run", run)
    found = {each["figure"]: each for each in live_first_uses.rows(Bench(tmp_path, RATES))}
    assert found["step by its plan / without its first uses"]["value"] == pytest.approx(0.5)
    assert found["step by its plan / its kernels' time"]["note"] == "2.00, 2.00, 2.00 s"
    missed = "bytes by page faults of those touched"
    assert (
        0 < found[missed]["value"] == pytest.approx(found[f"without its first uses: {missed}"]["value"] / 4, rel=0.01)
    )
    assert found["jobs whose buffers are all right"]["holds"]


@pytest.mark.starts_processes
def test_first_uses_are_what_is_left_out_of_a_plan() -> None:
    moves = [WireMove(1, 0, 0, 2, 3, COPY_OUT), WireMove(4, 5, 0, 2, 3, COPY_IN), WireMove(0, 5, 0, 2, 3, COPY_NONE)]
    sent = b"".join(PLAN_MOVE.pack(*each) for each in moves)
    code = f"{live_first_uses.LEFT_OUT}\nprint(Dispatcher.set_plan(None, 7, 1, 9, {sent!r}, 8))"
    stand_in = "import fikitd._core as core\nclass Dispatcher:\n  def set_plan(self, *words): return words\ncore.Dispatcher = Dispatcher\n"
    out = subprocess.run([sys.executable, "-c", stand_in + code], capture_output=True, text=True, check=True).stdout
    assert out == f"{(7, 1, 9, sent[: 2 * PLAN_MOVE.size], 8)}\n"
