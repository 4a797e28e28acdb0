"""Which of a program's runs say what a new run will do: those with its arguments, and, of kernels that these do not know, those of
the runs that are most like it.

A kernel is its name, module, grid, block and shared memory, so what is borrowed is of the very same kernel; only its data may differ,
and a borrowed time is trusted less until the run itself has timed the kernel (fikitd/core/tracking).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from fikitd._core import identify
from fikitd.profiles import profile_format
from fikitd.profiles.profile_format import Kernel, Profile
from fikitd.profiles.profile_key import Program, variant_of


@dataclass(frozen=True)
class Match:
    """What is known of a program.

    `profile`: None where nothing is. `stood_in`: the command of the run that most was borrowed from, empty where nothing was.
    `choices`: kinds of other runs, by arguments and role, that there were to borrow from.
    """

    profile: Profile | None
    stood_in: list[str]
    choices: int


def match(runs: Iterable[Profile], program: Program, seen: Collection[int] = ()) -> Match:
    """The runs of a program as one profile, for a process that runs `program` and has launched the kernels `seen` (identities).

    Runs that know more of the kernels seen go before, then those of the same role, then those with more arguments in common, then
    newer ones.
    """
    kinds: dict[str, list[Profile]] = {}
    for run in runs:
        kinds.setdefault(variant_of(run["command"], run["role"]), []).append(run)
    own = profile_format.merge(kinds.pop(program.variant, []))
    others = [merged for kind in kinds.values() if (merged := profile_format.merge(kind)) is not None]
    others.sort(key=lambda other: _likeness(other, program, frozenset(seen)), reverse=True)
    lent: Counter[int] = Counter()
    kernels: list[Kernel] = list(own["kernels"]) if own else []
    known = {_shape(kernel) for kernel in kernels if _timed_alone(kernel)}
    for number, other in enumerate(others):
        new = [kernel for kernel in other["kernels"] if not kernel.get("beside") and _shape(kernel) not in known]
        kernels += [{**kernel, "borrowed": True} for kernel in new]
        shapes = {_shape(kernel) for kernel in new if _timed_alone(kernel)}
        known |= shapes
        lent[number] = len(shapes)
    profile = own or (others[0] if others else None)
    if profile is None:
        return Match(None, [], 0)
    rhythm = next((each["rhythm"] for each in (*([own] if own else []), *others) if each["rhythm"]), None)
    most = max(lent, key=lambda number: (lent[number], -number), default=None)
    stood_in = others[most]["command"] if most is not None and lent[most] else []
    return Match({**profile, "kernels": kernels, "rhythm": rhythm}, stood_in, len(others))


def _likeness(other: Profile, program: Program, seen: frozenset[int]) -> tuple[float | str, ...]:
    known = sum(identity in seen for identity in {_identity(kernel) for kernel in other["kernels"]}) if seen else 0
    return known, other["role"] == program.role, _in_common(other["command"], program.command), other["created"]


def _in_common(one: Sequence[str], other: Sequence[str]) -> float:
    """Which part of the arguments of two commands is the same, in whatever order."""
    a, b = Counter(one[1:]), Counter(other[1:])
    return 2 * (a & b).total() / max(a.total() + b.total(), 1)


def _shape(kernel: Kernel) -> tuple[object, ...]:
    return (kernel["name"], kernel["module"], *kernel["grid"], *kernel["block"], kernel["shared_bytes"], kernel["kind"])


def _identity(kernel: Kernel) -> int:
    return identify(kernel["name"], int(kernel["module"], 16), kernel["grid"], kernel["block"], kernel["shared_bytes"])


def _timed_alone(kernel: Kernel) -> bool:
    return not kernel.get("beside") and kernel["duration"]["count"] > 0
