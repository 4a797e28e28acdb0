"""Holds of clients become those of jobs: summed up, bounded, and without other jobs' secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fikitd.api.held import MAX_ENTRIES, MAX_ROWS, REMEMBERED_CLIENTS, Held, Owners
from fikitd.store.records import JobRecord


def owners(**jobs: tuple[int, str, int]) -> Owners:
    """Clients c1, c2, ... as (uid, job, priority)."""
    known = Owners()
    for name, (uid, job, priority) in jobs.items():
        known.note(int(name[1:]), JobRecord(job=job, uid=uid, gid=uid, priority=priority))
    return known


def entry(reason: str, by: int | None, total_ns: int = 1000, **facts: Any) -> dict[str, Any]:
    return {"reason": reason, "by": by, "kernel": "", "p90_ns": None, "count": 1, "total_ns": total_ns, **facts}


def test_clients_of_one_job_are_one_entry_the_longest_first() -> None:
    known = owners(c1=(7, "12", 8), c2=(8, "17", 1), c3=(8, "17", 1))
    held = Held().plus([entry("behind", 2), entry("behind", 3), entry("run_ahead", 1, 5000, cost_ns=2000)], known)
    assert held.plus([entry("behind", 2)], known).fields()["wait_reasons"] == [
        {
            "reason": "run_ahead",
            "job": "12",
            "priority": 8,
            "kernel": "",
            "p90_us": None,
            "total_s": 5e-6,
            "cost_s": 2e-6,
            "count": 1,
        },
        {
            "reason": "behind",
            "job": "17",
            "priority": 1,
            "kernel": "",
            "p90_us": None,
            "total_s": 3e-6,
            "cost_s": 0.0,
            "count": 3,
        },
    ]
    assert len(held.fields()["wait_reasons"]) == 2, "adding more leaves the sums so far as they are"


def test_a_kernel_is_told_with_its_length_and_others_without() -> None:
    known = owners(c2=(8, "17", 1))
    held = Held().plus([entry("does_not_fit", 2, kernel="x", p90_ns=5e6), entry("behind", 2, p90_ns=3.0)], known)
    assert [(e["kernel"], e["p90_us"]) for e in held.fields()["wait_reasons"]] == [("x", 5000.0), ("", None)]


def test_lower_work_is_no_wait() -> None:
    fields = Held().plus([entry("lower_work", 1)], owners(c1=(7, "18", 8))).fields()
    assert {name: fields[name] for name in ("wait_reasons", "delays")} == {
        "wait_reasons": [],
        "delays": [{"job": "18", "priority": 8, "total_s": 1e-6, "count": 1}],
    }


def test_a_client_that_nobody_remembers_is_another_job() -> None:
    known = owners(c1=(7, "12", 8))
    for number in range(2, REMEMBERED_CLIENTS + 2):
        known.note(number, JobRecord(job="13", uid=7, gid=7, priority=1))
    fields = Held().plus([entry("behind", 1), entry("behind", None)], known).fields()
    assert [(e["job"], e["priority"], e["count"]) for e in fields["wait_reasons"]] == [(None, None, 2)]


def test_many_kernels_end_in_one_sum_that_loses_no_time() -> None:
    known = owners(c2=(8, "17", 1))
    held = Held().plus([entry("unknown", 2, kernel=f"k{n}") for n in range(3 * MAX_ENTRIES)], known)
    entries = held.fields()["wait_reasons"]
    assert len(entries) == MAX_ENTRIES + 1
    assert sum(e["count"] for e in entries) == 3 * MAX_ENTRIES
    assert entries[0]["kernel"] == ""


def test_the_ledger_keeps_the_longest_and_all_of_the_time() -> None:
    known = owners(c2=(8, "17", 1))
    held = Held().plus([entry("unknown", 2, 1000 + n, kernel=f"k{n}", p90_ns=1.0) for n in range(MAX_ROWS + 9)], known)
    again = Held.from_rows(json.loads(json.dumps(held.rows())))
    assert len(again.sums) == MAX_ROWS + 1
    assert again.fields()["wait_reasons"][:MAX_ROWS] != held.fields()["wait_reasons"][:MAX_ROWS], "the rest comes first"
    assert again.fields()["wait_reasons"][1:] == held.fields()["wait_reasons"][:MAX_ROWS]
    assert sum(e.total_ns for e in again.sums.values()) == sum(e.total_ns for e in held.sums.values())
    with pytest.raises(ValueError, match="unpack"):
        Held.from_rows([["behind"]])


@pytest.mark.parametrize(("uid", "job"), [(7, "12"), (0, "12"), (8, None)])
def test_whose_a_client_is_only_its_user_and_root_see(uid: int, job: str | None) -> None:
    assert owners(c1=(7, "12", 3)).seen_by(1, uid) == {"job": job, "priority": 3}
