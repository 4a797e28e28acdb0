"""Which jobs may have more memory than they have on the GPU."""

from __future__ import annotations

from typing import Any

import pytest
from fikitd.config.fikit_toml import Config, GpuConfig, OversubscribeConfig
from fikitd.config.oversubscribe import GIB, host_memory
from fikitd.store.records import JobRecord

ALLOWED = Config(oversubscribe=OversubscribeConfig(allow="lower", host_gib=16, max_factor=3))


def of(config: Config = ALLOWED, priority: int = 8, **record: Any) -> tuple[int, str | None]:
    job = {"mem_bytes": 8 * GIB, "mem_host_bytes": 16 * GIB, **record}
    return host_memory(config, JobRecord("12", 1000, 100, priority, **job))


def test_what_is_allowed_is_given_whole() -> None:
    assert of() == of(priority=2) == (16 * GIB, None)
    assert of(auto_highest=2, auto_lowest=8) == (16 * GIB, None)


def test_who_asks_for_none_is_told_nothing() -> None:
    assert of(Config(), 0, mem_host_bytes=0) == (0, None)


@pytest.mark.parametrize(
    ("config", "job", "why"),
    [
        (Config(), {}, 'allow = "no"'),
        (ALLOWED, {"priority": 1}, "below high only"),
        (ALLOWED, {"priority": 8, "approved": 0}, "below high only"),
        (ALLOWED, {"auto_highest": 1, "auto_lowest": 8}, "below high only"),
        (ALLOWED, {"mem_bytes": 0}, "needs --fikit-mem"),
        (
            ALLOWED,
            {"mem_bytes": 32 * GIB, "mem_host_bytes": 17 * GIB},
            "17G is more than the 16 GiB that a job may have",
        ),
        (
            ALLOWED,
            {"mem_bytes": 4 * GIB, "mem_host_bytes": 9 * GIB},
            "9G is more than the 8G that a job with --fikit-mem=4G may have here (max_factor)",
        ),
        (ALLOWED, {"mem_bytes": 3 * 2**10, "mem_host_bytes": 7 * 2**10}, "7K is more than the 6K"),
        (Config(oversubscribe=OversubscribeConfig(allow="lower", max_factor=1)), {}, "max_factor = 1"),
        (Config(gpu=GpuConfig(mps="multi-user"), oversubscribe=ALLOWED.oversubscribe), {}, "an MPS server"),
    ],
)
def test_who_may_not_has_none_and_hears_why(config: Config, job: dict[str, Any], why: str) -> None:
    bytes_, said = of(config, **job)
    assert bytes_ == 0
    assert said is not None
    assert why in said
