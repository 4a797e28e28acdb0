"""Status files of nodes, which whoever reads them takes for hostile input."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from fikitd.api import status_format, statuses
from hostile_values import junk, spoiled, strings
from hypothesis import given
from hypothesis import strategies as st
from status_samples import NOW_S, gpu, job, status, write

FULL = status(
    "gpu17", gpu(0, job(12, slowdown=1.03, max_slowdown=0.05), job(18, 8)), gpu(1, job(31, None, share=None), use=0.21),
    broken=[{"job": "9", "uid": 4711, "priority": 1, "slowdown": 1.2, "max_slowdown": 0.05, "ended_s": NOW_S - 60}],
)  # fmt: skip


def test_what_a_node_wrote_is_read_by_its_name(tmp_path: Path) -> None:
    found = statuses.read(write(tmp_path / "s", FULL, status("GPU18")), NOW_S)
    assert found.by_node == {"gpu17": FULL, "gpu18": status("GPU18")}
    assert found.refused == {}


def test_who_has_not_written_for_a_minute_is_late() -> None:
    assert [statuses.is_late(FULL, NOW_S + after) for after in (0, 50, 60)] == [False, False, True]


def test_what_is_no_status_hides_no_other_one(tmp_path: Path) -> None:
    directory = write(tmp_path / "s", FULL)
    (directory / "a.status").write_text("{")
    (directory / "b.status").write_text(json.dumps(FULL))  # another node's
    (directory / "c.status").symlink_to(directory / "gpu17.status")
    (directory / "d.status").write_text(" " * (status_format.MOST_BYTES + 1))
    os.mkfifo(directory / "e.status")
    write(directory, status("f", written_s=NOW_S + 3 * 86_400))
    write(directory, status("g"))
    (directory / "g.status").chmod(0o666)
    (directory / "h\x1b[2J.status").write_text("{}")
    (directory / ".i.status").write_text("unfinished")
    found = statuses.read(directory, NOW_S)
    assert list(found.by_node) == ["gpu17"]
    assert sorted(found.refused) == [
        "a.status",
        "b.status",
        "c.status",
        "d.status",
        "e.status",
        "f.status",
        "g.status",
        "h?[2J.status",
    ]
    assert found.refused["b.status"] == "it is about node gpu17"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who can give files to others")
def test_another_users_file_says_nothing_of_a_node(tmp_path: Path) -> None:
    directory = write(tmp_path / "s", FULL)
    os.chown(directory / "gpu17.status", 4711, -1)
    assert statuses.read(directory, NOW_S).by_node == {}


def test_a_directory_that_others_may_write_to_is_not_read(tmp_path: Path) -> None:
    directory = write(tmp_path / "s", FULL)
    directory.chmod(0o1777)
    with pytest.raises(ValueError, match="others than root may write there"):
        statuses.read(directory, NOW_S)


def test_of_too_many_gpus_or_jobs_nothing_is_read() -> None:
    with pytest.raises(ValueError, match="gpus"):
        status_format.checked({**FULL, "gpus": [gpu(0)] * (status_format.MOST_GPUS + 1)})


@given(st.data())
def test_whatever_stands_in_a_file_is_refused_or_within_bounds(data: st.DataObject) -> None:
    document = data.draw(spoiled(FULL))
    try:
        found = status_format.checked(document)
    except ValueError:
        return
    assert all(text.isprintable() for text in strings(found))
    assert all(0 <= (each["use"] or 0) <= 1 for each in found["gpus"])


@given(junk)
def test_junk_is_refused(text: bytes) -> None:
    def read() -> Any:
        return status_format.checked(statuses.schema.document(text, statuses.MOST_VALUES))

    with pytest.raises(ValueError, match=r".+"):
        read()
