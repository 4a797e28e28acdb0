"""What the run asks of a GPU besides pairs of programs: costs of calls, times of short kernels, how processes share it. Each part returns what it found as JSON."""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gpu import mps, processes, stamps
from bench.gpu.place import Place
from bench.gpu.processes import Program
from bench.gpu.service import Service
from bench.gpu.stamps import Alone, Stamp
from bench.record import BenchError

Found = dict[str, Any]
US = 1000
SERIES_NOT_NS = ("kernel_ran_after_register",)
TIMED = "fikit_stamp"


@dataclass(frozen=True)
class Scale:
    """How thorough the run is."""

    samples: int = 4000  # of each call
    launches: int = 400  # of each kind of short kernel
    chain_ms: int = 1500
    programs: int | None = None  # of the conformance; None: all


QUICK = Scale(samples=128, launches=48, chain_ms=250, programs=3)


# --- costs


def costs(place: Place, scale: Scale, limit_s: float) -> Found:
    """ns per call of the driver that fikit makes beside a program's own, on an idle and on a busy stream."""
    said = json.loads(
        processes.run(
            "fikit-gpu-costs",
            [place.program("fikit-gpu-costs"), str(scale.samples)],
            place.env,
            place.directory,
            limit_s,
        )
    )
    found: Found = {key: value for key, value in said.items() if not isinstance(value, list)}
    for name, values in said.items():
        if name in SERIES_NOT_NS:
            found[name] = sum(values) / len(values)
        elif isinstance(values, list):
            found[f"{name}_ns"] = stamps.spread(values)
    return found


def launch(place: Place, scale: Scale, limit_s: float) -> Found:
    """ns per cuLaunchKernel, by the driver's own function and through the shim's open gate, in turns (`python -m bench launch`)."""
    service = Service(place)
    try:
        service.use("budget")
        program = [str(place.program("fikit-launch-bench")), str(max(8, scale.samples // 16)), "100", "1"]
        said = json.loads(
            processes.run(
                "fikit-launch-bench",
                service.managed(program, "--priority", "high"),
                service.env,
                place.directory,
                limit_s,
            )
        )
    finally:
        service.stop()
    direct, shim = said["direct_ns"], said["shim_ns"]
    added = [b - a for a, b in zip(direct, shim, strict=True)]
    return {"direct_ns": stamps.spread(direct), "shim_ns": stamps.spread(shim), "added_ns": stamps.spread(added)}


# --- short kernels


def timing(place: Place, scale: Scale, limit_s: float) -> Found:
    """What fikit measures of short kernels, against what the kernels themselves say."""
    service = Service(place)
    try:
        service.use("budget")
        program = [str(place.program("fikit-gpu-timing")), str(scale.launches)]
        command = service.managed(program, "--priority", "high", "--measure", "--profile", "timing")
        said = json.loads(processes.run("fikit-gpu-timing", command, service.env, place.directory, limit_s))
        service.wait_for_profile("timing")
        kernels = service.kernels("timing")
    finally:
        service.stop()
    measured = {
        tuple(kernel["grid"]): kernel for kernel in kernels if kernel["name"] == TIMED and not kernel["context"]
    }
    return {"cases": [_case(case, measured, said["in_line"]) for case in said["cases"]]}


def _case(case: Mapping[str, Any], measured: Mapping[tuple[int, ...], Mapping[str, Any]], in_line: int) -> Found:
    """One length on an idle or a busy stream: true and measured mean duration, and gap between kernels in line."""
    true = stamps.pairs(case["stamps"])
    kernel = measured.get((case["blocks"], 1, 1))
    found: Found = {
        "ns": case["ns"],
        "busy": case["busy"],
        "true_ns": statistics.mean(end - begin for begin, end in true),
    }
    if case["busy"]:
        gaps = [
            after[0] - before[1]
            for i, (before, after) in enumerate(itertools.pairwise(true))
            if i % in_line != in_line - 1
        ]
        found["true_gap_ns"] = statistics.median(gaps)
    if kernel is None:
        return {**found, "error": "fikit measured none of them"}
    duration = kernel["duration"]
    return {
        **found,
        "measured_ns": duration["mean_ns"],
        "measured_count": duration["count"],
        "ratio": duration["mean_ns"] / found["true_ns"],
    }


# --- how processes share the GPU

SHORT_NS, LONG_NS = 20 * US, 5000 * US
GAPS_US = (10, 20, 50, 100, 200, 500, 1000, 2000)
START_S = 60.0  # a context, the translation of the kernels, the clocks


@dataclass(frozen=True)
class Role:
    """One of two programs: `blocks` as stamps.c has them (1, 0: all that fit, -1: half of them)."""

    blocks: int = 1
    kernel_ns: int = SHORT_NS
    gaps: bool = False

    def command(self, place: Place, ms: int) -> list[str]:
        words = [str(place.program("fikit-gpu-stamps")), "gaps" if self.gaps else "chain"]
        words += [str(self.blocks), str(self.kernel_ns), str(ms)]
        return [*words, *(str(us * US) for us in GAPS_US)] if self.gaps else words


ONE, HALF, FULL, LONG = Role(), Role(blocks=-1), Role(blocks=0), Role(blocks=0, kernel_ns=LONG_NS)


def together(place: Place, ms: int, roles: Sequence[tuple[Role, Mapping[str, str]]]) -> list[Found]:
    """What each program printed; they begin together, when all are ready."""
    programs: list[Program] = []
    try:
        for number, (role, env) in enumerate(roles):
            programs.append(Program(f"stamps-{number}", role.command(place, ms), env, place.directory))
        deadline = time.monotonic() + START_S
        for program in programs:
            while program.line(deadline) != "ready":
                pass
        for program in programs:
            program.write("go")
        deadline = time.monotonic() + ms / 1000 + 20
        return [dict(json.loads(program.line(deadline))) for program in programs]
    finally:
        for program in programs:
            program.finish(time.monotonic() + 5 if program.process.poll() is None else time.monotonic())


class Sharing:
    """Experiments with two programs; each costs its own figures only."""

    def __init__(self, place: Place, scale: Scale, env: Mapping[str, str], found: Found) -> None:
        self.place, self.scale, self.env, self.found = place, scale, env, found
        self.usual: dict[Role, Alone] = {}

    def alone(self, role: Role) -> Alone:
        """What is usual of a role's kernels: of a chain of them alone."""
        chain = Role(role.blocks, role.kernel_ns)
        if chain not in self.usual:
            ms = max(self.scale.chain_ms // 3, 10 * chain.kernel_ns // 1_000_000)
            (said,) = together(self.place, ms, [(chain, self.env)])
            self.usual[chain] = stamps.alone(stamps.pairs(said["stamps"]))
            usual = self.usual[chain]
            self.found.setdefault("alone", []).append(
                {"blocks": chain.blocks, "kernel_ns": usual.kernel_ns, "gap_ns": usual.gap_ns, "tick_ns": usual.tick_ns}
            )
        return self.usual[chain]

    def pair(self, a: Role, b: Role, env_b: Mapping[str, str] | None = None) -> tuple[list[Found], list[list[Stamp]]]:
        said = together(self.place, self.scale.chain_ms, [(a, self.env), (b, self.env if env_b is None else env_b)])
        return said, [stamps.pairs(one["stamps"]) for one in said]

    def chains(self, name: str, a: Role, b: Role) -> None:
        with self._experiment(name):
            usual = self.alone(a), self.alone(b)
            _, (of_a, of_b) = self.pair(a, b)
            self.found[name] = {**stamps.chains(of_a, of_b, *usual), "sample": _sample(of_a, of_b)}

    def beside_long(self, name: str) -> None:
        with self._experiment(name):
            usual = self.alone(ONE), self.alone(LONG)
            _, (of_short, of_long) = self.pair(ONE, LONG)
            self.found[name] = {**stamps.long_kernels(of_short, of_long, *usual), "sample": _sample(of_short, of_long)}

    def latency(self, name: str, blocks: int) -> None:
        """Of one kernel at a time, alone."""
        with self._experiment(name):
            (said,) = together(self.place, self.scale.chain_ms, [(Role(blocks, gaps=True), self.env)])
            self.found[name] = {"took_ns": stamps.latencies(said["took_ns"], said["gap_ns"])}

    def gaps(self, name: str, blocks: int, chain: Role, env_chain: Mapping[str, str] | None = None) -> None:
        with self._experiment(name):
            role = Role(blocks, gaps=True)
            usual = self.alone(role), self.alone(chain)
            said, (of_role, of_chain) = self.pair(role, chain, env_chain)
            slice_ns = ((self.found.get("chains") or {}).get("slice_ns") or {}).get("p50")
            self.found[name] = {
                "took_ns": stamps.latencies(said[0]["took_ns"], said[0]["gap_ns"]),
                **stamps.gaps(of_role, of_chain, *usual, slice_ns),
                "sample": _sample(of_role, of_chain),
            }

    def _experiment(self, name: str) -> Experiment:
        return Experiment(self.found, name)


class Experiment:
    """What fails inside is its own error."""

    def __init__(self, found: Found, name: str) -> None:
        self._found, self._name = found, name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, BenchError | ValueError | KeyError | OSError):
            self._found[self._name] = {"error": str(error)}
            return True
        return False


def _sample(*sides: Sequence[Stamp]) -> list[list[int]]:
    """Some of the stamps, for whoever doubts the figures: ns since the first, begin and end in turns."""
    first = min((side[0][0] for side in sides if side), default=0)
    middle = [side[len(side) // 2 : len(side) // 2 + 200] for side in sides]
    return [[moment - first for stamp in side for moment in stamp] for side in middle]


def slices(place: Place, scale: Scale) -> Found:
    """Two programs with contexts of their own: slice, switch, whether an idle one yields, overlap."""
    found: Found = {}
    sharing = Sharing(place, scale, place.env, found)
    sharing.chains("chains", ONE, ONE)
    sharing.beside_long("beside_long")
    sharing.gaps("gaps", 1, ONE)
    sharing.chains("chains_full", FULL, FULL)
    sharing.latency("latency_alone", 1)
    sharing.gaps("gaps_beside_long", 1, LONG)
    return found


def by_mps(place: Place, scale: Scale, library: str) -> Found:
    """The same by MPS: overlap, slowdown, and what a client priority does for the other's latency."""
    found: Found = {}
    with mps.server(place, library) as env:
        sharing = Sharing(place, scale, env, found)
        sharing.chains("chains", ONE, ONE)
        sharing.chains("chains_half", HALF, HALF)
        sharing.chains("chains_full", FULL, FULL)
        sharing.latency("latency_alone", -1)
        sharing.gaps("gaps_beside_full", -1, FULL)
        sharing.gaps("gaps_beside_full_below", -1, FULL, {**env, **mps.BELOW_NORMAL})
    return found


def library_path(library: str) -> str:
    """The driver's file by its name libcuda.so.1, which programs are linked to."""
    beside = Path(library).with_name("libcuda.so.1")
    return str(beside if beside.exists() else library)
