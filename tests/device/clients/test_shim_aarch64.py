"""The shim and the emulated driver of aarch64, cross-built, under qemu: what they do is what they do on x86-64."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from compiler import Compiler
from cross import PREFIX, Aarch64, missing
from fikit.slurm import elf
from shim_daemon import LONGEST_LEASE_S, Daemon, Layout
from shim_program import DRIVER_FLAGS, FAKE_CUDA, driver_of
from shim_table import SYMBOLS
from test_conformance_under_shim import granting

pytest_plugins = ["shim_fixtures"]
pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=f"not installed: {', '.join(missing())}"),
    pytest.mark.timeout(300),
]

StartDaemon = Callable[..., Daemon]
Run = Callable[..., str]
SOURCES = Path(__file__).resolve().parents[1] / "programs/shim"
CONFORMANCE = Path(__file__).resolve().parents[2] / "conformance"
PROGRAMS = {source.stem: source for source in CONFORMANCE.rglob("*.c")}
PROTOCOL = Path(__file__).resolve().parents[3] / "fikitd" / "core" / "protocol"
# Each strains another part of what differs: the stubs, the loader, threads at a closed gate, signals, children.
HABITS = {
    "threads": ["cancel at the gate", "smallest stack", "launch from signals", "everything at once"],
    "process": ["fork", "_exit", "launch in atexit", "pthread_exit of main"],
}
# Two processes each: qemu shows a process another begin in its own /proc/self/stat than others see in /proc/PID/stat, by which
# the emulated devices tell who is gone.
TWO_PROCESSES = {"graph_misuse", "interprocess", "memory_mapping"}
HOW: dict[str, dict[str, object]] = {
    "open": {},
    "measured": {"measure": True},
    "closed": {"closed": True, "lease_s": 0.2},
}


@pytest.fixture(scope="module")
def built() -> Path:
    return Aarch64.built()


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Aarch64:
    return Aarch64(Compiler(tmp_path_factory.mktemp("aarch64"), PREFIX))


@pytest.fixture(scope="module")
def arm_shim(built: Path) -> Path:
    return built / "shim" / "libfikit_shim.so"


@pytest.fixture(scope="module")
def arm_driver(arm: Aarch64, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in driver."""
    return driver_of(arm.cc(*FAKE_CUDA), tmp_path_factory.mktemp("driver"))


@pytest.fixture
def env(arm_shim: Path, arm_driver: Path) -> Callable[..., dict[str, str]]:
    base = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": str(arm_shim), "LD_LIBRARY_PATH": str(arm_driver.parent)}
    return lambda **more: {**base, **more}


def test_page_has_the_same_layout(arm: Aarch64, page_layout: Layout) -> None:
    done = arm.run(arm.cc(SOURCES / "shim_offsets.c", f"-I{PROTOCOL}"), env={"PATH": "/usr/bin"})
    assert json.loads(done.stdout) == page_layout


def test_exports_are_the_same_and_glibc_may_be_as_old(arm_shim: Path, shim: Path) -> None:
    exported = elf.exported(arm_shim) - {""}  # this processor's linker leaves the sections' own entries in
    assert exported == elf.exported(shim)
    assert exported >= set(SYMBOLS)
    versions = [tuple(map(int, re.findall(r"\d+", name))) for name in elf.needed_versions(arm_shim)]
    assert versions
    assert max(versions) <= (2, 28)


def test_arguments_pass_untouched(
    arm: Aarch64, env: Callable[..., dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = SOURCES / "shim_registers.c"
    driver = driver_of(arm.cc(source, "-DDRIVER", *DRIVER_FLAGS), tmp_path_factory.mktemp("registers"))
    program = arm.cc(source, f"-L{driver.parent}", "-lcuda")
    place = {"LD_LIBRARY_PATH": str(driver.parent)}
    alone = arm.run(program, env=place)
    assert alone.returncode == 0
    assert alone.stdout
    assert arm.run(program, env=env(**place)) == alone


LINKED = ["linked", "next", "default"]
OPENED = ["name", "devel", "global", "proc1", "proc1 per thread", "proc2", "proc2 per thread"]


@pytest.mark.parametrize("way", [*LINKED, *OPENED, "path"])
def test_every_way_to_the_driver_passes_the_shim(
    way: str, arm: Aarch64, arm_driver: Path, env: Callable[..., dict[str, str]], daemon: StartDaemon
) -> None:
    flags = ["-DLINKED", f"-L{arm_driver.parent}", "-lcuda"] if way in LINKED else []
    fikitd = daemon()
    path = [str(arm_driver)] if way == "path" else []
    done = arm.run(arm.cc(SOURCES / "shim_loads.c", *flags), way, *path, env=env(FIKIT_SOCKET=str(fikitd.path)))
    assert (done.returncode, done.stderr) == (0, "")
    assert fikitd.page().launches() == 1


@pytest.mark.parametrize("flag", ["local", "deepbind"])
def test_library_that_opens_the_driver(
    flag: str, arm: Aarch64, env: Callable[..., dict[str, str]], daemon: StartDaemon
) -> None:
    inner = arm.cc(SOURCES / "shim_loads.c", "-DINNER", "-shared", "-fPIC")
    fikitd = daemon()
    done = arm.run(
        arm.cc(SOURCES / "shim_loads.c"), f"in:{flag}", inner, "proc2", env=env(FIKIT_SOCKET=str(fikitd.path))
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert fikitd.page().launches() == 1


def test_next_keeps_its_meaning_for_other_names(arm: Aarch64, env: Callable[..., dict[str, str]]) -> None:
    second = arm.cc(SOURCES / "shim_next.c", "-shared", "-fPIC")
    beside = ["-Wl,--no-as-needed", str(second), f"-Wl,-rpath,{arm.cc.out}"]
    first = arm.cc(SOURCES / "shim_next.c", "-DFIRST", "-shared", "-fPIC", *beside)
    main = arm.cc(SOURCES / "shim_next_main.c", "-Wl,--no-as-needed", str(first), *beside[1:])
    done = arm.run(main, env=env())
    assert (done.stdout, done.stderr) == ("the second library\n", "")


def test_entry_in_the_preload_list_is_found_by_the_loader(
    arm: Aarch64, arm_shim: Path, env: Callable[..., dict[str, str]], daemon: StartDaemon, tmp_path: Path
) -> None:
    """glibc's loader replaces $PLATFORM by aarch64, where the library's copy is (shim/CMakeLists.txt)."""
    install = ["cmake", "--install", arm_shim.parent, "--prefix", tmp_path]
    subprocess.run(install, check=True, capture_output=True)
    copy = tmp_path / "fikitd" / "native" / "aarch64" / "libfikit_shim.so"
    assert copy.read_bytes() == (tmp_path / "fikitd" / "native" / "libfikit_shim.so").read_bytes()
    fikitd = daemon()
    entry = str(copy.parent.parent / "$PLATFORM" / copy.name)
    done = arm.run(arm.cc(SOURCES / "shim_loads.c"), "name", env=env(LD_PRELOAD=entry, FIKIT_SOCKET=str(fikitd.path)))
    assert (done.returncode, done.stderr) == (0, "")
    assert fikitd.page().launches() == 1


def test_machine_without_a_driver(arm: Aarch64, env: Callable[..., dict[str, str]], tmp_path: Path) -> None:
    source = tmp_path / "none.c"
    source.write_text(
        "#include <dlfcn.h>\n#include <stdio.h>\nint main(void) {\n"
        'void *cuda = dlopen("libcuda.so.1", RTLD_NOW);\n'
        'int (*init)(unsigned) = (int (*)(unsigned))dlsym(cuda, "cuInit");\n'
        'printf("%d\\n", init(0));\nreturn 0; }\n'
    )
    done = arm.run(arm.cc(source), env=env(LD_LIBRARY_PATH="/nowhere"))
    assert (done.stdout, done.stderr) == ("100\n", "")


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("what", "habit"), [(what, habit) for what, habits in HABITS.items() for habit in habits])
def test_program_goes_on_as_without_the_shim(
    *,
    what: str,
    habit: str,
    how: str,
    arm: Aarch64,
    arm_driver: Path,
    env: Callable[..., dict[str, str]],
    daemon: StartDaemon,
) -> None:
    program = arm.cc(SOURCES / f"shim_hostile_{what}.c", f"-L{arm_driver.parent}", "-lcuda", "-pthread")
    managed = env(FIKIT_SOCKET=str(daemon(**HOW[how]).path))
    alone = arm.run(program, habit, env={name: value for name, value in managed.items() if name != "LD_PRELOAD"})
    assert arm.run(program, habit, env=managed) == alone
    assert alone.stdout or habit == "_exit"


@pytest.mark.parametrize("program", sorted(set(PROGRAMS) - TWO_PROCESSES))
def test_conformance_of_the_emulated_driver_launch_by_launch(  # noqa: PLR0917
    program: str,
    arm: Aarch64,
    arm_shim: Path,
    built: Path,
    daemon: StartDaemon,
    emulator_env: Callable[..., dict[str, str]],
) -> None:
    """Through a closed gate, at which each launch waits until it is granted."""
    driver = built / "emulator" / "driver"
    binary = arm.cc(PROGRAMS[program], f"-L{driver}", "-l:libcuda.so.1", "-pthread")
    fikitd = daemon(closed=True, lease_s=LONGEST_LEASE_S)
    env = emulator_env(
        LD_LIBRARY_PATH=str(driver),
        LD_PRELOAD=str(arm_shim),
        FIKIT_SOCKET=str(fikitd.path),
    )
    with granting(fikitd):
        done = arm.run(binary, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    lines = (CONFORMANCE / "expectations.txt").read_text().splitlines()
    expected = sorted(line.removeprefix(f"{program}.").split() for line in lines if line.startswith(f"{program}."))
    assert sorted(line.split() for line in done.stdout.splitlines()) == expected
    assert [page.u64("expired_count") for page in fikitd.pages] == [0] * len(fikitd.pages)


def test_program_is_managed_by_the_fikitd_of_this_machine(
    arm: Aarch64, arm_shim: Path, built: Path, emulator_env: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    """One page, shared by both: every launch that the program makes is in its job's report."""
    bench = built / "shim" / "fikit-launch-bench"
    env = {"LD_PRELOAD": str(arm_shim), "LD_LIBRARY_PATH": str(built / "emulator" / "driver")}
    command = ["fikit", "run", "--emulated", "--priority", "high", "--", *arm.command(bench, "10", "20", env=env)]
    where = Path(sys.executable).parent
    done = subprocess.run(
        [where / command[0], *command[1:]],
        env=emulator_env(XDG_RUNTIME_DIR=str(tmp_path), XDG_STATE_HOME=str(tmp_path / "state")),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert f"{2 * (10 + 2) * 20} kernels" in done.stderr
