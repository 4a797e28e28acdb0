"""Names that are no UTF-8, or would steer a terminal, on the whole path: program, job, kernel, profile and report files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from daemon_process import SOURCE, Fikitd, Runner, usual_daemon

from fikitd import paths

ODD = os.fsdecode(b"pro\xff\xe9\x1b[31m\ng")

daemon = pytest.fixture(usual_daemon)


@pytest.fixture
def runner(
    daemon: Fikitd, tmp_path: Path, cc: Callable[..., Path], emulator_env: Callable[..., dict[str, str]]
) -> Runner:
    program = tmp_path / ODD
    program.write_bytes(cc(SOURCE).read_bytes())
    program.chmod(0o755)
    return Runner(daemon, program, paths.shim(), emulator_env(ODD=ODD) | {ODD: ODD})


def test_a_program_with_such_a_name_is_managed_reported_and_learnt_from(daemon: Fikitd, runner: Runner) -> None:
    job, err, summary = runner.run(20, 50_000, name=ODD, measure=True)
    assert (err, daemon.report(job)["warnings"]) == ("", [])
    assert "measured 20 kernels" in summary
    key = daemon.report(job)["profile"]["key"]
    (where,) = {path.parent for path in daemon.profiles.rglob("*.json") if path.parent.name == key}
    for name in (b"\xfe\x1b[31m\n.json", b"\xfe"):
        for directory in (where, where.parent, daemon.profiles, daemon.reports):
            (directory / os.fsdecode(name)).write_text("{}")
    (where / os.fsdecode(b"directory\xfe.json")).mkdir()

    job, err, summary = runner.run(20, 50_000)
    assert (err, daemon.report(job)["profile"]["found"]) == ("", True)
    assert "of its time alone" in summary
    assert all(warning.isprintable() for warning in daemon.report(job)["warnings"])
    log = daemon.log.read_bytes()
    assert b"Traceback" not in log
    assert b"\x1b" not in log

    for command in (
        ("report",), ("report", "--list"), ("report", "--json"), ("profile", "ls"), ("profile", "show", key), ("top", "--once"),
        ("trace", job, "-o", "/dev/null"),
    ):  # fmt: skip
        env = {**runner.env, "LD_PRELOAD": "", "FIKIT_CONFIG": str(daemon.config), "LC_ALL": "C"}
        done = subprocess.run(
            [sys.executable, "-m", "fikit", *command], env=env, capture_output=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr
        assert b"\x1b" not in done.stdout + done.stderr
        assert all(line.startswith(b"fikit: ") for line in done.stderr.splitlines()), (command, done.stderr)
