"""What the policy is told of clients' pages, event by event: as it was told when these were stored.

A difference is a decision to make, not a fault by itself: if the new events are right, store them (`page_history budget 7 400`,
`page_history budget play`, each through `gzip -9n`) and say why in the commit.
"""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import pytest
from sanitized_core import build

pytestmark = pytest.mark.starts_processes

HERE = Path(__file__).parent
APPLY = "-Wl,--wrap=_ZN5fikit6policy6Policy5applyERKNS0_5EventE"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """page_history, compiled."""
    return build(tmp_path_factory.mktemp("history"), [], [HERE / "page_history.cpp"], [APPLY])


def stored(name: str) -> str:
    return gzip.decompress((HERE / "snapshots" / f"{name}.txt.gz").read_bytes()).decode()


def agrees(told: str, before: str, kinds: set[str]) -> None:
    assert kinds <= {line.split()[0] for line in before.splitlines()}
    for number, (line, then) in enumerate(zip(told.splitlines(), before.splitlines(), strict=False), 1):
        assert line == then, f"line {number}"
    assert told == before


def test_a_history_of_pages_becomes_the_same_events(program: Path) -> None:
    """Made up: runs, copies, expired leases, marks, lost and late words."""
    told = subprocess.run([program, "budget", "7", "400"], capture_output=True, text=True, check=True).stdout
    agrees(told, stored("page_history"), {"3", "4", "5", "6", "7", "8", "9", "decision"})


def test_pages_of_a_live_run_become_the_same_events(program: Path) -> None:
    """BERT above ResNet-50 DDP on the emulated GPU, ten times as slow as recorded; their pages as a program saw that only looked."""
    seen = stored("page_live")
    told = subprocess.run([program, "budget", "play"], input=seen, capture_output=True, text=True, check=True).stdout
    agrees(told, stored("page_live_events"), {"3", "4", "5", "7", "8", "9", "decision"})
