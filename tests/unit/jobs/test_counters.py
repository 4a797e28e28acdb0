"""The counters of a client have one table, fikitd/core/tracking/accounting/counters.def: what repeats their names has the same ones."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from fikitd._core import COUNTERS
from fikitd.jobs.totals import Totals

ROOT = Path(__file__).resolve().parents[3]
OF_ONE_CLIENT = {"distinct", "distinct_profiled", "distinct_borrowed", "under_way_ns"}
OF_A_JOB = {"gpu_time_at_most_ns"}  # where gpu_time_ns is not known
NO_COUNTERS = {"held", "spent", "moves", "heard_ns"}
CLIENT = dict.fromkeys(COUNTERS, 4)


def test_the_types_for_python_have_each_counter() -> None:
    (body,) = re.findall(
        r"^class _Stats\(TypedDict\):\n(.*?)^\S", (ROOT / "fikitd/fikitd/_core.pyi").read_text(), re.M | re.S
    )
    assert set(re.findall(r"^    (\w+):", body, re.M)) == set(COUNTERS) | NO_COUNTERS


def test_a_job_s_totals_have_each_counter_that_adds_up() -> None:
    assert {each.name for each in fields(Totals)} == set(COUNTERS) - OF_ONE_CLIENT | OF_A_JOB


def test_the_contract_names_each_counter() -> None:
    page = (ROOT / "docs/design/contracts.md").read_text()
    (keys,) = re.findall(r"`stats\(client_id\) -> dict` \(keys (.*?), held: list", page)
    assert {name for name in COUNTERS if not re.search(rf"\b{name}\b", keys)} == set()


@pytest.mark.parametrize(("how", "expected"), [("sum", 8), ("known", 8), ("most", 4), ("weighted", 4)], ids=str)
def test_two_equal_clients_add_up_as_the_table_says(how: str, expected: int) -> None:
    totals = Totals().plus(CLIENT).plus(CLIENT)
    names = [name for name, rule in COUNTERS.items() if rule == how]
    assert names
    assert {name: getattr(totals, name) for name in names} == dict.fromkeys(names, expected)
