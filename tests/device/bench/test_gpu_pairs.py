"""The pairs of the kit for real GPUs (bench/gpu/sharing/pairs.py) on the emulated one, with everything that may break in a cell."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
from daemon_process import eventually
from fikitd.gpus.switches import Switch, Switches
from gpu_machine import alive

from bench.gpu import mps, processes
from bench.gpu.place import Place
from bench.gpu.service import Service
from bench.gpu.sharing import cells, correctness, crew, pairs, worker, workers
from bench.gpu.sharing.cells import Cell
from bench.gpu.sharing.crew import Worker
from bench.record import BenchError

Found = dict[str, Any]


@pytest.fixture
def library(somewhere: Place, native: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The emulated driver's; the stand-in of the control daemon lies beside it."""
    monkeypatch.setenv("PATH", f"{native / 'emulator'}:{os.environ['PATH']}")
    somewhere.env["PATH"] = os.environ["PATH"]
    return str(native / "emulator" / "libcuda.so.1")


def measurement(somewhere: Place, library: str, **more: Any) -> pairs.Measurement:
    command = [sys.executable, "-m", "bench.gpu.probe"]
    found = json.loads(processes.run("probe", command, somewhere.env, somewhere.directory, 20))
    setting = {"place": somewhere, "library": library, "uuid": found["uuid"], "device": "cuda", "pairs": cells.DRIVER_PAIRS,
               "seconds": 0.9, "deadline": time.monotonic() + 120, "exclusive": False, "kinds": ("closed",)}  # fmt: skip
    return pairs.Measurement(pairs.Setting(**{**setting, **more}), lambda found: None)


def left(place: Place) -> list[str]:
    """What still runs in that place: by its command line, or by its environment."""
    word = str(place.directory)
    found = alive(word)
    for path in Path("/proc").glob("[1-9]*/environ"):
        with suppress(OSError):
            if word.encode() in path.read_bytes():
                found.append(str(path))
    return found


def before(part: pairs.Measurement, do: Callable[[Cell], None]) -> None:
    """Has this done before each cell."""
    real = part._cell

    def and_do(cell: Cell) -> Found:
        do(cell)
        return real(cell)

    part._cell = and_do  # type: ignore[method-assign]


class Breaker:
    """Breaks one of a cell's workers, each time in another way: by its end, by a hang, by an answer that is none, by a refusal."""

    def __init__(self, part: pairs.Measurement, monkeypatch: pytest.MonkeyPatch) -> None:
        self._part, self._patch = part, monkeypatch
        self._number = 0
        self._real = Worker.answer
        self._answers: list[Found] = []
        monkeypatch.setattr(Worker, "answer", partialmethod(_wrong_answer, self))
        monkeypatch.setattr(crew, "LATE_S", 1.0)
        monkeypatch.setattr(workers, "MODE_S", 1.0)

    def answer(self, of: Worker, deadline: float) -> Found:
        found = self._real(of, deadline)
        if "requests" not in found or not self._answers:
            return found
        wrong = self._answers.pop()
        if "error" in wrong:
            raise BenchError(wrong["error"])
        return wrong

    def __call__(self, cell: Cell) -> None:
        if cell.kind != "closed":
            return
        way = cells.WAYS[cell.way]
        high, low = self._part.workers.whole(way.high, way.low)
        how = self._number % 5
        self._number += 1
        if how == 0:
            os.kill(high.process, signal.SIGKILL)
        elif how == 1:
            os.kill(low.process, signal.SIGSTOP)
        elif how == 2:
            self._answers = [{"nonsense": 1}]
        elif how == 3:
            self._answers = [{"error": "refused"}]
        else:
            os.kill(low.process, signal.SIGKILL)


def _wrong_answer(of: Worker, breaker: Breaker, deadline: float) -> Found:
    return breaker.answer(of, deadline)


def test_a_cell_of_each_way_that_breaks_is_an_error_and_the_next_one_runs(
    somewhere: Place, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "RESTARTS", 20)
    part = measurement(somewhere, library, seconds=0.45, kinds=cells.KINDS)
    before(part, Breaker(part, monkeypatch))
    found = part.run()["cells"]
    assert [cell["way"] for cell in found] == [way for way in cells.WAYS for _ in cells.KINDS]
    for cell in found:
        assert ("error" in cell) is (cell["kind"] == "closed"), cell
    assert left(somewhere) == []


def test_a_fikitd_that_crashes_costs_its_cell_and_leaves_nothing_behind(somewhere: Place, library: str) -> None:
    part = measurement(somewhere, library, ways=("budget_mps", "fifo_mps"), kinds=cells.KINDS)

    def crash(cell: Cell) -> None:
        pid = part.services["managed_mps"].pid
        assert pid is not None
        if cell == Cell("budget_mps", cells.DRIVER_PAIRS[0], "closed"):
            os.kill(pid, signal.SIGKILL)
            eventually(lambda: part.services["managed_mps"].pid is None)

    before(part, crash)
    found = part.run()["cells"]
    assert "error" not in found[-1], found[-1]
    assert left(somewhere) == []


def test_a_worker_outside_mps_makes_its_cell_an_error(
    somewhere: Place, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver says nothing of a pipe directory without a daemon: the program runs as without MPS."""
    nowhere = {"CUDA_MPS_PIPE_DIRECTORY": str(somewhere.directory / "nowhere")}
    monkeypatch.setattr(mps, "server", lambda place, library: nullcontext({**place.env, **nowhere}))
    part = measurement(somewhere, library, ways=("budget_mps", "mps", "slices"))
    monkeypatch.setattr(part, "_open_managed", with_env(somewhere, nowhere, part._open_managed))
    found = part.run()["cells"]
    assert "is no client of MPS, by the driver" in found[0]["error"]
    assert "is no client of MPS, by the driver" in found[1]["error"]
    assert "error" not in found[2], found[2]


def with_env(place: Place, more: dict[str, str], do: Callable[[], None]) -> Callable[[], None]:
    """The same with more in the environment of what is started."""

    def inner() -> None:
        place.env.update(more)
        try:
            do()
        finally:
            for name in more:
                del place.env[name]

    return inner


def test_what_the_driver_says_of_a_worker_counts(
    somewhere: Place, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells.Way, "by_mps", property(lambda way: way.high.startswith("bare")))
    found = measurement(somewhere, library, ways=("slices", "mps")).run()["cells"]
    assert "is no client of MPS, by the driver" in found[0]["error"]
    assert "is a client of MPS, by the driver" in found[1]["error"]


def test_programs_that_run_unmanaged_are_no_figures_of_a_policy(
    somewhere: Place, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "managed", lambda service, command, *options: command)
    found = measurement(somewhere, library, ways=("budget",)).run()
    assert "ran unmanaged" in found["cells"][0]["error"]


def test_a_cell_behind_a_change_of_the_policy_counts_its_own_kernels_only(somewhere: Place, library: str) -> None:
    part = measurement(somewhere, library, ways=("budget_mps", "fifo_mps", "prio_mps"))
    found = part.run()
    assert all("error" not in cell for cell in found["cells"]), found["cells"]
    requests = sum(cell["high"]["requests"] + cell["high_alone"]["requests"] for cell in found["cells"])
    launches = sum(cell["kernels"][0] for cell in found["cells"])
    assert launches == pytest.approx(7 * requests, rel=0.5)  # and not those of the cells before


def test_fikitd_begins_the_cells_with_the_stored_switch(
    somewhere: Place, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = measurement(somewhere, library, ways=("budget",))

    def store(service: Service, limit_s: float) -> None:
        Switches(service.run_dir).learnt(part.setting.uuid, [(os.getuid(), Switch(54_000, 1_000, 20, 1))])

    monkeypatch.setattr(Service, "keep_switch", store)
    (cell,) = part.run()["cells"]
    assert "error" not in cell, cell
    assert cell["switch"]["count"] > 0 or cell["switch"] == {"ns": 54_000, "count": 0}
    assert cell["sm_clock_mhz"]["mean"] > 0
    assert cell["power_w"]["mean"] > 0
    account = cell["account"][0]
    told = sum(account[f"{name}_s"] for name in ("alone", "waited", "delayed", "host", "unexplained"))
    assert told == pytest.approx(account["elapsed_s"], abs=1e-3)


def test_the_switch_that_was_measured_is_stored(somewhere: Place, library: str) -> None:
    part = measurement(somewhere, library, ways=("budget",), seconds=3.0)
    stored: list[Path] = []
    before(part, lambda _: stored.extend((part.services["managed"].run_dir / "switches").glob("*")))
    if part.run()["switch_learnt"] is None:
        pytest.skip("this machine's hosts are too busy for a measured switch")
    assert len(stored) == 1


def test_an_exclusive_gpu_is_shared_by_nobody_but_mps(somewhere: Place, library: str) -> None:
    found = measurement(somewhere, library, ways=("slices",), exclusive=True).run()
    assert "there is no worker bare.low" in found["cells"][0]["error"]
    assert any("exclusive compute mode" in note for note in found["notes"])


def test_the_time_that_is_over_is_said(somewhere: Place, library: str) -> None:
    part = measurement(somewhere, library, ways=("slices", "budget"), deadline=time.monotonic() + 2)
    assert any("2 of 2 cells were not measured" in note for note in part.run()["notes"])


def test_a_fikitd_that_cannot_start_costs_the_policies_only(
    somewhere: Place, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.gpu.service.COMMAND", [sys.executable, "-c", "raise SystemExit('no fikitd today')"])
    found = measurement(somewhere, library, ways=("slices", "budget", "budget_mps")).run()
    assert ["error" in cell for cell in found["cells"]] == [False, True, True]
    assert any("no fikitd today" in note for note in found["notes"])


def test_a_machine_without_mps_has_the_other_cells(
    somewhere: Place, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.gpu.mps.COMMAND", "no-such-control-daemon")
    monkeypatch.setenv("PATH", os.environ["PATH"].partition(":")[2])
    somewhere.env["PATH"] = os.environ["PATH"]
    monkeypatch.setattr(Service.begin_mps, "__defaults__", (0.5,))
    found = measurement(somewhere, library, ways=("budget_mps", "slices", "mps")).run()
    assert ["error" in cell for cell in found["cells"]] == [True, False, True]
    assert any("there is no MPS here" in note for note in found["notes"])


# --- correctness


class Digests:
    """Workers by their keys, or by their kinds."""

    def __init__(self, workers: dict[str, Answer]) -> None:
        self._workers = workers

    def find(self, key: str) -> Answer | None:
        return self._workers.get(key) or self._workers.get(key.partition(".")[0])


class Answer:
    """A worker that answers these digests, one after another."""

    broken = ""

    def __init__(self, answers: list[str]) -> None:
        self.answers = answers

    def tell(self, command: Found) -> None:
        assert command["do"] == "digest"

    def answer(self, deadline: float) -> Found:
        found = self.answers.pop(0)
        if found == "hung":
            raise BenchError("it hung")
        return {"digest": found}


def compared(**answers: list[str]) -> Found:
    found: Found = {}
    workers_by_kind = {kind: Answer(digests) for kind, digests in answers.items()}
    correctness.check(Digests(workers_by_kind), (("h", "l"),), found)  # type: ignore[arg-type]
    return found


def test_results_that_differ_under_fikit_are_said() -> None:
    found = compared(bare=["1", "2", "1", "2"], managed=["1", "9"], mps=["1", "hung"])
    assert found["h"] == {kind: {"equal": True, "digest": "1"} for kind in ("bare", "managed", "mps")}
    assert found["l"]["managed"] == {"equal": False, "digest": "9"}
    assert found["l"]["mps"] == {"error": "it hung"}


def test_a_program_in_both_roles_is_read_from_both_workers() -> None:
    high, low = Answer(["1", "1", "read"]), Answer(["1", "2", "read"])
    found: Found = {}
    correctness.check(Digests({"bare.high": high, "bare.low": low}), (("same", "same"),), found)  # type: ignore[arg-type]
    assert found == {"same": {"bare": {"equal": False, "digest": "2"}}}
    assert high.answers == low.answers == ["read"]


def test_a_program_that_differs_from_itself_is_no_fault_of_fikits() -> None:
    found = compared(bare=["1", "2", "7", "2"], managed=["8", "2"])
    assert found["h"]["bare"]["equal"] is False
    assert "bare program's runs differ" in found["h"]["managed"]["error"]
    assert found["l"]["managed"]["equal"] is True


def test_a_program_that_computes_something_else_under_fikit_is_found(somewhere: Place, library: str) -> None:
    program = worker.FOLDERS[0] / "differs.py"
    part = measurement(somewhere, library, ways=("budget",), pairs=(("short_kernels", "differs"),))
    program.write_text("import os\n\n\ndef prepare(device):\n    return lambda: int('FIKIT_SOCKET' in os.environ)\n")
    try:
        found = part.run()["correctness"]
    finally:
        program.unlink()
    assert found["differs"]["bare"]["equal"] is True
    assert found["differs"]["managed"]["equal"] is False
    assert found["short_kernels"]["managed"]["equal"] is True
