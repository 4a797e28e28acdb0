"""The part `long_cells`: decode + batch with arrivals for so long that the 99th percentile counts thousands of requests."""

from __future__ import annotations

from bench.gpu.context import Context, Found
from bench.gpu.service import Service
from bench.gpu.sharing import cells, pairs

WAYS = ("budget_mps", "budget")
SECONDS, QUICK_SECONDS = 20.0, 1.0  # of a cell's windows


class LongCells(pairs.Measurement):
    """Only the workers of the two ways: the time is for the cells. Requests alone are those of a program under fikit; no harvest."""

    runs_alone = "managed.high"

    def _open(self) -> None:
        with self._step("managed workers"):
            service = Service(self.setting.place)
            self._stack.callback(service.stop)
            service.use("budget")
            self.services["managed"] = service
            self._open_managed()
        with self._step("alone"):
            self._alone(self.setting.pairs[0][0])
        with self._step("the switch"):
            self._learn_switch()


def measure(context: Context) -> Found:
    """As the part `pairs`, with one pair, one kind of requests and two ways."""
    pair = cells.TORCH_PAIRS[0] if context.options.with_torch() else cells.DRIVER_PAIRS[0]
    seconds = QUICK_SECONDS if context.options.quick else SECONDS
    return pairs.measure(context, (pair,), WAYS, ("arrivals",), seconds, form=LongCells)
