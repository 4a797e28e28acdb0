"""Whether a program sees the file that an MPS server has in /dev/shm, by the two tables of mounts."""

from __future__ import annotations

from pathlib import Path

import pytest
from fikitd.mps import shared_memory

SERVER, PROGRAM, UID = 0x52, 100, 0
ROOT = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
NODES = ROOT + "30 22 0:26 / /dev/shm rw,nosuid shared:4 - tmpfs tmpfs rw\n"
OWN = NODES + "90 30 0:77 / /dev/shm rw - tmpfs tmpfs rw\n"


@pytest.fixture
def shm(tmp_path: Path) -> Path:
    """With the server's file."""
    made = tmp_path / "shm"
    made.mkdir()
    (made / "cuda.shm.0.52.1").touch()
    return made


def tables(root: Path, server: str | None, program: str | None) -> Path:
    for pid, text in ((SERVER, server), (PROGRAM, program)):
        (root / str(pid)).mkdir()
        if text is not None:
            (root / str(pid) / "mountinfo").write_text(text)
    return root


@pytest.mark.parametrize(
    ("program", "hidden"),
    [
        (NODES, False),
        (OWN, True),  # the newest mount at a place is what a process sees
        (NODES.replace("0:26 /", "0:26 /inner"), True),  # a part of the node's
        (ROOT, True),  # a container's, on its own root
        (NODES.replace("/dev/shm", "/dev/shm2"), True),
        (None, False),  # it has ended: nothing is known
        (NODES + "#" * shared_memory.MOST_BYTES, False),  # too long to say
    ],
)
def test_what_is_mounted_there_decides(tmp_path: Path, shm: Path, program: str | None, hidden: bool) -> None:
    proc = tables(tmp_path, NODES, program)
    assert shared_memory.hidden(proc, SERVER, UID, PROGRAM, shm) is hidden


@pytest.mark.parametrize("name", ["", "cuda.shm.0.53.1", "cuda.shm.1000.52.1", "cuda.shm.0.52.x"])
def test_a_server_without_a_file_hides_nothing(tmp_path: Path, shm: Path, name: str) -> None:
    (shm / "cuda.shm.0.52.1").unlink()
    if name:
        (shm / name).touch()
    assert not shared_memory.hidden(tables(tmp_path, NODES, OWN), SERVER, UID, PROGRAM, shm)


def test_a_server_of_which_nothing_is_known_hides_nothing(tmp_path: Path, shm: Path) -> None:
    assert not shared_memory.hidden(tables(tmp_path, None, OWN), SERVER, UID, PROGRAM, shm)
