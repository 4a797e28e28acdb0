"""The doctor about MPS: what fikit.toml asks for, what that needs, and an MPS that is not fikit's."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import pytest
from daemon_fakes import eventually
from fikit.checks import gpu, mps
from fikitd.mps import control, notes, programs
from fikitd.mps.notes import State


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """RUN_DIR/mps of a fikitd that runs MPS."""
    made = tmp_path / notes.DIRECTORY
    made.mkdir()
    made.chmod(0o755)
    return made


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """NVIDIA's two programs, and no others, in PATH."""
    made = tmp_path / "tools"
    made.mkdir()
    for name in (programs.PROGRAM, programs.SERVER_PROGRAM):
        (made / name).write_text("multiuser-server")
        (made / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(made))
    return made


def asks_for(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In fikit.toml."""
    file = tmp_path / "fikit.toml"
    file.write_text(f'[daemon]\nrun_dir = "{tmp_path}"\n[gpu]\nmps = "{mode}"\n')
    monkeypatch.setenv("FIKIT_CONFIG", str(file))


def test_where_mps_is_off_and_none_is_there_one_finding_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks_for("off", tmp_path, monkeypatch)
    monkeypatch.setattr(control, "daemons", lambda proc: [])
    monkeypatch.delenv(control.ENV_PIPES, raising=False)
    (only,) = mps.area(has_gpu=True)
    assert (only.status, only.found) == ("ok", "time slices: sharing jobs take turns on their GPU")


@pytest.mark.starts_processes
def test_a_machine_without_a_gpu_needs_no_programs_of_nvidias(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asks_for("multi-user", tmp_path, monkeypatch)
    assert "MPS programs" in {check.name for check in mps.area(has_gpu=True)}
    assert "MPS programs" not in {check.name for check in mps.area(has_gpu=False)}


def test_a_broken_fikit_toml_is_told_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asks_for("sometimes", tmp_path, monkeypatch)
    assert list(mps.area(has_gpu=True)) == []
    assert not mps.wanted()


def test_a_fikitd_that_does_not_know_the_mode_of_fikit_toml_is_found(directory: Path) -> None:
    absent = directory / "none"
    assert mps.in_force(True, directory, fikitd_runs=True).status == "ok"
    assert mps.in_force(True, absent, fikitd_runs=False).status == "ok", "the first job starts it"
    for check in (mps.in_force(True, absent, fikitd_runs=True), mps.in_force(False, directory, fikitd_runs=True)):
        assert check.status == "warn"
        assert "systemctl restart fikitd" in check.advice
    assert mps.in_force(False, absent, fikitd_runs=True).status == "ok"


@pytest.mark.starts_processes
@pytest.mark.parametrize("missing", [programs.PROGRAM, programs.SERVER_PROGRAM])
def test_programs_that_fikit_toml_asks_for_and_that_are_not_there_are_found(tools: Path, missing: str) -> None:
    assert mps.programs().status == "ok"
    (tools / missing).unlink()
    check = mps.programs()
    assert (check.status, check.found) == (
        "fail",
        f"fikit.toml asks for MPS, and there is no {missing} {programs.PLACES}: jobs run in time slices",
    )


def test_which_driver_serves_several_users_and_which_does_not_is_said(tools: Path) -> None:
    assert mps.programs().found == f"{tools / programs.PROGRAM}, which serves several users at a time"
    (tools / programs.PROGRAM).write_text("-d -f")
    check = mps.programs()
    assert check.status == "warn"
    assert "does not know -multiuser-server: MPS serves one user's jobs at a time" in check.found
    assert "newer driver" in check.advice


def test_a_run_dir_in_which_mps_can_have_no_sockets_is_found(directory: Path) -> None:
    assert mps.pipe_path(Path("/run/fikit/mps")).status == "ok"
    check = mps.pipe_path(Path("/" + 90 * "x") / "mps")
    assert (check.status, check.advice) == ("fail", "set a shorter run_dir in fikit.toml")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs directories of root's")
def test_directories_that_users_cannot_enter_or_can_put_sockets_into_are_found(directory: Path) -> None:
    pipes, logs = directory / "a", directory / "a.log"
    for made in (pipes, logs):
        made.mkdir()
        made.chmod(0o700 if made is logs else 0o755)
    assert list(mps.rights(directory)) == []
    pipes.chmod(0o1777)  # nobody could replace a socket, and everybody fill run_dir
    assert [(check.status, check.advice) for check in mps.rights(directory)] == [("fail", f"chmod go-w {pipes}")]
    pipes.chmod(0o700)
    assert [(check.status, check.advice) for check in mps.rights(directory)] == [("fail", f"chmod a+rx {pipes}")]
    pipes.chmod(0o777)
    assert [(check.status, check.advice) for check in mps.rights(directory)] == [("fail", f"chmod go-w {pipes}")]


def test_nothing_is_wrong_with_directories_that_are_not_there(tmp_path: Path) -> None:
    assert list(mps.rights(tmp_path / "none")) == []


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[int]:
    """A control daemon that fikitd knows nothing of, by name; its process."""
    program = tmp_path / programs.PROGRAM
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "60"]) as process:
        eventually(lambda: process.pid in control.daemons(Path("/proc")))  # its name is there a moment after its begin
        yield process.pid
        process.kill()


@pytest.mark.starts_processes
@pytest.mark.parametrize(("asked", "what"), [(True, "and not fikit's MPS"), (False, "their kernels overlap")])
def test_an_mps_that_is_not_fikits_is_found(stranger: int, asked: bool, what: str) -> None:
    (check,) = [c for c in mps.others(set(), asked) if f"process {stranger}," in c.found]
    assert check.status == "warn"
    assert what in check.found
    assert "echo quit" in check.advice


@pytest.mark.starts_processes
def test_fikits_own_and_what_may_be_its_are_no_others(stranger: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "daemons", lambda proc: [stranger])
    assert list(mps.others({stranger}, True)) == []
    monkeypatch.setattr(mps, "_uid", lambda pid: 0)
    assert list(mps.others(None, True)) == [], "this user cannot read which of root's are fikitd's"
    monkeypatch.setattr(mps, "_uid", lambda pid: 1234)
    assert len(list(mps.others(None, True))) == 1
    monkeypatch.setattr(mps, "_uid", lambda pid: None)
    assert list(mps.others(set(), True)) == [], "it has ended"


@pytest.mark.starts_processes
def test_a_program_that_only_has_the_name_in_its_arguments_is_no_control_daemon(stranger: int) -> None:
    with subprocess.Popen(["/bin/sh", "-c", "echo; read line", programs.PROGRAM], stdin=PIPE, stdout=PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert stranger in control.daemons(Path("/proc"))
        assert other.pid not in control.daemons(Path("/proc"))


def test_a_shell_that_sends_jobs_to_another_mps_is_found(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(control.ENV_PIPES, "/tmp/nvidia-mps")
    (check,) = mps.variable(directory)
    assert (check.status, check.name) == ("warn", "CUDA_MPS_PIPE_DIRECTORY")
    monkeypatch.setenv(control.ENV_PIPES, str(directory / "0123"))  # in a step of a job that joins
    assert list(mps.variable(directory)) == []


def test_a_gpu_that_admits_one_process_has_other_advice_under_mps() -> None:
    check = gpu.compute_modes([0, 3], under_mps=True)
    assert check.status == "warn"
    assert check.advice.startswith("leave it")
    assert "nvidia-smi -i 1 -c DEFAULT" in check.advice
    closed = gpu.compute_modes([2, 3], under_mps=True)
    assert (closed.status, closed.advice) == (
        "fail",
        "nothing can share it: `nvidia-smi -i 0,1 -c DEFAULT` as root",
    )


def test_a_gpu_whose_mps_keeps_no_memory_apart_is_found() -> None:
    assert list(gpu.too_old([7, 9, None])) == []
    (check,) = gpu.too_old([6, 9])
    assert check.status == "fail"
    assert check.found.startswith("GPU 0 is older than Volta")


def test_notes_that_are_none_are_left_alone_and_left_out(directory: Path) -> None:
    State("GPU-1", os.getpid(), 1, ["12"]).save(directory / "a.json")
    for number, text in enumerate(
        ["", "[]", "{}", '{"uuid": "GPU-1", "pid": "x", "started": 1, "jobs": []}',
         '{"uuid": "GPU-1", "pid": 1, "started": 1, "jobs": ["../x"]}', '{"uuid": "GPU-1", "pid": 1, "started": 1, "jobs": [1]}']
    ):  # fmt: skip
        (directory / f"b{number}.json").write_text(text)
    before = sorted(directory.iterdir())
    assert [state.jobs for state in notes.found(directory) or ()] == [["12"]]
    assert sorted(directory.iterdir()) == before
