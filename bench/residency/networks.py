"""One training step of a published network, kernel by kernel: shapes, sizes and order from the network's definition.

VGG16 (arXiv 1409.1556), ResNet50 (1512.03385), InceptionV3 (1512.00567), InceptionV4 (1602.07261), DenseNet121 (1608.06993); float32,
SGD with momentum, activations and gradients as an eager framework has them: ReLU in place, what backward needs is kept until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

FLOAT: Final = 4


@dataclass(frozen=True)
class Tensor:
    """shape: channels, height, width for each sample of the batch; a parameter's is (numbers,)."""

    number: int
    bytes: int
    shape: tuple[int, ...]
    parameter: bool = False


@dataclass(frozen=True)
class Kernel:
    """kind: what its time goes by (times.py). flop: multiply-adds count two. layer: of what it belongs to; forward: before the loss."""

    kind: str
    reads: tuple[Tensor, ...]
    writes: tuple[Tensor, ...]
    flop: float
    layer: int
    forward: bool
    convolves: bool = False

    @property
    def touched(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys((*self.reads, *self.writes)))

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in (*self.reads, *self.writes))


@dataclass(frozen=True)
class Step:
    """kernels: in order. last_use: of every tensor that is no parameter, the kernel after which nobody needs it."""

    name: str
    batch: int
    kernels: list[Kernel]

    def last_use(self) -> dict[Tensor, int]:
        return {
            tensor: at for at, kernel in enumerate(self.kernels) for tensor in kernel.touched if not tensor.parameter
        }


Backward = Callable[[Tensor], None]


@dataclass
class Network:
    """Builds a step: each layer runs forward at once and says what it does backward."""

    name: str
    batch: int
    kernels: list[Kernel] = field(default_factory=list)
    _count: int = 0
    _layer: int = 0
    _forward: bool = True
    _tape: list[tuple[Tensor, Backward]] = field(default_factory=list)
    _gradients: dict[Tensor, Tensor] = field(default_factory=dict)
    _parameters: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    _learnt: dict[Tensor, Tensor] = field(default_factory=dict)

    # -- layers

    def input(self, channels: int, size: int) -> Tensor:
        image = self._tensor((channels, size, size))
        self._run("copy", (), (image,))
        return image

    def conv(
        self,
        x: Tensor,
        out: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        pad: int | tuple[int, int] | None = None,
    ) -> Tensor:
        """pad None: so that the size stays, with a stride of 1."""
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        up, left = ((height // 2, width // 2) if pad is None else (pad, pad) if isinstance(pad, int) else pad)  # fmt: skip
        channels, rows, columns = x.shape
        shape = (out, (rows + 2 * up - height) // stride + 1, (columns + 2 * left - width) // stride + 1)
        weight = self._parameter(channels * out * height * width)
        y = self._tensor(shape)
        flop = 2.0 * self.batch * channels * height * width * out * shape[1] * shape[2]
        return self._product("convolution", x, weight, y, flop)

    def linear(self, x: Tensor, out: int) -> Tensor:
        numbers = 1
        for each in x.shape:
            numbers *= each
        weight = self._parameter(numbers * out)
        return self._product("convolution", x, weight, self._tensor((out, 1, 1)), 2.0 * self.batch * numbers * out)

    def norm(self, x: Tensor) -> Tensor:
        y = self._tensor(x.shape)
        self._run("norm", (x,), (y,))

        def backward(gradient: Tensor) -> None:
            self._run("norm backward", (x, gradient), (into := self._tensor(x.shape),))
            self._give(x, into)

        return self._next(y, backward)

    def relu(self, x: Tensor) -> Tensor:
        """In place: the same memory, under another name for the gradient's sake."""
        y = Tensor(x.number, x.bytes, x.shape)
        self._run("elementwise", (x,), (y,))

        def backward(gradient: Tensor) -> None:
            self._run("elementwise", (y, gradient), (into := self._tensor(x.shape),))
            self._gradients[x] = into

        return self._next(y, backward)

    def pool(self, x: Tensor, size: int, stride: int, pad: int = 0, *, most: bool = True) -> Tensor:
        """Largest or mean; of the largest its place is kept, 8 bytes each."""
        channels, rows, columns = x.shape
        y = self._tensor((channels, (rows + 2 * pad - size) // stride + 1, (columns + 2 * pad - size) // stride + 1))
        places = (self._tensor(y.shape, 8),) if most else ()
        self._run("pool", (x,), (y, *places))

        def backward(gradient: Tensor) -> None:
            self._run("pool", (gradient, *places), (into := self._tensor(x.shape),))
            self._give(x, into)

        return self._next(y, backward)

    def add(self, x: Tensor, other: Tensor) -> Tensor:
        """x += other."""
        y = Tensor(x.number, x.bytes, x.shape)
        self._run("elementwise", (x, other), (y,))

        def backward(gradient: Tensor) -> None:
            self._gradients[x] = gradient
            self._give(other, gradient)

        return self._next(y, backward)

    def cat(self, parts: Iterable[Tensor]) -> Tensor:
        parts = tuple(parts)
        y = self._tensor((sum(each.shape[0] for each in parts), *parts[0].shape[1:]))
        self._run("copy", parts, (y,))

        def backward(gradient: Tensor) -> None:
            for each in parts:
                self._run("copy", (gradient,), (into := self._tensor(each.shape),), moved=2 * each.bytes)
                self._give(each, into)

        return self._next(y, backward)

    def block(
        self, x: Tensor, out: int, kernel: int | tuple[int, int], stride: int = 1, pad: int | None = None
    ) -> Tensor:
        """Convolution, norm, ReLU."""
        return self.relu(self.norm(self.conv(x, out, kernel, stride, pad)))

    # -- the step

    def step(self, y: Tensor) -> Step:
        """Backward from y's loss, and the parameters changed."""
        self._forward = False
        self._run("elementwise", (y,), (into := self._tensor(y.shape),))
        self._gradients[y] = into
        for at, backward in reversed(self._tape):
            self._layer -= 1
            if at in self._gradients:
                backward(self._gradients[at])
        for weight, momentum in self._parameters:
            gradient = self._learnt[weight]
            self._run("elementwise", (weight, gradient, momentum), (weight, momentum))
        return Step(self.name, self.batch, self.kernels)

    def _product(self, kind: str, x: Tensor, weight: Tensor, y: Tensor, flop: float) -> Tensor:
        self._run(kind, (x, weight), (y,), flop, convolves=True)
        first = not self._tape

        def backward(gradient: Tensor) -> None:
            self._run(kind, (x, gradient), (learnt := self._tensor(weight.shape, parameter=True),), flop)
            self._learnt[weight] = learnt
            if not first:  # nobody needs the image's gradient
                self._run(kind, (weight, gradient), (into := self._tensor(x.shape),), flop)
                self._give(x, into)

        return self._next(y, backward)

    def _give(self, tensor: Tensor, gradient: Tensor) -> None:
        """A tensor of several readers sums their gradients."""
        there = self._gradients.get(tensor)
        if there is None:
            self._gradients[tensor] = gradient
        else:
            self._run("elementwise", (there, gradient), (total := self._tensor(tensor.shape),))
            self._gradients[tensor] = total

    def _next(self, y: Tensor, backward: Backward) -> Tensor:
        self._tape.append((y, backward))
        self._layer += 1
        return y

    def _tensor(self, shape: tuple[int, ...], each: int = FLOAT, *, parameter: bool = False) -> Tensor:
        self._count += 1
        numbers = 1 if parameter else self.batch
        for length in shape:
            numbers *= length
        return Tensor(self._count, numbers * each, shape)

    def _parameter(self, numbers: int) -> Tensor:
        made = []
        for _ in range(2):  # weight and momentum
            self._count += 1
            made.append(Tensor(self._count, numbers * FLOAT, (numbers,), parameter=True))
        self._parameters.append((made[0], made[1]))
        return made[0]

    def _run(
        self, kind: str, reads: tuple[Tensor, ...], writes: tuple[Tensor, ...], flop: float = 0.0, *,
        convolves: bool = False, moved: int | None = None,
    ) -> None:  # fmt: skip
        self.kernels.append(Kernel(kind, reads, writes, flop if flop else float(moved or 0), self._layer, self._forward, convolves))  # fmt: skip


def vgg16(batch: int) -> Step:
    net = Network("VGG16", batch)
    x = net.input(3, 224)
    for out, repeats in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(repeats):
            x = net.relu(net.conv(x, out, 3))
        x = net.pool(x, 2, 2)
    x = net.relu(net.linear(x, 4096))
    x = net.relu(net.linear(x, 4096))
    return net.step(net.linear(x, 1000))


def resnet50(batch: int) -> Step:
    net = Network("ResNet50", batch)
    x = net.pool(net.block(net.input(3, 224), 64, 7, 2), 3, 2, 1)
    for stage, (width, repeats) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for number in range(repeats):
            stride = 2 if stage and not number else 1
            y = net.block(x, width, 1)
            y = net.block(y, width, 3, stride)
            y = net.norm(net.conv(y, 4 * width, 1))
            beside = x if number else net.norm(net.conv(x, 4 * width, 1, stride))
            x = net.relu(net.add(y, beside))
    return net.step(net.linear(net.pool(x, 7, 1, most=False), 1000))


def densenet121(batch: int) -> Step:
    net, growth = Network("DenseNet121", batch), 32
    x = net.pool(net.block(net.input(3, 224), 64, 7, 2), 3, 2, 1)
    for stage, repeats in enumerate((6, 12, 24, 16)):
        parts = [x]
        for _ in range(repeats):
            together = net.cat(parts) if len(parts) > 1 else x
            y = net.conv(net.relu(net.norm(together)), 4 * growth, 1)
            parts.append(net.conv(net.relu(net.norm(y)), growth, 3))
        x = net.relu(net.norm(net.cat(parts)))
        if stage < 3:
            x = net.pool(net.conv(x, x.shape[0] // 2, 1), 2, 2, most=False)
    return net.step(net.linear(net.pool(x, 7, 1, most=False), 1000))


def inception_v3(batch: int) -> Step:
    net = Network("InceptionV3", batch)
    x = net.block(net.block(net.block(net.input(3, 299), 32, 3, 2, 0), 32, 3, 1, 0), 64, 3)
    x = net.pool(net.block(net.block(net.pool(x, 3, 2), 80, 1), 192, 3, 1, 0), 3, 2)
    for pooled in (32, 64, 64):
        x = net.cat((
            net.block(x, 64, 1), net.block(net.block(x, 48, 1), 64, 5), net.block(net.block(net.block(x, 64, 1), 96, 3), 96, 3),
            net.block(net.pool(x, 3, 1, 1, most=False), pooled, 1),
        ))  # fmt: skip
    x = net.cat((net.block(x, 384, 3, 2, 0), net.block(net.block(net.block(x, 64, 1), 96, 3), 96, 3, 2, 0), net.pool(x, 3, 2)))  # fmt: skip
    for width in (128, 160, 160, 192):
        y = net.block(net.block(net.block(x, width, 1), width, (1, 7)), 192, (7, 1))
        z = net.block(net.block(net.block(net.block(net.block(x, width, 1), width, (7, 1)), width, (1, 7)), width, (7, 1)), 192, (1, 7))  # fmt: skip
        x = net.cat((net.block(x, 192, 1), y, z, net.block(net.pool(x, 3, 1, 1, most=False), 192, 1)))
    y = net.block(net.block(net.block(net.block(x, 192, 1), 192, (1, 7)), 192, (7, 1)), 192, 3, 2, 0)
    x = net.cat((net.block(net.block(x, 192, 1), 320, 3, 2, 0), y, net.pool(x, 3, 2)))
    for _ in range(2):
        y = net.block(x, 384, 1)
        z = net.block(net.block(x, 448, 1), 384, 3)
        x = net.cat((
            net.block(x, 320, 1), net.block(y, 384, (1, 3)), net.block(y, 384, (3, 1)), net.block(z, 384, (1, 3)), net.block(z, 384, (3, 1)),
            net.block(net.pool(x, 3, 1, 1, most=False), 192, 1),
        ))  # fmt: skip
    return net.step(net.linear(net.pool(x, 8, 1, most=False), 1000))


def inception_v4(batch: int) -> Step:
    net = Network("InceptionV4", batch)
    x = net.block(net.block(net.block(net.input(3, 299), 32, 3, 2, 0), 32, 3, 1, 0), 64, 3)
    x = net.cat((net.pool(x, 3, 2), net.block(x, 96, 3, 2, 0)))
    y = net.block(net.block(net.block(net.block(x, 64, 1), 64, (1, 7)), 64, (7, 1)), 96, 3, 1, 0)
    x = net.cat((net.block(net.block(x, 64, 1), 96, 3, 1, 0), y))
    x = net.cat((net.block(x, 192, 3, 2, 0), net.pool(x, 3, 2)))
    for _ in range(4):
        x = net.cat((
            net.block(x, 96, 1), net.block(net.block(x, 64, 1), 96, 3), net.block(net.block(net.block(x, 64, 1), 96, 3), 96, 3),
            net.block(net.pool(x, 3, 1, 1, most=False), 96, 1),
        ))  # fmt: skip
    x = net.cat((net.block(x, 384, 3, 2, 0), net.block(net.block(net.block(x, 192, 1), 224, 3), 256, 3, 2, 0), net.pool(x, 3, 2)))  # fmt: skip
    for _ in range(7):
        y = net.block(net.block(net.block(x, 192, 1), 224, (1, 7)), 256, (7, 1))
        z = net.block(net.block(net.block(net.block(net.block(x, 192, 1), 192, (7, 1)), 224, (1, 7)), 224, (7, 1)), 256, (1, 7))  # fmt: skip
        x = net.cat((net.block(x, 384, 1), y, z, net.block(net.pool(x, 3, 1, 1, most=False), 128, 1)))
    y = net.block(net.block(net.block(net.block(x, 256, 1), 256, (1, 7)), 320, (7, 1)), 320, 3, 2, 0)
    x = net.cat((net.block(net.block(x, 192, 1), 192, 3, 2, 0), y, net.pool(x, 3, 2)))
    for _ in range(3):
        y = net.block(x, 384, 1)
        z = net.block(net.block(net.block(x, 384, 1), 448, (3, 1)), 512, (1, 3))
        x = net.cat((
            net.block(x, 256, 1), net.block(y, 256, (1, 3)), net.block(y, 256, (3, 1)), net.block(z, 256, (1, 3)), net.block(z, 256, (3, 1)),
            net.block(net.pool(x, 3, 1, 1, most=False), 128, 1),
        ))  # fmt: skip
    return net.step(net.linear(net.pool(x, 8, 1, most=False), 1000))


NETWORKS: Final = {"VGG16": vgg16, "InceptionV3": inception_v3, "InceptionV4": inception_v4, "ResNet50": resnet50, "DenseNet121": densenet121}  # fmt: skip
