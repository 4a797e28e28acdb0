"""The transformer of examples/gpu as a CUDA graph: one launch a request, so that the host's speed disturbs nothing. PyTorch."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import torch

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "gpu" / "transformer.py"
WARM_UP = 3  # passes before the capture, on a stream of their own: PyTorch's rule for graphs


def prepare(device: str) -> Callable[[], torch.Tensor]:
    """A request: one pass. On the processor without a graph."""
    forward: Callable[[], torch.Tensor] = runpy.run_path(str(EXAMPLE))["encoder"](device)
    if device != "cuda":
        return forward
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            forward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = forward()

    def request() -> torch.Tensor:
        graph.replay()
        torch.cuda.synchronize()
        return found

    return request
