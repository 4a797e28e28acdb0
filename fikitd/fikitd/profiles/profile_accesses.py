"""Which memory a program's kernels touch, as its profiles have it: checking what somebody wrote, and merging several (D10).

`pages` says how large each allocation is, by its number, in pages of 4 KiB; `iterations` what the program does again and again: `kernels` are
identities, `steps` its launches in order, [kernel (a place in `kernels`), duration in ns, passes that were looked at], and `touches`
[step, allocation, page, passes]: in so many of them the launch named that place. A fifth number says how many pages of it the launch touches, where
that is known (copies, memsets). `frees`, where there are any: [step, allocation, passes], in so many of all passes the program gave that memory back
behind the launch, so that nobody needs its contents until a launch names it again. How it is learnt: fikitd/core/predictor/accesses.hpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import pairwise
from typing import Any, Final

from fikitd._core import merge_accesses

VERSION: Final = 1  # of the hashes; another one is as good as none
PAGE_BYTES: Final = 4096
MAX_ALLOCATIONS: Final = 4096
MAX_ITERATIONS: Final = 4
MAX_STEPS: Final = 16_384  # of an iteration
MAX_TOUCHES: Final = 65_536  # of an iteration
MAX_TOUCHES_OF_A_STEP: Final = 128
MAX_COUNT: Final = 2**32 - 1
MAX_PASSES: Final = 2**53
MAX_NS: Final = 2**42 - 1  # what the core keeps of a time
_HEX16 = re.compile(r"[0-9a-f]{16}", re.ASCII)

Accesses = Mapping[str, Any]


def checked(raw: Any) -> Accesses | None:
    """`raw` within bounds, None where it says nothing that this version knows; ValueError says what is not within them."""
    if raw is None or (isinstance(raw, dict) and raw.get("version") != VERSION):
        return None
    if not isinstance(raw, dict):
        raise ValueError("accesses is not an object")
    pages = list(_rows(raw.get("pages"), "pages", MAX_ALLOCATIONS))
    if not all(_is_count(each, MAX_COUNT) for each in pages):
        raise ValueError("pages of accesses are not numbers of pages")
    return {
        "version": VERSION,
        "pages": pages,
        "iterations": [_iteration(each, pages) for each in _rows(raw.get("iterations"), "iterations", MAX_ITERATIONS)],
    }


def _rows(raw: Any, what: str, limit: int) -> list[Any]:
    if not isinstance(raw, list) or len(raw) > limit:
        raise ValueError(f"{what} of accesses is not a list of at most {limit}")
    return raw


def _is_count(value: Any, most: int) -> bool:
    return type(value) is int and 0 <= value <= most


def _numbers(raw: Any, what: str, limit: int, bounds: tuple[int, ...], optional: int = 0) -> Iterator[list[int]]:
    """Rows of as many numbers as there are bounds, each below its own; the last `optional` ones may be missing."""
    for row in _rows(raw, what, limit):
        if (
            not isinstance(row, list)
            or not len(bounds) - optional <= len(row) <= len(bounds)
            or not all(_is_count(value, bound - 1) for value, bound in zip(row, bounds, strict=False))
        ):
            raise ValueError(f"one of the {what} of accesses is not {len(bounds)} numbers within their bounds")
        yield row


def _iteration(raw: Any, pages: list[int]) -> dict[str, Any]:
    if not isinstance(raw, dict) or not isinstance(raw.get("path"), str) or not _HEX16.fullmatch(raw["path"]):
        raise ValueError("an iteration of accesses is not an object with a path of 16 hexadecimal digits")
    if not _is_count(raw.get("length_ns"), MAX_NS) or not _is_count(raw.get("passes"), MAX_PASSES):
        raise ValueError(f"length_ns or passes of an iteration is not an integer within 0 and {MAX_NS} or {MAX_PASSES}")
    kernels = _rows(raw.get("kernels"), "kernels", MAX_STEPS)
    if not all(isinstance(each, str) and _HEX16.fullmatch(each) for each in kernels):
        raise ValueError("kernels of accesses are not 16 hexadecimal digits each")
    steps = list(_numbers(raw.get("steps"), "steps", MAX_STEPS, (len(kernels), MAX_NS + 1, MAX_COUNT + 1)))
    bounds = (len(steps), len(pages), MAX_COUNT + 1, MAX_COUNT + 1, MAX_COUNT + 1)
    touches = sorted(_numbers(raw.get("touches"), "touches", MAX_TOUCHES, bounds, optional=1), key=_place)
    seen = [0] * len(steps)
    for touch, before in zip(touches, [None, *touches], strict=False):
        step, allocation, page, length = _place(touch)
        seen[step] += 1
        within = page < pages[allocation] and length <= pages[allocation] - page
        if not within or seen[step] > MAX_TOUCHES_OF_A_STEP or (before and _place(before) == _place(touch)):
            raise ValueError("a place of accesses is outside its allocation, there twice, or one too many of its step")
    frees = sorted(_numbers(raw.get("frees", []), "frees", MAX_TOUCHES, (len(steps), len(pages), MAX_COUNT + 1)))
    if any(one[:2] == other[:2] for one, other in pairwise(frees)):
        raise ValueError("a step of accesses gives the same memory back twice")
    return {
        "path": raw["path"], "length_ns": raw["length_ns"], "passes": raw["passes"], "kernels": kernels, "steps": steps,
        "touches": touches, **({"frees": frees} if frees else {}),
    }  # fmt: skip


def _place(touch: list[int]) -> tuple[int, int, int, int]:
    """(step, allocation, page, length); length 0: not known."""
    return touch[0], touch[1], touch[2], touch[4] if len(touch) > 4 else 0


def merge(several: Iterable[Accesses | None]) -> Accesses | None:
    """What all of them say, the most time first; None of none. Iterations are the same where all their launches are."""
    every = [accesses for accesses in several if accesses is not None]
    if len(every) < 2:
        return every[0] if every else None
    return within_bounds(reduce(merge_accesses, every))


def within_bounds(accesses: Accesses) -> Accesses:
    """With the places that most passes named, where together there are more than a profile may have."""
    iterations = []
    for each in accesses["iterations"]:
        touches = each["touches"]
        if len(touches) > MAX_TOUCHES:
            touches = sorted(sorted(touches, key=lambda touch: -touch[3])[:MAX_TOUCHES], key=_place)
        kept = {key: value for key, value in each.items() if key != "frees" or len(value) <= MAX_TOUCHES}
        iterations.append({**kept, "touches": touches, "passes": min(each["passes"], MAX_PASSES)})
    return {**accesses, "iterations": iterations}
