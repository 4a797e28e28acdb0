"""Where the metrics are served: an address of numbers and a port."""

from __future__ import annotations

import ipaddress


def parse(text: str) -> tuple[str, int]:
    """Address and port of `127.0.0.1:9836` or `[::1]:9836`; ValueError for anything else: a name would have to be looked up."""
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if bracketed else host
    if bracketed != (ipaddress.ip_address(bare).version == 6):
        raise ValueError(text)
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65_535):
        raise ValueError(text)
    return bare, int(port)
