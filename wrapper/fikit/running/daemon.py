"""A fikitd of the user's own, for `fikit run`: join the one that is there, or start one that leaves when idle."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from fikitd.api.client import Control, ControlError, DaemonUnreachable, wait_until_there
from fikitd.config import fikit_toml
from fikitd.config.fikit_toml import ENV_CONFIG, Config, DaemonConfig, OversubscribeConfig, SchedulerConfig
from fikitd.store import mounts

from fikit import site_paths
from fikit.errors import UserError
from fikit.site_paths import Place

IDLE_EXIT_S = 60
START_TIMEOUT_S = 5.0
MAKE_ROOM = "make room there, or set XDG_RUNTIME_DIR to another directory of yours"
PERSONAL_CONFIG = "fikit.toml"  # in the personal run_dir


class CannotStart(Exception):
    """fikitd is not there and did not start; the text is a sentence that says why."""


def join_or_start(policy: str | None) -> Place:
    """The place of a fikitd that answers now, with `policy` if one is asked for.

    Raises UserError when a fikitd with another policy is at work, CannotStart when there is none.
    """
    try:
        place = _named() if os.environ.get(ENV_CONFIG) else _personal(policy)
    except OSError as error:
        raise CannotStart(_sentence(error)) from error
    running = _policy_of(place)
    if running is not None and policy is not None and running != policy:
        _stop_if_idle(place, running, policy)
        running = None
    if running is None:
        _start(place)
        running = _policy_of(place)
        if policy is not None and running != policy:
            raise UserError(
                f"{place.config_file} says policy {running}, which --policy {policy} cannot change; edit that file"
            )
    return place


def _sentence(error: OSError) -> str:
    """Our own errors are sentences; the system's have a reason, and a file unless it was being written."""
    if error.filename or error.strerror is None:
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return f"couldn't write in {site_paths.personal().run_dir}: {error.strerror}: {MAKE_ROOM}"


def _named() -> Place:
    """The place that FIKIT_CONFIG names; its stores are the administrator's business, its sockets need a directory."""
    try:
        place = site_paths.machine()
    except UserError as error:
        raise CannotStart(str(error)) from error
    place.run_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
    return place


def _personal(policy: str | None) -> Place:
    """The personal place, with the fikit.toml its daemon reads. A running daemon has read its own already."""
    site_paths.make_private(site_paths.personal().run_dir)
    place = site_paths.personal()  # now another one, where somebody else had taken our name
    config_file = place.run_dir / PERSONAL_CONFIG
    daemon = DaemonConfig(str(place.run_dir), str(place.report_dir), str(place.profile_dir), IDLE_EXIT_S)
    scheduler = SchedulerConfig() if policy is None else SchedulerConfig(policy)
    unfinished = config_file.with_suffix(f".{os.getpid()}.tmp")
    try:
        unfinished.write_bytes(Config(daemon, scheduler, oversubscribe=_oversubscribe()).toml().encode())
        unfinished.rename(config_file)
    except UnicodeEncodeError:
        raise CannotStart(
            f"couldn't write {place.run_dir} and {place.report_dir} into {config_file}, because one of their names is not UTF-8: "
            "set XDG_RUNTIME_DIR and XDG_STATE_HOME to other directories"
        ) from None
    for directory in (place.report_dir, place.profile_dir):
        if (point := mounts.missing_above(directory)) is not None:
            raise CannotStart(f"couldn't make {directory}: the file system of {point} is not mounted")
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            advice = "set XDG_STATE_HOME to a directory of yours"
            raise CannotStart(f"couldn't make {directory}: {error.strerror}: {advice}") from error
    return Place(place.run_dir, place.report_dir, place.profile_dir, config_file)


def _oversubscribe() -> OversubscribeConfig:
    """As the machine's fikit.toml has it; a file with a mistake allows nothing."""
    try:
        return fikit_toml.load().oversubscribe
    except fikit_toml.ConfigError:
        return OversubscribeConfig()


def _policy_of(place: Place) -> str | None:
    """The policy of the fikitd at `place`; None when nobody answers."""
    try:
        return Control(place.run_dir).ping().split()[-1]
    except (DaemonUnreachable, ControlError):
        return None


def _stop_if_idle(place: Place, running: str, wanted: str) -> None:
    control = Control(place.run_dir)
    try:
        jobs = [str(job["job"]) for job in control.jobs()]
        if jobs:
            raise UserError(
                f"the running fikitd has policy {running} and serves {', '.join(jobs)}; "
                f"--policy {wanted} needs these jobs to end first"
            )
        control.shutdown()
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            control.ping()
            time.sleep(0.01)
    except DaemonUnreachable:
        return


def _start(place: Place) -> None:
    """Start a fikitd and wait until it answers."""
    program = _program()
    log_path = place.run_dir / "fikitd.log"
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("FIKIT_", "LD_", "EMUCUDA_"))}
    try:
        with log_path.open("ab") as log:
            process = subprocess.Popen(
                [*program, "--config", str(place.config_file)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=clean, cwd="/", start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        raise CannotStart(f"fikitd did not start: {error}") from error
    try:
        wait_until_there(place.run_dir, process, START_TIMEOUT_S)
    except DaemonUnreachable as error:
        more = f": {_last_line(log_path)}" if process.returncode else f" (see {log_path})"
        raise CannotStart(f"{error}{more}") from error


def _program() -> list[str]:
    """fikitd beside this Python, else on PATH."""
    beside = Path(sys.executable).with_name("fikitd")
    found = str(beside) if beside.exists() else shutil.which("fikitd")
    if found is None:
        raise CannotStart("fikitd is not installed beside this Python and not on PATH")
    return [found]


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it wrote nothing"
