"""Whatever packet a client sends, it is understood within bounds or a protocol error: nothing else comes out of the parsers."""

from __future__ import annotations

import daemon_fakes as fakes
import pytest
from fikitd.base import protocol
from hypothesis import given
from hypothesis import strategies as st


@st.composite
def packets(draw: st.DrawFn) -> bytes:
    """Random bytes, or a packet that a shim sends with a few bytes changed, and often cut or grown."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=2 * protocol.MESSAGE_BYTES))
    purposes = [protocol.PURPOSE_WORK, protocol.PURPOSE_JOIN, protocol.HELLO_MPS]
    packet = bytearray(draw(st.sampled_from([*(fakes.hello(purpose=each) for each in purposes), fakes.description()])))
    places = st.one_of(st.integers(0, 63), st.integers(0, len(packet) - 1))
    for place, value in draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=8)):
        packet[place] = value
    return bytes(packet[: draw(st.integers(0, len(packet)))]) if draw(st.integers(0, 3)) == 0 else bytes(packet)


@given(packets())
def test_a_hello_is_understood_or_a_protocol_error(packet: bytes) -> None:
    try:
        hello = protocol.parse_hello(packet)
    except protocol.ProtocolError:
        return
    assert hello.device.name.isprintable()
    assert len(hello.device.uuid) == len("GPU-00010203-0405-0607-0809-0a0b0c0d0e0f")
    assert hello.version is None or protocol.OLDEST <= hello.version <= protocol.VERSION
    assert 0 <= hello.device.memory_bytes < 2**64
    assert not (hello.watches and hello.joins)


@given(packets())
def test_a_kernel_description_is_understood_or_a_protocol_error(packet: bytes) -> None:
    try:
        kernel = protocol.parse_kernel(packet)
    except protocol.ProtocolError:
        return
    assert 1 <= kernel.slot < protocol.SLOTS
    assert kernel.kind in {protocol.KIND_KERNEL, protocol.KIND_GRAPH, protocol.KIND_COOPERATIVE}
    assert kernel.name.isprintable()


@given(packets())
def test_a_refusal_of_mps_is_understood_or_a_protocol_error(packet: bytes) -> None:
    try:
        refusal = protocol.parse_outside(packet)
    except protocol.ProtocolError:
        return
    assert refusal.refusal in {0, *protocol.MPS_REFUSALS}


def test_packets_of_shims_are_understood() -> None:
    protocol.parse_hello(fakes.hello())
    assert protocol.parse_hello(fakes.hello(purpose=protocol.PURPOSE_JOIN)).joins
    assert protocol.parse_hello(fakes.hello(purpose=protocol.HELLO_MPS)).in_mps
    protocol.parse_kernel(fakes.description())
    with pytest.raises(protocol.ProtocolError):
        protocol.parse_kernel(fakes.hello())
