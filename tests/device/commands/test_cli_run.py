"""`fikit run` as a user meets it: real processes, a fikitd of the test's own, an emulated GPU where one is needed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fikitd.api.client import Control, DaemonUnreachable
from fikitd.config.fikit_toml import SchedulerConfig

from fikitd import paths

# Whoever runs the tests in the background ignores SIGINT, and programs inherit that: these tests send it.
WITH_SIGINT = ["env", "--default-signal=INT"]

Environment = Callable[..., dict[str, str]]

SPIN = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def check(status): assert status == 0, status
check(cuda.cuInit(0))
context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
ptx = b".version 8.0\\n.target sm_90\\n.address_size 64\\n.visible .entry fikit_spin(.param .u64 ns) { ret; }\\n"
check(cuda.cuModuleLoadData(ctypes.byref(module), ptx))
check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"fikit_spin"))
duration = ctypes.c_uint64(100_000)
parameters = (ctypes.c_void_p * 1)(ctypes.addressof(duration))
for _ in range(int(sys.argv[1])):
    check(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, parameters, None))
check(cuda.cuCtxSynchronize())
"""


@pytest.fixture
def site(tmp_path: Path, emulator_env: Environment) -> Iterator[dict[str, str]]:
    """An environment whose fikitd, reports and profiles are this test's; the daemon is stopped afterwards."""
    for name in ("run", "reports", "profiles"):
        (tmp_path / name).mkdir()
    config = tmp_path / "fikit.toml"
    lines = [
        f'{name}_dir = "{tmp_path / folder}"'
        for name, folder in (("run", "run"), ("report", "reports"), ("profile", "profiles"))
    ]
    config.write_text("[daemon]\n" + "\n".join(lines) + "\nidle_exit_s = 30\n")
    yield emulator_env(FIKIT_CONFIG=str(config))
    try:
        Control(tmp_path / "run").shutdown()
    except DaemonUnreachable:
        return


def fikit(env: dict[str, str], *argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fikit", *argv]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 128 + signal.SIGTERM)])
def test_exit_code_is_the_programs(site: dict[str, str], script: str, code: int) -> None:
    done = fikit(site, "run", "--", "sh", "-c", script)
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signal_reaches_the_program(site: dict[str, str], number: signal.Signals) -> None:
    script = f"trap 'exit 5' {number.name.removeprefix('SIG')}; echo ready; while :; do sleep 0.05; done"
    command = [*WITH_SIGINT, sys.executable, "-m", "fikit", "run", "--", "sh", "-c", script]
    with subprocess.Popen(command, env=site, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(20) == 5


def test_terminals_interrupt_is_delivered_once(site: dict[str, str]) -> None:
    script = "n=0; trap 'n=$((n+1))' INT; echo ready; read line; echo $n"
    leader, follower = os.openpty()
    command = [*WITH_SIGINT, sys.executable, "-m", "fikit", "run", "--", "sh", "-c", script]
    with subprocess.Popen(
        ["setsid", "--ctty", "--wait", *command], env=site, stdin=follower, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.write(leader, b"\x03")  # Ctrl-C
        os.write(leader, b"\nmore\n")
        assert process.stdout.readline() == "1\n"
        process.wait(20)
    os.close(leader)
    os.close(follower)


@pytest.mark.parametrize(("program", "code", "text"), [
    ("/nonexistent/program", 127, 'there is no program "/nonexistent/program"'),
    ("/etc/passwd", 126, '"/etc/passwd" is not executable'),
])  # fmt: skip
def test_program_that_cannot_start_is_one_sentence(site: dict[str, str], program: str, code: int, text: str) -> None:
    done = fikit(site, "run", "--", program)
    assert done.returncode == code
    assert done.stderr.count("\n") == 1
    assert text in done.stderr


@pytest.mark.parametrize(("option", "value"), [("--priority", "urgent"), ("--mem", "lots"), ("--profile", "a b"), ("--max-slowdown", "120%"), ("--max-delay", "200")])  # fmt: skip
def test_bad_option_is_one_sentence_that_names_the_value(site: dict[str, str], option: str, value: str) -> None:
    done = fikit(site, "run", option, value, "--", "true")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f'"{value}"' in done.stderr


def test_only_the_socket_and_the_preload_entry_enter_the_program(site: dict[str, str]) -> None:
    done = fikit({**site, "LD_PRELOAD": "/lib/mine.so"}, "run", "--", "env")
    inside = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    added = {name for name, value in inside.items() if site.get(name) != value} - {"_"}
    assert added == {"FIKIT_SOCKET", "LD_PRELOAD"}
    assert re.fullmatch(r"\S+/libfikit_shim\.so:/lib/mine\.so", inside["LD_PRELOAD"])
    within = fikit({**site, "LD_PRELOAD": f"{paths.shim()}:{inside['LD_PRELOAD']}"}, "run", "--", "env")
    assert f"\nLD_PRELOAD={inside['LD_PRELOAD']}\n" in within.stdout


@pytest.mark.parametrize("kind", ["musl_program", "program_of_32_bits"])
def test_program_that_is_no_64_bit_glibc_program_runs_silently(
    request: pytest.FixtureRequest, site: dict[str, str], kind: str
) -> None:
    done = fikit(site, "run", "--", str(request.getfixturevalue(kind)))
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


def test_installation_at_a_path_that_no_preload_list_can_name_is_one_sentence(
    site: dict[str, str], native: Path, tmp_path: Path
) -> None:
    (tmp_path / "my fikit").symlink_to(native)
    done = fikit({**site, "FIKIT_NATIVE": str(tmp_path / "my fikit")}, "run", "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert done.stderr.count("\n") == 1
    assert "space or a colon" in done.stderr


def test_record_exists_while_the_program_runs_and_option_beats_environment(
    site: dict[str, str], tmp_path: Path
) -> None:
    env = {**site, "FIKIT_PRIORITY": "low", "FIKIT_MEM": "2G", "FIKIT_MAX_DELAY": "200us", "FIKIT_MAX_SLOWDOWN": "10%"}
    options = ("--priority", "high", "--max-slowdown", "2%")
    done = fikit(env, "run", *options, "--", "sh", "-c", f"cat {tmp_path}/run/jobs/*; echo pid $PPID")
    *lines, last = done.stdout.splitlines()
    record = dict(line.split("=", 1) for line in lines)
    assert record["priority"] == "1"
    assert record["mem_bytes"] == str(2 * 2**30)
    assert (record["max_slowdown"], record["max_delay_ns"]) == ("0.020000", "200000")
    assert record["job"] == f"run-{record['pid']}-1"
    assert last == f"pid {record['pid']}"
    assert not list((tmp_path / "run" / "jobs").iterdir())


def test_a_mistake_in_fikit_toml_does_not_keep_the_program_from_running(site: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "fikit.toml").write_text("[deamon]\n")
    done = fikit(site, "run", "--", "sh", "-c", "echo hello; exit 4")
    assert (done.returncode, done.stdout) == (4, "hello\n")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("fikit: warning: the program runs unmanaged: ")
    assert done.stderr.endswith("did you mean [daemon]?\n")


def test_without_room_or_proc_the_program_runs_and_is_told_what_to_do(site: dict[str, str], tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    (tmp_path / "full").mkdir()
    fikit_run = f"{sys.executable} -m fikit run -- echo hello"
    personal = {name: value for name, value in site.items() if name != "FIKIT_CONFIG"} | {
        "XDG_STATE_HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "full"),
    }  # fmt: skip
    full = f"mount -t tmpfs -o size=16k,mode=700 tmpfs {tmp_path}/full && head -c 32k /dev/zero >{tmp_path}/full/fill"
    for before, env, said in (
        (full, personal, f"couldn't write in {tmp_path}/full/fikit: No space left on device: make room there, or set"),
        ("umount -l /proc", site, "No such file or directory: fikit needs /proc"),
    ):
        script = f"{before}; {fikit_run}"
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
            env=env, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, "hello\n")
        warning = [line for line in done.stderr.splitlines() if line.startswith("fikit: ")]
        assert len(warning) == 1, done.stderr
        assert said in warning[0]
        assert warning[0].startswith("fikit: warning: the program runs unmanaged: ")


def test_without_a_daemon_the_program_runs_with_one_warning(site: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "run").rmdir()
    (tmp_path / "run").write_text("in the way")
    done = fikit(site, "run", "--", "sh", "-c", "echo hello; exit 4")
    assert (done.returncode, done.stdout) == (4, "hello\n")
    assert done.stderr.count("\n") == 1
    assert "the program runs unmanaged" in done.stderr
    (tmp_path / "run").unlink()
    (tmp_path / "run").mkdir()


def test_policy_of_a_running_daemon_cannot_be_changed_under_its_jobs(site: dict[str, str]) -> None:
    inner = f"{sys.executable} -m fikit run --policy fifo -- true"
    done = fikit(site, "run", "--", "sh", "-c", f"{inner}; echo inner $?")
    assert "inner 1" in done.stdout
    assert f"policy {SchedulerConfig().policy}" in done.stderr


def test_program_on_the_emulated_gpu_gets_a_summary_and_a_report(site: dict[str, str]) -> None:
    done = fikit(site, "run", "--emulated", "--priority", "high", "--", sys.executable, "-c", SPIN, "50")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^fikit: job run-\d+-1 high: .*50 kernels.*\(emulated GPU\)$", done.stderr, re.MULTILINE)
    report = json.loads(fikit(site, "report", "--json").stdout)
    assert (report["kernels"], report["priority_name"], report["state"]) == (50, "high", "ended")
    assert report["device"]["emulated"] is True


@pytest.mark.parametrize(
    ("rule", "options", "why"),
    [
        ("", ["--mem", "1G"], 'this site does not allow it: allow = "no" in [oversubscribe] of fikit.toml'),
        ('allow = "lower"', ["--mem", "1G", "--priority", "high"], "it is for jobs below high only"),
        ('allow = "lower"', ["--mem", "1G"], None),
    ],
)
def test_a_program_that_has_no_memory_on_the_host_hears_why_before_it_begins(
    site: dict[str, str], tmp_path: Path, rule: str, options: list[str], why: str | None
) -> None:
    with (tmp_path / "fikit.toml").open("a") as config:
        config.write(f"[oversubscribe]\n{rule}\n")
    said = fikit(site, "run", *options, "--mem-host", "1G", "--", "sh", "-c", "echo began >&2")
    assert said.stderr == (f"fikit: warning: --mem-host has no effect: {why}\n" if why else "") + "began\n"


def test_measured_program_leaves_a_profile_that_the_next_run_finds(site: dict[str, str]) -> None:
    program = ["--emulated", "--profile", "spin", "--", sys.executable, "-c", SPIN, "50"]
    assert "profile spin stored" in fikit(site, "run", "--measure", *program).stderr
    shown = json.loads(fikit(site, "profile", "show", "spin", "--json").stdout)
    (kernel,) = shown["kernels"]
    assert kernel["name"] == "fikit_spin"
    assert kernel["p50_ns"] == pytest.approx(100_000, rel=0.2)
    assert "of its time alone" in fikit(site, "run", *program).stderr


def test_first_program_of_a_site_whose_report_directory_is_not_made_yet_is_managed(
    site: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "reports").rmdir()
    done = fikit(site, "run", "--emulated", "--", sys.executable, "-c", SPIN, "3")
    assert (done.returncode, "3 kernels" in done.stderr, "unmanaged" in done.stderr) == (0, True, False), done.stderr
