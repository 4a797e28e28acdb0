"""A training loop that keeps the device busy: a small convolutional network on random images.

The host queues step after step and looks at the loss only now and then, so the device always has work: the kind of job
that makes every other program on the same GPU wait. Weights and data are random.

An ordinary tinygrad program: it knows nothing about fikit.
"""

from __future__ import annotations

import argparse
import time

from rendezvous import Rendezvous
from tinygrad import Tensor, TinyJit
from tinygrad.helpers import Context
from tinygrad.nn import Conv2d, Linear
from tinygrad.nn.optim import SGD
from tinygrad.nn.state import get_parameters

LOOK_EVERY = 10  # steps between two looks at the loss


class Network:
    def __init__(self) -> None:
        self.first = Conv2d(3, 16, 3, stride=2, padding=1)
        self.second = Conv2d(16, 32, 3, stride=2, padding=1)
        self.last = Linear(32, 10)

    def __call__(self, x: Tensor) -> Tensor:
        return self.last(self.second(self.first(x).relu()).relu().mean((2, 3)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000, help="how many batches to train on")
    parser.add_argument("--batch", type=int, default=64, help="images per batch")
    Rendezvous.add_arguments(parser)
    args = parser.parse_args()

    network = Network()
    optimizer = SGD(get_parameters(network), lr=0.01)
    images = Tensor.rand(args.batch, 3, 32, 32).realize()
    labels = Tensor.randint(args.batch, high=10).realize()

    @TinyJit
    @Context(TRAINING=1)
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = network(x).sparse_categorical_crossentropy(y).backward()
        return loss.realize(*optimizer.schedule_step())

    for _ in range(4):  # compiles and captures
        loss = step(images, labels).item()
    meeting = Rendezvous.from_arguments(args)
    meeting.wait()
    begin = time.monotonic()
    for number in range(1, args.steps + 1):
        result = step(images, labels)
        if number % LOOK_EVERY == 0 or number == args.steps:
            loss = result.item()
    seconds = time.monotonic() - begin
    print(f"train: {args.steps} steps in {seconds:.3f} s, loss {loss:.3f}", flush=True)
    meeting.report(seconds)


if __name__ == "__main__":
    main()
