"""Which memory kernels touch, in the profile: files are the user's and hold anything."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from fikitd.profiles import profile_accesses, profile_rhythm
from fikitd.profiles.profile_accesses import checked, merge

ITERATION = {
    "path": "00000000000000aa", "length_ns": 7_000_000, "passes": 9, "kernels": ["0000000000000001", "00000000000000ff"],
    "steps": [[0, 1000, 2], [1, 2000, 3], [0, 1000, 0]], "touches": [[0, 0, 0, 2], [1, 0, 256, 3], [1, 1, 0, 1]],
}  # fmt: skip
GOOD = {"version": 1, "pages": [512, 300], "iterations": [ITERATION]}


def changed(**more: Any) -> dict[str, Any]:
    return {**GOOD, "iterations": [{**ITERATION, **more}]}


def test_a_good_one_is_as_it_was_and_known_fields_only() -> None:
    assert checked(GOOD) == GOOD
    assert checked({**GOOD, "more": 1}) == GOOD
    assert checked(None) is None
    assert checked({**GOOD, "version": 2}) is None, "of hashes that this version does not know"


@pytest.mark.parametrize(
    "bad",
    [
        [],
        {"version": 1},
        {**GOOD, "pages": [1] * 4097},
        {**GOOD, "pages": [-1]},
        {**GOOD, "pages": [True]},
        {**GOOD, "iterations": [ITERATION] * 5},
        {**GOOD, "iterations": [{**ITERATION, "path": "x"}]},
        changed(path=1),
        changed(length_ns=-1),
        changed(length_ns=2**42),
        changed(passes=1.5),
        changed(kernels=["1"]),
        changed(steps=[[2, 0, 0]]),
        changed(steps=[[0, 0]]),
        changed(steps=[[0, -1, 0]]),
        changed(steps="ab"),
        changed(touches=[[3, 0, 0, 1]]),
        changed(touches=[[0, 2, 0, 1]]),
        changed(touches=[[0, 0, 512, 1]]),
        changed(touches=[[0, 0, 0, 2**32]]),
        changed(touches=[[0, 0, 0, 1], [0, 0, 0, 1]]),
        changed(touches=[[0, 0, 0, 1, 5], [0, 0, 0, 2, 5]]),
        changed(touches=[[0, 0, 0, 1], [0, 0, 0, 2, 0]]),
        changed(touches=[[0, 0, 500, 1, 13]]),
        changed(touches=[[0, 0, 0, 1, 1, 1]]),
        changed(touches=[[0, 0, 0]]),
        changed(touches=[[0, 0, 0, 1, -1]]),
        changed(touches=[[0, 0, page, 1] for page in range(129)]),
        changed(touches=None),
        changed(frees=[[3, 0, 1]]),
        changed(frees=[[0, 4, 1]]),
        changed(frees=[[0, 0, 1], [0, 0, 1]]),
    ],
)
def test_what_is_not_within_bounds_is_said(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"accesses|iteration|allocation"):
        checked(bad)


def test_places_whose_length_is_known_are_places_of_their_own() -> None:
    said = changed(touches=[[0, 0, 0, 2], [0, 0, 0, 1, 512], [0, 0, 500, 1, 12]])
    assert checked(said) == said
    both = merge([said, changed(touches=[[0, 0, 0, 1, 512], [0, 0, 0, 1, 7]])])
    assert both is not None
    assert both["iterations"][0]["touches"] == [[0, 0, 0, 2], [0, 0, 0, 1, 7], [0, 0, 0, 2, 512], [0, 0, 500, 1, 12]]
    assert checked(both) == both


def test_runs_are_merged_in_any_order() -> None:
    other = copy.deepcopy(GOOD)
    other["pages"] = [512, 300, 900]
    (iteration,) = other["iterations"]
    iteration |= {"length_ns": 6_000_000, "passes": 1, "touches": [[0, 0, 0, 1], [2, 2, 5, 4]]}
    one, two = merge([GOOD, other]), merge([other, GOOD])
    assert one == two
    assert one is not None
    (merged,) = one["iterations"]
    assert (merged["length_ns"], merged["passes"]) == (6_000_000, 10)
    assert merged["steps"] == [[0, 1000, 4], [1, 2000, 6], [0, 1000, 0]]
    assert merged["touches"] == [[0, 0, 0, 3], [1, 0, 256, 3], [1, 1, 0, 1], [2, 2, 5, 4]]
    assert one["pages"] == [512, 300, 900]
    assert checked(one) == one


def test_of_more_iterations_than_fit_those_of_most_time_stay() -> None:
    many = [changed(path=f"{n:016x}", passes=n) for n in range(1, 8)]
    merged = merge(many)
    assert merged is not None
    assert [each["passes"] for each in merged["iterations"]] == [7, 6, 5, 4]
    assert merge([None, GOOD]) == GOOD
    assert merge([None]) is None


def test_more_places_than_a_profile_may_have_are_those_of_most_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_accesses, "MAX_TOUCHES", 2)
    assert profile_accesses.within_bounds(GOOD)["iterations"][0]["touches"] == [[0, 0, 0, 2], [1, 0, 256, 3]]


def test_it_is_a_part_of_the_rhythm_and_older_files_have_none(tmp_path: Path) -> None:
    rhythm = {"version": 1, "slacks": {}, "segments": {}, "runs": {}}
    assert profile_rhythm.checked(rhythm) == rhythm
    both = {**rhythm, "accesses": GOOD}
    assert profile_rhythm.checked(json.loads(json.dumps(both))) == both
    assert profile_rhythm.merge([rhythm, both]) == both
    with pytest.raises(ValueError, match="accesses"):
        profile_rhythm.checked({**rhythm, "accesses": 7})
