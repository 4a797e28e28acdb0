"""The `fikitd` command."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fikitd.base import interrupt
from fikitd.base.command_line import run_command, version_option
from fikitd.config.fikit_toml import Config, ConfigError, load
from fikitd.daemon import log_lines

if TYPE_CHECKING:
    from fikitd.gpus.dispatchers import Core


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--config", "config_file", metavar="FILE", help="Read FILE instead of /etc/fikit/fikit.toml.")
@click.option("--run-dir", metavar="DIR", help="Sockets and job records, instead of run_dir in the configuration.")
@click.option("--check-config", is_flag=True, help="Print the configuration in force, or what is wrong with it.")
@version_option("fikitd")
def command(config_file: str | None, run_dir: str | None, check_config: bool) -> None:
    """The daemon that shares this node's GPUs between jobs by priority. Runs in the foreground and logs to stderr."""
    try:
        config = load(config_file)
        if run_dir is not None:
            config = config.with_run_dir(str(Path(run_dir).absolute()))
    except ConfigError as error:
        for sentence in error.sentences:
            click.echo(sentence if check_config else f"fikitd: {sentence}", err=True)
        sys.exit(1)
    for sentence in config.warnings:
        click.echo(sentence if check_config else f"fikitd: warning: {sentence}", err=True)
    if check_config:
        click.echo(config.toml(), nl=False)
        return
    sys.exit(serve(config))


def serve(config: Config, core: Core | None = None, gpu_memory_bytes: int | None = None) -> int:
    """Run the daemon; returns its exit code. For tests and benches: with another native core, and as if each GPU had so much memory (server.Server)."""
    # Imported late: --check-config and --help need neither the native core nor asyncio.
    with interrupt.loading():
        from fikitd import _core  # noqa: PLC0415
        from fikitd.daemon import run_directory, server  # noqa: PLC0415

    log_lines.begin()
    if os.geteuid() == 0:
        # Threads that act as a job's user must not keep root's groups (storage.become).
        with suppress(PermissionError):
            os.setgroups([])
    os.umask(0o022)
    server.raise_descriptor_limit()

    _watch_children_without_threads()

    async def run() -> None:
        await server.Server(config, core or _core, gpu_memory_bytes=gpu_memory_bytes).run(ready=server.notify_systemd)

    try:
        asyncio.run(run())
    except run_directory.AlreadyServed as error:
        click.echo(f"fikitd: {error}", err=True)
    except run_directory.CannotServe as error:
        click.echo(f"fikitd: {error}", err=True)
        return 1
    return 0


def _watch_children_without_threads() -> None:
    """Before 3.12 asyncio starts a thread for each child, and waits until it has begun (fikitd.base.threads)."""
    if sys.version_info >= (3, 12):
        return
    with suppress(OSError):  # a kernel before 5.3
        os.close(os.pidfd_open(os.getpid()))
        asyncio.get_event_loop_policy().set_child_watcher(asyncio.PidfdChildWatcher())


def main() -> None:
    """Entry point of `fikitd`."""
    run_command(command, "fikitd")
