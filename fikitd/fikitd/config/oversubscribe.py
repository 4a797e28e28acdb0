"""More memory than the GPU has: which jobs' memory may lie in host memory, and how much of it (docs/memory.md).

job_submit.lua refuses with a sentence what is not allowed; a node goes by this where nobody asked slurmctld, as with `fikit run`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fikitd.base.quantities import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fikitd.config.fikit_toml import Config
    from fikitd.store.records import JobRecord

GIB: Final = 2**30
LOWER: Final = "lower"
MODES: Final = ("no", LOWER)
HIGHEST: Final = 2
"""The highest priority that counts as lower: a job of 0 or 1, high, never waits for memory that is not there."""


def host_memory(config: Config, record: JobRecord) -> tuple[int, str | None]:
    """How many bytes of the job's memory may lie in host memory, beside its mem_bytes on the GPU; 0: none, it allocates as without fikit.

    And why not, where it asked for some. Under fikitd's MPS there are none: what its limits do to managed memory is not known (docs/memory.md).
    """
    why = _refusal(record, config)
    return (0 if why else record.mem_host_bytes), why


def _refusal(record: JobRecord, config: Config) -> str | None:
    """Why the job has no host memory although it asked for some, as the end of a sentence; None: it asked for none, or has it."""
    return next(_faults(record, config), None) if record.mem_host_bytes else None


def _faults(record: JobRecord, config: Config) -> Iterator[str]:
    site, host = config.oversubscribe, record.mem_host_bytes
    if site.allow != LOWER:
        yield 'this site does not allow it: allow = "no" in [oversubscribe] of fikit.toml'
    if site.max_factor == 1:
        yield "this site does not allow it: max_factor = 1 in [oversubscribe] of fikit.toml"
    approved = record.priority if record.approved is None else record.approved
    if min(record.priority, record.auto.highest if record.auto else approved) < HIGHEST:
        yield "it is for jobs below high only"
    if not record.mem_bytes:
        yield "it needs --fikit-mem, what stays on the GPU"
        return
    if host > site.host_gib * GIB:
        yield f"{written(host)} is more than the {site.host_gib} GiB that a job may have here (host_gib)"
    if host > (most := (site.max_factor - 1) * record.mem_bytes):
        own = written(record.mem_bytes)
        yield f"{written(host)} is more than the {written(most)} that a job with --fikit-mem={own} may have here (max_factor)"
    if config.gpu.mps != "off":
        yield "fikitd runs an MPS server on this node's GPUs"
