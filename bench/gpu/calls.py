"""The kit's parts by name, and the parts of each call in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.gpu import questions, second
from bench.gpu.context import Context, Found, Part
from bench.gpu.earlier import conformance, frameworks, memory, parts, plans
from bench.gpu.sharing import pairs
from bench.record import BenchError


def _scale(context: Context) -> parts.Scale:
    return parts.QUICK if context.options.quick else parts.Scale()


def _slices(context: Context) -> Found:
    if context.exclusive:
        raise BenchError(f"the GPU's compute mode is {context.gpu['compute_mode']}: one process has it at a time")
    return parts.slices(context.place, _scale(context))


def _memory(context: Context) -> Found:
    return memory.memory(context.place, context.options.quick, context.options.evict, context.left())


def _plans(context: Context) -> Found:
    options = context.options
    names = [plans.BARE, *(["deep"] if options.with_torch() else [])]
    return plans.plans(context.place, options.device, names, min(2.0, options.seconds), context.deadline - 5)


PARTS: dict[str, Part] = {
    "questions": Part(questions.questions, 20),
    "pairs": Part(pairs.measure_pairs),
    **second.PARTS,
    # the parts of the first GPU minutes, by --parts only
    "costs": Part(lambda c: parts.costs(c.place, _scale(c), c.left()), 45),
    "launch": Part(lambda c: parts.launch(c.place, _scale(c), c.left()), 45),
    "timing": Part(lambda c: parts.timing(c.place, _scale(c), c.left()), 45),
    "slices": Part(_slices),
    "mps": Part(lambda c: parts.by_mps(c.place, _scale(c), c.library)),
    "memory": Part(_memory, 45),
    "conformance": Part(lambda c: conformance.conformance(c.place, _scale(c).programs, c.library, c.left()), 60),
    "plans": Part(_plans),
    "frameworks": Part(lambda c: dict(frameworks.frameworks(c.place, c.deadline))),
}


@dataclass(frozen=True)
class Call:
    """One run of the kit: its parts, and how long it may take with the build."""

    parts: tuple[str, ...]
    minutes: float


CALLS = {1: Call(("questions", "pairs"), 9.5), 2: Call(tuple(second.PARTS), 2.5)}


def chosen(call: int, names: list[str] | None) -> Iterator[tuple[str, Part]]:
    """The parts of a call, or those named, in the registry's order."""
    wanted = CALLS[call].parts if names is None else names
    return ((name, part) for name, part in PARTS.items() if name in wanted)
