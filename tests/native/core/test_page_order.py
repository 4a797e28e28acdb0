"""The orders in which shim and dispatcher write and read the words that they share (page_order.cpp)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.starts_processes

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
CORE = ROOT / "fikitd" / "core"
SHIM = ROOT / "shim"
CLIENT = [HERE / "page_order_client.c", SHIM / "gate/gate.c", SHIM / "base/handle_map.c", SHIM / "base/lock.c"]
DAEMON = [HERE / "page_order.cpp", *(CORE / "dispatcher" / f"{name}.cpp" for name in ("page", "ring", "core_wait"))]


def build(directory: Path, *flags: str) -> Path:
    """The two sides in one program."""
    subprocess.run(
        [sys.executable, "-B", SHIM / "generate.py", ROOT / "driver_api", SHIM / "entry_points.def", directory],
        check=True,
    )
    common = [*flags, "-g1", f"-I{CORE}", f"-I{CORE / 'protocol'}", f"-I{HERE}", "-c"]
    of_shim = ["cc", *common, "-std=gnu11", "-D_GNU_SOURCE", f"-I{SHIM}", f"-I{directory}"]
    jobs = [(of_shim if source in CLIENT else ["c++", *common, "-std=c++20"], source) for source in [*CLIENT, *DAEMON]]
    running = [subprocess.Popen([*command, source, "-o", directory / f"{source.stem}.o"]) for command, source in jobs]
    assert [compiler.wait() for compiler in running] == [0] * len(running)
    program = directory / "page_order"
    objects = [directory / f"{source.stem}.o" for source in [*CLIENT, *DAEMON]]
    subprocess.run(["c++", *flags, "-o", program, *objects, "-lpthread"], check=True)
    return program


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("checked"), "-O1", "-fsanitize=thread", "-Wno-tsan")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("plain"), "-O2")


def run(program: Path, scenario: str) -> None:
    done = subprocess.run([program, scenario], capture_output=True, text=True, timeout=120, check=False)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip(f"the sanitizer does not run on this kernel: {done.stderr}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


@pytest.mark.parametrize(
    "scenario", ["reports", "requests and grants", "gate", "runs", "new handles", "changed handle", "driver"]
)
def test_who_sees_the_word_sees_what_was_written_before_it(scenario: str, checked: Path) -> None:
    run(checked, scenario)


def test_request_is_never_read_as_a_mixture_of_two(plain: Path) -> None:
    run(plain, "whole requests")


def test_client_that_asks_while_the_dispatcher_falls_asleep_rings_or_is_seen(plain: Path) -> None:
    run(plain, "bells")
