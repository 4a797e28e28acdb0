"""Imported by programs whose memory does not fit beside that of others: buffers that a kernel increments, round after round."""

from __future__ import annotations

import ctypes
import random
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from memory_child import MIB, alloc, check, context, cu, free_async, made, say, stream_ordered

PTX = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry emu_increment(.param .u64 p)\n{\n ret;\n}\n\0"


def pattern(i: int, n: int) -> bytes:
    """Of a buffer, behind the counter at its beginning."""
    return (bytes((i * 37 + j) % 251 for j in range(251)) * (n // 251 + 1))[:n]


class Buffers:
    """`count` of `mib` each."""

    def __init__(self, count: int, mib: int) -> None:
        self.context = context()
        self.bytes, self.rounds = mib * MIB, 0
        module, self.kernel = ctypes.c_void_p(), ctypes.c_void_p()
        check(cu.cuModuleLoadData(ctypes.byref(module), PTX))
        check(cu.cuModuleGetFunction(ctypes.byref(self.kernel), module, b"emu_increment"))
        self.touched = [0] * count
        self.at = [made(alloc(self.bytes)) for _ in range(count)]
        for i, p in enumerate(self.at):
            content = bytes(4) + pattern(i, self.bytes - 4)
            check(cu.cuMemcpyHtoD_v2(ctypes.c_uint64(p), content, ctypes.c_size_t(self.bytes)))

    def go_round(self) -> None:
        """Touch all of it, in order."""
        self.touch(range(len(self.at)))

    def go_about(self) -> None:
        """Touch all of it, and some twice, in no order and number that anybody could learn: such a program has turns, and no plan."""
        own = range(len(self.at))
        self.touch([*random.sample(own, len(own)), *random.choices(own, k=random.randrange(len(own)))])

    def touch(self, order: Sequence[int]) -> None:
        """These, one after the other, and wait."""
        for i in order:
            self.touched[i] += 1
            self._launch(self.at[i])
        check(cu.cuCtxSynchronize())
        self.rounds += 1

    def go_anew(self) -> None:
        """Touch all of it, in order, and before each buffer as much memory that is taken anew, in stream order."""
        for i, p in enumerate(self.at):
            anew = made(stream_ordered(self.bytes))
            self._launch(anew)
            check(free_async(anew))
            self.touched[i] += 1
            self._launch(p)
        check(cu.cuCtxSynchronize())
        self.rounds += 1

    def _launch(self, p: int) -> None:
        argument = ctypes.c_uint64(p)
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
        check(cu.cuLaunchKernel(self.kernel, 1, 1, 1, 1, 1, 1, 0, None, parameters, None))

    def go_on(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.go_about()

    def right(self) -> bool:
        """Every byte of every buffer."""
        for i, p in enumerate(self.at):
            out = ctypes.create_string_buffer(self.bytes)
            check(cu.cuMemcpyDtoH_v2(out, ctypes.c_uint64(p), ctypes.c_size_t(self.bytes)))
            if out.raw[:4] != self.touched[i].to_bytes(4, "little") or out.raw[4:] != pattern(i, self.bytes - 4):
                return False
        return True


def main(count: int, mib: int, seconds: float) -> None:
    buffers = Buffers(count, mib)
    say("ready")
    buffers.go_on(seconds)
    say(buffers.right(), buffers.rounds)


def grow_when_told(count: int, mib: int) -> None:
    """The same without an end; told so it takes more and more memory of the host's."""
    buffers = Buffers(count, mib)
    say("ready")
    while not select.select([sys.stdin], [], [], 0)[0]:
        buffers.go_about()
    taken = []
    while True:
        taken.append(b"x" * MIB)


# ---- of one that needs more memory than there is: the same order, pass after pass


def there_and_back(buffers: Buffers) -> list[int]:
    """As a training step: forwards, and back."""
    own = range(len(buffers.at))
    return [*own, *reversed(own)]


def forwards(buffers: Buffers) -> list[int]:
    return list(range(len(buffers.at)))


def go_on(buffers: Buffers, order: Callable[[Buffers], list[int]], until: str) -> None:
    """Pass after pass, until that word comes in."""
    while not select.select([sys.stdin], [], [], 0)[0]:
        buffers.touch(order(buffers))
    assert sys.stdin.readline() == f"{until}\n"


def learn(count: int, mib: int, passes: int) -> None:
    """So many passes in each of the orders, for a job that is measured."""
    buffers = Buffers(count, mib)
    for order in (forwards, there_and_back):
        for _ in range(passes):
            buffers.touch(order(buffers))
    say("done")


def main_planned(count: int, mib: int) -> None:
    """Told `turn` it goes through them in another order, told `end` it says whether all bytes are right, and how many passes there were."""
    buffers = Buffers(count, mib)
    say("ready")
    go_on(buffers, forwards, "turn")
    say("turned")
    go_on(buffers, there_and_back, "end")
    say(buffers.right(), buffers.rounds)


def learn_anew(count: int, mib: int, passes: int) -> None:
    buffers = Buffers(count, mib)
    for _ in range(passes):
        buffers.go_anew()
    say("done")


def main_anew(count: int, mib: int) -> None:
    """Passes in which memory comes and goes, until it is told `end`; then it says whether all bytes are right, and how many passes there were."""
    buffers = Buffers(count, mib)
    say("ready")
    while not select.select([sys.stdin], [], [], 0)[0]:
        buffers.go_anew()
    assert sys.stdin.readline() == "end\n"
    say(buffers.right(), buffers.rounds)


# ---- of a job of several processes


def main_several(mains: Sequence[str]) -> None:
    """A process for each of these calls of functions here, whose words are told to all and whose answers are said in one line."""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", f"import rotating_child; rotating_child.{main}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for main in mains
    ]  # fmt: skip
    heard = [_heard(child) for child in children]
    assert set(heard) == {"ready"}, heard
    say("ready", *(child.pid for child in children))
    for word in sys.stdin:
        there = [child for child in children if child.poll() is None]
        for child in there:
            assert child.stdin is not None
            child.stdin.write(word)
            child.stdin.flush()
        say(*(_heard(child) for child in there))


def _heard(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip().replace(" ", ":")


def main_about(count: int, mib: int) -> None:
    """Goes about in no order until it is told `end`, and says whether all bytes are right, and how many rounds there were."""
    buffers = Buffers(count, mib)
    say("ready")
    while not select.select([sys.stdin], [], [], 0)[0]:
        buffers.go_about()
    assert sys.stdin.readline() == "end\n"
    say(buffers.right(), buffers.rounds)


def main_forwards(count: int, mib: int) -> None:
    """The same, in one order."""
    buffers = Buffers(count, mib)
    say("ready")
    go_on(buffers, forwards, "end")
    say(buffers.right(), buffers.rounds)
