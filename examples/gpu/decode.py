"""Decoding with a CUDA graph: the kernels of a token were captured once and are launched together, again and again.

An ordinary PyTorch program: it knows nothing about fikit. `fikit run --priority high -- python examples/gpu/decode.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

TOKENS = 8


def prepare(device: str) -> Callable[[], torch.Tensor]:
    """A request: eight tokens through sixteen layers, one row at a time."""
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.GELU(), torch.nn.LayerNorm(2048))
              for _ in range(16 if device == "cuda" else 2)]  # fmt: skip
    model = torch.nn.Sequential(*layers).to(device).eval()
    row = torch.randn(1, 2048, device=device)

    @torch.no_grad()
    def token() -> None:
        row.copy_(model(row))

    def one_by_one() -> torch.Tensor:
        for _ in range(TOKENS):
            token()
        return row

    if device != "cuda":
        return one_by_one
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            token()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        token()

    def request() -> torch.Tensor:
        for _ in range(TOKENS):
            graph.replay()
        torch.cuda.synchronize()
        return row

    return request


if __name__ == "__main__":
    from pace import show

    show(prepare, "tokens", TOKENS)
