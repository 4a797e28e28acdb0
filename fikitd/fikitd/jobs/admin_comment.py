"""What a job's GPU time was, appended to its AdminComment for users of sacct; off unless the site wants it (`admin_comment_s`).

From fikitd's own figures: stored reports are their users' files. A job's end only leaves a small file in RUN_DIR/comments, and
this asks slurmdbd later, in its own time: it may be down, and what the site's own epilogs write shall come first.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from fikitd.api.outcomes import UNKNOWN, Outcome
from fikitd.api.report_format import Report
from fikitd.api.reports import gpu_time_bound
from fikitd.base.child_process import end
from fikitd.base.validation import printable

_log = logging.getLogger("fikitd")

DIRECTORY: Final = "comments"
ROUND_S: Final = 2.0
PAUSE_S: Final = 60.0  # after slurmdbd did not answer
COMMAND_S: Final = 20.0
GIVE_UP_S: Final = 86_400.0
MOST: Final = 10_000  # files; jobs that end beyond have no comment
MOST_BYTES: Final = 60_000  # of an AdminComment: the database's column has 65535
UNFINISHED: Final = ("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING")

_ONE: Final = re.compile(r"\d+([_+]\d+)?", re.ASCII)  # job, task or component; sacctmgr takes an empty number for all

Run = Callable[..., Coroutine[Any, Any, str]]


class NoAnswer(Exception):
    """One of Slurm's commands did not do what it was asked; its words."""


class NotYet(Exception):
    """slurmdbd does not know yet that the job is over."""


async def run(*command: str) -> str:
    """What one of Slurm's commands prints. Raises NoAnswer."""
    if shutil.which(command[0]) is None:
        raise NoAnswer(f"there is no {command[0]} in fikitd's PATH")
    child = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(COMMAND_S):
            out, error = await child.communicate()
    except TimeoutError:
        raise NoAnswer(f"{command[0]} did not answer within {COMMAND_S:g} s") from None
    finally:
        await end(child)
    if child.returncode != 0:
        lines = (error or out).decode(errors="replace").strip().splitlines()
        raise NoAnswer(f"{command[0]}: {printable(lines[-1]) if lines else f'exit code {child.returncode}'}")
    return out.decode(errors="replace")


def text_of(report: Report, outcome: Outcome | None = None) -> str:
    """`fikit:gpu_s=12.3,wait_s=0.412,peak_mib=512,elapsed_s=20.1,busy=0.65,slowdown=1.04,given_s=0.2,priority=1,kept=1`;
    small letters only, see `survives`. kept: 1 or 0, whether lower jobs kept to what they may cost it. What is not known is left out."""
    bound = gpu_time_bound(report)
    facts = []
    if report["gpu_time_s"] is not None:
        facts.append(f"gpu_s={report['gpu_time_s']:.3f}")
    elif bound is not None:
        facts.append(f"gpu_s_at_most={bound:.3f}")
    facts += [f"wait_s={report['wait']['total_s']:.3f}", f"peak_mib={report['memory']['peak_bytes'] >> 20}"]
    if outcome is not None:
        more = {
            "elapsed_s": outcome.elapsed_s, "busy": outcome.busy, "slowdown": outcome.slowdown, "given_s": outcome.given_s,
        }  # fmt: skip
        facts += [f"{name}={value:.3f}" for name, value in more.items() if value != UNKNOWN]
    facts.append(f"priority={report['priority']}")
    facts += [] if report.get("kept") is None else [f"kept={int(report['kept'])}"]
    return "fikit:" + ",".join(facts + ["emulated"] * report["device"]["emulated"])


def survives(comment: str) -> bool:
    """Whether sacctmgr hands a comment on as it is: that of Slurm 22.05 writes capital letters small and quotes as backquotes; and
    we what was no UTF-8 as a sign for that."""
    return comment == comment.lower() and not set(comment) & {'"', "'", "\0", "\ufffd"}


class AdminComments:
    def __init__(
        self, run_dir: Path, after_s: int, run: Run = run, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._directory, self._after_s, self._run, self._clock = run_dir / DIRECTORY, after_s, run, clock
        self._complained, self._told = "", False
        self._since: dict[
            str, float
        ] = {}  # when each was noted: no time of a file's, which the clock's steps make days old

    def note(self, report: Report, outcome: Outcome | None = None) -> None:
        """A job of Slurm's is over. Never raises; a failure is a line in the log."""
        job = str(report["job"])
        if not self._after_s or not job.isdecimal():
            return
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            if len(os.listdir(self._directory)) >= MOST:  # noqa: PTH208
                raise OSError(f"{MOST} others wait already")
            (self._directory / job).write_text(text_of(report, outcome))
            self._since[job] = self._clock()
        except OSError as error:
            _log.warning("job %s: what it used cannot be put into its AdminComment: %s", job, error)

    async def watch(self) -> None:
        """Until cancelled."""
        while self._after_s:
            await asyncio.sleep(ROUND_S)
            if not await self.round():
                await asyncio.sleep(PAUSE_S)

    async def round(self) -> bool:
        """Write what is due. Whether slurmdbd answered."""
        for path in self._due():
            try:
                await self._append(path.name, path.read_text())
            except NotYet:
                continue
            except (NoAnswer, OSError) as error:
                self._complain(f"AdminComments have to wait: {error}")
                return False
            self._drop(path)
            self._complained = ""
        return True

    def _drop(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._since.pop(path.name, None)

    def _due(self) -> list[Path]:
        now, due = self._clock(), []
        with suppress(OSError):
            for path in self._directory.iterdir():
                # What the fikitd before this one left is due at once.
                age_s = now - self._since.setdefault(path.name, now - self._after_s)
                if age_s > self._after_s + GIVE_UP_S:
                    _log.warning(
                        "job %s: what it used did not get into its AdminComment for a day: given up", path.name
                    )
                    self._drop(path)
                elif age_s >= self._after_s:
                    due.append(path)
        return sorted(due)

    async def _append(self, job: str, text: str) -> None:
        # By its number alone the leader of an array or a heterogeneous job would stand for all of it.
        rows = [row.split("|") for row in (await self._sacct(job, "JobIDRaw,JobID,State")).splitlines()]
        found = [
            (name, state)
            for raw, name, state in (row for row in rows if len(row) == 3)
            if raw == job and _ONE.fullmatch(name)
        ]
        if not found or found[-1][1].startswith(UNFINISHED):
            raise NotYet
        name = found[-1][0]
        there = (await self._sacct(name, "AdminComment")).removesuffix("\n")
        if text in there:
            return
        whole = f"{there};{text}" if there else text
        if not survives(there) or len(whole.encode()) > MOST_BYTES:
            if not self._told:
                _log.warning(
                    "the AdminComment of job %s, and others like it, are left as they are: sacctmgr would change their capital "
                    "letters or quotes, or they are too long",
                    job,
                )
            self._told = True
            return
        await self._run(
            "sacctmgr", "--immediate", "modify", "job", "where", f"jobid={name}", "set", f"AdminComment={whole}"
        )

    async def _sacct(self, job: str, columns: str) -> str:
        return await self._run("sacct", "-n", "-X", "-P", "-j", job, "-o", columns)

    def _complain(self, sentence: str) -> None:
        """The same only once, until something went well."""
        if sentence != self._complained:
            self._complained = sentence
            _log.warning("%s", sentence)
