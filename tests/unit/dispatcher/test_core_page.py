"""The shared page as the daemon makes it."""

from __future__ import annotations

import fcntl
import mmap
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import core_fake_client as fake
import pytest
from fikitd._core import Dispatcher, make_page

ROOT = Path(__file__).resolve().parents[3]
F_GET_SEALS = 1034
SEAL, SHRINK, GROW = 1, 2, 4


def test_a_page_is_initialised_with_an_open_gate() -> None:
    fd = make_page(True, 5, 7)
    page = fake.Page.from_buffer(mmap.mmap(fd, 0))
    os.close(fd)
    assert (page.magic, page.version, page.measure, page.lease_ns, page.spin_ns) == (0x464B5047, fake.VERSION, 1, 5, 7)
    assert page.page_bytes == fake.c.sizeof(fake.Page)
    assert page.gate == fake.OPEN


def test_a_page_cannot_be_resized_by_whoever_holds_it() -> None:
    fd = make_page(False, 5, 7)
    assert fcntl.fcntl(fd, F_GET_SEALS) == SEAL | SHRINK | GROW
    with pytest.raises(PermissionError):
        os.ftruncate(fd, 0)
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_the_fake_client_has_the_layout_of_the_header(cc: Callable[..., Path], tmp_path: Path) -> None:
    layouts = {
        "fikit_page": fake.Page, "fikit_moves": fake.Moves, "fikit_plan": fake.Plan, "fikit_plan_move": fake.PlanMove,
    }  # fmt: skip
    names = [(struct, name) for struct, layout in layouts.items() for name, *_ in layout._fields_]
    prints = "".join(f'printf("%zu\\n", offsetof(struct {struct}, {name}));' for struct, name in names)
    source = tmp_path / "layout.c"
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <fikit_protocol.h>\n"
        f'int main(void) {{ {prints} printf("%zu\\n", sizeof(struct fikit_page)); return 0; }}'
    )
    program = cc(source, f"-I{ROOT / 'fikitd' / 'core' / 'protocol'}")
    offsets = [
        int(line) for line in subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
    ]
    assert offsets == [*(getattr(layouts[struct], name).offset for struct, name in names), fake.c.sizeof(fake.Page)]


@pytest.mark.parametrize("size", [0, 4096, 1 << 20])
def test_a_descriptor_that_is_not_a_page_is_refused(size: int) -> None:
    fd, bell = os.memfd_create("not-a-page"), os.eventfd(0)
    os.ftruncate(fd, size)
    with fake.dispatcher("paper") as running, pytest.raises(OSError, match="not a page"):
        running.add_client(1, fd, bell, 5, False)
    os.close(fd)
    os.close(bell)


def test_a_policy_or_time_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="use one of fifo, exclusive"):
        Dispatcher("best", fake.LEASE, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="lease"):
        Dispatcher("paper", 0, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="times"):
        Dispatcher("paper", fake.LEASE, -1, 0, 0, 0)
