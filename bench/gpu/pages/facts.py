"""How a GPU shares its time and what its driver's calls cost, as docs/measured.md has it: the table's rows, and the picture of the turns.

Pure: what a run found in, rows or text out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from bench.gpu import stamps
from bench.gpu.pages.block import Row
from bench.gpu.pages.runs import Run

Found = Mapping[str, Any]
HEAD = ("what", "p50 (p10 to p90)", "in the file")
WIDTH, LEFT, RIGHT, HIGH, LANE = 860, 120, 20, 108, 18
COLOURS = ("#2f6fb0", "#c8871a")
PANELS = (
    ("slices", "chains", "Time slices: two programs, each with kernels of 20 us in line", 9_000_000),
    ("slices", "gaps", "Time slices: one program launches a kernel of 20 us and waits, again and again; the other one has kernels in line", 5_000_000),
    ("mps", "chains", "MPS: two programs with kernels of one block, 20 us each", 400_000),
    ("mps", "chains_full", "MPS: two programs whose kernels fill the GPU, 20 us each", 400_000),
)  # fmt: skip


def rows(parts: Found) -> Iterator[Row]:
    """A row for each figure that the run found."""
    for number, (what, name, value) in enumerate(_rows(parts)):
        if value:
            yield (number,), (what, value, f"`{name}`")


def _rows(parts: Found) -> Iterable[tuple[str, str, str]]:
    def spread(name: str, unit: str) -> str:
        return _spread(_at(parts, name), unit)

    turn, switch = "Time slices: a turn that another process ends", "Time slices: a switch"
    for what, name, unit in (
        (f"{turn}; kernels of one block", "slices.chains.slice_ns", "ms"),
        (f"{turn}; kernels that fill the GPU", "slices.chains_full.slice_ns", "ms"),
        (f"{switch} between kernels of one block", "slices.chains.switch_ns", "us"),
        (f"{switch} between kernels that fill the GPU", "slices.chains_full.switch_ns", "us"),
        (f"{switch} beside kernels of several ms", "slices.beside_long.switch_ns", "us"),
        ("Time slices: from the end of a lone kernel to the other process's next", "slices.gaps.leave_ns", "us"),
        ("A lone kernel of 20 us, from the call to the end of the wait, nobody beside it", "slices.latency_alone.took_ns.all", "us"),
        ("The same, time slices, beside a program with kernels in line", "slices.gaps.took_ns.all", "us"),
        ("The same, MPS, beside a program whose kernels fill the GPU", "mps.gaps_beside_full.took_ns.all", "us"),
        ("The same, MPS, that program below normal priority; its kernels have one wave of blocks, so no boundary between blocks for a priority to count at", "mps.gaps_beside_full_below.took_ns.all", "us"),
    ):  # fmt: skip
        yield what, name, spread(name, unit)
    for what, name in (
        (
            "Time slices: how much two chains overlap (1: as if alone, 0: never at the same time)",
            "slices.chains.overlap",
        ),
        ("MPS: the same, kernels of one block", "mps.chains.overlap"),
        ("MPS: the same, kernels that fill the GPU", "mps.chains_full.overlap"),
        ("MPS: kernels that fill half the GPU, beside the other's, times as long", "mps.chains_half.slowdown"),
    ):
        yield what, name, _number(_at(parts, name))
    for what, name, unit in (
        ("MPS: between two kernels that fill the GPU", "mps.chains_full.switch_ns", "us"),
        ("Between two kernels of one program in line", "slices.alone", "us"),
        ("`cuLaunchKernel`", "costs.launch_ns", "us"),
        ("`cuLaunchKernel` of an empty kernel and the wait for it", "costs.launch_and_wait_ns", "us"),
        ("`cuEventRecord`, without timing", "costs.event_record_ns", "us"),
        ("`cuEventRecord`, with timing", "costs.timed_event_record_ns", "us"),
        ("`cuStreamWriteValue32`", "costs.write_value_ns", "us"),
        ("Two timed events around an empty kernel, idle stream: the time between them", "costs.event_pair_idle_ns", "us"),
        ("The same, busy stream", "costs.event_pair_busy_ns", "us"),
        ("`cuMemHostRegister` of a page while a kernel of 20 ms runs", "costs.register_beside_kernel_ns", "us"),
        ("`cuMemHostUnregister`, the same", "costs.unregister_beside_kernel_ns", "us"),
    ):  # fmt: skip
        yield what, name, _gap(_at(parts, name)) if name == "slices.alone" else spread(name, unit)
    for what, name, unit in (
        ("Copy to the GPU, 64 MiB of pinned memory", "memory.copy_in_gbps", "GB/s"),
        ("Copy from the GPU", "memory.copy_out_gbps", "GB/s"),
        ("Prefetch of managed memory to the GPU", "memory.prefetch_in_gbps", "GB/s"),
        ("Prefetch to the host (the call itself takes that long)", "memory.prefetch_out_gbps", "GB/s"),
        ("Page faults per 2 MiB of which each page is touched, beyond a prefetch", "memory.fault_ns_per_chunk", "us"),
        ("A kernel on managed memory that is there, against plain memory: times as long", "memory.managed_over_plain", ""),
    ):  # fmt: skip
        value = _at(parts, name)
        yield (
            what,
            name,
            "" if value is None else f"{value / 1000:.0f} us" if unit == "us" else f"{_number(value)} {unit}".rstrip(),
        )
    found = parts.get("conformance") or {}
    if "programs" in found:
        yield (
            "Programs of `tests/conformance` with the results that we expect of a driver",
            "conformance",
            f"{found['as_expected']} of {found['programs']}",
        )


def _at(found: Any, name: str) -> Any:
    for key in name.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _spread(value: Any, unit: str) -> str:
    if value is None:
        return ""
    of_ns, digits = {"us": (1e3, 1), "ms": (1e6, 3)}[unit]
    if not isinstance(value, Mapping):
        return f"{value / of_ns:.{digits}f} {unit}"
    p50, p10, p90 = (f"{value[key] / of_ns:,.{2 if value['p50'] < 1e4 else digits}f}" for key in ("p50", "p10", "p90"))
    return f"{p50} {unit} ({p10} to {p90})"


def _gap(alone: Any) -> str:
    usual = [one for one in alone or [] if one["blocks"] == 1]
    return f"{usual[0]['gap_ns'] / 1000:.2f} us" if usual else ""


def _number(value: Any) -> str:
    if value is None:
        return ""
    return (
        ", ".join(map(_number, value))
        if isinstance(value, list)
        else f"{value:.3g}"
        if value >= 10
        else f"{value:.3f}".rstrip("0").rstrip(".")
    )


def turns(runs: Sequence[Run]) -> str:
    """SVG: which program had the GPU, by the kernels' own stamps, of the newest run that keeps them. Empty where no run does."""
    kept = [
        run for run in runs if any("sample" in (_at(run.parts, f"{part}.{name}") or {}) for part, name, *_ in PANELS)
    ]
    return _turns(kept[0].document) if kept else ""


def _turns(document: Found) -> str:
    device = document["settings"]["device"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {40 + HIGH * len(PANELS)}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{40 + HIGH * len(PANELS)}" fill="#ffffff"/>',
        f'<text x="{WIDTH / 2}" y="22" text-anchor="middle" font-size="15">Measured on an {escape(device)}: when kernels of two programs ran</text>',
    ]
    for number, (part, experiment, title, span_ns) in enumerate(PANELS):
        found = (document["parts"].get(part) or {}).get(experiment) or {}
        if "sample" in found:
            usual = next(one for one in document["parts"][part]["alone"] if one["blocks"] == 1)
            parts += _panel(40 + HIGH * number, title, span_ns, found["sample"], stamps.Alone(**_but(usual, "blocks")))
    return "\n".join([*parts, "</svg>", ""])


def _but(found: Found, name: str) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key != name}


def _panel(top: int, title: str, span_ns: int, sample: list[list[int]], usual: stamps.Alone) -> list[str]:
    """Begins when both programs are there."""
    lanes = [stamps.pairs(flat) for flat in sample]
    begin_ns = max(lane[0][0] for lane in lanes)
    scale = (WIDTH - LEFT - RIGHT) / span_ns
    unit, of_ns = ("ms", 1e6) if span_ns >= 1_000_000 else ("us", 1e3)
    drawn = [f'<text x="{LEFT}" y="{top + 14}">{escape(title)}</text>']
    for step in range(6):
        x, at_ns = LEFT + step * (WIDTH - LEFT - RIGHT) / 5, step * span_ns / 5
        drawn.append(f'<line x1="{x:.1f}" y1="{top + 22}" x2="{x:.1f}" y2="{top + 72}" stroke="#dddddd"/>')
        drawn.append(
            f'<text x="{x:.1f}" y="{top + 86}" text-anchor="middle" font-size="11">{at_ns / of_ns:g} {unit if step == 5 else ""}</text>'
        )
    for number, (lane, colour) in enumerate(zip(lanes, COLOURS, strict=True)):
        y = top + 26 + number * (LANE + 6)
        drawn.append(f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">program {"AB"[number]}</text>')
        had = [(turn.begin_ns, turn.end_ns) for turn in stamps.turns(lane, usual)] if span_ns >= 1_000_000 else lane
        for start_ns, end_ns in had:
            first, last = max(0.0, start_ns - begin_ns), min(float(span_ns), end_ns - begin_ns)
            if last > first:
                drawn.append(
                    f'<rect x="{LEFT + first * scale:.1f}" y="{y}" width="{max(1.0, (last - first) * scale):.1f}" height="{LANE}" fill="{colour}"/>'
                )
    return drawn
