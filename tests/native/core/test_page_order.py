"""The orders in which shim and dispatcher write and read the words that they share (page_order.cpp)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import native_program

pytestmark = pytest.mark.starts_processes

HERE = Path(__file__).resolve().parent
SOURCES = [HERE / "page_order.cpp", HERE / "page_order_client.c"]


def build(directory: Path, *flags: str) -> Path:
    """The two sides in one program."""
    return native_program.build(directory / "page_order", SOURCES, ["-g1", *flags])


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
