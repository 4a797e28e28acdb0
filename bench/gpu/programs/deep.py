"""A training's forward and backward pass, deep enough that its activations are most of its memory. PyTorch.

Nothing is learnt, so that each pass must come to what the first came to: a request fails where one does not.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
from torch.nn import AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Flatten, Linear, ReLU, Sequential

LAYERS, WIDTH = 16, 128


def prepare(device: str) -> Callable[[], None]:
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    size = (64, 3, 64, 64) if device == "cuda" else (2, 3, 16, 16)
    layers: list[torch.nn.Module] = []
    for number in range(LAYERS):
        layers += [Conv2d(WIDTH if number else 3, WIDTH, 3, padding=1), BatchNorm2d(WIDTH), ReLU()]
    model = Sequential(*layers, AdaptiveAvgPool2d(1), Flatten(), Linear(WIDTH, 10)).to(device)
    pictures = torch.randn(size, device=device)
    labels = torch.randint(0, 10, size[:1], device=device)
    first: list[tuple[float, float]] = []

    def request() -> None:
        model.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(pictures), labels)
        loss.backward()
        slope = model[0].weight.grad.double().abs().sum()
        found = float(loss), float(slope)
        first[:] = first or [found]
        if found != first[0]:
            raise RuntimeError(f"the pass came to {found}, the first one to {first[0]}")

    return request
