"""Training of a convolutional network: long kernels, and a host that queues steps ahead, so that the GPU is always busy.

An ordinary PyTorch program: it knows nothing about fikit. `fikit run --priority low -- python examples/gpu/convolution.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Flatten, Linear, ReLU, Sequential


def prepare(device: str) -> Callable[[], torch.Tensor]:
    """A request: one step of stochastic gradient descent on 64 random pictures."""
    torch.manual_seed(0)
    size = (64, 3, 128, 128) if device == "cuda" else (2, 3, 32, 32)
    layers: list[torch.nn.Module] = []
    channels = 3
    for number, width in enumerate((64, 64, 128, 128, 256, 256)):
        layers += [Conv2d(channels, width, 3, stride=1 + number % 2, padding=1), BatchNorm2d(width), ReLU()]
        channels = width
    model = Sequential(*layers, AdaptiveAvgPool2d(1), Flatten(), Linear(channels, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    pictures = torch.randn(size, device=device)
    labels = torch.randint(0, 10, size[:1], device=device)

    def request() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        guesses: torch.Tensor = model(pictures)
        torch.nn.functional.cross_entropy(guesses, labels).backward()
        optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        return guesses

    return request


if __name__ == "__main__":
    from pace import show

    show(prepare, "steps")
