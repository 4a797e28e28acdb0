"""Where fikitd tells others of this node: status files for `fikit top --all`, files for dcgm-exporter."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from fikitd.api import statuses
from fikitd.config import fikit_toml
from fikitd.config.fikit_toml import ConfigError
from fikitd.store.storage import reason

from fikit.checks.check import Check, ok, warn
from fikit.checks.daemon import is_open


def area() -> Iterator[Check]:
    """Nothing of what the site does not publish."""
    try:
        config = fikit_toml.load()
    except ConfigError:
        return  # which daemon.area() says
    if config.daemon.status_dir:
        yield status_files(Path(config.daemon.status_dir), time.time())
    if config.metrics.job_map_dir:
        yield job_map(Path(config.metrics.job_map_dir))


def status_files(directory: Path, now_s: float) -> Check:
    """Of all nodes; one that is late has no fikitd, or no storage."""
    try:
        found = statuses.read(directory, now_s)
    except FileNotFoundError:
        return warn(
            "status_dir",
            f"there is no {directory}",
            f"install -d -m 0755 {directory}, on storage that nodes and login nodes share",
        )
    except ValueError as error:
        return warn(
            "status_dir", f"{directory} is not read: {error}", f"chown root {directory}; chmod 0755 {directory}"
        )
    except OSError as error:
        return warn("status_dir", f"{directory} cannot be read: {reason(error)}", "mount it, or let its readers in")
    late = sorted(node for node, status in found.by_node.items() if statuses.is_late(status, now_s))
    if late:
        named = ", ".join(late[:5]) + (f" and {len(late) - 5} more" if len(late) > 5 else "")
        return warn(
            "status_dir",
            f"{named} {'has' if len(late) == 1 else 'have'} not written for a minute",
            "look whether fikitd runs there: systemctl status fikitd",
        )
    if found.refused:
        name, why = next(iter(found.refused.items()))
        return warn("status_dir", f"{name} is not believed: {why}", "remove it: a node writes its own again")
    return ok("status_dir", f"{len(found.by_node)} node{'' if len(found.by_node) == 1 else 's'} in {directory}")


def job_map(directory: Path) -> Check:
    """It is made by the site: below /run at each boot."""
    if not directory.is_dir():
        return warn(
            "job_map_dir",
            f"there is no {directory}",
            f"install -d -m 0755 {directory}; below /run by a line in tmpfiles.d, `d {directory} 0755 root root -`",
        )
    if is_open(directory):
        return warn(
            "job_map_dir",
            f"others than its owner can write in {directory}, and say which jobs have which GPU",
            f"chmod 0755 {directory}",
        )
    return ok("job_map_dir", str(directory))
