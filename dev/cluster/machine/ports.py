"""Finds TCP ports on loopback that nobody listens on right now."""

import contextlib
import socket
from typing import Final

LOOPBACK: Final = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """So many different ports; each is free until somebody takes it, so use them at once."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]


def free_port() -> int:
    """One port."""
    return free_ports(1)[0]
