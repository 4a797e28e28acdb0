"""`fikit run`: a program under fikit without Slurm."""

from __future__ import annotations

import itertools
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import click
from click.core import ParameterSource
from fikitd.api.client import Control, ControlError, DaemonUnreachable
from fikitd.api.reports import ReportStore
from fikitd.base import priorities
from fikitd.base.validation import is_name
from fikitd.mps.control import joined
from fikitd.mps.notes import DIRECTORY
from fikitd.store.records import JobRecord, start_ticks, stat_fields

from fikit.errors import UserError
from fikit.options.policy_name import PolicyName
from fikit.options.quantities import nanoseconds, share, size
from fikit.running import child, daemon
from fikit.site_paths import Place
from fikit.wording.line import say
from fikitd import paths

SOCKET_NAME = "fikitd.sock"  # FIKIT_SOCKET_NAME of fikit_protocol.h


class NotFound(UserError):
    exit_code = child.NOT_FOUND


class NotExecutable(UserError):
    exit_code = child.NOT_EXECUTABLE


def _priority(ctx: click.Context, param: click.Parameter, value: str) -> int | priorities.Range:
    try:
        if priorities.is_range(value):
            return priorities.parse_range(value, priorities.NAMES["normal"])
        return priorities.parse(value)
    except ValueError as error:
        others = "" if priorities.is_range(value) else ", auto or auto:LOW-HIGH"
        raise click.BadParameter(f"{error}{others}", ctx, param) from error


def _profile_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value and not is_name(value):
        text = (
            f'"{value}" is not a profile name; use up to 64 letters, digits, ".", "_" and "-", without a "." in front'
        )
        raise click.BadParameter(text, ctx, param)
    return value


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--priority", callback=_priority, envvar="FIKIT_PRIORITY", default="normal", metavar="high|normal|low|0-9|auto|auto:LOW-HIGH",
              show_default=True, help="0 is highest; high = 1, normal = 5, low = 8; auto: fikitd chooses, from normal to low, or between the two that are named.")  # fmt: skip
@click.option("--measure", is_flag=True, envvar="FIKIT_MEASURE", help="Measure every kernel and store a profile.")
@click.option(
    "--profile",
    callback=_profile_name,
    default="",
    envvar="FIKIT_PROFILE",
    metavar="NAME",
    help="Which profile to use or to write.",
)
@click.option(
    "--mem",
    callback=size,
    envvar="FIKIT_MEM",
    metavar="SIZE",
    help="Memory that it gets on the GPU: 20G, 512M. Without: as much as there is.",
)
@click.option("--mem-host", callback=size, envvar="FIKIT_MEM_HOST", metavar="SIZE",
              help="So much more than --mem, in host memory while it is not used; it needs --mem and a priority below high, and fikit.toml must allow it.")  # fmt: skip
@click.option("--max-slowdown", callback=share, envvar="FIKIT_MAX_SLOWDOWN", metavar="SHARE",
              help="How much longer it may take because of lower ones: 5%. Default: the site's.")  # fmt: skip
@click.option("--max-delay", callback=nanoseconds, envvar="FIKIT_MAX_DELAY", metavar="TIME",
              help="The longest single delay by lower ones: 200us, 1.5ms. Default: the site's.")  # fmt: skip
@click.option("--policy", type=PolicyName(), help="The daemon's policy, when it starts one.")
@click.option("--emulated", is_flag=True, help="Run on the emulated GPU (kernels take time and compute nothing).")
@click.argument("argv", nargs=-1, required=True, metavar="-- CMD...", type=click.UNPROCESSED)
def command(
    *, priority: int | priorities.Range, measure: bool, profile: str, mem: int | None, mem_host: int | None, max_slowdown: float | None, max_delay: int | None,
    policy: str | None, emulated: bool, argv: tuple[str, ...],
) -> int:  # fmt: skip
    """Run CMD under fikit on this machine's GPU, without Slurm: `fikit run --priority low -- python train.py`.

    Starts a fikitd of your own when none runs, and exits with CMD's exit code. If fikit cannot work, CMD runs unmanaged.
    """
    env = dict(os.environ)
    if emulated:
        _prepend(env, "LD_LIBRARY_PATH", str(paths.emulator_dir()))
    allowed, begins = (priority, priority.highest) if isinstance(priority, priorities.Range) else (None, priority)
    wishes = JobRecord(
        job="", uid=os.getuid(), gid=os.getgid(), priority=begins, measure=measure, mem_bytes=mem or 0, mem_host_bytes=mem_host or 0, profile=profile,
        gpus=os.environ.get("CUDA_VISIBLE_DEVICES", ""), name=Path(argv[0]).name, pid=os.getpid(),
        started_ns=time.time_ns(), max_slowdown=max_slowdown, max_delay_ns=max_delay,
        auto_highest=allowed.highest if allowed else None, auto_lowest=allowed.lowest if allowed else None,
    )  # fmt: skip
    admitted = _admit(policy, wishes)
    if admitted is not None:
        place, job, shim = admitted
        _prepend(env, "LD_PRELOAD", paths.preload_entry(shim), str(shim))
        env["FIKIT_SOCKET"] = str(place.run_dir / SOCKET_NAME)
        env = joined(env, _mps_of(place, job), place.run_dir / DIRECTORY)
        if mem_host:
            _say_without_host_memory(place, job, _as_written("mem_host"))
    try:
        return child.run(argv, env)
    except FileNotFoundError:
        raise NotFound(f'there is no program "{argv[0]}"; check the name and PATH') from None
    except PermissionError:
        raise NotExecutable(f'"{argv[0]}" is not executable; chmod +x it') from None
    finally:
        if admitted is not None:
            _finish(*admitted[:2])


def _admit(policy: str | None, wishes: JobRecord) -> tuple[Place, str, Path] | None:
    """The program's fikitd, the job's id there, and the shim. None, and one line says why, where fikit cannot work."""
    try:
        place = daemon.join_or_start(policy)
        shim = _readable(paths.shim())
        return place, _register(place, replace(wishes, pid_start=_begun())), shim
    except UserError:
        raise
    except daemon.CannotStart as error:
        why = str(error)
    except Exception as error:  # a fault of ours that nobody has thought of: the program runs in spite of it
        why = f"fikit does not work here: {type(error).__name__}: {error}"
    say(f"warning: the program runs unmanaged: {why}")
    return None


def _register(place: Place, wishes: JobRecord) -> str:
    """Write the record by which fikitd knows the program as a job, and return the job's id.

    The record names our own pid: the program and all it starts are our descendants.
    """
    ids = (f"run-{os.getpid()}-{number}" for number in itertools.count(1))  # pids come back, reports stay
    try:
        reports = ReportStore(place.report_dir)
        record = replace(wishes, job=next(job for job in ids if not reports.has(job)))
        record.write(place.run_dir)
    except OSError as error:
        raise daemon.CannotStart(
            f"couldn't write the job's record in {place.run_dir / 'jobs'}: {error.strerror}: {daemon.MAKE_ROOM}"
        ) from error
    return record.job


def _mps_of(place: Place, job: str) -> dict[str, str]:
    """What the program needs to join MPS, where the fikitd's configuration has it; else nothing."""
    try:
        return Control(place.run_dir).mps(job) if place.run_dir.joinpath(DIRECTORY).is_dir() else {}
    except (ControlError, DaemonUnreachable) as error:
        say(f"warning: {error}; the program runs in time slices, outside MPS")
        return {}


def _as_written(name: str) -> str:
    """An option as the user said it: `--mem-host`, or its variable."""
    context = click.get_current_context()
    if context.get_parameter_source(name) is ParameterSource.ENVIRONMENT:
        return f"FIKIT_{name.upper()}"
    return "--" + name.replace("_", "-")


def _say_without_host_memory(place: Place, job: str, option: str) -> None:
    """Before the program begins: without it, it runs out of memory where it expected more."""
    try:
        why = Control(place.run_dir).no_host_memory(job)
    except (ControlError, DaemonUnreachable):
        return  # a fikitd of before: the job's report says it
    if why:
        say(f"warning: {option} has no effect: {why.replace('--fikit-', '--')}")  # as `fikit run` has them


def _begun() -> int:
    """When this process began, in clock ticks after the boot."""
    try:
        return start_ticks(stat_fields(os.getpid()))
    except OSError as error:
        raise daemon.CannotStart(f"couldn't read {error.filename}: {error.strerror}: fikit needs /proc") from error


def _finish(place: Place, job: str) -> None:
    """The job's summary line, its report stored, its record removed.

    Silent about a fikitd that is gone: the shim has said so in the program's own output. Whatever fails here, the
    program has run, and its exit code stands.
    """
    try:
        control = Control(place.run_dir)
        try:
            summary = control.end(job)
        except DaemonUnreachable:  # or storage that hangs
            summary = control.summary(job)
    except DaemonUnreachable:
        pass
    except Exception as error:  # ControlError, and a fault of ours as in _admit
        say(f"warning: {error}; there is no report of this run")
    else:
        if summary:
            say(summary)
    try:
        (place.run_dir / "jobs" / job).unlink(missing_ok=True)
    except OSError as error:
        say(f"warning: couldn't remove the job's record {error.filename}: {error.strerror}")


def _readable(shim: Path) -> Path:
    """The shim if it is there: without it, every process would print a complaint of ld.so's."""
    if not os.access(shim, os.R_OK):
        raise daemon.CannotStart(f"{shim} is not there, run `make build`")
    if re.search("[ :]", str(shim)):
        raise daemon.CannotStart(
            f"ld.so would take {shim} for several paths, for it has a space or a colon: install fikit elsewhere"
        )
    return shim


def _prepend(env: dict[str, str], variable: str, first: str, *stale: str) -> None:
    """Put `first` in front of a colon-separated list, once and without `stale` entries."""
    others = [entry for entry in env.get(variable, "").split(":") if entry not in ("", first, *stale)]
    env[variable] = ":".join([first, *others])
