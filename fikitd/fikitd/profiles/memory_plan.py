"""From what a program's profile says of its kernels' memory to a plan of who is on the GPU when (docs/design/residency.md, case B). Pure.

What is learnt (profile_accesses) names places; a plan moves pieces of 2 MiB or more. `iteration` makes the sequence of one of the other, `points`
what each budget would cost, `wire` says a plan as moves behind launches, as a shim carries them out (struct fikit_plan of the protocol). Nobody here
knows a clock, and nothing is moved. Plans of long iterations take seconds: work for a process with the user's rights (`outlined`, `planned`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Items
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, islice, pairwise
from typing import Any, Final, NamedTuple

from fikitd.base.protocol import (
    COPY_IN,
    COPY_NONE,
    COPY_OUT,
    PLAN_CHUNK_BYTES,
    PLAN_CHUNKS,
    PLAN_LAUNCHES,
    PLAN_MOVE,
    PLAN_MOVES,
)
from fikitd.gpus.memory_outline import Outline, Planned, Point
from fikitd.gpus.residency import BudgetPlan, Link, Sequence, Transfer, least_bytes, peak_bytes, plan
from fikitd.profiles.profile_accesses import PAGE_BYTES

CHUNK_BYTES: Final = PLAN_CHUNK_BYTES
"""What a GPU moves as a whole (open-gpu-kernel-modules 595.45.04)."""
MOST_CHUNKS: Final = 2**20
MOST_PIECES: Final = 4096
"""That are planned one by one, a plan of a second or two; of more memory larger pieces are planned."""
MOST_WORK: Final = 2**24
"""Launches times pieces, for the same reason."""
MOST_TOUCHES: Final = 2**22
"""Pieces that the launches of a pass touch, one launch after the other: a profile is its owner's word, and a place may be 2 TiB long."""
COUNTS_FROM: Final = 4
"""A place counts that one in so many of the passes has named in which its launch was looked at."""
BUDGETS: Final = (0.5, 0.6, 0.7, 0.8, 0.9)
"""That are tried, of what an iteration needs."""
SLOWER: Final = (8, 4, 2)
MOVES_MORE: Final = 1.1
FASTER: Final = (2, 4, 8)
_SHORTEST_NS: Final = 1_000
SHORT_NS: Final = 30_000
"""A launch may be over when the driver is asked for the moves behind it, which takes so long. Then the call makes the move, and the thread launches nothing
meanwhile (an H200: 14 to 29 us behind work, else 5 ms for 64 MiB away from it)."""
NEAR_NS: Final = 200_000  # moves begin so much later at most, to stand behind a launch that is longer
_WINDOW: Final = 32  # transfers among which those away go first, so that neighbours can go as one: an arrival is late by a few ms at most


class TooFine(ValueError):
    """More than can be planned, in pieces of that size."""


class Range(NamedTuple):
    """A chunk in the program's terms: bytes from the begin of the allocation with that number."""

    allocation: int
    begin: int
    size: int


@dataclass(frozen=True)
class Iteration:
    """An iteration as the rules take it: kernel i of `sequence` is its launch i, and one behind the last is its pauses, of pause_ns.

    looked_at: share of the launches that were. peak_bytes: of all pieces that its launches touch. least_bytes: the most that one touches.
    freed: of each launch the pieces whose content nobody needs once it has run. idle: chunks of the program's allocations that none of them touches.
    """

    path: str
    sequence: Sequence
    ranges: list[Range]
    launches: int
    length_ns: int
    pause_ns: int
    looked_at: float
    peak_bytes: int
    least_bytes: int
    piece_bytes: int
    touched: list[list[int]]
    freed: list[list[int]]
    idle: list[Range]
    durations_ns: list[int]


def iteration(accesses: Mapping[str, Any], number: int = 0, chunks_of_a_piece: int = 1) -> Iteration | None:
    """Of checked accesses; None where no launch of it touches anything. ValueError with a reason where it is more than can be planned."""
    piece_bytes = chunks_of_a_piece * CHUNK_BYTES
    found = accesses["iterations"][number]
    steps, pages = found["steps"], accesses["pages"]
    places = _places(found)
    begins = _begins(places, pages)
    chunks: dict[tuple[int, int], int] = {}
    named = (_piece_numbers(each, begins, piece_bytes) for own in places for each in own)
    if sum(map(len, named)) > MOST_TOUCHES:
        raise TooFine("the launches of its iteration touch more memory than can be planned")
    touched = [sorted(_pieces(own, begins, chunks, piece_bytes)) for own in places]
    if not chunks:
        return None
    sequence = Sequence()
    known = [duration for _, duration, _ in steps if duration > 0]
    usual = max(sum(known) // max(len(known), 1), _SHORTEST_NS)
    durations = [duration or usual for _, duration, _ in steps]
    freed = _freed(found, chunks)
    for duration, own, gone in zip(durations, touched, freed, strict=True):
        sequence.add(duration, own, gone)
    pause_ns = max(found["length_ns"] - sequence.total_ns, _SHORTEST_NS)
    sequence.add(pause_ns, [])
    ranges = [
        Range(allocation, chunk * piece_bytes, min(piece_bytes, pages[allocation] * PAGE_BYTES - chunk * piece_bytes))
        for allocation, chunk in chunks
    ]
    return Iteration(
        found["path"], sequence, ranges, len(steps), sequence.total_ns, pause_ns,
        sum(scans > 0 for _, _, scans in steps) / len(steps),
        peak_bytes(sequence, piece_bytes), least_bytes(sequence, piece_bytes), piece_bytes, touched, freed,
        list(_idle(pages, chunks, piece_bytes)), durations,
    )  # fmt: skip


class Extent(NamedTuple):
    """What can be said of an iteration that is too much for a plan, as Iteration says it."""

    length_ns: int
    launches: int
    looked_at: float
    peak_bytes: int
    least_bytes: int
    piece_bytes: int


def extent(accesses: Mapping[str, Any], number: int = 0) -> Extent:
    """ValueError: it is too much for that, too."""
    found = accesses["iterations"][number]
    places = _places(found)
    begins = _begins(places, accesses["pages"])
    if sum(len(_piece_numbers(each, begins, CHUNK_BYTES)) for own in places for each in own) > MOST_TOUCHES:
        raise ValueError("the launches of its iteration touch more memory than can be counted")
    chunks: dict[tuple[int, int], int] = {}
    most = max(len(_pieces(own, begins, chunks, CHUNK_BYTES)) for own in places)
    steps = found["steps"]
    length_ns = max(found["length_ns"], sum(duration for _, duration, _ in steps))
    looked_at = sum(scans > 0 for _, _, scans in steps) / len(steps)
    return Extent(length_ns, len(steps), looked_at, len(chunks) * CHUNK_BYTES, most * CHUNK_BYTES, CHUNK_BYTES)


def _places(found: Mapping[str, Any]) -> list[list[tuple[int, int, int]]]:
    """Of each step the places that count: (allocation, page, length); length 0: not known."""
    places: list[list[tuple[int, int, int]]] = [[] for _ in found["steps"]]
    for step, allocation, page, count, *length in found["touches"]:
        if count * COUNTS_FROM >= found["steps"][step][2]:
            places[step].append((allocation, page, length[0] if length else 0))
    return places


def _freed(found: Mapping[str, Any], pieces: Mapping[tuple[int, int], int]) -> list[list[int]]:
    """Of each step the pieces whose content nobody needs once it has run: of memory that half of the passes gave back there."""
    own: dict[int, list[int]] = {}
    for (allocation, _), number in pieces.items():
        own.setdefault(allocation, []).append(number)
    freed: list[list[int]] = [[] for _ in found["steps"]]
    for step, allocation, count in found.get("frees", ()):
        if 2 * count >= found["passes"]:
            freed[step] += own.get(allocation, ())
    return freed


def _begins(places: Items[Items[tuple[int, int, int]]], pages: Items[int]) -> dict[int, list[int]]:
    """Of each allocation the pages where something begins, and its end."""
    begins: dict[int, set[int]] = {}
    for own in places:
        for allocation, page, _ in own:
            begins.setdefault(allocation, set()).add(page)
    if sum(-(-pages[each] * PAGE_BYTES // CHUNK_BYTES) for each in begins) > MOST_CHUNKS:
        raise ValueError("its iteration touches more memory than can be planned")
    return {allocation: [*sorted(found), pages[allocation]] for allocation, found in begins.items()}


def _pieces(
    own: Items[tuple[int, int, int]],
    begins: Mapping[int, list[int]],
    chunks: dict[tuple[int, int], int],
    piece_bytes: int,
) -> set[int]:
    """The pieces of these places, up to their end or, where that is not known, to where the next one begins; new ones get the next number."""
    return {
        chunks.setdefault((place[0], piece), len(chunks))
        for place in own
        for piece in _piece_numbers(place, begins, piece_bytes)
    }


def _are_few(
    places: Items[Items[tuple[int, int, int]]], begins: Mapping[int, list[int]], piece_bytes: int, most: int
) -> bool:
    """Whether these places have no more pieces than that: told before the sequence is made, which takes longer the more there are."""
    found: set[tuple[int, int]] = set()
    for own in places:
        for place in own:
            found.update((place[0], piece) for piece in _piece_numbers(place, begins, piece_bytes))
            if len(found) > most:
                return False
    return True


def _piece_numbers(place: tuple[int, int, int], begins: Mapping[int, list[int]], piece_bytes: int) -> range:
    """Of its allocation."""
    allocation, page, length = place
    end = page + length if length else begins[allocation][bisect_right(begins[allocation], page)]
    return range(page * PAGE_BYTES // piece_bytes, (end * PAGE_BYTES - 1) // piece_bytes + 1)


def _idle(pages: Items[int], pieces: Iterable[tuple[int, int]], piece_bytes: int) -> Iterator[Range]:
    """What no launch touches of the allocations that are known, in runs of neighbouring chunks."""
    used: dict[int, set[int]] = {}
    for allocation, piece in pieces:
        used.setdefault(allocation, set()).add(piece)
    for allocation, count in enumerate(pages):
        size, own = count * PAGE_BYTES, used.get(allocation, set())
        ends = sorted([-1, *own, -(-size // piece_bytes)])
        for before, after in pairwise(ends):
            begin, end = (before + 1) * piece_bytes, min(after * piece_bytes, size)
            if begin < end:
                yield Range(allocation, begin, end - begin)


def _always() -> bool:
    return True


def points(
    of: Iteration,
    link: Link,
    budgets: Items[float] = BUDGETS,
    room_bytes: int = 0,
    goes_on: Callable[[], bool] = _always,
) -> list[Point]:
    """What each budget would cost, the smallest first, that of all of it last; budgets that no plan keeps are left out. room_bytes: a budget
    that is tried first, beside those shares. goes_on: whether there is time for another one."""
    tried = [room_bytes, *sorted((int(share * of.peak_bytes) for share in budgets), reverse=True)]
    found = {of.peak_bytes: Point(of.peak_bytes, 0.0, 0)}
    for budget in (each // of.piece_bytes * of.piece_bytes for each in tried):
        if budget in found or not of.least_bytes <= budget < of.peak_bytes or not goes_on():
            continue
        if (made := _steady(of, link, budget, goes_on)) is not None:
            found[budget] = Point(budget, made.stretch, made.plan.moved_bytes)
    return [found[budget] for budget in sorted(found)]


class Steady(NamedTuple):
    """A plan that can be carried out pass after pass. stretch: the share by which it makes the iteration longer over the link that there is."""

    plan: BudgetPlan
    stretch: float


def _steady(of: Iteration, link: Link, budget_bytes: int, goes_on: Callable[[], bool]) -> Steady | None:
    """For that budget. Where kernels have to wait for the link, what is best to move may be another thing in each pass, and that is no plan; one for a
    faster link then is: its moves keep the budget in the same way, and kernels wait for what comes late. None: there is none."""
    for times in (1, *FASTER):
        if times > 1 and not goes_on():
            break
        made = plan(of.sequence, link.times(times), of.piece_bytes, budget_bytes)
        if made.fits and made.steady:
            moving_ns = made.moved_bytes / link.both_bytes_per_s * 1e9  # a steady plan brings what it sends away
            return Steady(made, made.stretch if times == 1 else max(made.stretch, moving_ns / of.length_ns - 1))
    return None


class WireMove(NamedTuple):
    """struct fikit_plan_move."""

    after: int
    before: int
    chunk: int
    allocation: int
    chunks: int
    copy: int


def wire(of: Iteration, made: BudgetPlan) -> list[WireMove]:
    """The plan as one row of moves, which a shim makes one after the other, each behind the end of its launch.

    That order alone keeps the budget, whatever the times are: what is on the GPU when a move begins is what the plan has there. So no move needs
    a clock. What begins in the pause, or while the first launch runs, stands behind the last launch. What no launch touches leaves behind the first one.
    """
    last = of.launches - 1
    late = [each for each in made.transfers if each.kernel > last]
    row = [each for each in made.transfers if each.kernel <= last] + late
    uses = _uses(of)
    behind = _behind(of, row, uses)
    leaving = (move for each in of.idle for move in _moves(each, 0, 0, COPY_OUT))
    moves = list(islice(leaving, PLAN_MOVES + 1))  # an allocation may be of any size that the program says
    for after, group in groupby(row, key=lambda each: behind[min(each.kernel, last)]):
        for window in _windows(list(group)):
            for inward in (False, True):
                own = [
                    (_before(uses[e.chunk], after) if inward else 0, of.ranges[e.chunk])
                    for e in window
                    if e.inward is inward
                ]
                moves += _merged(sorted(own), after, COPY_IN if inward else COPY_OUT)
    return moves


def _behind(of: Iteration, row: Items[Transfer], uses: Items[Items[int]]) -> list[int]:
    """Of each launch the one behind which its moves stand: itself, or, where it is short, the next one that is not, if that ends soon after it and none
    of what begins to come in between is needed by then. The row's order is kept, and so is the budget."""
    last = of.launches - 1
    needed = [of.launches] * of.launches  # by what comes behind a launch: by which one of this pass first
    for each in row:
        after = min(each.kernel, last)
        if each.inward and (before := _before(uses[each.chunk], after)) > after:
            needed[after] = min(needed[after], before)
    behind = list(range(of.launches))
    later_ns = [0] * of.launches
    for launch in reversed(range(last)):
        target, at_ns = behind[launch + 1], later_ns[launch + 1] + of.durations_ns[launch + 1]
        is_short, is_long = of.durations_ns[launch] < SHORT_NS, of.durations_ns[target] >= SHORT_NS
        if is_short and is_long and at_ns <= NEAR_NS and needed[launch] > target:
            behind[launch], later_ns[launch] = target, at_ns
    return behind


def first_uses(of: Iteration) -> list[WireMove]:
    """What each launch is the first to touch since the program took it again, in the order of the launches. A plan counts it as being on the GPU from that
    launch on. More of it than launches can touch in all is nobody's: then none."""
    if sum(map(len, of.freed)) > MOST_TOUCHES:
        return []
    uses = _uses(of)
    found = {(_before(uses[piece], after), of.ranges[piece]) for after, own in enumerate(of.freed) for piece in own}
    return list(_merged(sorted(found), 0, COPY_NONE))


def _uses(of: Iteration) -> list[list[int]]:
    """Of each piece the launches that touch it."""
    uses: list[list[int]] = [[] for _ in of.ranges]
    for launch, own in enumerate(of.touched):
        for piece in own:
            uses[piece].append(launch)
    return uses


def _before(uses: Items[int], after: int) -> int:
    """The next launch that touches it, around the pass."""
    place = bisect_right(uses, after)
    return uses[place] if place < len(uses) else uses[0]


def _windows(row: Items[Transfer]) -> Iterator[list[Transfer]]:
    """Parts of a row within which transfers may change places: none has a piece twice."""
    window: dict[int, Transfer] = {}
    for each in row:
        if len(window) == _WINDOW or each.chunk in window:
            yield list(window.values())
            window = {}
        window[each.chunk] = each
    if window:
        yield list(window.values())


def _merged(own: Items[tuple[int, Range]], after: int, copy: int) -> Iterator[WireMove]:
    """Neighbours that are needed by the same launch go as one."""
    joined: list[tuple[int, Range]] = []
    for before, each in own:
        if joined:
            needed, known = joined[-1]
            if (needed, known.allocation, known.begin + known.size) == (before, each.allocation, each.begin):
                joined[-1] = needed, known._replace(size=known.size + each.size)
                continue
        joined.append((before, each))
    for before, each in joined:
        yield from _moves(each, after, before, copy)


def _moves(of: Range, after: int, before: int, copy: int) -> Iterator[WireMove]:
    end = -(-(of.begin + of.size) // CHUNK_BYTES)
    for chunk in range(of.begin // CHUNK_BYTES, end, PLAN_CHUNKS):
        yield WireMove(after, before, chunk, of.allocation, min(PLAN_CHUNKS, end - chunk), copy)


def coarse(
    accesses: Mapping[str, Any], number: int = 0, chunks_of_a_piece: int = 1, most_work: int | None = None
) -> Iteration | None:
    """The iteration in pieces so large that it can be planned in time, of so many chunks at least. most_work: launches times pieces. As `iteration`."""
    places = _places(accesses["iterations"][number])
    begins = _begins(places, accesses["pages"])
    most = min(MOST_PIECES, (most_work or MOST_WORK) // len(places))
    while chunks_of_a_piece <= PLAN_CHUNKS:
        with suppress(TooFine):
            if _are_few(places, begins, chunks_of_a_piece * CHUNK_BYTES, most):
                return iteration(accesses, number, chunks_of_a_piece)
        chunks_of_a_piece *= 2
    raise ValueError("its iteration has more launches and memory than can be planned")


def outlined(
    accesses: Mapping[str, Any], link: Link, room_bytes: int, goes_on: Callable[[], bool] = _always
) -> Outline | None:
    """What each budget would cost the iteration that a program is in. None where there is nothing to plan; ValueError as `iteration`."""
    of = coarse(accesses)
    if of is None or of.launches > PLAN_LAUNCHES:
        return None
    return Outline(
        of.path, of.launches, of.length_ns, of.looked_at, of.peak_bytes, points(of, link, BUDGETS, room_bytes, goes_on),
        sum(each.size for each in of.idle),
    )  # fmt: skip


def planned(
    accesses: Mapping[str, Any], link: Link, budget_bytes: int, goes_on: Callable[[], bool] = _always
) -> tuple[Planned, bytes] | None:
    """The plan for that budget and its moves as the wire has them, behind them as many of the first uses as fit. None where there is none, or none that
    fits the wire."""
    pieces = 1
    while (of := coarse(accesses, 0, pieces)) is not None:
        pieces = of.piece_bytes // CHUNK_BYTES
        if of.launches > PLAN_LAUNCHES or budget_bytes < of.least_bytes:
            return None
        steady = _steady(of, link, budget_bytes, goes_on)
        if steady is None:
            return None
        early = steady.plan if steady.stretch else _early(of, link, budget_bytes, steady.plan, goes_on)
        moves = wire(of, early)
        if len(moves) <= PLAN_MOVES:
            said = Planned(
                of.path, of.launches, budget_bytes, of.peak_bytes, early.moved_bytes, steady.stretch, of.length_ns, len(moves)
            )  # fmt: skip
            entries = [*moves, *first_uses(of)[: PLAN_MOVES - len(moves)]]
            return said, b"".join(PLAN_MOVE.pack(*each) for each in entries)
        if pieces >= PLAN_CHUNKS:
            return None
        pieces *= 2
    return None


def _early(of: Iteration, link: Link, budget_bytes: int, made: BudgetPlan, goes_on: Callable[[], bool]) -> BudgetPlan:
    """A plan that keeps the budget without a wait over a slower link too, where that moves hardly more: what it brings is there earlier, also
    where kernels run faster than they were learnt, or the link is not what it was taken for."""
    for part in SLOWER if made.transfers else ():
        if not goes_on():
            break
        found = plan(of.sequence, link.times(1 / part), of.piece_bytes, budget_bytes)
        if found.fits and found.steady and found.stretch == 0 and found.moved_bytes <= MOVES_MORE * made.moved_bytes:
            return found
    return made


class Allocation(NamedTuple):
    """What an iteration does with an allocation: launches that touch it, and the longest time between the end of one and the next."""

    number: int
    size: int
    launches: int
    longest_away_ns: int


def allocations(accesses: Mapping[str, Any], number: int = 0) -> list[Allocation]:
    """Those that are touched, the largest first."""
    found = accesses["iterations"][number]
    ends_ns, total_ns = [], 0
    for _, duration, _ in found["steps"]:
        total_ns += duration
        ends_ns.append(total_ns)
    length_ns = max(found["length_ns"], total_ns)
    users: dict[int, list[int]] = {}
    for step, own in enumerate(_places(found)):
        for allocation in dict.fromkeys(allocation for allocation, *_ in own):
            users.setdefault(allocation, []).append(step)
    return sorted(
        (
            Allocation(
                allocation,
                accesses["pages"][allocation] * PAGE_BYTES,
                len(steps),
                _longest_ns(steps, ends_ns, length_ns),
            )
            for allocation, steps in users.items()
        ),
        key=lambda each: (-each.size, each.number),
    )


def _longest_ns(steps: Items[int], ends_ns: Items[int], length_ns: int) -> int:
    """Around the iteration."""
    begins_ns = [ends_ns[step - 1] if step else 0 for step in steps]
    following = [*begins_ns[1:], begins_ns[0] + length_ns]
    return max(begin_ns - ends_ns[step] for step, begin_ns in zip(steps, following, strict=True))
