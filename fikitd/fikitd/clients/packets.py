"""Packets to and from a client: one struct of core/protocol/fikit_protocol.h each."""

from __future__ import annotations

import asyncio
import socket
from array import array

from fikitd.base import protocol
from fikitd.base.protocol import ProtocolError
from fikitd.base.scarcity import scarce


class Refused(Exception):
    """The client is told to run unmanaged, for the reason given."""


async def receive(connection: socket.socket) -> bytes:
    """The next packet, empty at end of file. Descriptors that a client sends along are closed by the kernel."""
    packet = await asyncio.get_running_loop().sock_recv(connection, protocol.MESSAGE_BYTES + 1)
    if len(packet) > protocol.MESSAGE_BYTES:
        raise ProtocolError(f"a packet of more than {protocol.MESSAGE_BYTES} bytes")
    return packet


def send(connection: socket.socket, packet: bytes, descriptors: tuple[int, ...] = ()) -> None:
    """The client has room for the one packet it ever gets; if not, or if it is gone, that is its end of file."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))] if descriptors else []
    try:
        connection.sendmsg([packet], rights, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    except OSError as error:
        if descriptors and scarce(error):  # as many are under way as the system allows: it has to be told
            raise
