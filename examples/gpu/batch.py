"""Inference in large batches: few, long kernels of matrix products, as of a nightly job.

An ordinary PyTorch program: it knows nothing about fikit. `fikit run --priority low -- python examples/gpu/batch.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch


def prepare(device: str) -> Callable[[], torch.Tensor]:
    """A request: 4,096 rows through eight layers in half precision."""
    torch.manual_seed(0)
    width, rows, kind = (4096, 4096, torch.bfloat16) if device == "cuda" else (128, 64, torch.float32)
    layers = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(8)]
    model = torch.nn.Sequential(*layers).to(device, kind).eval()
    batch = torch.randn(rows, width, device=device, dtype=kind)

    def request() -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = model(batch)
        if device == "cuda":
            torch.cuda.synchronize()
        return found

    return request


if __name__ == "__main__":
    from pace import show

    show(prepare, "batches")
