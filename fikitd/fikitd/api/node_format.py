"""What fikitd answers to `node`, as whoever asked checks it (docs/design/contracts.md, "Control socket")."""

from __future__ import annotations

from typing import Any, Final

from fikitd.api.memory_story import PLAN_NOW_CHECK
from fikitd.api.report_format import AUTO_STATES, MODE
from fikitd.base import schema
from fikitd.base.schema import amount, good_ones, name, null_or, one_of, text, whole

FORMAT: Final = "fikit-node"
VERSION: Final = 1
MAX_CLIENTS: Final = 2**16

_COUNT: Final = whole()
_SWITCH = schema.fields({"switch_us": amount(), "spread_us": amount(), "samples": _COUNT})
_GPU = schema.fields(
    {"uuid": text(96), "name": text(256), "memory_bytes": null_or(_COUNT), "emulated": schema.flag},
    {"switch": null_or(_SWITCH)},
)  # which a fikitd of before does not say
PUBLIC: Final = {
    "client": _COUNT, "gpu": text(96), "job": name, "uid": whole(0, 2**32 - 1), "priority": whole(0, 9),
    "priority_name": text(32), "gpu_time_s": null_or(amount()),
}  # fmt: skip
_OWN: Final = {
    "name": text(1024), "pid": _COUNT, "kernels": _COUNT, "others_kernels": _COUNT,
    "memory_bytes": _COUNT, "memory_limit_bytes": null_or(_COUNT),
}  # fmt: skip
TIME: Final = {  # of the client's job so far, as in its report
    **{f"{part}_s": amount() for part in ("elapsed", "alone", "waited", "delayed", "host", "unexplained")},
    "slowdown": null_or(amount()), "max_slowdown": null_or(amount(1)),
}  # fmt: skip
_LINK = schema.fields({"in_bytes_per_s": null_or(amount()), "out_bytes_per_s": null_or(amount())})
_LATELY: Final = {  # which a fikitd of before does not say
    "device_mode": MODE, "job_time": schema.fields(TIME), "auto": null_or(one_of(*AUTO_STATES)),
    "memory_on_gpu_bytes": null_or(_COUNT), "memory_plan": null_or(PLAN_NOW_CHECK), "link": null_or(_LINK),
}  # fmt: skip
_OTHERS_CLIENT, _OWN_CLIENT = schema.fields(PUBLIC), schema.fields({**PUBLIC, **_OWN}, _LATELY)


def _client(value: Any, what: str) -> dict[str, Any]:
    own = isinstance(value, dict) and "pid" in value
    client: dict[str, Any] = (_OWN_CLIENT if own else _OTHERS_CLIENT)(value, what)
    return client


_NODE = schema.fields(
    {
        "format": one_of(FORMAT), "version": whole(VERSION, VERSION), "node": text(256), "policy": text(64),
        "now_ns": _COUNT, "gpus": good_ones(_GPU, 4096), "clients": good_ones(_client, MAX_CLIENTS),
        "unmanaged": good_ones(schema.fields({"gpu": text(96), "pid": _COUNT}), MAX_CLIENTS),
    },
    {"config": text(64)},  # which a fikitd of before does not say
)  # fmt: skip


def checked(document: Any) -> dict[str, Any]:
    """`document` with known fields only, all within bounds; ValueError says what is not."""
    node: dict[str, Any] = _NODE(document, "the answer")
    return node
