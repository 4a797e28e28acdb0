"""site/fikit-mail, Slurm's MailProg: the site's own program always gets the mail, and fikit's line only where there is a whole one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "site" / "fikit-mail"
ARGUMENTS = ["-s", 'Slurm Job_id=12 Name=a "b" $(c)\n*', "ana"]
LINE = "fikit: job 12 high: 1.04x of its time alone. Details: fikit-report 12"

Mail = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def mail(tmp_path: Path) -> Mail:
    """Runs the script as slurmctld does: in an environment that has nothing but the job's variables. fikit: the body of a fake one."""

    def run(
        fikit: str | None,
        kind: str = "Ended",
        own: str = "exit 0",
        text: str = "",
        arguments: Sequence[str] = ARGUMENTS,
    ) -> subprocess.CompletedProcess[str]:
        sites, ours, script = tmp_path / "mail", tmp_path / "fikit", tmp_path / "fikit-mail"
        sites.write_text(f'#!/bin/sh\nfor each; do printf "[%s]" "$each"; done\ncat\n{own}\n')
        sites.chmod(0o755)
        ours.unlink(missing_ok=True)
        if fikit is not None:
            ours.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n{fikit}\n')
            ours.chmod(0o755)
        script.write_text(
            SCRIPT.read_text()
            .replace("/usr/lib/fikit/bin/fikit", str(ours))
            .replace("timeout -k 2 40", "timeout -k 1 1")
        )
        script.chmod(0o755)
        variables = {"SLURM_JOB_ID": "12", "SLURM_JOB_MAIL_TYPE": kind, "FIKIT_MAIL_PROGRAM": str(sites)}
        return subprocess.run(
            [script, *arguments], env=variables, input=text, capture_output=True, text=True, check=False, timeout=60
        )

    return run


HEAD = "".join(f"[{each}]" for each in ARGUMENTS)


def test_the_line_comes_behind_the_mails_text(mail: Mail, tmp_path: Path) -> None:
    done = mail(f"echo '{LINE}'", text="of the site\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{HEAD}of the site\n{LINE}\n", "")
    assert (tmp_path / "asked").read_text() == "mail --wait 20 -- 12\n"


@pytest.mark.parametrize(
    "fikit",
    [
        None,  # not installed any more
        "exit 1",
        "echo half a line; kill -9 $$",
        "echo half a line; sleep 60",
        "trap '' TERM; echo half a line; while :; do sleep 1; done",
        "echo 'Traceback' >&2; exit 1",
        "cat >&2",
    ],
)
def test_whatever_is_wrong_with_fikit_the_mail_goes_out_as_without_it(mail: Mail, fikit: str | None) -> None:
    done = mail(fikit, text="of the site\n")
    assert (done.returncode, done.stdout) == (0, f"{HEAD}of the site\n")


@pytest.mark.parametrize("kind", ["Began", "Reached 80% of time limit", "", "ended"])
def test_only_of_a_job_that_has_ended_fikit_is_asked(mail: Mail, kind: str, tmp_path: Path) -> None:
    assert mail(f"echo '{LINE}'", kind).stdout == HEAD
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize("fikit", ["exit 1", f"echo '{LINE}'"])
def test_the_exit_code_is_the_sites_programs(mail: Mail, fikit: str) -> None:
    assert mail(fikit, own="exit 75").returncode == 75


def test_a_person_is_told_the_version_which_is_fikits(mail: Mail, tmp_path: Path) -> None:
    done = mail("echo 'fikit 0.1.0+3f9c01ab27'", kind="", arguments=["--version"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "fikit-mail 0.1.0+3f9c01ab27\n", "")
    assert (tmp_path / "asked").read_text() == "--version\n"
    assert mail("exit 3", kind="", arguments=["--version"]).returncode == 1


@pytest.mark.parametrize(
    ("kind", "arguments"), [("Began", ["--version"]), ("", ["--version", "ana"]), ("", ["-s", "--version"])]
)
def test_what_is_not_a_person_is_a_mail(mail: Mail, kind: str, arguments: list[str]) -> None:
    done = mail("exit 1", kind=kind, arguments=arguments)
    assert (done.returncode, done.stdout) == (0, "".join(f"[{each}]" for each in arguments))
