"""Fixtures that every level uses: where the native files are, an emulated GPU of one's own, a C compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from compiler import ROOT, Compiler
from hypothesis import settings
from own_directories import OwnDirectories, has_none
from quick import OPTION, Quick
from slow import why_slow

from examples import FULL, QUICK
from fikitd import paths

OTHER_LIBC = "tests/other_libc.c"
CLUSTER = ROOT / "tests/cluster"

settings.load_profile(FULL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        OPTION, action="store_true", help="leave out tests that start processes, fail one that does not say so"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption(OPTION):
        config.pluginmanager.register(Quick())
        settings.load_profile(QUICK)
    if has_none(config):
        config.pluginmanager.register(OwnDirectories(config))


@pytest.hookimpl(tryfirst=True)  # before xdist, which reads the marks in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With workers (`make test`): a file's tests stay together, and so do all that share the one Slurm. What `make slow` has is marked."""
    for item in items:
        of_cluster = item.path.is_relative_to(CLUSTER)
        item.add_marker(pytest.mark.xdist_group("cluster" if of_cluster else item.path.stem))
        if item.path.is_relative_to(ROOT) and why_slow(item.path.relative_to(ROOT)):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def native() -> Path:
    """Directory of the built native files (docs/design/contracts.md, "Native files")."""
    return paths.native_dir()


@pytest.fixture
def emulator_env(native: Path) -> Iterator[Callable[..., dict[str, str]]]:
    """A function that returns an environment whose libcuda is an emulated device set of this test's own."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    base = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("FIKIT_", "EMUCUDA_", "CUDA_", "LD_"))},
        "LD_LIBRARY_PATH": str(native / "emulator"),
        "EMUCUDA_NAME": name,
    }
    yield lambda **overrides: {**base, **overrides}
    subprocess.run([native / "bin" / "emuctl", "reset"], env=base, check=False, capture_output=True)


@pytest.fixture(scope="session")
def cc(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compile a C or C++ source once per session and set of flags; returns the program or library."""
    return Compiler(tmp_path_factory.mktemp("cc"))


@pytest.fixture(scope="session")
def musl_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dynamic program with another C library than glibc; it prints "fine" and becomes the program that it is given."""
    if shutil.which("musl-gcc") is None:
        pytest.skip("needs musl-tools")
    program = tmp_path_factory.mktemp("musl") / "musl"
    subprocess.run(["musl-gcc", "-rdynamic", "-o", program, OTHER_LIBC], cwd=ROOT, check=True)
    return program


@pytest.fixture(scope="session")
def program_of_32_bits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with glibc, for 32 bits. Built with what the C library has, without the compiler's own files for 32 bits."""
    start, end = (Path("/usr/lib32") / name for name in ("crt1.o", "crti.o")), Path("/usr/lib32/crtn.o")
    if not end.exists():
        pytest.skip("needs libc6-dev-i386")
    program = tmp_path_factory.mktemp("bits") / "bits_32"
    flags = ["-m32", "-rdynamic", "-nostartfiles", "-nodefaultlibs"]
    command = ["gcc", *flags, "-o", program, *start, OTHER_LIBC, "-lc", "-ldl", "-lpthread", end]
    subprocess.run(command, cwd=ROOT, check=True)
    return program
