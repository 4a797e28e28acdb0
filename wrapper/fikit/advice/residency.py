"""Jobs whose memory does not fit on a GPU at once: would they fit by what runs needed, in turns, or with a budget, and what would that cost? Pure.

What it would cost is reckoned by the rules of fikitd.gpus.residency (docs/design/residency.md). Turns, and plans of a budget, are for jobs that ask for --fikit-mem-host, where the site allows it: this says what moving would be like.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fikitd.gpus.placement import shards_for
from fikitd.gpus.residency import EpochRules, Link, Tenant, next_epoch

from fikit.advice.facts import Gpu, Neighbour
from fikit.advice.situation import Situation, asked_priority, typed
from fikit.api.advice import Advice
from fikit.wording.units import duration, share

GIB: Final = 2**30
ASSUMED: Final = Link()
LINK_BYTES_PER_S: Final = ASSUMED.in_bytes_per_s
"""Assumed: what a PCIe 4 link of 16 lanes carries in one direction. fikitd goes by what the node's own has shown, which it tells on the node alone."""
LEAST_BUDGET: Final = 0.7
"""Of what a job needs: with so much, four of five networks took at most a tenth longer, simulated and with known lifetimes (docs/design/residency.md)."""
MOST_NAMED: Final = 4
HOW: Final = ("together", "turns", "budget")
"""The better first."""


@dataclass(frozen=True)
class Arrangement:
    """how: of HOW. moved_bytes, moved_s: in a change of turns on the mean, while others wait for it, or at least in an iteration with a budget; out and in. share: of the time that
    changes of turns take. budget_bytes: what the first job has on the GPU while it runs."""

    how: str
    moved_bytes: int = 0
    moved_s: float = 0.0
    share: float | None = None
    budget_bytes: int | None = None

    def cost(self) -> str:
        """As the end of a sentence, empty where nothing moves."""
        takes = f"{duration(self.moved_s)} at {LINK_BYTES_PER_S / 1e9:.0f} GB/s (assumed)"
        moved = f"{self.moved_bytes / GIB:.1f} GiB"
        if self.how == "turns":
            return f"each change of turns moves {moved}, which takes {takes}, {share(self.share or 0.0, 1)} of the time"
        if self.how == "budget":
            return f"each iteration moves {moved} or more, and takes at least {takes}"
        return ""


def arrange(room_bytes: int, needs_bytes: Sequence[int], link: Link = ASSUMED) -> Arrangement | None:
    """How the first of these jobs shares so much of a GPU with the others; None: in no way. Without jobs: together."""
    if sum(needs_bytes) <= room_bytes:
        return Arrangement("together")
    first, others = needs_bytes[0], needs_bytes[1:]
    if first > room_bytes:
        if others or room_bytes < LEAST_BUDGET * first:
            return None  # turns and a budget at once are not reckoned
        moved = 2 * (first - room_bytes)
        return Arrangement("budget", moved, moved / link.both_bytes_per_s, budget_bytes=room_bytes)
    if max(others) > room_bytes:
        return None
    return _turns(room_bytes, needs_bytes, link)


def _turns(room_bytes: int, needs_bytes: Sequence[int], link: Link) -> Arrangement:
    """Played through, for three turns of each."""
    rules = EpochRules(link=link)
    count = len(needs_bytes)
    resident, waited, runs = [0] * count, [0] * count, [False] * count
    moved = swaps_ns = whole_ns = changes = 0
    for number in range(4 * count):
        tenants = [Tenant(*each) for each in zip(needs_bytes, resident, [0.5] * count, waited, runs, strict=True)]
        epoch = next_epoch(rules, room_bytes, tenants)
        runs = [i in epoch.runs for i in range(count)]
        waited = [0 if runs[i] else waited[i] + epoch.swap_ns + epoch.length_ns for i in range(count)]
        for move in epoch.moves:
            resident[move.tenant] += move.bytes if move.inward else -move.bytes
        if number >= count:  # until then the GPU fills
            moved += sum(move.bytes for move in epoch.moves if not move.ahead)
            changes += bool(epoch.moves)
            swaps_ns += epoch.swap_ns
            whole_ns += epoch.swap_ns + epoch.length_ns
    moved //= max(changes, 1)
    return Arrangement("turns", moved, moved / link.both_bytes_per_s, swaps_ns / whole_ns)


def residency(situation: Situation) -> Advice | None:
    """Memory is missing on every GPU: where it would be enough by what runs needed, in turns with those it may move, or with a budget."""
    facts = situation.facts
    if not facts.request.shares or facts.request.running or not situation.offers:
        return None
    if any(offer.verdict not in ("later", "no memory") for offer in situation.offers):
        return None
    found = [each for offer in situation.offers if (each := _on(situation, offer.gpu)) is not None]
    return min(found, key=lambda each: each[0])[1] if found else None


def _on(situation: Situation, gpu: Gpu) -> tuple[tuple[int, float, str], Advice] | None:
    """What could be on this GPU, with a key by which the best is chosen."""
    facts = situation.facts
    level = asked_priority(facts)
    above = [each for each in gpu.neighbours if _level(each, facts.default_priority) < level]
    beside = [each for each in gpu.neighbours if each not in above]
    own = shards_for(facts.known.peak_bytes) if facts.known and facts.known.peak_bytes else facts.request.shards
    room = gpu.shards - sum(map(_need, above))
    needs = [own, *map(_need, beside)]
    how = arrange(room * GIB, [each * GIB for each in needs])
    if how is None or (how.how == "together" and not gpu.neighbours):  # that it asks for too much is said elsewhere
        return None
    figure: dict[str, Any] = {
        "gpu": gpu.name, "how": how.how, "needs_gib": own, "room_gib": room, "jobs": [each.job for each in beside], "moved_bytes": how.moved_bytes,
        "moved_s": how.moved_s, "share": how.share, "link_bytes_per_s": LINK_BYTES_PER_S,
    }  # fmt: skip
    line = typed(facts, f"--fikit-mem={own}G") if how.how == "together" and own < facts.request.shards else ""
    return (HOW.index(how.how), how.moved_s, gpu.name), Advice(
        "residency", _text(how, gpu, own, room, beside=beside, above=above), figure, line
    )


def _text(
    how: Arrangement, gpu: Gpu, own: int, room: int, *, beside: Sequence[Neighbour], above: Sequence[Neighbour]
) -> str:
    left = f"the {room} of {gpu.shards} GiB that jobs above it leave" if above else f"its {gpu.shards} GiB"
    if how.how == "together":
        return f"by what runs needed, it ({own} GiB) and {_named(beside or above)} fit together on {gpu.name}, which has {gpu.shards} GiB: they ask for more than they need"
    if how.how == "turns":
        return f"on {gpu.name} it ({own} GiB) and {_named(beside)} do not fit together into {left}, but each alone does, in turns: {how.cost()}. Jobs below high that ask for --fikit-mem-host take such turns, where the site allows it"
    return f"on {gpu.name} it would have {room} of its {own} GiB at a time in {left}: {how.cost()}. A job below high that asks for --fikit-mem-host runs so once fikit knows its iteration, where the site allows it"


def _named(jobs: Sequence[Neighbour]) -> str:
    names = [f"job {each.job} ({_need(each)})" for each in jobs[:MOST_NAMED]]
    more = len(jobs) - MOST_NAMED
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def _need(neighbour: Neighbour) -> int:
    """GiB: by its runs, else what it asked for."""
    return neighbour.shards if neighbour.peak_bytes is None else min(shards_for(neighbour.peak_bytes), neighbour.shards)


def _level(neighbour: Neighbour, default: int) -> int:
    return default if neighbour.priority is None else neighbour.priority


def beside(peak_bytes: int, gpu_bytes: int, others: dict[str, int], link: Link = ASSUMED) -> Iterator[dict[str, Any]]:
    """A program on a GPU of its own with each of `others` (name -> most memory of its runs): {name, peak_bytes, how, moved_bytes, moved_s, share}, how
    "none" where one of them does not fit alone."""
    for name, other in others.items():
        found = arrange(gpu_bytes, [peak_bytes, other], link)
        yield {
            "key": name, "peak_bytes": other, "how": "none" if found is None else found.how,
            "moved_bytes": found.moved_bytes if found else 0, "moved_s": found.moved_s if found else 0.0,
            "share": found.share if found else None,
        }  # fmt: skip
