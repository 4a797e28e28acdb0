"""torch.compile: Triton kernels, launched by generated code through the driver."""

from __future__ import annotations

from collections.abc import Callable

import torch


def prepare(device: str) -> Callable[[], None]:
    layers = [
        torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.LayerNorm(512)) for _ in range(4)
    ]
    model = torch.compile(torch.nn.Sequential(*layers).to(device).eval())
    rows = torch.randn(256, 512, device=device)

    def request() -> None:
        with torch.no_grad():
            model(rows)
        if device == "cuda":
            torch.cuda.synchronize()

    return request
