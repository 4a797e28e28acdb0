"""What fikitd remembers of a GPU's switch: a file of its own for each GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from daemon_fakes import FakeCore
from fikitd.config.fikit_toml import SchedulerConfig
from fikitd.gpus.dispatchers import Gpus
from fikitd.gpus.switches import MAX_USERS, Switch, Switches
from fikitd.store.records import JobRecord

GPU = "GPU-6b0f1a52-90cd-4f0e-8c3e-2a2a2a2a2a2a"


def said(us: int, count: int = 40, priority: int = 8) -> Switch:
    return Switch(us * 1000, 2000, count, priority)


def test_the_next_fikitd_knows_what_this_one_measured(tmp_path: Path) -> None:
    Switches(tmp_path).learnt(GPU, [(1000, said(50))])
    assert Switches(tmp_path).of(GPU) == said(50)
    assert (tmp_path / "switches" / GPU).stat().st_mode & 0o777 == 0o600


def test_no_user_alone_decides_what_is_remembered_of_a_gpu_of_three(tmp_path: Path) -> None:
    switches = Switches(tmp_path)
    switches.learnt(GPU, [(1000, said(50)), (1001, said(52)), (1002, said(5000)), (1002, said(4900))])
    assert switches.of(GPU) == Switch(52_000, 2000, 120, 8)
    for _ in range(100):
        switches.learnt(GPU, [(1002, said(0))])
    assert (switches.of(GPU) or said(0)).switch_ns == 50_000


def test_what_low_jobs_say_is_worth_nothing_beside_the_word_of_one_above(tmp_path: Path) -> None:
    switches = Switches(tmp_path)
    switches.learnt(GPU, [(1000, said(50, priority=1)), (1000, said(60, priority=8))])
    for uid in range(2000, 2010):
        switches.learnt(GPU, [(uid, said(5000))])
    assert Switches(tmp_path).of(GPU) == said(50, priority=1)


def test_users_that_were_not_heard_of_for_longest_make_room(tmp_path: Path) -> None:
    for uid in range(MAX_USERS + 5):
        Switches(tmp_path).learnt(GPU, [(uid, said(50))])
    users = json.loads((tmp_path / "switches" / GPU).read_text())["users"]
    assert [entry["uid"] for entry in users] == list(range(5, MAX_USERS + 5))


@pytest.mark.parametrize("place", ["0 of SLURM_JOB_GPUS", "../../etc/passwd", "", "GPU-1", GPU + "/x"])
def test_a_gpu_without_a_uuid_is_not_remembered(tmp_path: Path, place: str) -> None:
    switches = Switches(tmp_path)
    switches.learnt(place, [(1000, said(50))])
    assert switches.of(place) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "\x00\xff", '{"version": 2, "users": []}', "[" * 100_000, " " * 20_000,
        '{"version": 1, "users": [{"uid": 1, "said": {"switch_ns": -1, "spread_ns": 0, "count": 5, "priority": 8}}]}',
        '{"version": 1, "users": [{"uid": 1, "said": {"switch_ns": 6000000, "spread_ns": 0, "count": 5, "priority": 8}}]}',
        '{"version": 1, "users": [{"uid": 1, "said": {"switch_ns": NaN, "spread_ns": 0, "count": 5, "priority": 8}}]}',
        '{"version": 1, "users": [{"uid": 1, "said": {"switch_ns": 5, "spread_ns": 0, "count": 5, "priority": 10}}]}',
        '{"version": 1, "users": [{"uid": -1, "said": {"switch_ns": 5, "spread_ns": 0, "count": 5, "priority": 8}}]}',
    ],
)  # fmt: skip
def test_a_file_that_somebody_spoilt_is_measured_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / "switches").mkdir()
    (tmp_path / "switches" / GPU).write_text(text)
    switches = Switches(tmp_path)
    assert switches.of(GPU) is None
    switches.learnt(GPU, [(1000, said(50))])
    assert Switches(tmp_path).of(GPU) == said(50)


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "switches").mkdir()
    (tmp_path / "elsewhere").write_text("kept")
    (tmp_path / "switches" / GPU).symlink_to(tmp_path / "elsewhere")
    Switches(tmp_path).learnt(GPU, [(1000, said(50))])
    assert (tmp_path / "elsewhere").read_text() == "kept"


def test_where_nothing_can_be_written_fikitd_goes_on(tmp_path: Path) -> None:
    (tmp_path / "switches").write_text("in the way")
    switches = Switches(tmp_path)
    switches.learnt(GPU, [(1000, said(50))])
    assert switches.of(GPU) == said(50)


def test_a_dispatcher_begins_with_what_is_remembered_and_its_clients_words_are_kept(tmp_path: Path) -> None:
    Switches(tmp_path).learnt(GPU, [(1000, said(50))])
    core, switches = FakeCore(), Switches(tmp_path)
    gpus = Gpus(core, SchedulerConfig(), 0, switches)
    gpus.acquire(GPU, JobRecord(job="1", uid=1000, gid=1000, priority=1))
    assert core.remembered == (50_000, 2000, 8)
    core.switches = {7: (80_000, 1000, 20, 5)}
    core.dispatchers[0].clients = {7: {}}
    gpus.note_switch(GPU, {7: 1000})
    assert Switches(tmp_path).of(GPU) == Switch(80_000, 1000, 20, 5)
    gpus.stop()
    gpus.note_switch(GPU, {7: 1000})  # by a client that goes after that
