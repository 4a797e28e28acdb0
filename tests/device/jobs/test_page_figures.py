"""Every figure of a job's page beside the emulated device's own record of what ran there, of two jobs that share it in each device mode.

A figure has a range that the record allows it: the one value where the device counts the same thing, else bounds that it cannot leave. A
figure that none is known for fails, so a new one on the page needs its own here. A busy machine makes hosts late, which the record has, too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from daemon_process import Fikitd, Runner
from fikit.stored.spans import Span, union
from page_samples import seen

from fikitd import paths

MS, MIB = 1_000_000, 1 << 20
DRIVER_MIB = {"high": 48, "low": 96}
LAUNCHES, LENGTH_NS = {"high": 120, "low": 120}, {"high": 2 * MS, "low": 3 * MS}
MEASURED = 40
NEAR = 0.08  # of what fikitd reckons and the device records
SLACK_S = 0.05  # of moments that two clocks and two processes see

PROGRAM = r"""
import ctypes, sys, time
mib, count, ns = map(int, sys.argv[1:4])
cuda = ctypes.CDLL("libcuda.so.1")
def check(status): assert status == 0, status
check(cuda.cuInit(0))
context, module, kernel, memory = (ctypes.c_void_p() for _ in range(4))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
ptx = b".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry fikit_spin(.param .u64 ns) { ret; }\n"
check(cuda.cuModuleLoadData(ctypes.byref(module), ptx))
check(cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"fikit_spin"))
check(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(mib << 20)))
length = ctypes.c_uint64(ns)
parameters = (ctypes.c_void_p * 1)(ctypes.addressof(length))
for number in range(count):
    check(cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, parameters, None))
    if number % 10 == 9:
        check(cuda.cuCtxSynchronize())
        time.sleep(ns / 1e9)
check(cuda.cuCtxSynchronize())
print("done")
"""


@dataclass(frozen=True)
class Record:
    """What the device did for a process, in ns, by its own record."""

    kernels: list[dict[str, Any]]

    @property
    def work_s(self) -> float:
        return sum(event["work_ns"] for event in self.kernels) / 1e9

    @property
    def ran(self) -> list[Span]:
        return union((event["start_ns"], event["end_ns"]) for event in self.kernels)

    @property
    def there(self) -> list[Span]:
        """While it had work there, whether that ran or stood in line."""
        return union((event["enqueue_ns"], event["end_ns"]) for event in self.kernels)


def seconds(spans: list[Span]) -> float:
    return sum(last - first for first, last in spans) / 1e9


def both(one: list[Span], other: list[Span]) -> list[Span]:
    return union((max(a, c), min(b, d)) for a, b in one for c, d in other if max(a, c) < min(b, d))


@pytest.fixture(params=["slices", "mps"])
def environment(
    request: pytest.FixtureRequest, tmp_path: Path, emulator_env: Callable[..., dict[str, str]]
) -> dict[str, str]:
    config = tmp_path / "device.toml"
    kernels = '[[kernel]]\nmatch = "*"\nduration = "param0_ns"\nregisters = 1\n'
    config.write_text(f'[device]\nsharing = "{request.param}"\n{kernels}')
    return emulator_env(EMUCUDA_CONFIG=str(config), EMUCUDA_TRACE="on")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Fikitd]:
    daemon = Fikitd(tmp_path, "budget").start()
    yield daemon
    assert daemon.stop() == 0, daemon.log.read_text()


def emuctl(environment: dict[str, str], *words: str) -> Any:
    done = subprocess.run([paths.emuctl(), *words, "--json"], env=environment, capture_output=True, check=True)
    return json.loads(done.stdout)


def record(environment: dict[str, str], pid: int) -> Record:
    events = emuctl(environment, "trace")["events"]
    return Record([event for event in events if event["pid"] == pid and event["kind"] == "kernel"])


def page(daemon: Fikitd, job: str, out: Path) -> str:
    env = {**os.environ, "FIKIT_CONFIG": str(daemon.config)}
    command = [sys.executable, "-m", "fikit", "report", job, "--html", str(out)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return out.read_text()


def test_every_figure_of_the_page_is_what_the_device_recorded(
    daemon: Fikitd, environment: dict[str, str], tmp_path: Path
) -> None:
    runner = Runner(daemon, Path(sys.executable), paths.shim(), environment)
    words = {name: ("-c", PROGRAM, DRIVER_MIB[name]) for name in LAUNCHES}
    measured = {}
    for name in LAUNCHES:
        job, process = runner.start(*words[name], MEASURED, LENGTH_NS[name], measure=True, profile=name)
        assert process.communicate(timeout=60)[0] == "done\n"
        runner.end(job)
        measured[name] = record(environment, process.pid)
    jobs, programs, begun_s, ended_s = {}, {}, {}, {}
    for name, priority in (("low", 8), ("high", 1)):
        begun_s[name] = time.time()
        jobs[name], programs[name] = runner.start(
            *words[name], LAUNCHES[name], LENGTH_NS[name], priority=priority, profile=name, started_ns=time.time_ns()
        )
    for name in ("high", "low"):
        assert programs[name].communicate(timeout=120)[0] == "done\n"
        ended_s[name] = time.time()
    for job in jobs.values():
        runner.end(job)
    for name, other in (("high", "low"), ("low", "high")):
        ran = {each: record(environment, programs[each].pid) for each in jobs}
        truth = Truth(
            name, ran[name], ran[other], measured[name], ended_s[name] - begun_s[name],
            emuctl(environment, "stats")["devices"][0]["memory_bytes"],
        )  # fmt: skip
        truth.check(page(daemon, jobs[name], tmp_path / f"{name}.html"), jobs[other])


@dataclass(frozen=True)
class Truth:
    """What the record allows of each figure. clock_s: from the job's begin to its end, as whoever started it saw it."""

    name: str
    own: Record
    other: Record
    measured: Record
    clock_s: float
    device_bytes: int

    def check(self, page: str, partner: str) -> None:
        figures = seen(page).all("data")
        shown = {str(each.attributes["data-of"]): float(each.attributes["value"] or "nan") for each in figures}
        lanes = shown.pop("trace:")  # below
        assert lanes >= 0
        for of, value in shown.items():
            least, most = self.range(of, shown)
            assert least <= value <= most, (self.name, of, value, least, most)
        assert {"elapsed_s", "alone_s", "kernels", "gpu_time_s", "memory.peak_bytes", "profile:runs"} <= set(shown)
        self._check_timeline(page, partner)

    def range(self, of: str, shown: dict[str, float]) -> tuple[float, float]:
        """Least and most. KeyError: the page has a figure that nobody checks."""
        part, _, whole = of.partition("/")
        if whole:
            exact = shown[part] / shown[whole]
            return exact * (1 - 1e-9), exact * (1 + 1e-9)
        if of.startswith("profile:"):
            return self._of_profile(of.removeprefix("profile:"), shown)
        if re.fullmatch(r"(held|delayed)\.\d+\.(total_s|cost_s|count)", of):
            return self._of_wait(of)
        return self._of_report()[of]

    def _of_report(self) -> dict[str, tuple[float, float]]:
        work_s, busy_s = self.own.work_s, seconds(self.own.ran)
        least_s, most_s = (1 - NEAR) * self.clock_s - SLACK_S, (1 + NEAR) * self.clock_s + SLACK_S
        idle_s = (
            most_s - (1 - NEAR) * busy_s
        )  # in which nothing of its own ran: nobody is kept waiting for longer than that
        exactly = {
            "kernels": len(self.own.kernels), "processes": 1, "memory.peak_bytes": DRIVER_MIB[self.name] * MIB,
            "device.memory_bytes": self.device_bytes, "memory.refused": 0,
        }  # fmt: skip
        return {of: (value, value) for of, value in exactly.items()} | {
            "elapsed_s": (least_s, most_s),
            "gpu_time_s": ((1 - NEAR) * work_s, (1 + NEAR) * work_s),
            "alone_s": ((1 - NEAR) * work_s, most_s),
            "waited_s": (0, idle_s),
            "delayed_s": (0, (1 + NEAR) * self._beside_s + SLACK_S),
            "suspended_s": (0, 0), "host_s": (0, idle_s), "host.start_s": (0, idle_s), "host.late_s": (0, idle_s), "host.end_s": (0, idle_s),
            "host.unknown_s": (0, idle_s),
            "unexplained_s": (0, 0.05 * most_s),
        }  # fmt: skip

    @property
    def _beside_s(self) -> float:
        """For which it had work there and the other one's ran."""
        return seconds(both(self.own.there, self.other.ran))

    def _of_wait(self, of: str) -> tuple[float, float]:
        kind, _, key = of.split(".")
        if key == "count":
            return 1, len(self.own.kernels) * 2
        if kind == "delayed":
            return 0, (1 + NEAR) * self._beside_s + SLACK_S
        return 0, self._of_report()["waited_s"][1]

    def _of_profile(self, of: str, shown: dict[str, float]) -> tuple[float, float]:
        """Of its one kernel: as measured alone, and what later runs sampled of the same length. Launches that a busy machine's host came to
        late, and the first one, which loads the kernel, are timed doubtfully and left out."""
        if of == "runs":
            return 1, 2
        key = of.rsplit(".", maxsplit=1)[-1]
        lengths = [event["end_ns"] - event["start_ns"] for event in self.measured.kernels]
        mean_ns = sum(lengths) / len(lengths)
        if key == "total_ns":
            total = shown["profile:kernels.0.count"] * shown["profile:kernels.0.mean_ns"]
            return total * (1 - 1e-6), total * (1 + 1e-6)
        return {
            "count": (MEASURED / 2, MEASURED + LAUNCHES[self.name]), "mean_ns": ((1 - NEAR) * mean_ns, (1 + NEAR) * mean_ns),
            "p99_ns": (min(lengths) * (1 - NEAR), 2 * max(lengths)),
        }[key]  # fmt: skip

    def _check_timeline(self, page: str, partner: str) -> None:
        """Each lane is as long as the record says, and its share is of the same time as all others'."""
        rows = re.findall(r'</svg> (.*?): <data value="([^"]*)"[^>]*>[^<]*</data>, <data value="([^"]*)"', page)
        lanes = {re.sub(r" \(\w+\)$", "", name): float(time_s) for name, time_s, _ in rows}
        assert lanes.pop("kernels of this job") == pytest.approx(seconds(self.own.ran), rel=NEAR, abs=SLACK_S)
        beside = lanes.pop(f"kernels of job {partner}", 0.0)  # no lane: it had not begun, or was over
        assert beside == pytest.approx(seconds(self._while_there), rel=NEAR, abs=SLACK_S)
        bounds = self._of_report()
        for name, time_s in lanes.items():
            kind = re.match(
                r"(waited|delayed): (its own earlier work|job|kernels of job|another job|kernels of another job)", name
            )
            assert kind is not None, name
            assert 0 <= time_s <= bounds[f"{kind[1]}_s"][1], (name, time_s)
        shown_s = max(float(time_s) / float(share) for _, time_s, share in rows if float(share))
        assert all(float(share) == pytest.approx(float(time_s) / shown_s) for _, time_s, share in rows)
        assert seconds([self._window]) * (1 - NEAR) - SLACK_S <= shown_s <= self.clock_s + SLACK_S

    @property
    def _window(self) -> Span:
        return self.own.kernels[0]["start_ns"], max(event["end_ns"] for event in self.own.kernels)

    @property
    def _while_there(self) -> list[Span]:
        """When the other's kernels ran, from its own first launch to its last kernel's end: the timeline shows no more."""
        return both([self._window], self.other.ran)
