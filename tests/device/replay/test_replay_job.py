"""fikit-replay job: a recording as a program that serves requests, by the same rule as the simulator's jobs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from emulator_tools import ROOT, stats
from fikitd.simulation import simulator

from fikitd import _simulator

sys.path.insert(0, str(ROOT))
from bench import recordings

REQUESTS = 5
# Of one stream: on the bare device model streams run beside each other, in the simulator one kernel at a time.
SHAPES = {name: recordings.SHAPES[name] for name in ("inference", "sparse", "dense")}


def job(native: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(native / "bin/fikit-replay"), "job", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("arrivals", ["closed", "open70"])
@pytest.mark.parametrize("shape", SHAPES)
def test_requests_end_when_the_simulator_says(native: Path, tmp_path: Path, shape: str, arrivals: str) -> None:
    text = SHAPES[shape](1).text()
    (tmp_path / "job.csv").write_bytes(text)
    trace = simulator.parse(shape, text.decode())
    times = simulator.Scenario(trace, [], arrivals, requests=REQUESTS).arrival_times()
    (tmp_path / "arrivals").write_text("\n".join(map(str, times)))
    options = ["--arrivals", tmp_path / "arrivals"] if times else []
    done = job(native, "--model", "--requests", REQUESTS, *options, tmp_path / "job.csv")
    assert done.returncode == 0, done.stderr
    alone = _simulator.Job(trace.native, priority=1, managed=False, arrivals=times)
    simulated = _simulator.simulate("fifo", [alone], requests=REQUESTS, costs=simulator.NO_COSTS)["jobs"][0]["requests"]
    played = json.loads(done.stdout)["requests"]
    assert len(played) == REQUESTS
    if not times:
        assert [end - arrival for arrival, end in played] == [end - arrival for arrival, end in simulated]
        return
    assert [arrival for arrival, _ in played] == times
    # The simulator's clock begins at 1.
    assert [end for _, end in played] == pytest.approx([end for _, end in simulated], abs=1)


def two_streams(second_begins_us: float) -> str:
    """An upload and a kernel in one stream; in another a kernel that is called at once."""
    return "\n".join(
        [
            "#N 0 Memcpy HtoD (Pinned -> Device)",
            "#N 1 first",
            "#N 2 second",
            "M,0,4,8,1000,7,,,,,,,32,0,64,0,0",
            "K,5,4,1009,100,7,8,1,1,64,1,1,32,0,,1,0",
            f"K,10,4,{second_begins_us},1000,20,8,1,1,64,1,1,32,0,,2,0",
            "",
        ]
    )


def test_work_that_waited_for_another_stream_does_so_in_every_pass() -> None:
    waited, at_once = two_streams(1110), two_streams(18)
    assert pass_us(waited, requests=1) == pass_us(waited, requests=3) == pytest.approx(2110, abs=10)
    assert pass_us(at_once, requests=3) == pytest.approx(1110, abs=10)


def test_a_synchronisation_with_one_stream_leaves_the_other_alone() -> None:
    lines = [
        "#N 0 kernel",
        "#N 1 Memcpy HtoD (Pinned -> Device)",
        "#N 2 cudaStreamSynchronize",
        "K,0,4,8,1000,7,8,1,1,64,1,1,32,0,,0,0",
        "M,10,4,18,5000,20,,,,,,,32,0,64,1,0",
        "S,20,995,,0.0,,,,,,,,,,,2,0",
        "K,1020,4,1028,100,7,8,1,1,64,1,1,32,0,,0,0",
        "",
    ]
    # The copy covers everything; had the host waited for it, the last kernel would come after it.
    assert pass_us("\n".join(lines), requests=2) == pytest.approx(5018, abs=10)


def pass_us(text: str, requests: int) -> float:
    jobs = [_simulator.Job(_simulator.Trace(text), priority=1, managed=False)]
    result = _simulator.simulate("fifo", jobs, requests=requests, costs=simulator.NO_COSTS)
    spans = {end - arrival for arrival, end in result["jobs"][0]["requests"]}
    assert len(spans) == 1
    return spans.pop() / 1000


def test_an_endless_job_ends_when_it_is_told_to(
    native: Path, tmp_path: Path, emulator_env: Callable[..., dict[str, str]]
) -> None:
    (tmp_path / "job.csv").write_bytes(recordings.sparse(1).text())
    env = emulator_env()
    command = [native / "bin/fikit-replay", "job", tmp_path / "job.csv"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == f"ready {process.pid}\n"
    assert stats(native, env)[0]["processes"][0]["kernels"] == 0  # it has not begun
    process.stdin.write("begin\n")
    process.stdin.flush()
    while stats(native, env)[0]["processes"][0]["kernels"] == 0:
        pass
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    ended: dict[str, Any] = json.loads(out)
    assert ended["ended_ns"] > ended["begun_ns"]


def test_a_job_through_the_driver_tells_when_its_requests_ended(
    native: Path, tmp_path: Path, emulator_env: Callable[..., dict[str, str]]
) -> None:
    (tmp_path / "job.csv").write_bytes(recordings.streams(1).text())
    (tmp_path / "arrivals").write_text("1000\n2000\n3000\n")
    command = [
        native / "bin/fikit-replay",
        "job",
        "--requests",
        "3",
        "--arrivals",
        tmp_path / "arrivals",
        tmp_path / "job.csv",
    ]
    done = subprocess.run(
        command, env=emulator_env(), input="begin\n", capture_output=True, text=True, check=False, timeout=60
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said, printed = done.stdout.splitlines()
    assert said.startswith("ready ")
    requests = json.loads(printed)["requests"]
    assert [arrival for arrival, _ in requests] == [1000, 2000, 3000]
    assert 0 < requests[0][1] < requests[1][1] < requests[2][1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--model", "job.csv"), "a job in manual time needs --requests"),
        (("--model", "--requests", "2", "none.csv"), "couldn't open "),
        (("--model", "--requests", "2", "--arrivals", "short", "job.csv"), "it has 1 times in ns, and 2 requests"),
        (("--model", "--requests", "2", "--arrivals", "words", "job.csv"), "it has 0 times in ns"),
        (("--model", "--requests", "none", "job.csv"), "usage: "),
        (("--requests",), "usage: "),
    ],
)
def test_what_cannot_be_played_is_one_sentence(
    native: Path, tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    (tmp_path / "job.csv").write_bytes(recordings.sparse(1).text())
    (tmp_path / "short").write_text("1000\n")
    (tmp_path / "words").write_text("soon\n")
    files = ("job.csv", "none.csv", "short", "words")
    done = job(native, *(tmp_path / word if word in files else word for word in arguments))
    assert done.returncode == (2 if complaint == "usage: " else 1)
    assert complaint in done.stderr
