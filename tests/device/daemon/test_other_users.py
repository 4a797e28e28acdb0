"""A user whom the machine knows no name of, and a /proc that hides other users' processes (hidepid): the whole path."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from daemon_process import SOURCE, Fikitd, Runner
from other_user import UID, OtherUser

pytest_plugins = ["other_user_fixtures"]

HIDDEN = "mount -t proc -o hidepid={} proc /proc"
MANAGED = r"fikit: job run-\d+-1 high: .*50 kernels.*\(emulated GPU\)\n"


@pytest.fixture
def spin(cc: Callable[..., Path], user: OtherUser) -> str:
    program = user.directory / "spin"
    program.write_bytes(cc(SOURCE).read_bytes())
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize("hidepid", ["", "1", "2", "4"])
def test_a_user_without_a_name_runs_is_reported_and_learnt_from(user: OtherUser, spin: str, hidepid: str) -> None:
    namespace = HIDDEN.format(hidepid) if hidepid else ""
    places = {"XDG_RUNTIME_DIR": str(user.home), "XDG_STATE_HOME": str(user.home / "state")}
    program = ("fikit", "run", "--measure", "--priority", "high", "--profile", "mine", "--", spin, "50", "100000")
    done = user.run(*program, namespace=namespace, **places)
    assert (done.returncode, done.stdout) == (0, "done 50\n"), done.stderr
    assert "measured 50 kernels" in done.stderr
    assert "profile mine stored" in done.stderr
    assert done.stderr.count("\n") == 1
    report = user.run("fikit", "report", "--json", namespace=namespace, **places)
    assert json.loads(report.stdout)["uid"] == UID
    for command in (("report",), ("report", "--list"), ("profile", "ls"), ("profile", "show", "mine"), ("limits",)):
        told = user.run("fikit", *command, namespace=namespace, **places)
        assert (told.returncode, told.stderr) == (0, ""), command


@pytest.mark.parametrize("home", [None, "/", "/no/such/home", ""])
def test_without_a_home_the_program_runs(user: OtherUser, spin: str, home: str | None) -> None:
    env = {} if home is None else {"HOME": home}
    command = ("env", *(["-u", "HOME"] if home is None else []), "-u", "XDG_RUNTIME_DIR", "-u", "XDG_STATE_HOME")
    done = user.run(*command, "fikit", "run", "--priority", "high", "--", spin, "50", "100000", **env)
    assert (done.returncode, done.stdout) == (0, "done 50\n"), done.stderr
    assert done.stderr.count("\n") == 1
    assert re.fullmatch(rf"{MANAGED}|fikit: warning: the program runs unmanaged: .*\n", done.stderr)


@pytest.mark.parametrize("hidepid", ["", "2"])
def test_a_job_of_a_user_without_a_name_has_its_report_and_profile(user: OtherUser, spin: str, hidepid: str) -> None:
    class Hidden(Fikitd):
        def command(self, *arguments: str) -> list[str]:
            hide = f'{HIDDEN.format(hidepid)}; exec "$@"'
            return ["unshare", "--mount", "sh", "-ec", hide, "sh", *super().command(*arguments)]

    daemon = (Hidden if hidepid else Fikitd)(user.directory).start()
    try:
        runner = Runner(daemon, Path(spin), user.shim, dict(user.env))
        job, process = runner.start(50, 100_000, uid=UID, measure=True, profile="mine")
        assert process.communicate(timeout=60) == ("done 50\n", "")
        assert "profile mine stored" in daemon.control.end(job)
    finally:
        assert daemon.stop() == 0, daemon.log.read_text()
    for path in (daemon.reports / str(UID) / f"{job}.json", *(daemon.profiles / str(UID) / "mine").iterdir()):
        assert path.stat().st_uid == UID
    daemon.config.chmod(0o644)
    told = user.run("fikit", "report", job, FIKIT_CONFIG=str(daemon.config))
    assert (told.returncode, told.stderr) == (0, "")
    assert "50" in told.stdout
