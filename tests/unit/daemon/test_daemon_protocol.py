"""fikitd.base.protocol is a mirror of the C header: sizes, offsets and constants are compared with what the compiler says."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import daemon_fakes as fakes
import pytest
from fikitd.base import protocol
from fikitd.config import fikit_toml

HEADER = Path(__file__).resolve().parents[3] / "fikitd/core/protocol/fikit_protocol.h"
LAYOUTS = {
    "fikit_message_head": protocol.HeadLayout,
    "fikit_hello": protocol.HelloLayout,
    "fikit_welcome": protocol.WelcomeLayout,
    "fikit_refused": protocol.RefusedLayout,
    "fikit_outside": protocol.OutsideLayout,
    "fikit_kernel": protocol.KernelLayout,
    "fikit_memory_share": protocol.MemoryShareLayout,
    "fikit_memory": protocol.MemoryLayout,
}
CONSTANTS = {
    "FIKIT_PROTOCOL_OLDEST": protocol.OLDEST,
    "FIKIT_PROTOCOL_VERSION": protocol.VERSION,
    "FIKIT_MEMORY_VERSION": protocol.MEMORY_VERSION,
    "FIKIT_SLOTS": protocol.SLOTS,
    "FIKIT_NAME_BYTES": protocol.NAME_BYTES,
    "FIKIT_REASON_BYTES": protocol.REASON_BYTES,
    "FIKIT_COLLECTIVES_BYTES": protocol.COLLECTIVES_BYTES,
    "FIKIT_MESSAGE_BYTES": protocol.MESSAGE_BYTES,
    "FIKIT_ANSWER_S": protocol.ANSWER_S,
    "FIKIT_MEMORY_MAGIC": protocol.MEMORY_MAGIC,
    "FIKIT_MEMORY_SHARES": protocol.MEMORY_SHARES,
    "FIKIT_CHUNK_BYTES": protocol.PLAN_CHUNK_BYTES,
    "FIKIT_PLAN_CHUNKS": protocol.PLAN_CHUNKS,
    "FIKIT_PLAN_MOVES": protocol.PLAN_MOVES,
    "FIKIT_PLAN_LAUNCHES": protocol.PLAN_LAUNCHES,
    "FIKIT_COPY_NONE": protocol.COPY_NONE,
    "FIKIT_COPY_IN": protocol.COPY_IN,
    "FIKIT_COPY_OUT": protocol.COPY_OUT,
    "FIKIT_MSG_HELLO": protocol.HELLO,
    "FIKIT_MSG_WELCOME": protocol.WELCOME,
    "FIKIT_MSG_REFUSED": protocol.REFUSED,
    "FIKIT_MSG_KERNEL": protocol.KERNEL,
    "FIKIT_MSG_JOIN": protocol.JOIN,
    "FIKIT_MSG_OUTSIDE": protocol.OUTSIDE,
    "FIKIT_HELLO_MPS": protocol.HELLO_MPS,
    "FIKIT_HELLO_NO_MPS": protocol.HELLO_NO_MPS,
    "FIKIT_KIND_KERNEL": protocol.KIND_KERNEL,
    "FIKIT_KIND_GRAPH": protocol.KIND_GRAPH,
    "FIKIT_KIND_COOPERATIVE": protocol.KIND_COOPERATIVE,
}
STRINGS = {
    "FIKIT_SOCKET_NAME": protocol.SOCKET_NAME,
    "FIKIT_DEFAULT_RUN_DIR": protocol.DEFAULT_RUN_DIR,
    "FIKIT_ENV_SOCKET": protocol.ENV_SOCKET,
}


def test_layouts_and_constants_are_those_of_the_c_header(tmp_path: Path, cc: Callable[..., Path]) -> None:
    expected: dict[str, str] = {}
    lines = []
    for name, layout in LAYOUTS.items():
        expected[name] = str(ctypes.sizeof(layout))
        lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
        for field, *_ in layout._fields_:
            expected[f"{name}.{field}"] = f"{getattr(layout, field).offset}+{getattr(layout, field).size}"
            lines.append(
                f'printf("{name}.{field} %zu+%zu\\n", offsetof(struct {name}, {field}), '
                f"sizeof(((struct {name} *)0)->{field}));"
            )
    for name, value in CONSTANTS.items():
        expected[name] = str(value)
        lines.append(f'printf("{name} %u\\n", (unsigned){name});')
    for name, text in STRINGS.items():
        expected[name] = text
        lines.append(f'printf("{name} %s\\n", {name});')
    source = tmp_path / "layout.c"
    source.write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#include "{HEADER}"\nint main(void) {{\n{chr(10).join(lines)}\n}}\n'
    )
    printed = subprocess.run([cc(source)], check=True, capture_output=True, text=True).stdout
    assert dict(line.split(" ", 1) for line in printed.splitlines()) == expected


def test_hello_is_parsed() -> None:
    hello = protocol.parse_hello(fakes.hello(name="Emulated \u00b5GPU".encode()))
    assert hello.device.name == "Emulated \u00b5GPU"
    assert hello.device.uuid == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert hello.device.memory_bytes == 2**34
    assert hello.device.emulated


def test_a_mig_instance_is_named_as_nvidia_smi_names_it() -> None:
    hello = protocol.parse_hello(fakes.hello(name=b"NVIDIA H200 MIG 3g.71gb"))
    assert hello.device.uuid == "MIG-00010203-0405-0607-0809-0a0b0c0d0e0f"


def test_names_cannot_carry_terminal_sequences() -> None:
    assert protocol.parse_kernel(fakes.description(name=b"\x1b[31mred\n\xff")).name == "?[31mred?\ufffd"


@pytest.mark.parametrize("cut", [0, 1, 8, 100])
def test_short_packets_are_no_hello(cut: int) -> None:
    with pytest.raises(protocol.ProtocolError, match="bytes"):
        protocol.parse_hello(fakes.hello()[:cut])


def outside(refusal: int, again: int) -> bytes:
    size = ctypes.sizeof(protocol.OutsideLayout)
    return bytes(protocol.OutsideLayout(protocol.HeadLayout(protocol.OUTSIDE, size), refusal, again))


@pytest.mark.parametrize("refusal", [804, 810, 1, -1, 2**31 - 1])
def test_only_errors_of_mps_are_refusals_of_it(refusal: int) -> None:
    assert protocol.parse_outside(outside(805, -3)) == protocol.Outside(805, -3)
    with pytest.raises(protocol.ProtocolError, match="no refusal of MPS"):
        protocol.parse_outside(outside(refusal, 0))
    with pytest.raises(protocol.ProtocolError, match="11 bytes"):
        protocol.parse_outside(outside(805, 0)[:11])


@pytest.mark.parametrize(
    ("bits", "said"),
    [(0, None), (protocol.HELLO_MPS, True), (protocol.HELLO_NO_MPS, False), (0xFF00, True)],
)
def test_a_hello_says_what_the_driver_says_of_mps_or_nothing(bits: int, said: bool | None) -> None:
    assert protocol.parse_hello(fakes.hello(purpose=bits)).in_mps is said


def test_a_long_reason_is_cut_at_a_character() -> None:
    packet = protocol.refused("\u00e9" * 300)
    assert len(packet) == ctypes.sizeof(protocol.RefusedLayout)
    assert packet[8:].rstrip(b"\0").decode() == "\u00e9" * 127


def test_default_run_dir_is_the_headers() -> None:
    assert fikit_toml.Config().daemon.run_dir == protocol.DEFAULT_RUN_DIR
