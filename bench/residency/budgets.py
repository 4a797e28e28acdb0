"""Case B: networks with less memory than they touch, by the product's plan, by vDNN's and Capuchin's rules, by faults, and by an oracle. Simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from fikitd.gpus.residency import Link as PlanLink
from fikitd.gpus.residency import least_bytes, peak_bytes, plan

from bench.residency import times
from bench.residency.machine import Link, Machine, Outcome
from bench.residency.networks import NETWORKS, Step
from bench.residency.placed import CHUNK, Program, cached, known_lifetimes
from bench.residency.rules import NoRule, Oracle, Transfers, capuchin, fewest_bytes, vdnn

MANNERS: Final[dict[str, Callable[[Step, list[int]], Program]]] = {"known lifetimes": known_lifetimes, "cached": cached}
PUBLISHED: Final = {
    "VGG16": (0.326, 0.263), "InceptionV3": (0.590, 0.296), "InceptionV4": (0.647, 0.159), "ResNet50": (0.671, 0.609), "DenseNet121": (0.760, 0.164),
}  # fmt: skip
"""TENSILE's (MSR, EOR) of one job, batch 16, on an A6000: GIS-PuppetMaster/tinyflow, commit 8aa68d4."""
PUBLISHED_COPIES: Final = {1: (0.32, 0.42), 2: (0.30, 0.30), 3: (0.29, 0.27)}
"""The same, batch 2, mean over the networks, so many copies at once."""
SHARES: Final = (0.9, 0.8, 0.7, 0.6, 0.5)
MSR, EOR = 0.30, 0.10
ASSUMED: Final = Link()
ITERATIONS: Final = 5


@dataclass
class Case:
    """A program, its peak without any transfer in chunks, and what the link does."""

    program: Program
    link: Link

    def __post_init__(self) -> None:
        sequence = self.program.sequence()
        self.peak = peak_bytes(sequence, CHUNK) // CHUNK
        self.least = least_bytes(sequence, CHUNK) // CHUNK

    @property
    def free_bound(self) -> float:
        """MSR for which the link's time in an iteration is enough: each byte out and in."""
        return self.program.total_ns / self.link.round_trip_ns / self.peak

    def planned(self, capacity: int) -> tuple[Outcome, Any]:
        found = plan(
            self.program.sequence(),
            PlanLink(self.link.in_bytes_per_s, self.link.out_bytes_per_s),
            CHUNK,
            capacity * CHUNK,
        )
        transfers = Transfers((each.kernel, each.delay_ns, each.chunk, each.inward) for each in found.transfers)
        return Machine(self.program, capacity, self.link, transfers).run(ITERATIONS), found

    def by(self, rule: Any, capacity: int | None = None) -> Outcome:
        """capacity None: all that the rule leaves."""
        return Machine(self.program, capacity or self.peak + 1, self.link, rule).run(ITERATIONS)

    def figures(self, outcome: Outcome) -> tuple[float, float]:
        """MSR, EOR."""
        return 1 - outcome.peak / self.peak, outcome.total_ns / self.program.total_ns - 1

    def most_saved(self) -> float:
        """The largest MSR, in steps of .01, with an EOR within the bar."""
        low, high = 0, 99  # per cent; the first is kept
        while high - low > 1:
            middle = (low + high) // 2
            capacity = int(self.peak * (1 - middle / 100))
            kept = capacity >= self.least and self.figures(self.planned(capacity)[0])[1] <= EOR
            low, high = (middle, high) if kept else (low, middle)
        return low / 100


def row(
    case: str, figure: str, value: float, bar: float | None = None, *, at_least: bool = False, note: str = ""
) -> dict[str, Any]:
    holds = None if bar is None else value >= bar if at_least else value <= bar
    return {
        "case": case,
        "figure": figure,
        "value": round(value, 4),
        "bar": bar,
        "at_least": at_least,
        "holds": holds,
        "note": note,
    }


def case_of(name: str, batch: int, manner: str, rates: times.Rates, copies: int = 1, *, link: Link = ASSUMED) -> Case:
    """copies: programs at once, each with its share of device and link."""
    step = NETWORKS[name](batch)
    durations = [copies * each for each in times.durations_ns(step, rates)]
    return Case(MANNERS[manner](step, durations), link.times(1 / copies))


def rows(rates: times.Rates, link: Link = ASSUMED) -> Iterator[dict[str, Any]]:
    bytes_to_oracle, time_to_oracle, bytes_to_fewest = [], [], []
    for name in NETWORKS:
        for manner in MANNERS:
            case = case_of(name, 16, manner, rates, link=link)
            label = f"B: {name}, {manner}"
            within = case.free_bound >= MSR
            outcome = case.planned(int(case.peak * (1 - MSR)))[0]
            free = f"free bound {case.free_bound:.2f}"
            yield row(label, f"EOR at MSR {MSR:.2f}", case.figures(outcome)[1], EOR if within else None, note=free)
            saved = case.most_saved()
            msr, eor = PUBLISHED[name]
            yield row(
                label, f"MSR at EOR {EOR:.2f}", saved, note=f"TENSILE on an A6000: MSR {msr:.2f} at EOR {eor:.2f}"
            )
            yield row(label, "missed bytes of those touched", outcome.missed_bytes / _touched(case.program), 0.05)
            if manner == "cached":
                yield from _were_it_known(name, case, rates, label)
            else:
                for rule, found in (("vDNN", case.by(vdnn(case.program))), ("Capuchin", case.by(capuchin(case.program, int(case.peak * (1 - MSR)), case.link.round_trip_ns // 2)))):  # fmt: skip
                    msr, eor = case.figures(found)
                    cost = case.figures(case.planned(int(case.peak * (1 - msr)))[0])[1]
                    yield row(
                        label,
                        f"EOR at {rule}'s MSR",
                        cost,
                        round(eor, 4),
                        note=f"{rule}: MSR {msr:.2f} at EOR {eor:.2f}",
                    )
            for share in SHARES:
                capacity = int(case.peak * share)
                if capacity < case.least:
                    continue
                mine, best = case.planned(capacity)[0], case.by(Oracle(case.program), capacity)
                bytes_to_oracle.append(mine.moved_bytes / best.moved_bytes)
                time_to_oracle.append(mine.total_ns / best.total_ns)
                bytes_to_fewest.append(mine.moved_bytes / fewest_bytes(case.program, capacity))
            faults = case.by(NoRule(), int(case.peak * (1 - MSR)))
            yield row(label, f"faults alone: EOR at MSR {MSR:.2f}", case.figures(faults)[1])
    yield row(
        "B: all", "bytes moved / oracle, median", median(bytes_to_oracle), 1.1, note=f"most {max(bytes_to_oracle):.2f}"
    )
    yield row("B: all", "time / oracle, median", median(time_to_oracle), 1.1, note=f"most {max(time_to_oracle):.2f}")
    yield row("B: all", "bytes moved / Belady's least, median", median(bytes_to_fewest), note=f"most {max(bytes_to_fewest):.2f}")  # fmt: skip
    for copies, (msr, eor) in PUBLISHED_COPIES.items():
        cases = [case_of(name, 2, "known lifetimes", rates, copies, link=link) for name in NETWORKS]
        saved = sum(case.most_saved() for case in cases) / len(cases)
        yield row(f"B: {copies} at once, batch 2", f"MSR at EOR {EOR:.2f}, mean", saved, note=f"TENSILE on an A6000: MSR {msr:.2f} at EOR {eor:.2f}")  # fmt: skip


def _were_it_known(name: str, case: Case, rates: times.Rates, label: str) -> Iterator[dict[str, Any]]:
    """What a memory cache hides: the same addresses and the same budget, were it known which chunks hold nothing that is needed."""
    step = NETWORKS[name](16)
    program = cached(step, times.durations_ns(step, rates), dead=True)
    found = Case(program, case.link).planned(int(case.peak * (1 - MSR)))[0]
    hidden = case.planned(int(case.peak * (1 - MSR)))[0]
    moved = f"{found.moved_bytes / 2**30:.2f} GiB moved, else {hidden.moved_bytes / 2**30:.2f}"
    yield row(label, "EOR at MSR 0.30, were dead memory known", found.total_ns / program.total_ns - 1, note=moved)
    copied = sum(tensor.bytes for kernel in step.kernels if not kernel.reads for tensor in kernel.writes)
    yield row(label, "share of the memory that the host's copy is first to write", copied / (case.peak * CHUNK))


def _touched(program: Program) -> int:
    return sum(len(use.touched) for use in program.uses) * CHUNK
