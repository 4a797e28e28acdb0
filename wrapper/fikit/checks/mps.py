"""MPS on this machine: what fikit.toml asks for, what that needs, how what runs is, and which MPS is somebody else's."""

from __future__ import annotations

import asyncio
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fikitd.api.client import Control, ControlError, DaemonUnreachable
from fikitd.config import fikit_toml
from fikitd.mps import control, notes
from fikitd.mps import programs as nvidias
from fikitd.mps.control import MpsError

from fikit.checks import private_shm
from fikit.checks.check import Check, fail, ok, warn

PROC: Final = Path("/proc")
WITHOUT: Final = "jobs run in time slices"
RESTART: Final = "systemctl restart fikitd: running jobs go on, each as it began"


def wanted() -> bool:
    """Whether fikit.toml asks for MPS. What is wrong with that file is told elsewhere."""
    try:
        return fikit_toml.load().gpu.mps != "off"
    except fikit_toml.ConfigError:
        return False


def area(has_gpu: bool) -> Iterator[Check]:
    """`has_gpu`: a driver answers here; a login node has the same fikit.toml and needs no MPS."""
    try:
        run_dir = Path(fikit_toml.load().daemon.run_dir)
    except fikit_toml.ConfigError:
        return
    asked, directory = wanted(), run_dir / notes.DIRECTORY
    yield in_force(asked, directory, _answers(run_dir))
    if asked and has_gpu:
        yield programs()
        yield pipe_path(directory)
    if asked:
        yield from private_shm.area()
    yield from rights(directory)
    known = notes.found(directory)
    for note in known or ():
        yield served(note, directory)
    yield from others(None if known is None else {note.pid for note in known}, asked)
    yield from variable(directory)


def in_force(asked: bool, directory: Path, fikitd_runs: bool) -> Check:
    """The mode that fikit.toml says, and whether the fikitd that runs knows it: it makes the directory when it begins."""
    if asked and fikitd_runs and not directory.is_dir():
        return warn(
            "device mode", f"fikit.toml asks for MPS, and the fikitd that runs began without: {WITHOUT}", RESTART
        )
    if not asked and directory.is_dir():
        return warn("device mode", "MPS is off in fikit.toml, and what was begun before goes on until the jobs that joined it have ended",
                    f"nothing, if fikitd has been restarted since; else {RESTART}")  # fmt: skip
    return ok(
        "device mode",
        "MPS: kernels of sharing jobs overlap" if asked else "time slices: sharing jobs take turns on their GPU",
    )


def programs() -> Check:
    """NVIDIA's two programs, and whether they are of a driver whose MPS serves several users at a time."""
    names = (nvidias.PROGRAM, nvidias.SERVER_PROGRAM)
    found = {name: path for name in names if (path := nvidias.find(name)) is not None}
    missing = [name for name in names if name not in found]
    if missing:
        return fail("MPS programs", f"fikit.toml asks for MPS, and there is no {' and no '.join(missing)} {nvidias.PLACES}: {WITHOUT}",
                    'install the part of the driver that has it (Debian: nvidia-cuda-mps; Ubuntu: nvidia-compute-utils-...), or set [gpu] mps = "off"')  # fmt: skip
    program = found[nvidias.PROGRAM]
    try:
        if not nvidias.serves_several_users(program):
            return warn("MPS programs", f"{program} does not know {nvidias.SEVERAL_USERS}: MPS serves one user's jobs at a time, and other users' jobs run in time slices meanwhile",
                        "nothing, where jobs that share a GPU are mostly one user's; else install a newer driver")  # fmt: skip
    except OSError as error:
        return fail("MPS programs", f"{program} could not be read: {error.strerror}", f"chmod a+rx {program}")
    return ok("MPS programs", f"{program}, which serves several users at a time")


def pipe_path(directory: Path) -> Check:
    """Sockets have short paths, and MPS has some below a directory for each GPU."""
    pipes = notes.places(directory, "GPU-00000000-0000-0000-0000-000000000000").pipes
    if control.socket_path_fits(pipes):
        return ok("MPS sockets", str(directory))
    return fail(
        "MPS sockets", f"a path of a socket in {pipes} is too long: {WITHOUT}", "set a shorter run_dir in fikit.toml"
    )


def rights(directory: Path) -> Iterator[Check]:
    """Programs of all users meet their server in its pipe directory. Whoever may write there can replace a socket, or fill run_dir."""
    for place in [directory, *notes.pipe_directories(directory)]:
        try:
            mode = place.stat().st_mode
        except OSError:
            continue  # it has ended meanwhile, or never was
        if not mode & stat.S_IXOTH and place.stat().st_uid == 0:
            yield fail(
                "MPS rights", f"users cannot enter {place}, and their programs meet MPS there", f"chmod a+rx {place}"
            )
        elif mode & 0o022:
            yield fail(
                "MPS rights", f"users can put files into {place}, where fikitd lets nobody write", f"chmod go-w {place}"
            )


def served(note: notes.State, directory: Path) -> Check:
    """How the control daemon that fikitd began for a GPU, and its server, are."""
    name = f"MPS on {note.uuid}"
    if control.began(note.pid) != note.started:
        return warn(name, f"its control daemon (process {note.pid}) has ended: jobs run in time slices there until its clients have left",
                    "nothing: fikitd begins another one then; `fikit top` shows whose programs are left")  # fmt: skip
    places = notes.places(directory, note.uuid, note.owner)
    try:
        server, state, clients = asyncio.run(_ask(control.Control(note.uuid, places.pipes, places.logs)))
    except MpsError as error:
        return fail(
            name,
            f"MPS {error}",
            f"kill -9 {note.pid} as root, or wait: fikitd does it when the jobs that joined it have ended",
        )
    if not server:
        return ok(name, "no program has needed a server")
    alone = "" if note.owner is None else f"; it takes programs of {_name(note.owner)} only"
    return (
        unfit(name, server, state)
        or (somebodys(name, server, _uid(note.pid), places.pipes) if note.owner is None else None)
        or ok(name, f"server {server}, {len(clients)} client{'' if len(clients) == 1 else 's'}{alone}")
    )


def unfit(name: str, server: int, state: str) -> Check | None:
    """A server that takes nobody now."""
    if state == control.INITIALIZING:
        return warn(name, f"its server (process {server}) is not ready yet",
                    "ask again: a server that stays so hangs in the driver (see `dmesg` and `nvidia-smi`)")  # fmt: skip
    if state == control.FAULT:
        return warn(name, "a client's fatal fault ended the GPU work of all of them, and the server takes nobody until they have left",
                    "wait, or end the jobs that `fikit top` shows there; others run in time slices meanwhile; which job it was, as far as known, is in their reports")  # fmt: skip
    return None


def somebodys(name: str, server: int, daemons: int | None, pipes: Path) -> Check | None:
    """A server of another user than `daemons`, the control daemon's, serves that user alone."""
    owner = _uid(server)
    if owner in (None, daemons):
        return None
    return fail(name, f"its server (process {server}) is {_name(owner)}'s: other users' programs wait until that user's have left",
                f"when its jobs have ended: `echo quit | CUDA_MPS_PIPE_DIRECTORY={pipes} {nvidias.PROGRAM}` as root; for the next job fikitd begins one for all users")  # fmt: skip


async def _ask(daemon: control.Control) -> tuple[int, str, list[int]]:
    """Its server, 0 for none, how that is, and its clients. MpsError: it does not answer."""
    servers = await daemon.servers()
    if not servers:
        return 0, "", []
    return servers[0], await daemon.status(servers[0]), await daemon.clients(servers[0])


def others(own: set[int] | None, asked: bool) -> Iterator[Check]:
    """Control daemons that are not fikitd's. `own`: its; None: not to be read by this user, and those of root may be its."""
    beside = (
        "programs that find it join it and not fikit's MPS, which takes turns with it"
        if asked
        else "sharing jobs' programs that find it are its clients, and their kernels overlap"
    )
    for pid in control.daemons(PROC):
        uid = _uid(pid)
        if uid is None or (uid == 0 if own is None else pid in own):
            continue
        yield warn("another MPS", f"an MPS control daemon (process {pid}, {_name(uid)}'s) is not fikitd's: {beside}",
                   f"nothing, if a job began it for itself; else `echo quit | {nvidias.PROGRAM}` as {_name(uid)}, and take away what starts it")  # fmt: skip


def variable(directory: Path) -> Iterator[Check]:
    """What a shell says about MPS goes into the jobs that are submitted from it."""
    said = os.environ.get(control.ENV_PIPES)
    if said and directory not in Path(said).parents:
        yield warn(control.ENV_PIPES, f"it is {said} here: jobs that are submitted from such a shell use the MPS there, and not fikit's",
                   "unset it, and take it out of the profile or module that sets it, unless these jobs are to have an MPS of their own")  # fmt: skip


def _answers(run_dir: Path) -> bool:
    try:
        Control(run_dir).ping()
    except (DaemonUnreachable, ControlError):
        return False
    return True


def _uid(pid: int) -> int | None:
    try:
        return (PROC / str(pid)).stat().st_uid
    except OSError:
        return None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
