"""What the bench asks of a GPU. Each part returns what it found as JSON; one that cannot run says why and hinders no other."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import launch
from bench.gpu.programs import Managed, Outcome, Site, run, site
from bench.record import ROOT, BenchError

Found = dict[str, Any]
ROUNDS = 2  # of each comparison, A and B in turns


@dataclass(frozen=True)
class Setting:
    """Where the parts run, and how long each measured piece of work is."""

    directory: Path
    emulated: bool
    seconds: float
    workloads: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]  # (high, low)
    policies: tuple[str, ...]


def conformance(setting: Setting) -> Found:
    """The driver's semantics (tests/conformance) and the tests that need hardware (tests/gpu)."""
    folders = [
        str(path.relative_to(ROOT)) for path in (ROOT / "tests/conformance", ROOT / "tests/gpu") if path.is_dir()
    ]
    marker = "not gpu" if setting.emulated else "gpu"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-o",
        "addopts=--strict-markers",
        "-q",
        "-m",
        marker,
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run([*command, *folders], cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()]
    counts = {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|skipped|error)", lines[-1])}
    failures = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return {**counts, "failures": failures, "last_line": lines[-1]}


def launch_cost(setting: Setting) -> Found:
    """What the shim adds to a launch through an open gate."""
    result = launch.run(emulated=setting.emulated)
    return {"summary": result.summary, **result.values}


def coverage(setting: Setting) -> Found:
    """Does fikit see every launch? Its count beside the count of PyTorch's profiler, where the program is PyTorch's."""
    found: Found = {}
    with site(setting.directory, setting.emulated) as place:
        for name in setting.workloads:
            count = [] if setting.emulated or name in ("cupy", "jax", "tinygrad") else ["--count"]
            try:
                seen = run(place, name, Managed(), "--seconds", "0.5", *count)
            except BenchError as error:
                found[name] = {"error": str(error)}
                continue
            assert seen.report is not None
            found[name] = {
                "fikit": seen.report["kernels"],
                "profiler": seen.launches,
                "requests": len(seen.requests_ns),
            }
    return found


def overhead(setting: Setting) -> Found:
    """Request time under fikit, nobody else there, against the bare program's: as usual, and while measuring."""
    variants = {"bare": None, "managed": Managed("high"), "measured": Managed("high", measure=True)}
    found: Found = {}
    with site(setting.directory, setting.emulated) as place:
        for name in dict.fromkeys(high for high, _ in setting.pairs):
            medians: dict[str, list[float]] = {variant: [] for variant in variants}
            for _ in range(ROUNDS):
                for variant, managed in variants.items():
                    outcome = run(place, name, managed, "--seconds", str(setting.seconds))
                    medians[variant].append(statistics.median(outcome.requests_ns))
            bare = statistics.median(medians["bare"])
            ratios = {f"{v}_ratio": statistics.median(medians[v]) / bare for v in ("managed", "measured")}
            found[name] = {**ratios, "request_median_ns": medians}
    return found


def pairs(setting: Setting) -> Found:
    """High and low together: default sharing and each policy, against the high program alone."""
    found: Found = {}
    for high, low in setting.pairs:
        try:
            found[f"{high}+{low}"] = _pair(setting, high, low)
        except BenchError as error:
            found[f"{high}+{low}"] = {"error": str(error)}
    return found


@dataclass(frozen=True)
class _Alone:
    """A program without company: its bare run, and the share of it in which its kernels keep the device busy."""

    name: str
    bare: Outcome
    busy: float | None


def _pair(setting: Setting, high: str, low: str) -> Found:
    seconds = ("--seconds", str(setting.seconds))
    with site(setting.directory, setting.emulated) as place:
        alone = []
        for name in (high, low):
            run(place, name, Managed("high", measure=True), *seconds)
            busy = _busy(run(place, name, Managed("high"), *seconds))
            alone.append(_Alone(name, run(place, name, None, *seconds), busy))
        found: Found = {"high_busy": alone[0].busy, "default": _shared(place, setting, *alone, managed=False)}
    for policy in setting.policies:
        with site(setting.directory, setting.emulated, policy=policy) as place:
            found[policy] = _shared(place, setting, *alone, managed=True)
    return found


def _busy(outcome: Outcome) -> float | None:
    """Share of the run in which the program's own kernels keep the device busy, as its profile says."""
    report = outcome.report
    if report is None or report["gpu_time_s"] is None or not report["span_s"]:
        return None
    return float(min(1.0, report["gpu_time_s"] / report["span_s"]))


def _shared(place: Site, setting: Setting, high: _Alone, low: _Alone, *, managed: bool) -> Found:
    """One run of both. Harvest: device time of the low program / device time that the high one leaves idle when alone."""
    lower = place.start(low.name, Managed("low") if managed else None, "--until-told")
    higher = place.start(high.name, Managed("high") if managed else None, "--seconds", str(setting.seconds))
    try:
        for program in (lower, higher):
            program.wait_ready()
        for program in (lower, higher):
            program.go()
        with_low = higher.finish()
        beside = lower.finish()
    except BaseException:
        for program in (lower, higher):
            program.kill()
        raise
    took, solo = sorted(with_low.requests_ns), sorted(high.bare.requests_ns)
    speed = len(beside.requests_ns) / beside.span_ns * low.bare.span_ns / len(low.bare.requests_ns)
    found: Found = {f"high_p{q}_ratio": _quantile(took, q) / _quantile(solo, q) for q in (50, 99)}
    found |= {"high_mean_ratio": statistics.mean(took) / statistics.mean(solo), "low_speed": speed}
    if high.busy is not None and low.busy is not None and high.busy < 1:
        found["harvest"] = speed * low.busy / (1 - high.busy)
    return found


def _quantile(ordered: list[int], percent: int) -> float:
    return float(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)])


# In this order: what nobody can tell without hardware comes first, in case time runs out.
PARTS: dict[str, Callable[[Setting], Found]] = {
    part.__name__: part for part in (conformance, launch_cost, coverage, pairs, overhead)
}


def run_all(setting: Setting, chosen: list[str]) -> Iterator[tuple[str, Found]]:
    """Each part's name and what it found, as soon as it is known."""
    for name in chosen:
        try:
            yield name, PARTS[name](setting)
        except (BenchError, OSError, subprocess.SubprocessError) as error:
            yield name, {"error": str(error)}
