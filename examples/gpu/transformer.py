"""Inference of a transformer encoder, operator by operator: short kernels that the host launches one by one.

An ordinary PyTorch program: it knows nothing about fikit. `fikit run --priority high -- python examples/gpu/transformer.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch


def encoder(device: str) -> Callable[[], torch.Tensor]:
    """The pass of one sentence of 128 words through twelve layers, about the size of BERT; it does not wait for the GPU."""
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # one fused operator for a layer
    layer = torch.nn.TransformerEncoderLayer(d_model=768, nhead=12, dim_feedforward=3072, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, num_layers=12 if device == "cuda" else 2, enable_nested_tensor=False)
    model = model.to(device).eval()
    words = torch.randn(1, 128, 768, device=device)

    def forward() -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = model(words)
        return found

    return forward


def prepare(device: str) -> Callable[[], torch.Tensor]:
    """A request: one pass."""
    forward = encoder(device)

    def request() -> torch.Tensor:
        found = forward()
        if device == "cuda":
            torch.cuda.synchronize()
        return found

    return request


if __name__ == "__main__":
    from pace import show

    show(prepare, "sentences")
