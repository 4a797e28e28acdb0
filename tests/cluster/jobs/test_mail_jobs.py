"""Slurm's mails with fikit-mail as MailProg: the site's program gets each of them, with fikit's line where a job of fikit's has ended."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fikit.sandbox.sandbox import Sandbox
from fikitd.api.reports import ReportStore, summary_line

if TYPE_CHECKING:
    from cluster_jobs import Cluster

SCRIPT = Path(__file__).resolve().parents[3] / "site" / "fikit-mail"


class Mailed:
    """A cluster, and what its site's mail program was given: one file for each mail."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster, self._directory = cluster, directory

    def about(self, job: str, kind: str) -> tuple[str, str]:
        """The subject of the mail that tells of this, and its text."""

        def look() -> tuple[str, str] | None:
            for file in self._directory.glob("*.mail"):
                subject, _, text = file.read_text().partition("\n")
                if re.search(rf"Job_id={job}\b.*\b{kind}\b", subject):
                    return subject, text
            return None

        return self.cluster.until(look, f"no mail tells that job {job} {kind}")


@pytest.fixture(scope="module")
def mailed(
    sandbox: Sandbox, make_cluster: Callable[[Sandbox], Cluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mailed]:
    """`sandbox` only says whether there can be one."""
    directory = tmp_path_factory.mktemp("mail")
    site, program, settings = directory / "site", directory / "fikit-mail", directory / "settings"
    site.write_text(
        f'#!/bin/sh\nout=$(mktemp {directory}/XXXXXX)\nprintf "%s %s\\n" "$2" "$3" >"$out"\ncat >>"$out"\nmv "$out" "$out.mail"\n'
    )
    site.chmod(0o755)
    text = SCRIPT.read_text().replace("/usr/lib/fikit/bin/fikit", f"{sys.executable} -m fikit")
    program.write_text(text.replace("#!/bin/sh\n", f"#!/bin/sh\n. {settings}\n"))
    program.chmod(0o755)
    settings.write_text("")
    with Sandbox(gpus=1, slurm_lines=[f"MailProg={program}"]) as own:
        names = ("FIKIT_CONFIG", "SLURM_CONF")
        lines = [f'export {name}="{own.env[name]}"' for name in names]
        settings.write_text("\n".join([*lines, f'export FIKIT_MAIL_PROGRAM="{site}"', ""]))
        yield Mailed(make_cluster(own), directory)


def test_the_mail_of_a_job_that_shared_a_gpu_has_its_reports_line(mailed: Mailed, spin: Path) -> None:
    cluster = mailed.cluster
    job = cluster.submit(
        cluster.script("serve", f"{spin} 200 250000"),
        "--gres=gpu:1",
        "--fikit-priority=high",
        "--mail-type=ALL",
        "--mail-user=ana",
    )
    subject, text = mailed.about(job, "Ended")
    report = ReportStore(cluster.sandbox.report_dir).load(job)
    assert report is not None
    assert subject.endswith("COMPLETED, ExitCode 0 ana")
    assert text == f"{summary_line(report)}. Details: fikit-report {job}\n"
    assert mailed.about(job, "Began")[1] == ""


def test_the_mail_of_a_job_without_a_gpu_is_slurms_own(mailed: Mailed) -> None:
    cluster = mailed.cluster
    job = cluster.submit(cluster.script("plain", "exit 3"), "--mail-type=END,FAIL", "--mail-user=bob")
    subject, text = mailed.about(job, "Failed")
    assert (subject.rsplit(" ", 1)[1], text) == ("bob", "")
