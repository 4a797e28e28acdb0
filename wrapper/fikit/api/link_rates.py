"""How fast the link between a GPU and the host's memory is: as this node's fikitd has learnt it, else as assumed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fikitd.api.client import Control, ControlError, DaemonUnreachable
from fikitd.gpus.residency import Link

from fikit.site_paths import places

ANSWER_S: Final = 1.0


@dataclass(frozen=True)
class LinkRates:
    """Bytes per second to the GPU (in) and away from it (out). None: nobody has measured that direction."""

    in_measured: float | None = None
    out_measured: float | None = None

    @property
    def link(self) -> Link:
        assumed = Link()
        return Link(self.in_measured or assumed.in_bytes_per_s, self.out_measured or assumed.out_bytes_per_s)

    def said(self) -> str:
        """`24 GB/s (assumed)`, `48.8 GB/s in and 13.9 GB/s out (measured on this node)`."""
        inward, outward = (f"{rate / 1e9:.3g} GB/s" for rate in (self.link.in_bytes_per_s, self.link.out_bytes_per_s))
        if self.in_measured and self.out_measured:
            return f"{inward} in and {outward} out (measured on this node)"
        if self.in_measured:
            return f"{inward} in (measured on this node) and {outward} out (assumed)"
        if self.out_measured:
            return f"{inward} in (assumed) and {outward} out (measured on this node)"
        return f"{inward} (assumed)"

    def document(self) -> dict[str, Any]:
        """As --json has it."""
        return {
            "in_bytes_per_s": self.link.in_bytes_per_s, "out_bytes_per_s": self.link.out_bytes_per_s,
            "in_measured": self.in_measured is not None, "out_measured": self.out_measured is not None,
        }  # fmt: skip


ASSUMED: Final = LinkRates()


def of_gpu(name: str) -> LinkRates:
    """Of a GPU of that name, as the caller's jobs that run on this node have shown; nothing is measured where no fikitd answers."""
    for place in places():
        try:
            node = Control(place.run_dir, ANSWER_S).node()
        except (DaemonUnreachable, ControlError):
            continue
        of_name = {gpu["uuid"] for gpu in node["gpus"] if gpu["name"] == name}
        links = [link for one in node["clients"] if one["gpu"] in of_name and (link := one.get("link"))]
        for link in links:
            return LinkRates(link["in_bytes_per_s"], link["out_bytes_per_s"])
    return ASSUMED
