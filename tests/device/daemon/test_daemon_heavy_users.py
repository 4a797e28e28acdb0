"""One user's profiles and traces, as large as that user likes: others' requests and first launches take no longer, and root's
daemon does not grow."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from daemon_process import Fikitd, usual_daemon
from heavy_user import (
    HEAVY,
    Child,
    ask_for_traces,
    crafted_profile,
    fill_journal,
    managed,
    median_ms,
    memory_mib,
    others_notice,
)

from fikitd import paths

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become several users")

MIB = 2**20
CLIENTS, REQUESTS, EVENTS = 12, 16, 16384
PROFILES, PROFILE_BYTES, HELLOS = 4, 4 * MIB, 8


@pytest.fixture
def daemon() -> Iterator[Fikitd]:
    with (
        tempfile.TemporaryDirectory() as name
    ):  # pytest's are private, and every pytest that begins makes them so again
        Path(name).chmod(0o755)
        yield from usual_daemon(Path(name))


@pytest.fixture
def at(cc: Callable[..., Path]) -> dict[str, int]:
    """Offsets in a page."""
    include = Path(paths.__file__).resolve().parent.parent / "core" / "protocol"
    program = cc(Path(__file__).resolve().parents[1] / "programs/shim/shim_offsets.c", f"-I{include}")
    return dict(json.loads(subprocess.check_output([program])))


def attack(daemon: Fikitd, at: dict[str, int], sizes: tuple[int, int, int, int, int, int] | None = None) -> Child:
    """All of it at once; what it holds it keeps until it is ended."""
    clients, requests, events, profiles, profile_bytes, hellos = sizes or (
        CLIENTS, REQUESTS, EVENTS, PROFILES, PROFILE_BYTES, HELLOS,
    )  # fmt: skip
    own = daemon.profiles / str(HEAVY)
    (own / "heavy").mkdir(parents=True)
    for number in range(profiles):
        (own / "heavy" / f"20260101T00000{number}Z-1.json").write_bytes(crafted_profile(profile_bytes))
    for path in (own, own / "heavy", *(own / "heavy").iterdir()):
        os.chown(path, HEAVY, HEAVY)

    def do() -> Any:
        held = [managed(daemon.run_dir) for _ in range(clients)]
        for _, descriptors in held:
            fill_journal(descriptors[0], at["ring"], at["ring_head"], events)
        traces = ask_for_traces(daemon.run_dir, "1", requests)
        return held, traces, [managed(daemon.run_dir) for _ in range(hellos)]

    return Child(daemon, HEAVY, "1", do, profile="heavy")


def test_large_profiles_and_unread_traces_of_one_user_cost_others_nothing(daemon: Fikitd, at: dict[str, int]) -> None:
    undisturbed = others_notice(daemon, 20)
    before = memory_mib(daemon)
    heavy = attack(daemon, at)
    try:
        beside = others_notice(daemon, 60)
        heavy.wait_until_ready()
        after = others_notice(daemon, 20)
    finally:
        heavy.end()
    assert memory_mib(daemon) < before + 60
    for what, taken in undisturbed.items():
        bar_ms = 2 * median_ms(taken) + 50
        assert median_ms(beside[what]) < bar_ms
        assert median_ms(after[what]) < bar_ms
        assert 1e3 * max(beside[what] + after[what]) < 2 * 1e3 * max(taken) + 500, "on a busy machine"
